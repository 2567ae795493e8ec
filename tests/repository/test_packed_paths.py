"""Packed paths equal a dict, in a fraction of its memory."""

import os
import tracemalloc
from random import Random

import pytest

from gitlab_nightshift.repository.packed_paths import PackedPaths, PathPacker

NAMES = ("a", "b.c", "ü", os.fsdecode(b"odd \xff\nname"), ".gitignore")
SIZE = 8


def _pack(rows: dict[str, bytes]) -> PackedPaths[int]:
    packer = PathPacker()
    for path, row in rows.items():
        packer.add(os.fsencode(path), row)
    return PackedPaths(packer.finish(), SIZE, lambda _, row: int.from_bytes(row))


def _choose_path(random: Random) -> str:
    return "/".join(random.choice(NAMES) for _ in range(random.randrange(1, 4)))


def _decode(rows: dict[str, bytes]) -> dict[str, int]:
    return {path: int.from_bytes(row) for path, row in rows.items()}


def test_packed_paths_equal_a_dict() -> None:
    random = Random(37)
    for _ in range(100):
        rows = {_choose_path(random): random.randbytes(SIZE) for _ in range(30)}
        packed, plain = _pack(rows), _decode(rows)
        assert packed == plain
        assert (len(packed), set(packed)) == (len(plain), set(plain))
        assert all(packed[path] == value for path, value in plain.items())
        assert not any(path in packed for path in ("a/gone", "gone/a", ""))
        for name in NAMES:
            named = {path for path in plain if path.rpartition("/")[2] == name}
            assert sorted(packed.find_named(name)) == sorted(named)


def test_replaced_rows_are_those_of_an_updated_dict() -> None:
    random = Random(38)
    rows = {_choose_path(random): random.randbytes(SIZE) for _ in range(20)}
    for _ in range(200):
        changes = {
            _choose_path(random): random.choice((None, random.randbytes(SIZE)))
            for _ in range(random.randrange(4))
        }
        packed = _pack(rows)
        made = PackedPaths(packed.replace_rows(changes), SIZE, packed.decode)
        assert packed == _decode(rows), "the old ones stay"
        rows = {path: row for path, row in {**rows, **changes}.items() if row}
        assert made == _decode(rows)


def test_a_missing_path_is_a_key_error() -> None:
    for path in ("b", "a/b", ""):
        with pytest.raises(KeyError):
            _pack({"a": bytes(SIZE)})[path]


def test_ten_thousand_take_a_megabyte_at_most() -> None:
    tracemalloc.start()
    try:
        packed = _pack({f"folder{n // 100}/file{n}.txt": bytes(SIZE) for n in range(10_000)})
        assert len(packed) == 10_000
        assert packed["folder7/file700.txt"] == 0
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
