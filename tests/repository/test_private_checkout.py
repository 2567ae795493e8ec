"""A private checkout has what it needs, and leaves the user's alone."""

from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.repository.git import (
    Git,
    RepositoryPaths,
    build_isolated_git,
    find_repository_paths,
    read_head,
)
from gitlab_nightshift.repository.private_checkout import check_out, commit_changed, copy_checkout
from tests.support.trees import assert_same, whole_tree
from tests.support.world import commit, git

PATH = "/usr/bin:/bin"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "source"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    git(top, "config", "remote.origin.url", "https://x:secret@h.example/y.git")
    (top / "dir").mkdir()
    (top / "dir/run.sh").write_text("#!/bin/sh\n")
    (top / "dir/run.sh").chmod(0o755)
    (top / "ends.txt").write_text("one\n")
    (top / ".gitattributes").write_text("*.txt filter=evil\n")
    (top / "link").symlink_to("dir/run.sh")
    commit(top, "First")
    (top / ".git/info/exclude").write_text("/ignored\n")
    return top


def opened(source: Path, tmp_path: Path) -> tuple[Git, RepositoryPaths, str]:
    own = build_isolated_git(tmp_path / "home", PATH)
    return own, find_repository_paths(own, source), read_head(own, source)


def test_a_commit_is_checked_out(source: Path, tmp_path: Path) -> None:
    own, place, head = opened(source, tmp_path)
    git(source, "config", "filter.evil.smudge", f"touch {tmp_path}/EVIL")
    before = whole_tree(source)
    folder = tmp_path / "new"
    check_out(own, folder, place, head, {"core.autocrlf": "false"})
    assert_same(whole_tree(source), before)
    assert git(folder, "status", "--porcelain") == ""
    assert git(folder, "rev-parse", "HEAD").strip() == head
    assert (folder / "link").readlink() == Path("dir/run.sh")
    assert (folder / "dir/run.sh").stat().st_mode & 0o111
    assert "secret" not in (folder / ".git/config").read_text()
    assert git(folder, "config", "core.autocrlf") == "false\n"
    assert not (tmp_path / "EVIL").exists()


def test_a_copy_has_all_files_as_they_are(source: Path, tmp_path: Path) -> None:
    own, place, head = opened(source, tmp_path)
    (source / "ends.txt").write_text("changed\n")
    (source / "ignored").mkdir()
    (source / "ignored/lib").write_bytes(b"\0")
    (source / "ignored/closed").mkdir()
    (source / "ignored/closed/x").write_text("x")
    (source / "ignored/closed").chmod(0o500)
    (source / "out").mkdir()
    (source / "out/result").write_text("not this one\n")
    before = whole_tree(source)
    folder = tmp_path / "new"
    copy_checkout(own, folder, place, head, {}, source, "out")
    assert_same(whole_tree(source), before)
    assert (folder / "ignored/closed/x").read_text() == "x"
    assert not (folder / "out").exists()
    assert git(folder, "status", "--porcelain") == " M ends.txt\n"
    made = commit_changed(own, folder, ("ends.txt",))
    assert git(folder, "status", "--porcelain") == ""
    assert git(folder, "diff", "--name-only", head, made) == "ends.txt\n"
    assert git(source, "cat-file", "-t", head) == "commit\n"


def test_a_missing_commit_is_an_error(source: Path, tmp_path: Path) -> None:
    own, place, _ = opened(source, tmp_path)
    with pytest.raises(NightshiftError, match="cannot be read"):
        check_out(own, tmp_path / "new", place, "0" * 39 + "1", {})
