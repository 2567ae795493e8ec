"""A tree changes its owner and gets its owners back."""

import os
import stat
import time
from pathlib import Path

import pytest

from gitlab_nightshift.host.sandbox.ownership import Owners, give, take_back
from gitlab_nightshift.host.sandbox.records import Identity
from gitlab_nightshift.host.tree import Entry, scan

AGENT = Identity(60999, 60999, -1)


def owners(root: Path) -> dict[str, tuple[int, int, int]]:
    return {path: (e.uid, e.gid, e.mode) for path, e in scan(root).items()}


@pytest.fixture
def tree(tmp_path: Path, root: None) -> Path:
    top = tmp_path / "tree"
    (top / "src/deep").mkdir(parents=True)
    (top / "src/a.py").write_text("a")
    (top / "src/deep/tool").write_text("#!/bin/sh\n")
    (top / "src/deep/tool").chmod(0o4755)
    (top / "src/closed").mkdir(mode=0o000)
    (top / "link").symlink_to("src/a.py")
    (top / "out").symlink_to(tmp_path / "victim")
    (tmp_path / "victim").write_text("v")
    os.mkfifo(top / "fifo")
    os.chown(top / "src/a.py", 1234, 4321)
    os.chown(top / "link", 1234, 4321, follow_symlinks=False)
    (tmp_path / "store").write_text("shared")
    os.link(tmp_path / "store", top / "hard")
    return top


def test_everything_is_given_and_comes_back_exactly(tree: Path) -> None:
    before = owners(tree)
    remembered = give(tree, AGENT)
    given = owners(tree)
    kept = {path for path, (uid, gid, _) in given.items() if (uid, gid) != (60999, 60999)}
    assert kept == {"hard"}  # its other name lies outside
    assert {p: m for p, (_, _, m) in given.items()} == {p: m for p, (_, _, m) in before.items()}
    assert (tree.parent / "victim").stat().st_uid == 0
    take_back(tree, AGENT, remembered)
    assert owners(tree) == before


def test_what_is_new_becomes_the_usual_owners(tree: Path) -> None:
    remembered = give(tree, AGENT)
    (tree / "new").write_text("n")
    (tree / "new").chmod(0o4755)
    os.chown(tree / "new", 60999, 60999)
    (tree / "new").chmod(0o4755)
    (tree / "src/a.py").unlink()
    take_back(tree, AGENT, remembered)
    status = (tree / "new").stat()
    assert (status.st_uid, status.st_gid) == (0, 0)
    assert not status.st_mode & stat.S_ISUID  # an agent's setuid program is none of root's


def test_the_note_survives_a_kill(tree: Path) -> None:
    before = owners(tree)
    note = give(tree, AGENT).to_json()
    take_back(tree, AGENT, Owners.from_json(note))
    assert owners(tree) == before
    for damaged in ("", "{}", "[]", '{"version": 2}', '{"version": 1, "others": 3}'):
        with pytest.raises(ValueError):
            Owners.from_json(damaged)


def test_names_that_are_not_text(tree: Path) -> None:
    odd = os.fsdecode(b"\xff\xfe")
    (tree / odd).write_text("x")
    os.chown(tree / odd, 7, 7)
    remembered = Owners.from_json(give(tree, AGENT).to_json())
    take_back(tree, AGENT, remembered)
    entry: Entry = scan(tree)[odd]
    assert (entry.uid, entry.gid) == (7, 7)


def test_ten_thousand_files_take_less_than_a_fifth_of_a_second(tmp_path: Path, root: None) -> None:
    for folder in range(50):
        (tmp_path / f"t/{folder}").mkdir(parents=True)
        for name in range(200):  # fifty thousand may take one second
            os.close(os.open(tmp_path / f"t/{folder}/{name}", os.O_CREAT | os.O_WRONLY))
    times = []
    for _ in range(3):
        started = time.monotonic()
        remembered = give(tmp_path / "t", AGENT)
        times.append(time.monotonic() - started)
        take_back(tmp_path / "t", AGENT, remembered)
    assert min(times) < 0.2, times
