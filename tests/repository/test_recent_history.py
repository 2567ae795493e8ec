"""The last commits, of real histories."""

import os
from pathlib import Path

from gitlab_nightshift.repository.recent_history import count_recent_commits, list_recent_files
from tests.repository.conftest import Box
from tests.repository.tools import commit, git, write

ODD = os.fsdecode(b"odd \xff\nname")


def test_recent_files_follow_first_parents_and_leave_the_root_out(box: Box) -> None:
    write(box.root, ODD)
    commit(box.root)
    git(box.root, "mv", "README.md", "READ.md")
    commit(box.root)
    git(box.root, "checkout", "-q", "-b", "side", box.base)
    for name in ("side1", "side2"):
        write(box.root, name)
        commit(box.root)
    git(box.root, "checkout", "-q", "main")
    git(box.root, "merge", "-q", "--no-ff", "-m", "merge", "side")
    assert list_recent_files(box.git, box.root, 0) == set()
    assert list_recent_files(box.git, box.root, 1) == {"side1", "side2"}
    assert list_recent_files(box.git, box.root, 2) == {
        "side1",
        "side2",
        "READ.md",
        "README.md",
    }
    assert list_recent_files(box.git, box.root, 99) == {
        *("side1", "side2", "READ.md", "README.md"),
        ODD,
    }


def test_recent_files_leave_a_shallow_boundary_out(box: Box, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        write(box.root, name)
        commit(box.root)
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{box.root}", "shallow")
    assert list_recent_files(box.git, tmp_path / "shallow", 10) == {"three"}
    assert count_recent_commits(box.git, tmp_path / "shallow", 10) == 1
    assert count_recent_commits(box.git, box.root, 10) == 3
    assert count_recent_commits(box.git, box.root, 2) == 2
