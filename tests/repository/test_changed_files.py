"""Changed files; bytes that a checkout has converted do not count."""

import os
from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.repository import changed_files
from gitlab_nightshift.repository.changed_files import list_changed_files, refuse_changed
from gitlab_nightshift.repository.private_repository import list_diff_files
from gitlab_nightshift.repository.worktree import open_worktree, write_working_tree
from tests.repository.conftest import Box
from tests.repository.tools import commit, git, write

WINDOWS = b"one\r\ntwo\r\n"
ATTRIBUTES = ("*.txt text eol=crlf\n", "*.txt text eol=lf\n", "* text\n")


def with_windows_files(box: Box, attributes: str = ATTRIBUTES[0]) -> None:
    """Blobs with CRLF, and attributes that came after them: git calls these files modified."""
    for name in ("win.txt", "a b.txt", "ünï.txt"):
        write(box.root, name, WINDOWS)
    commit(box.root)
    add_attributes(box, attributes)
    assert "M win.txt" in git(box.root, "status", "--porcelain")


def add_attributes(box: Box, attributes: str) -> None:
    write(box.root, ".gitattributes", attributes)
    git(box.root, "add", ".gitattributes")
    git(box.root, "commit", "-qm", "Convert line ends")
    for path in box.root.glob("*.txt"):
        os.utime(path, (1, 1))  # not as the index knows it


@pytest.mark.parametrize("attributes", ATTRIBUTES)
def test_bytes_that_a_checkout_writes_are_no_change(box: Box, attributes: str) -> None:
    with_windows_files(box, attributes)
    assert list_changed_files(box.git, box.root) == ()
    refuse_changed(box.git, box.root)


def test_real_changes_are_still_found(box: Box) -> None:
    with_windows_files(box)
    write(box.root, "win.txt", WINDOWS + b"three\r\n")
    (box.root / "a b.txt").chmod(0o755)
    write(box.root, "README.md", "changed\n")
    assert set(list_changed_files(box.git, box.root)) == {"win.txt", "a b.txt", "README.md"}
    git(box.root, "add", "ünï.txt")
    assert "ünï.txt" in list_changed_files(box.git, box.root), "it is staged with other line ends"


def test_a_filter_with_an_empty_name_hides_no_other_file(box: Box) -> None:
    with_windows_files(box, f"{ATTRIBUTES[0]}README.md filter=\n")
    write(box.root, "README.md", "changed\n")
    assert list_changed_files(box.git, box.root) == ("README.md",)


def test_the_message_about_line_ends_says_what_to_run(box: Box) -> None:
    with_windows_files(box)
    write(box.root, "win.txt", WINDOWS.replace(b"\r", b""))
    with pytest.raises(NightshiftError) as refused:
        refuse_changed(box.git, box.root)
    assert refused.value.message == (
        f"{box.root}: the line ends of win.txt are neither those of the commit nor those that"
        " .gitattributes asks for: run `git add --renormalize .`, then commit"
    )
    git(box.root, "add", "--renormalize", ".")
    git(box.root, "commit", "-qm", "Renormalize")
    refuse_changed(box.git, box.root)


def test_no_filter_is_run_to_compare(box: Box) -> None:
    """A filter could fetch, and is a program of the repository."""
    mark = box.root.parent / "ran"
    git(box.root, "config", "filter.own.smudge", f"touch {mark}; cat")
    write(box.root, "win.txt", WINDOWS)
    commit(box.root)
    add_attributes(box, "*.txt text eol=crlf filter=own\n")
    assert list_changed_files(box.git, box.root) == ("win.txt",)
    assert not mark.exists()


def test_many_files_are_compared_in_batches(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_files, "BATCH_BYTES", 1)
    with_windows_files(box)
    assert list_changed_files(box.git, box.root) == ()


def test_a_working_tree_ignores_converted_line_ends(box: Box, tmp_path: Path) -> None:
    with_windows_files(box)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    worktree = open_worktree(box.root, tmp_path / "private", env)
    assert write_working_tree(worktree) == worktree.head_tree
    write(box.root, "README.md", "changed\n")
    (box.root / "src/app.py").unlink()
    made = write_working_tree(worktree)
    changed = list_diff_files(worktree.repository, worktree.head_tree, made)
    assert [(file.status, file.path) for file in changed] == [
        ("M", "README.md"),
        ("D", "src/app.py"),
    ]
