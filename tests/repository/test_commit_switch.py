"""Another commit is checked out for a while."""

import os
import shutil
from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.repository import commit_switch
from gitlab_nightshift.repository.commit_switch import build_pack, check_out_temporarily
from gitlab_nightshift.repository.git import Git, build_isolated_git, find_repository_paths
from gitlab_nightshift.repository.private_repository import create_private_repository
from tests.support.world import commit
from tests.support.world import git as run

FILES = {"kept.txt": "kept\n", "changed.txt": "on main\n", "folder/gone.txt": "gone\n"}


@pytest.fixture
def git(tmp_path: Path) -> Git:
    return build_isolated_git(tmp_path / "home", os.environ["PATH"])


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    """A repository with a branch of two commits, left before main went on."""
    folder = tmp_path / "seed"
    folder.mkdir()
    run(folder, "init", "-q", "-b", "main")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    commit(folder, "Begin")
    run(folder, "checkout", "-q", "-b", "topic")
    (folder / "changed.txt").write_text("on topic\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    commit(folder, "One")
    run(folder, "rm", "-q", "folder/gone.txt")
    commit(folder, "Two")
    run(folder, "checkout", "-q", "main")
    (folder / "late.txt").write_text("late\n")
    commit(folder, "Go on")
    return folder


def clone(seed: Path, folder: Path, *options: str) -> Path:
    run(seed, "clone", "-q", *options, "--branch", "main", f"file://{seed}", str(folder))
    run(folder, "checkout", "-q", "--detach")
    return folder


def build_topic_pack(git: Git, seed: Path, checkout: Path, private: Path) -> tuple[str, bytes]:
    """The branch's head, as a job with the token packs it for this checkout."""
    repository = create_private_repository(git, private, find_repository_paths(git, checkout))
    spec = "+refs/heads/topic:refs/nightshift/fetched"
    run(repository.folder, "fetch", "-q", "--depth=1", f"file://{seed}", spec)
    head = run(seed, "rev-parse", "topic").strip()
    return head, build_pack(repository, head, run(checkout, "rev-parse", "HEAD").strip())


def read_files(checkout: Path) -> dict[str, tuple[int, bytes]]:
    files = [path for path in checkout.rglob("*") if path.is_file() and ".git" not in path.parts]
    return {str(p.relative_to(checkout)): (p.stat().st_mode, p.read_bytes()) for p in files}


@pytest.mark.parametrize("options", [("--depth=1",), ()])
def test_a_commit_is_checked_out_and_back(
    git: Git, seed: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    checkout = clone(seed, tmp_path / "checkout", *options)
    head, pack = build_topic_pack(git, seed, checkout, tmp_path / "private.git")
    (checkout / "untracked.txt").write_text("mine\n")
    before, at = read_files(checkout), run(checkout, "rev-parse", "HEAD")
    shallow = checkout / ".git" / "shallow"
    boundary = shallow.read_bytes() if shallow.exists() else None
    references = run(checkout, "for-each-ref")
    with check_out_temporarily(git, checkout, head, pack):
        assert run(checkout, "rev-parse", "HEAD").strip() == head
        assert run(checkout, "status", "--porcelain") == "?? untracked.txt\n"
        assert (checkout / "changed.txt").read_text() == "on topic\n"
        assert os.access(checkout / "run.sh", os.X_OK)
        assert not (checkout / "folder").exists()
        assert run(checkout, "rev-list", "HEAD").split() == [head], "its history ends here"
    assert (read_files(checkout), run(checkout, "rev-parse", "HEAD")) == (before, at)
    assert (shallow.read_bytes() if shallow.exists() else None) == boundary
    assert run(checkout, "for-each-ref") == references


def test_the_pack_has_only_what_differs(git: Git, seed: Path, tmp_path: Path) -> None:
    checkout = clone(seed, tmp_path / "checkout", "--depth=1")
    head, pack = build_topic_pack(git, seed, checkout, tmp_path / "private.git")
    assert int.from_bytes(pack[8:12]) == 4, "the commit, its tree, and two files"
    other = clone(seed, tmp_path / "other", "--depth=1")
    with check_out_temporarily(git, other, head, pack):
        assert run(other, "fsck", "--full").strip() == ""


def test_the_former_commit_returns_after_an_error(git: Git, seed: Path, tmp_path: Path) -> None:
    checkout = clone(seed, tmp_path / "checkout", "--depth=1")
    head, pack = build_topic_pack(git, seed, checkout, tmp_path / "private.git")
    before = read_files(checkout)

    def fails() -> None:
        with check_out_temporarily(git, checkout, head, pack):
            (checkout / "changed.txt").write_text("half-way\n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert read_files(checkout) == before


@pytest.mark.parametrize("ignored", [False, True])
def test_files_in_the_way_stay(git: Git, seed: Path, tmp_path: Path, ignored: bool) -> None:
    checkout = clone(seed, tmp_path / "checkout", "--depth=1")
    head, pack = build_topic_pack(git, seed, checkout, tmp_path / "private.git")
    if ignored:
        (checkout / ".git" / "info" / "exclude").write_text("run.sh\n")
    (checkout / "run.sh").write_text("mine\n")
    with (
        pytest.raises(NightshiftError, match=r"run\.sh|overwritten"),
        check_out_temporarily(git, checkout, head, pack),
    ):
        raise AssertionError("it was checked out")
    assert (checkout / "run.sh").read_text() == "mine\n"
    assert (checkout / "changed.txt").read_text() == "on main\n"


def test_no_hook_and_no_filter_runs(git: Git, seed: Path, tmp_path: Path) -> None:
    checkout = clone(seed, tmp_path / "checkout", "--depth=1")
    head, pack = build_topic_pack(git, seed, checkout, tmp_path / "private.git")
    mark = tmp_path / "ran"
    hook = checkout / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
    hook.chmod(0o755)
    (checkout / ".git" / "info" / "attributes").write_text("* filter=lfs\n")
    run(checkout, "config", "filter.lfs.smudge", f"touch {mark}; cat")
    run(checkout, "config", "filter.lfs.required", "true")
    with check_out_temporarily(git, checkout, head, pack):
        assert (checkout / "changed.txt").read_text() == "on topic\n"
    assert not mark.exists()


def replace_git_folder(git: Git, seed: Path, tmp_path: Path) -> Path:
    """Replace ``.git`` by one whose work tree is another folder; returns that."""
    checkout, elsewhere = clone(seed, tmp_path / "checkout"), tmp_path / "elsewhere"
    head, pack = build_topic_pack(git, seed, checkout, tmp_path / "private.git")
    elsewhere.mkdir()
    with check_out_temporarily(git, checkout, head, pack):
        (checkout / ".git").rename(tmp_path / "aside")
        shutil.copytree(tmp_path / "aside", checkout / ".git")
        run(checkout, "config", "core.worktree", str(elsewhere))
    return elsewhere


def test_no_git_runs_in_a_replaced_git_folder(git: Git, seed: Path, tmp_path: Path) -> None:
    with pytest.raises(NightshiftError, match="was replaced during the run"):
        replace_git_folder(git, seed, tmp_path)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_without_the_check_git_would_write_elsewhere(
    git: Git, seed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control."""
    monkeypatch.setattr(commit_switch, "_identify_git_folder", lambda _: None)
    assert list(replace_git_folder(git, seed, tmp_path).iterdir())
