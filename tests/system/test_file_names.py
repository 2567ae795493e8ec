"""File names: for display, and those that git reserves."""

import os
import tempfile
from pathlib import Path

import pytest

from gitlab_nightshift.system.file_names import (
    choose_short_parent,
    format_path,
    is_dot_git,
    list_parents,
    open_short_folder,
    within,
)
from gitlab_nightshift.system.private_folders import SCRATCH_PREFIX, open_private_folder


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain/name.py", "plain/name.py"),
        ("näme with space.md".encode(), "näme with space.md"),
        (b"caf\xe9.txt", "caf\\xe9.txt"),
        (b"two\nlines", "two\\nlines"),
        (b"\x1b[0Ksection_end", "\\x1b[0Ksection_end"),
        ("rtl\u202etxt.exe".encode(), "rtl\\u202etxt.exe"),
    ],
)
def test_a_formatted_path_is_one_line_of_valid_utf8(raw: bytes, shown: str) -> None:
    assert format_path(os.fsdecode(raw)) == shown
    assert format_path(os.fsdecode(raw)).encode().decode() == shown


def test_a_lone_surrogate_is_escaped() -> None:
    """An agent's JSON can contain one, a path cannot."""
    assert format_path("a\ud800b") == "a\\ud800b"


@pytest.mark.parametrize(
    "path",
    [
        *(".git", "a/.git/config", "a/.GIT", ".Git/hooks/x", "git~1/x", ".git /x", ".git./x"),
        *(".git::$INDEX_ALLOCATION/x", ".g\u200cit/config", "a\\.git\\config"),
    ],
)
def test_every_spelling_of_dot_git_is_recognized(path: str) -> None:
    assert is_dot_git(path)


@pytest.mark.parametrize("path", [".gitignore", "a/.gitattributes", "git", "x.git", ".github/x"])
def test_other_names_are_left_alone(path: str) -> None:
    assert not is_dot_git(path)


def test_within_and_parents() -> None:
    assert within("a/b", "a") and within("a", "a") and not within("ab", "a")
    assert list_parents("a/b/c.txt") == ("a", "a/b")
    assert list_parents("c.txt") == ()


@pytest.mark.parametrize("length", [30, 40, 45, 60, 61, 100])
def test_a_run_s_own_folder_has_room_for_sockets(tmp_path: Path, length: int) -> None:
    """Confined work can make sockets only there."""
    with tempfile.TemporaryDirectory(prefix="n", dir="/tmp") as folder:
        place = Path(f"{folder}/".ljust(length, "t"))
        place.mkdir()
        with (
            open_private_folder(choose_short_parent(place), tmp_path, SCRATCH_PREFIX) as own,
            open_short_folder(own) as sockets,
        ):
            assert sockets.parent == own
