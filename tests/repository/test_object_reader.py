"""Objects through one process, also of a repository that is damaged."""

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


def store(box: Box, data: bytes) -> str:
    file = write(box.root, "stored", data)
    return git(box.root, "hash-object", "-w", str(file))


def spoil(box: Box, name: str, data: bytes) -> None:
    file = box.root / ".git/objects" / name[:2] / name[2:]
    file.chmod(0o644)
    file.write_bytes(data)


def note_starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    started: list[str] = []
    start = Git.open_batch_process

    def note(self: Git, verb: str, *args: str, **more: Any) -> AbstractContextManager[BatchProcess]:
        started.append(verb)
        return start(self, verb, *args, **more)

    monkeypatch.setattr(Git, "open_batch_process", note)
    return started


def test_one_process_answers_however_often_it_is_asked(
    box: Box, reader: ObjectReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = note_starts(monkeypatch)
    wanted = {store(box, b"%d\n" % n): b"%d\n" % n for n in range(200)}
    for _ in range(2):
        assert reader.read([*wanted], "blob") == wanted, "more than a pipe takes at once"
    later = store(box, b"stored while it runs")
    assert reader.read([later], "blob") == {later: b"stored while it runs"}
    assert reader.read(["HEAD^{tree}"], "tree").keys() == {"HEAD^{tree}"}
    assert started == ["cat-file"]


def test_what_is_missing_or_of_another_kind_is_left_out(box: Box, reader: ObjectReader) -> None:
    blob, tree = store(box, b"x"), git(box.root, "rev-parse", "HEAD^{tree}")
    names = [blob, "0" * 40, tree, "no such name", "HEAD\nHEAD", "-x", "x" * 5000]
    assert reader.read(names, "blob") == {blob: b"x"}
    assert reader.read([blob], "blob") == {blob: b"x"}, "the answers still fit the questions"


@pytest.mark.parametrize("data", [b"garbage", b""])
def test_a_damaged_object_spoils_no_later_answer(
    box: Box, reader: ObjectReader, data: bytes
) -> None:
    first, bad = store(box, b"first"), store(box, b"bad")
    spoil(box, bad, data)
    assert reader.read([first, bad], "blob") == {first: b"first"}
    assert reader.read([first], "blob") == {first: b"first"}


def test_an_object_with_another_ones_name_is_not_believed(box: Box, reader: ObjectReader) -> None:
    asked, other = store(box, b"asked"), store(box, b"other")
    content = (box.root / ".git/objects" / other[:2] / other[2:]).read_bytes()
    spoil(box, asked, content)
    assert reader.read([asked], "blob") == {}


def test_an_answer_of_another_object_is_not_believed(
    box: Box, reader: ObjectReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a git process that somebody has taken over, or that has lost count."""
    asked, other = store(box, b"asked"), store(box, b"other")
    answer = f"#!/bin/sh\nread asked\necho {other} blob 5\necho other\n"
    false_git = write(box.private, "false-git", answer, 0o755)
    lying = ObjectReader(Git(str(false_git), box.git.env), box.root / ".git")
    with closing(lying):
        assert lying.read([asked], "blob") == {}
    with closing(lying), monkeypatch.context() as patched:
        patched.setattr(object_reader, "is_full_id", lambda _name: False)
        assert lying.read([asked], "blob") == {asked: b"other"}, "without that check it would be"


def test_an_interrupted_answer_is_not_taken_for_the_next(
    box: Box, reader: ObjectReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = store(box, b"one"), store(box, b"two")
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
    small, large, last = store(box, b"x"), store(box, bytes(2_000_000)), store(box, b"last")
    assert reader.measure([small, "0" * 40, last], 10) == {small: 1, last: 4}
    assert reader.measure([small, large, last], 1000) == {small: 1, large: 2_000_000}
    assert reader.measure([last], 10) == {last: 4}


def test_a_damaged_object_has_no_size_that_would_pass(box: Box, reader: ObjectReader) -> None:
    bad = store(box, os.urandom(100_000))
    whole = (box.root / ".git/objects" / bad[:2] / bad[2:]).read_bytes()
    spoil(box, bad, whole[:50_000])
    with pytest.raises(EOFError):
        reader.measure([bad], 1_000_000)


def test_replaced_objects_are_ignored(box: Box, reader: ObjectReader) -> None:
    """An agent's throw-away may have such references, and so may a person's repository."""
    real, fake = store(box, b"real"), store(box, b"fake")
    git(box.root, "replace", real, fake)
    assert git(box.root, "cat-file", "blob", real) == "fake", "it works for whoever does not"
    assert reader.read([real], "blob") == {real: b"real"}
