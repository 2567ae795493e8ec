"""Git without the caller's environment, and what is read of the real checkout."""

import os
from pathlib import Path

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.repository import git as verbs
from gitlab_nightshift.repository.changed_files import list_changed_files
from gitlab_nightshift.repository.git import (
    CommitIdentity,
    GitError,
    build_isolated_git,
    count_recent_commits,
    list_recent_files,
    with_machine_config,
)
from gitlab_nightshift.sandbox.process import CapturedOutput
from tests.repository.conftest import Box
from tests.repository.tools import ODD_NAME, commit, git, listing, write


def test_the_callers_environment_does_not_reach_git(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "alias.rev-parse")
    monkeypatch.setenv("GITLAB_TOKEN", "secret")
    assert verbs.read_head(box.git, box.root) == box.base
    assert not {"GIT_DIR", "GIT_CONFIG_COUNT", "GITLAB_TOKEN"} & box.git.env.keys()


def test_an_error_has_gits_message(box: Box) -> None:
    with pytest.raises(GitError, match=r"^git cat-file: fatal: Not a valid object name nothing$"):
        box.git.run("cat-file", "-p", "nothing", cwd=box.root)


@pytest.mark.parametrize(
    ("stderr", "text"),
    [
        (b"", "git log: failed without a message"),
        (b"fatal: a\n", "git log: fatal: a"),
        (
            b"warning: w\nerror: first\nhint: h\nfatal: second:\n\tone\n\ttwo\nerror: first\n",
            "git log: error: first; fatal: second: one two; warning: w",
        ),
    ],
)
def test_an_error_has_all_of_gits_messages_on_one_line(stderr: bytes, text: str) -> None:
    done = CapturedOutput(128, b"", stderr)
    assert str(GitError("log", done)) == text


def test_an_unknown_repository_format_is_an_error(box: Box, tmp_path: Path) -> None:
    """Like reftable for an older git, which does not name the extension in its first line."""
    git(tmp_path, "init", "-q", "newer")
    with (tmp_path / "newer/.git/config").open("a") as file:
        file.write("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tfrobnicate = yes\n")
    with pytest.raises(NightshiftError) as caught:
        verbs.find_repository_paths(box.git, tmp_path / "newer")
    assert caught.value.code is Code.CONFIG
    assert str(caught.value).endswith("found: frobnicate: install one")


def test_no_git_on_path_is_an_error(box: Box, tmp_path: Path) -> None:
    with pytest.raises(NightshiftError, match="git was not found on PATH") as caught:
        build_isolated_git(tmp_path / "home", str(tmp_path)).run("version", cwd=tmp_path)
    assert caught.value.code is Code.CONFIG


@pytest.mark.parametrize("answer", ["git version 2.20.1", "", "a\nb\nc", "/r\nmd5\n1\n2\n3\n4\n5"])
def test_a_git_with_unreadable_answers_is_an_error(box: Box, tmp_path: Path, answer: str) -> None:
    program = write(tmp_path, "bin/git", f"#!/bin/sh\necho '{answer}'\n", 0o755)
    odd = build_isolated_git(tmp_path / "home", str(program.parent))
    with pytest.raises(NightshiftError, match="answers that cannot be read: install git"):
        verbs.find_repository_paths(odd, box.root)


def test_a_checkout_of_another_user_is_read(box: Box) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(box.root, 12345, 12345)
    os.chown(box.root / ".git", 12345, 12345)
    assert verbs.read_head(box.git, box.root) == box.base


def test_a_folder_without_a_checkout_is_an_error(box: Box, tmp_path: Path) -> None:
    with pytest.raises(NightshiftError, match="is not the top of a git checkout"):
        verbs.find_repository_paths(box.git, box.root / "src")
    (tmp_path / ".git").write_text("gitdir: /nonexistent\n")
    with pytest.raises(NightshiftError, match="not a git checkout that can be read"):
        verbs.find_repository_paths(box.git, tmp_path)


def test_a_repository_without_commits_is_an_error(box: Box, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "empty")
    with pytest.raises(NightshiftError, match="has no commit yet") as caught:
        verbs.read_head(box.git, tmp_path / "empty")
    assert caught.value.code is Code.CONFIG


def test_paths_of_a_worktree_and_of_borrowed_objects(box: Box, tmp_path: Path) -> None:
    git(box.root, "clone", "-q", "--shared", str(box.root), str(tmp_path / "clone"))
    git(tmp_path / "clone", "worktree", "add", "-q", str(tmp_path / "tree"))
    found = verbs.find_repository_paths(box.git, tmp_path / "tree")
    assert found.git_dir == tmp_path / "clone/.git/worktrees/tree"
    assert found.index == found.git_dir / "index"
    assert found.exclude.resolve() == tmp_path / "clone/.git/info/exclude"
    assert found.objects == (tmp_path / "clone/.git/objects", box.root / ".git/objects")
    assert found.shallow is None and found.object_format == "sha1"


def test_reading_leaves_the_repository_untouched(box: Box) -> None:
    os.utime(box.root / "README.md")  # git status would refresh its index
    before = listing(box.root, git_too=True)
    assert list_changed_files(box.git, box.root) == ()
    assert verbs.list_tracked_files(box.git, box.root)
    verbs.find_repository_paths(box.git, box.root)
    assert listing(box.root, git_too=True) == before


def test_reading_runs_no_hook_or_monitor(box: Box, tmp_path: Path) -> None:
    canary = tmp_path / "ran"
    script = write(tmp_path, "canary", f"#!/bin/sh\ntouch {canary}\n", 0o755)
    git(box.root, "config", "core.fsmonitor", str(script))
    git(box.root, "config", "core.hooksPath", str(tmp_path))
    write(tmp_path, "post-index-change", f"#!/bin/sh\ntouch {canary}\n", 0o755)
    list_changed_files(box.git, box.root)
    verbs.list_tracked_files(box.git, box.root)
    assert not canary.exists()


def test_changed_files_are_tracked_ones_staged_or_not(box: Box) -> None:
    write(box.root, "untracked", "x")
    write(box.root, "README.md", "changed\n")
    (box.root / "src/app.py").unlink()
    write(box.root, ODD_NAME, "x")
    git(box.root, "add", ODD_NAME)
    assert set(list_changed_files(box.git, box.root)) == {"README.md", "src/app.py", ODD_NAME}


def test_files_of_a_revision(box: Box) -> None:
    write(box.root, ODD_NAME, "12345")
    write(box.root, "*", "star")
    (box.root / "link").symlink_to("README.md")
    commit(box.root)
    assert verbs.read_committed_file(box.git, box.root, "HEAD", "src/app.py") == b"print('app')\n"
    assert verbs.read_committed_file(box.git, box.root, "HEAD", ODD_NAME) == b"12345"
    assert verbs.read_committed_file(box.git, box.root, "HEAD", "*") == b"star"
    for missing in ("nothing", "src", "link", ":(glob)**"):
        assert verbs.read_committed_file(box.git, box.root, "HEAD", missing) is None
    blob = git(box.root, "rev-parse", f"HEAD:{ODD_NAME}")
    assert [*verbs.read_blob_sizes(box.git, box.root, [blob, "0" * 40, blob])] == [5, None, 5]
    assert ODD_NAME in verbs.list_tracked_files(box.git, box.root)


def test_conversion_settings(box: Box) -> None:
    assert verbs.read_conversion_config(box.git, box.root) == {"core.fileMode": "true"}
    for value in ("true", "input"):
        git(box.root, "config", "--add", "core.AutoCRLF", value)
    git(box.root, "config", "core.eol", "")
    found = verbs.read_conversion_config(box.git, box.root)
    assert found == {"core.fileMode": "true", "core.autocrlf": "input"}


def test_messages_of_merges_are_left_out(box: Box) -> None:
    git(box.root, "checkout", "-q", "-b", "side")
    write(box.root, "a", "a")
    commit(box.root, "Add a\n\nBecause.")
    git(box.root, "checkout", "-q", "main")
    git(box.root, "merge", "-q", "--no-ff", "-m", "a merge", "side")
    assert verbs.read_commit_messages(box.git, box.root, 5) == ("Add a\n\nBecause.", "first")
    assert verbs.read_commit_messages(box.git, box.root, 1) == ("Add a\n\nBecause.",)


def test_the_identity_is_configured_on_the_machine(box: Box, tmp_path: Path) -> None:
    assert verbs.read_identity(box.git, box.root) is None
    home = tmp_path / 'real "home"'
    write(home, ".gitconfig", "[user]\n\tname = Zoë Night\n\temail = zoe@example.org\n")
    machine = with_machine_config(tmp_path / "machine", os.environ["PATH"], home)
    assert verbs.read_identity(machine, box.root) == CommitIdentity("Zoë Night", "zoe@example.org")
    git(box.root, "config", "user.name", "Local")
    assert verbs.read_identity(machine, box.root) == CommitIdentity("Local", "zoe@example.org")


def test_a_sha256_repository(box: Box, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256", "new")
    commit(tmp_path / "new")
    found = verbs.find_repository_paths(box.git, tmp_path / "new")
    assert found.object_format == "sha256"
    assert len(verbs.read_head(box.git, tmp_path / "new")) == 64


def test_recent_files_follow_first_parents_and_leave_the_root_out(box: Box) -> None:
    write(box.root, ODD_NAME)
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
        ODD_NAME,
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
