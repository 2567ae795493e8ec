"""A repository that was made without git is one to git."""

import subprocess
from pathlib import Path

import pytest

from gitlab_nightshift.repository.git_folder import NO_BRANCH, write_git_folder


def git(folder: Path, *args: str) -> str:
    argv = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *args]
    return subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_git_takes_it_for_its_own(tmp_path: Path, object_format: str) -> None:
    settings = {"core.bare": "false", "core.autocrlf": "input", "core.eol": "a\n[alias]\n"}
    write_git_folder(tmp_path / ".git", settings, head=NO_BRANCH, object_format=object_format)
    made = set(git(tmp_path, "config", "--local", "--list").split())
    subprocess.run(
        ["git", "init", "-q", "--template=", f"--object-format={object_format}", "theirs"],
        cwd=tmp_path,
        check=True,
    )
    theirs = set(git(tmp_path / "theirs", "config", "--local", "--list").split())
    probed = {"core.filemode=true", "core.logallrefupdates=true"}
    assert made == theirs - probed | {"core.autocrlf=input"}

    (tmp_path / "a.txt").write_text("a\r\n")
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "-q", "-m", "first")
    assert git(tmp_path, "cat-file", "blob", "HEAD:a.txt") == "a\n"
    assert git(tmp_path, "rev-parse", "--show-object-format").strip() == object_format
    assert git(tmp_path, "fsck", "--strict") == ""
