"""The throw-away .git is as useful as the real one, has no credentials, and leaves no trace."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.errors import Code, Interruption, NightshiftError
from gitlab_nightshift.repository import checkout as checkout_module
from gitlab_nightshift.repository import (
    checkout_restore,
    prepared_checkout,
    saved_state,
    state_folder,
)
from gitlab_nightshift.repository.git_mask import unmask_git
from gitlab_nightshift.repository.state_folder import StateFolder, mark_alive
from gitlab_nightshift.system.signals import enable_cancellation
from tests.repository.conftest import Box
from tests.repository.tools import (
    commit,
    die,
    fork,
    git,
    gone,
    link,
    listing,
    repository,
    wait_end,
    write,
)

TOKEN = "glcbt-JobTokenOfTheJob"


def timeless(root: Path) -> dict[bytes, tuple[object, ...]]:
    """A listing without times: git updates those of borrowed objects."""
    return {path: entry[:3] for path, entry in listing(root, git_too=True).items()}


def commit_often(root: Path, count: int) -> str:
    """Commits of a file ``counter``, made by one git; the last one's id."""
    who = "committer A <a@b> 1700000000 +0000"
    stream = "".join(
        f"commit refs/heads/main\n{who}\ndata <<.\ncommit {number}\n.\n"
        f"{'' if number else 'from HEAD^0'}\nM 644 inline counter\ndata <<.\n{number}\n.\n"
        for number in range(count)
    )
    git(root, "fast-import", "--quiet", stdin=stream.encode())
    git(root, "reset", "-q", "--hard")
    return git(root, "rev-parse", "HEAD")


@pytest.fixture(params=["url", "include"])
def runner_box(request: pytest.FixtureRequest, tmp_path: Path, box: Box) -> Box:
    """A checkout as a GitLab runner makes it: depth 20, detached, credentials in two ways."""
    base = commit_often(box.root, 25)
    root = tmp_path / "runner" / "shop"
    git(box.root, "init", "-q", str(root))
    clean, secret = (
        "https://gitlab.example.org/g/shop.git",
        f"https://ci:{TOKEN}@gitlab.example.org",
    )
    git(root, "remote", "add", "origin", clean)
    if request.param == "url":
        git(root, "remote", "set-url", "origin", f"{secret}/g/shop.git")
    else:
        extra = write(root.parent, "shop.tmp/.gitlab-runner.ext.conf")
        extra.write_text(f'[url "{secret}"]\n\tinsteadOf = https://gitlab.example.org\n')
        git(root, "config", "include.path", str(extra))
    git(root, "fetch", "-q", "--depth=20", f"file://{box.root}", f"{base}:refs/pipelines/4711")
    write(root, ".git/FETCH_HEAD", f"{base}\t\tbranch 'main' of {secret}\n")
    git(root, "checkout", "-q", "-f", "--detach", base)
    return Box(root, box.private, base)


def test_the_agent_finds_no_credential(runner_box: Box) -> None:
    before = listing(runner_box.root, git_too=True)
    with runner_box.open():
        shown = git(runner_box.root, "config", "--list", "--show-origin")
        shown += git(runner_box.root, "remote", "-v") + git(
            runner_box.root, "log", "--format=%B %D"
        )
        for path, entry in listing(runner_box.root, git_too=True).items():
            assert TOKEN.encode() not in path + repr(entry).encode()
        assert TOKEN not in shown and "gitlab.example.org" not in shown
    assert listing(runner_box.root, git_too=True) == before
    assert runner_box.beside <= {"shop.tmp"}


def test_git_works_for_the_agent_as_usual(runner_box: Box) -> None:
    with runner_box.open() as checkout:
        root = runner_box.root
        assert checkout.base_sha == runner_box.base == git(root, "rev-parse", "HEAD")
        assert git(root, "status", "--porcelain") == ""
        assert len(git(root, "log", "--oneline").splitlines()) == 20
        write(root, "README.md", "changed\n")
        write(root, "new", "x")
        assert "+changed" in git(root, "diff")
        assert git(root, "status", "--porcelain").split() == ["M", "README.md", "??", "new"]
        assert "counter" in git(root, "show", "--stat", "HEAD~3")
        assert git(root, "blame", "counter")
        git(root, "stash")
        git(root, "stash", "pop")
        commit(root, "the agent's")
        git(root, "checkout", "-q", "-b", "topic")
        assert git(root, "diff", "--name-only", runner_box.base).split() == ["README.md", "new"]
        git(root, "gc", "-q")
        assert [file.path for file in checkout.capture().files] == ["README.md", "new"]
    assert git(runner_box.root, "status", "--porcelain") == ""
    assert git(runner_box.root, "rev-parse", "HEAD") == runner_box.base
    git(runner_box.root, "fsck")


def test_split_index_and_exclude_are_taken_over(box: Box) -> None:
    git(box.root, "update-index", "--split-index")
    write(box.root, ".git/info/exclude", "mine\n")
    write(box.root, "mine")
    with box.open():
        assert git(box.root, "status", "--porcelain") == ""


def test_a_sha256_repository(box: Box, tmp_path: Path) -> None:
    shutil.rmtree(box.root)
    git(tmp_path, "init", "-q", "--object-format=sha256", str(box.root))
    write(box.root, "file", "one\n")
    commit(box.root)
    with box.open() as checkout:
        assert git(box.root, "status", "--porcelain") == ""
        write(box.root, "file", "two\n")
        captured = checkout.capture()
        assert len(captured.tree_id) == 64
        assert checkout.apply_change(captured) == ()
    assert (box.root / "file").read_text() == "one\n"


@pytest.mark.parametrize("kind", ["worktree", "submodule", "link"])
def test_a_git_that_is_no_folder_is_masked(box: Box, tmp_path: Path, kind: str) -> None:
    outer = tmp_path / "outer" / "shop"
    if kind == "worktree":
        git(box.root, "worktree", "add", "-q", "--detach", str(outer))
    elif kind == "submodule":
        repository(tmp_path / "outer", {"a": "b"})
        git(tmp_path / "outer", "submodule", "--quiet", "add", str(box.root), "shop")
    else:
        shutil.copytree(box.root, outer)
        (outer / ".git").rename(tmp_path / "outer" / "real")
        link(outer, ".git", "../real")
    inner = Box(outer, box.private, box.base)
    before = listing(outer, git_too=True)
    with inner.open() as checkout:
        assert (outer / ".git").is_dir() and not (outer / ".git").is_symlink()
        assert git(outer, "status", "--porcelain") == ""
        write(outer, "README.md", "agent\n")
        (outer / "src/app.py").unlink()
        captured = checkout.capture()
        assert [file.path for file in captured.files] == ["README.md", "src/app.py"]
        assert checkout.restore() == ()
        shutil.rmtree(outer / ".git")
    assert listing(outer, git_too=True) == before
    assert git(outer, "status", "--porcelain") == ""


def test_relative_alternates_stay_reachable(box: Box, tmp_path: Path) -> None:
    lender = tmp_path / "builds" / "lender"
    shutil.copytree(box.root, lender)
    for part in ("objects", "logs"):
        shutil.rmtree(box.root / ".git" / part)
    write(box.root, ".git/objects/info/alternates", "../../../lender/.git/objects\n")
    (box.root / ".git/objects/pack").mkdir()
    assert git(box.root, "status", "--porcelain") == ""
    with box.open() as checkout:
        assert git(box.root, "log", "--oneline")
        write(box.root, "README.md", "agent\n")
        assert checkout.capture().files
        assert checkout.restore() == ()


def test_the_next_agent_gets_a_fresh_throwaway(box: Box) -> None:
    with box.open() as checkout:
        first = timeless(box.root)
        git(box.root, "rm", "-q", "README.md")
        commit(box.root)
        git(box.root, "config", "core.fsmonitor", "/bin/evil")
        write(box.root, ".git/hooks/pre-commit", "evil", 0o755)
        checkout.restore()
        assert git(box.root, "status", "--porcelain") == ""
        assert {**timeless(box.root), b".git/index": 0} == {**first, b".git/index": 0}
        write(box.root, "README.md", "agent\n")
        captured = checkout.capture()
        shutil.rmtree(box.root / ".git")
        checkout.apply_change(captured)
        assert git(box.root, "status", "--porcelain") == "M README.md"


def _append_setting(git: Path) -> None:
    with (git / "config").open("a") as file:
        file.write("[core]\n\tfsmonitor = /bin/evil\n")


def _change_bytes_alone(git: Path) -> None:
    """The same size and times."""
    head = git / "HEAD"
    before, text = head.stat(), head.read_text()
    head.write_text(text.replace(text[0], "0" if text[0] != "0" else "1", 1))
    os.utime(head, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replace_by_link(git: Path) -> None:
    kept = git.parent / "kept"
    (git / "HEAD").rename(kept)
    (git / "HEAD").symlink_to(kept)


def _age_index(git: Path) -> None:
    os.utime(git / "index", ns=(0, 0))


CHANGES: dict[str, Callable[[Path], object]] = {
    "setting": _append_setting,
    "bytes": _change_bytes_alone,
    "link": _replace_by_link,
    "index": _age_index,
    "hook": lambda git: write(git, "hooks/pre-commit", "evil", 0o755),
    "empty": lambda git: (git / "refs/mine").mkdir(),
    "gone": lambda git: (git / "HEAD").unlink(),
    "mode": lambda git: (git / "HEAD").chmod(0o777),
    "attribute": lambda git: os.setxattr(git / "HEAD", "user.mine", b"1"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_the_throwaway_is_undone(box: Box, change: str) -> None:
    with box.open() as checkout:
        first, index = timeless(box.root), box.root / ".git/index"
        written = index.stat().st_mtime_ns
        try:
            CHANGES[change](box.root / ".git")
        except OSError:
            pytest.skip("no extended attributes here")
        checkout.restore()
        assert timeless(box.root) == first
        assert index.stat().st_mtime_ns == written
        assert os.listxattr(box.root / ".git/HEAD") == []


def test_an_unchanged_throwaway_is_kept(box: Box) -> None:
    with box.open() as checkout:
        inode = (box.root / ".git").stat().st_ino
        checkout.restore()
        assert (box.root / ".git").stat().st_ino == inode


# --- whatever the agent does to .git ----------------------------------------------------------


def _no_git(root: Path) -> None:
    shutil.rmtree(root / ".git")


def _git_as_link(root: Path) -> None:
    shutil.rmtree(root / ".git")
    link(root, ".git", "/")


def _git_as_file(root: Path) -> None:
    shutil.rmtree(root / ".git")
    write(root, ".git", "gitdir: /nonexistent\n")


def _git_closed(root: Path) -> None:
    (root / ".git").chmod(0)
    root.chmod(0o500)


def _git_full(root: Path) -> None:
    for number in range(50):
        write(root, f".git/rubbish/{number}/file", "x", 0)
    (root / ".git/rubbish").chmod(0)


@pytest.mark.parametrize("attack", [_no_git, _git_as_link, _git_as_file, _git_closed, _git_full])
def test_the_real_git_comes_back_whatever_replaced_the_throwaway(box: Box, attack: object) -> None:
    assert callable(attack)
    before = listing(box.root, git_too=True)
    with box.open() as checkout:
        attack(box.root)
        assert checkout.capture().empty
    assert listing(box.root, git_too=True) == before
    assert not box.beside


def test_no_planted_program_runs_outside(box: Box, tmp_path: Path) -> None:
    """Hooks, monitor, filters, drivers and includes, in each .git that an agent can write."""
    canary = tmp_path / "ran"
    script = write(tmp_path, "evil", f"#!/bin/sh\ntouch {canary}\ncat\n", 0o755)
    with box.open() as checkout:
        root = box.root
        for hook in ("pre-commit", "post-checkout", "post-index-change", "reference-transaction"):
            write(root, f".git/hooks/{hook}", script.read_text(), 0o755)
        for key in ("core.fsmonitor", "core.sshCommand", "diff.external", "core.editor"):
            git(root, "config", key, str(script))
        for key in ("filter.evil.clean", "filter.evil.process", "diff.evil.textconv"):
            git(root, "config", key, str(script))
        git(root, "config", "core.attributesFile", str(write(root, "attr", "* filter=evil\n")))
        write(root, ".git/info/attributes", "* filter=evil diff=evil\n")
        write(root, ".gitattributes", "*.md diff=evil merge=evil\n")
        write(root, "README.md", "agent\n")
        assert git(root, "status")
        assert canary.exists(), "the trap works for whoever runs git there"
        canary.unlink()
        captured = checkout.capture()
        assert {file.path for file in captured.files} == {".gitattributes", "README.md", "attr"}
        checkout.apply_change(captured)
        checkout.restore()
    assert not canary.exists()


def test_no_git_ever_runs_in_the_agents_tree(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Path, dict[str, str]]] = []
    start = subprocess.Popen.__init__

    def spy(self: Any, argv: list[str], *, cwd: Path, env: dict[str, str], **rest: Any) -> None:
        calls.append((cwd, env))
        start(self, argv, cwd=cwd, env=env, **rest)

    with box.open() as checkout, monkeypatch.context() as patched:
        patched.setattr(subprocess.Popen, "__init__", spy)
        write(box.root, "README.md", "agent\n")
        gone(box.root, "src/app.py")
        checkout.apply_change(checkout.capture())
        checkout.restore()
    assert len(calls) >= 3  # read objects, store files, compare trees
    for cwd, env in calls:
        for place in (cwd, Path(env["GIT_DIR"]), Path(env.get("GIT_WORK_TREE", env["GIT_DIR"]))):
            assert place.is_relative_to(box.private)
        assert env["GIT_CONFIG_NOSYSTEM"] == "1" and "GIT_DIR" in env
        assert Path(env["HOME"]).is_relative_to(box.private)


# --- what is refused --------------------------------------------------------------------------


def test_local_changes_are_refused(box: Box) -> None:
    write(box.root, "README.md", "mine\n")
    before = listing(box.root, git_too=True)
    with pytest.raises(NightshiftError, match=r"local changes \(README.md\)") as caught, box.open():
        pass
    assert caught.value.code is Code.WORKSPACE_DIRTY
    assert listing(box.root, git_too=True) == before and not box.beside


def test_a_tracked_output_folder_is_refused(box: Box) -> None:
    with pytest.raises(NightshiftError, match="src is tracked by git"), box.open("src"):
        pass
    assert not box.beside


def test_two_nights_cannot_share_a_checkout(box: Box) -> None:
    with box.open() as checkout:
        refused = pytest.raises(NightshiftError, match=f"another night runs .*pid {os.getpid()}")
        with refused, box.open():
            pass
        assert checkout.capture().empty
    assert not box.beside


def test_everything_is_restored_after_an_error(box: Box) -> None:
    before = listing(box.root, git_too=True)
    with pytest.raises(ZeroDivisionError), box.open():
        shutil.rmtree(box.root / "src")
        raise ZeroDivisionError
    assert listing(box.root, git_too=True) == before and not box.beside


def test_the_state_folder_is_kept_while_the_real_git_is_in_it(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> None:
        raise OSError(16, "Device or resource busy")

    before = listing(box.root, git_too=True)
    with monkeypatch.context() as patch, box.open():
        patch.setattr(checkout_restore, "unmask_git", fails)
    [told] = box.warnings
    assert told.startswith(f"the real .git is still in {box.root}.nightshift: ") and "busy" in told
    assert (box.root.parent / "shop.nightshift/git/HEAD").exists()
    assert box.repair()
    assert listing(box.root, git_too=True) == before and not box.beside


@pytest.mark.parametrize("step", ["save_checkout", "write_saved", "build_throwaway", "mask_git"])
def test_a_failed_start_leaves_nothing(
    box: Box, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    before = listing(box.root, git_too=True)
    module = prepared_checkout if step in ("save_checkout", "write_saved") else checkout_module
    monkeypatch.setattr(module, step, fails)
    with pytest.raises((OSError, NightshiftError), match="No space left"), box.open():
        pass
    assert listing(box.root, git_too=True) == before and not box.beside


def test_signals_wait_for_the_restore(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    before = listing(box.root, git_too=True)

    def uncover_slowly(state: StateFolder) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.05)
        unmask_git(state)

    monkeypatch.setattr(checkout_restore, "unmask_git", uncover_slowly)
    with pytest.raises(Interruption), enable_cancellation(), box.open():
        write(box.root, "README.md", "agent\n")
    assert listing(box.root, git_too=True) == before and not box.beside


# --- after a kill -----------------------------------------------------------------------------


def run_killed_night(box: Box, when: str, in_it: Callable[[], object] = die) -> None:
    """A night that is killed at a point; to be called in a process of its own."""
    real_rename, fresh = Path.rename, []

    def rename(path: Path, target: Path) -> Path:
        if path.name.startswith("fresh-"):
            fresh.append(path)
            if when == "between" or (when == "renewing" and len(fresh) == 2):
                die()
        if when == "uncovering" and path.name == "git":
            die()
        return real_rename(path, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "rename", rename)
        if when == "saving":
            patch.setattr(prepared_checkout, "write_saved", die)
        if when == "releasing":
            patch.setattr(checkout_module, "release", die)
        with box.open() as checkout:
            if when == "renewing":
                write(box.root, ".git/mine")
                checkout.restore()
            if when == "covered":
                write(box.root, "README.md", "agent\n")
                write(box.root, "untracked", "agent\n")
                write(box.root, "node_modules/large.js", "agent")
                gone(box.root, "src/app.py")
                write(box.root, "new", "agent")
                in_it()


def assert_killed(box: Box, when: str) -> None:
    assert wait_end(fork(partial(run_killed_night, box, when))) == -signal.SIGKILL


@pytest.mark.parametrize(
    "when", ["saving", "between", "covered", "renewing", "uncovering", "releasing"]
)
def test_the_next_start_repairs_a_killed_night(box: Box, when: str) -> None:
    write(box.root, "untracked", "mine")
    write(box.root, "build/x", "mine")
    before = listing(box.root, git_too=True)
    assert_killed(box, when)
    assert box.beside
    with box.open() as checkout:
        assert checkout.capture().empty
        write(box.root, "README.md", "the second night\n")
    assert listing(box.root, git_too=True) == before
    assert not box.beside


def test_repair_returns_whether_it_did_something(box: Box) -> None:
    assert not box.repair()
    assert_killed(box, "covered")
    assert box.repair()
    assert not box.repair()
    assert git(box.root, "status", "--porcelain") == ""


def test_a_living_night_is_not_repaired(box: Box) -> None:
    (ready, is_ready), (over, is_over) = os.pipe(), os.pipe()

    def wait() -> None:
        os.close(is_over)
        os.write(is_ready, b".")
        os.read(over, 1)

    pid = fork(partial(run_killed_night, box, "covered", wait))
    os.read(ready, 1)
    with pytest.raises(NightshiftError, match=f"pid {pid}, run 4711") as caught:
        box.repair()
    assert caught.value.code is Code.WORKSPACE_DIRTY
    assert (box.root / "README.md").read_text() == "agent\n"
    os.close(is_over)
    assert wait_end(pid) == 0
    for fd in (ready, is_ready, over):
        os.close(fd)
    assert (box.root / "README.md").read_text() == "hello\n"


@pytest.mark.parametrize("use", ["fetched", "remote", "committed", "init", "unreadable note"])
def test_a_used_throwaway_is_set_aside(box: Box, use: str) -> None:
    """The tree stays as somebody left it; the real .git is back, and nothing is lost."""
    real = timeless(box.root / ".git")
    assert_killed(box, "covered")
    if use == "fetched":
        git(
            box.root,
            "remote",
            "set-url",
            "origin",
            f"https://ci:{TOKEN}@gitlab.example.org/g/s.git",
        )
        write(box.root, ".git/FETCH_HEAD", "x")
        git(box.root, "checkout", "-q", "-f", box.base)
    elif use == "remote":
        git(box.root, "remote", "set-url", "origin", "https://gitlab.example.org/g/s.git")
    elif use == "committed":
        commit(box.root, "somebody's")
    elif use == "init":
        shutil.rmtree(box.root / ".git")
        git(box.root, "init", "-q")
    else:
        write(box.root.parent, "shop.nightshift/note.json", "{")
    tree = listing(box.root)
    with pytest.raises(NightshiftError, match="start the job again") as caught:
        box.repair()
    assert caught.value.code is Code.WORKSPACE_DIRTY and TOKEN not in caught.value.message
    assert {**listing(box.root), b"": 0} == {**tree, b"": 0}
    assert timeless(box.root / ".git") == real
    assert box.beside == {"shop.nightshift-left"}
    git(box.root, "checkout", "-q", "-f", box.base)
    git(box.root, "clean", "-ffdxq")
    with box.open() as checkout:
        assert checkout.capture().empty


def commit_and_die(box: Box) -> None:
    """An agent's commit in a night whose supervisor is alive; then everything is killed."""
    with mark_alive(box.root.with_name("shop.nightshift")):
        commit(box.root, "mine")
        (box.root / ".git/FETCH_HEAD").touch()
        die()


def test_an_agents_own_use_of_the_throwaway_is_undone(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks like a later use, but happened before the end of the night."""
    before, go = (
        listing(box.root),
        partial(run_killed_night, box, "covered", partial(commit_and_die, box)),
    )
    assert wait_end(fork(go)) == -signal.SIGKILL
    assert box.repair()
    assert listing(box.root) == before
    assert not box.beside
    assert wait_end(fork(go)) == -signal.SIGKILL
    monkeypatch.setattr(state_folder, "MARGIN_S", -1e9)  # the control: as if it were after it
    with pytest.raises(NightshiftError, match="start the job again"):
        box.repair()
    assert listing(box.root) != before


def test_a_new_checkout_is_left_alone(box: Box) -> None:
    real = listing(box.root / ".git", git_too=True)
    assert_killed(box, "covered")
    box.root.rename(box.root.with_name("old"))
    base = repository(box.root, {"fresh": "clone"})
    before = listing(box.root, git_too=True)
    with box.open() as checkout:
        assert checkout.base_sha == base
    assert listing(box.root, git_too=True) == before
    assert box.beside == {"old", "shop.nightshift-left"}
    assert listing(box.root.parent / "shop.nightshift-left/git", git_too=True) == real


def test_an_incomplete_repair_is_reported_once(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    write(box.root, "node_modules/large.js", "x" * 1000)
    with monkeypatch.context() as patch:
        patch.setattr(saved_state, "COPIED_BYTES", 10)
        assert_killed(box, "covered")
    with pytest.raises(NightshiftError, match=r"cannot be undone \(node_modules/large.js\)"):
        box.repair()
    assert git(box.root, "status", "--porcelain") == ""
    assert not box.repair() and not box.beside
