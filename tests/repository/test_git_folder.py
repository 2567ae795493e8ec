"""A repository that was made without git is one to git."""

import subprocess
from pathlib import Path

import pytest

from gitlab_nightshift.repository.git_folder import NO_BRANCH, list_git_folders, write_git_folder
from tests.repository.tools import git, repository


def run_git(folder: Path, *args: str) -> str:
    argv = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *args]
    return subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_git_takes_it_for_its_own(tmp_path: Path, object_format: str) -> None:
    settings = {"core.bare": "false", "core.autocrlf": "input", "core.eol": "a\n[alias]\n"}
    write_git_folder(tmp_path / ".git", settings, head=NO_BRANCH, object_format=object_format)
    made = set(run_git(tmp_path, "config", "--local", "--list").split())
    subprocess.run(
        ["git", "init", "-q", "--template=", f"--object-format={object_format}", "theirs"],
        cwd=tmp_path,
        check=True,
    )
    theirs = set(run_git(tmp_path / "theirs", "config", "--local", "--list").split())
    probed = {"core.filemode=true", "core.logallrefupdates=true"}
    assert made == theirs - probed | {"core.autocrlf=input"}

    (tmp_path / "a.txt").write_text("a\r\n")
    run_git(tmp_path, "add", "a.txt")
    run_git(tmp_path, "commit", "-q", "-m", "first")
    assert run_git(tmp_path, "cat-file", "blob", "HEAD:a.txt") == "a\n"
    assert run_git(tmp_path, "rev-parse", "--show-object-format").strip() == object_format
    assert run_git(tmp_path, "fsck", "--strict") == ""


def test_a_checkout_with_its_own_git_has_none_elsewhere(tmp_path: Path) -> None:
    repository(tmp_path / "shop", {"a.py": "A = 1\n"})
    assert list_git_folders(tmp_path / "shop") == []
    assert list_git_folders(tmp_path) == []


def test_a_worktree_names_its_own_folder_and_the_common_one(tmp_path: Path) -> None:
    repository(tmp_path / "shop", {"a.py": "A = 1\n"})
    git(tmp_path / "shop", "worktree", "add", "-q", str(tmp_path / "other"))
    common = (tmp_path / "shop/.git").resolve()
    assert list_git_folders(tmp_path / "other") == [common / "worktrees/other", common]


def test_a_file_that_names_nothing_opens_nothing(tmp_path: Path) -> None:
    for text in ("", "gitdir:", "other: /", "\0"):
        (tmp_path / ".git").write_text(text)
        assert list_git_folders(tmp_path) in ([], [tmp_path.resolve()])
