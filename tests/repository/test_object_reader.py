"""One process reads all objects, even of a damaged repository."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from typing import Any

import pytest

from gitlab_nightshift.repository import object_reader
from gitlab_nightshift.repository.git import Git
from gitlab_nightshift.repository.object_reader import ObjectReader
from gitlab_nightshift.sandbox.process import BatchProcess
from tests.repository.conftest import Box
from tests.repository.tools import git, write


@pytest.fixture
def reader(box: Box) -> Iterator[ObjectReader]:
    with closing(ObjectReader(box.git, box.root / ".git")) as opened:
        yield opened


def store_blob(box: Box, data: bytes) -> str:
    file = write(box.root, "stored", data)
    return git(box.root, "hash-object", "-w", str(file))


def overwrite_object(box: Box, name: str, data: bytes) -> None:
    file = box.root / ".git/objects" / name[:2] / name[2:]
    file.chmod(0o644)
    file.write_bytes(data)


def record_starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    started: list[str] = []
    start = Git.open_batch_process

    def note(self: Git, verb: str, *args: str, **more: Any) -> AbstractContextManager[BatchProcess]:
        started.append(verb)
        return start(self, verb, *args, **more)

    monkeypatch.setattr(Git, "open_batch_process", note)
    return started


def test_one_process_answers_all_requests(
    box: Box, reader: ObjectReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = record_starts(monkeypatch)
    wanted = {store_blob(box, b"%d\n" % n): b"%d\n" % n for n in range(200)}
    for _ in range(2):
        assert reader.read([*wanted], "blob") == wanted, "more than a pipe takes at once"
    later = store_blob(box, b"stored while it runs")
    assert reader.read([later], "blob") == {later: b"stored while it runs"}
    assert reader.read(["HEAD^{tree}"], "tree").keys() == {"HEAD^{tree}"}
    assert started == ["cat-file"]


def test_missing_objects_and_other_kinds_are_left_out(box: Box, reader: ObjectReader) -> None:
    blob, tree = store_blob(box, b"x"), git(box.root, "rev-parse", "HEAD^{tree}")
    names = [blob, "0" * 40, tree, "no such name", "HEAD\nHEAD", "-x", "x" * 5000]
    assert reader.read(names, "blob") == {blob: b"x"}
    assert reader.read([blob], "blob") == {blob: b"x"}, "the answers still fit the questions"


@pytest.mark.parametrize("data", [b"garbage", b""])
def test_requests_after_a_damaged_object_are_answered(
    box: Box, reader: ObjectReader, data: bytes
) -> None:
    first, bad = store_blob(box, b"first"), store_blob(box, b"bad")
    overwrite_object(box, bad, data)
    assert reader.read([first, bad], "blob") == {first: b"first"}
    assert reader.read([first], "blob") == {first: b"first"}


def test_an_object_with_anothers_id_is_left_out(box: Box, reader: ObjectReader) -> None:
    asked, other = store_blob(box, b"asked"), store_blob(box, b"other")
    content = (box.root / ".git/objects" / other[:2] / other[2:]).read_bytes()
    overwrite_object(box, asked, content)
    assert reader.read([asked], "blob") == {}


def test_an_answer_for_another_object_is_left_out(
    box: Box, reader: ObjectReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from a compromised git process, or one that has lost count."""
    asked, other = store_blob(box, b"asked"), store_blob(box, b"other")
    answer = f"#!/bin/sh\nread asked\necho {other} blob 5\necho other\n"
    false_git = write(box.private, "false-git", answer, 0o755)
    lying = ObjectReader(Git(str(false_git), box.git.env), box.root / ".git")
    with closing(lying):
        assert lying.read([asked], "blob") == {}
    with closing(lying), monkeypatch.context() as patched:
        patched.setattr(object_reader, "is_full_id", lambda _name: False)
        assert lying.read([asked], "blob") == {asked: b"other"}, "without that check it would be"


def test_an_interrupted_answer_is_discarded(
    box: Box, reader: ObjectReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = store_blob(box, b"one"), store_blob(box, b"two")
    with monkeypatch.context() as patched:

        def interrupt(*_: object) -> str:
            raise KeyboardInterrupt

        patched.setattr("gitlab_nightshift.repository.object_reader.compute_id", interrupt)
        with pytest.raises(KeyboardInterrupt):
            reader.read([one, two], "blob")
    assert reader.read([two, one], "blob") == {one: b"one", two: b"two"}


def test_objects_are_measured_up_to_the_first_that_is_too_large(
    box: Box, reader: ObjectReader
) -> None:
    small, large, last = (
        store_blob(box, b"x"),
        store_blob(box, bytes(2_000_000)),
        store_blob(box, b"last"),
    )
    assert reader.measure([small, "0" * 40, last], 10) == {small: 1, last: 4}
    assert reader.measure([small, large, last], 1000) == {small: 1, large: 2_000_000}
    assert reader.measure([last], 10) == {last: 4}


def test_a_damaged_object_cannot_be_measured(box: Box, reader: ObjectReader) -> None:
    bad = store_blob(box, os.urandom(100_000))
    whole = (box.root / ".git/objects" / bad[:2] / bad[2:]).read_bytes()
    overwrite_object(box, bad, whole[:50_000])
    with pytest.raises(EOFError):
        reader.measure([bad], 1_000_000)


def test_replaced_objects_are_ignored(box: Box, reader: ObjectReader) -> None:
    """An agent's throw-away may have such references, and so may a person's repository."""
    real, fake = store_blob(box, b"real"), store_blob(box, b"fake")
    git(box.root, "replace", real, fake)
    assert git(box.root, "cat-file", "blob", real) == "fake", "it works for whoever does not"
    assert reader.read([real], "blob") == {real: b"real"}
