"""One process prepares a checkout and restores it; another opens it, and cannot influence that."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.codec import encode_record
from gitlab_nightshift.repository import checkout_restore
from gitlab_nightshift.repository.checkout import open_prepared
from gitlab_nightshift.repository.checkout_restore import RestoreReport, repair
from gitlab_nightshift.repository.git import Git
from gitlab_nightshift.repository.git_mask import move_git
from gitlab_nightshift.repository.prepared_checkout import (
    PreparedCheckout,
    prepare_checkout,
    prepare_restored,
    read_prepared,
)
from gitlab_nightshift.repository.state_folder import (
    LockedStateFolder,
    StateFolder,
    find_state_folder,
    hold_state_folder,
)
from gitlab_nightshift.repository.tree_snapshot import NOTHING
from tests.nights_sandbox.test_plain_user import PLAIN
from tests.repository.conftest import Box, new_repository
from tests.repository.tools import fork, git, gone, listing, wait_end, write
from tests.sandbox.tools import open_folder


def prepare(box: Box) -> tuple[LockedStateFolder, PreparedCheckout]:
    held = hold_state_folder(box.root, box.private.parent)
    made = prepare_checkout(
        held, box.root, git=box.git, machine_git=box.git, output_dir="nightshift", run_id="4711"
    )
    return held, made


def restore(box: Box, held: LockedStateFolder) -> list[str]:
    """Restore as the process that prepared it does; returns the reported problems."""
    problems: list[str] = []
    repair(
        box.root,
        private=box.private,
        search_path=os.environ["PATH"],
        unused_since_run=True,
        receive_report=lambda report: problems.extend(report.problems),
        held=held,
    )
    return problems


@pytest.mark.parametrize("way", ["mounted", "moved by who opens it", "moved before"])
def test_a_prepared_checkout_is_opened_from_json(box: Box, way: str) -> None:
    write(box.root, "build/kept", "ignored")
    write(box.root, "mine", "untracked")
    before = listing(box.root, git_too=True)
    held, made = prepare(box)
    if way == "moved before":
        move_git(box.root, held.folder)
    data = json.loads(encode_record(made))
    again = read_prepared(data, moved=way == "moved before")
    assert again.saved == made.saved
    assert (again.paths, again.config, again.base_sha) == (made.paths, made.config, box.base)

    with open_prepared(
        again,
        private=box.private,
        search_path=os.environ["PATH"],
        warn=box.warnings.append,
        use_mounts=way == "mounted",
    ) as checkout:
        write(box.root, "README.md", "agent\n")
        write(box.root, "build/kept", "agent")
        gone(box.root, "mine")
        captured = checkout.capture()
        assert b"+agent" in captured.patch
        assert checkout.apply_change(captured) == ()
        assert (box.root / "build/kept").read_text() == "ignored"
        assert (held.folder / "git/HEAD").exists() == (way != "mounted")
        write(box.root, "new", "left behind")
    assert (box.root / "new").exists(), "the process that opens it restores nothing"
    assert box.warnings == restore(box, held) == []
    assert listing(box.root, git_too=True) == before
    assert box.beside == set()


def test_unrestored_paths_are_reported(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitlab_nightshift.repository.saved_state.COPIED_BYTES", 10)
    write(box.root, "build/large", "x" * 100)
    held, made = prepare(box)
    with open_prepared(
        made, private=box.private, search_path=os.environ["PATH"], warn=box.warnings.append
    ):
        write(box.root, "build/large", "agent")
    assert restore(box, held) == ["could not be restored: build/large"]
    assert git(box.root, "status", "--porcelain") == ""
    assert box.beside == set()


def test_only_a_clean_checkout_is_prepared(box: Box) -> None:
    write(box.root, "README.md", "mine\n")
    held = hold_state_folder(box.root, box.private.parent)
    with pytest.raises(NightshiftError, match="local changes") as caught:
        prepare_checkout(
            held, box.root, git=box.git, machine_git=box.git, output_dir="nightshift", run_id="1"
        )
    assert caught.value.code is Code.WORKSPACE_DIRTY
    held.close()
    assert box.beside == set()


def test_the_next_start_restores_an_abandoned_checkout(box: Box, tmp_path: Path) -> None:
    before = listing(box.root, git_too=True)
    held, _ = prepare(box)
    held.close()
    held.close()
    assert box.beside == {"shop.nightshift"}
    assert box.repair()
    assert box.beside == set()
    assert listing(box.root, git_too=True) == before
    assert not list(tmp_path.glob("gitlab-nightshift-*"))


# --- what work may do to its own part of the state folder -----------------------------------------


def _pretend_it_never_moved(state: Path) -> None:
    """As if the throw-away was mounted over the real one."""
    (state / "own/shown").mkdir(exist_ok=True)


def _pretend_nothing_began(state: Path) -> None:
    shutil.rmtree(state / "own/shown", ignore_errors=True)


def _remove_all_of_it(state: Path) -> None:
    for path in (state / "own").iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _hold_up_the_reserve(state: Path) -> None:
    (state / "own/reserve").unlink()
    (state / "own/reserve/full").mkdir(parents=True)


def _lead_elsewhere(state: Path) -> None:
    _remove_all_of_it(state)
    (state / "own/shown").symlink_to("/")
    (state / "own/reserve").symlink_to("/etc/passwd")


TRICKS = (
    *(_pretend_it_never_moved, _pretend_nothing_began, _remove_all_of_it),
    *(_hold_up_the_reserve, _lead_elsewhere),
)


def restore_after(box: Box, way: str, trick: Callable[[Path], object]) -> list[str]:
    """Restore a checkout after work has changed files, its git and its part of the folder."""
    held, made = prepare(box)
    if moved := way == "moved":
        move_git(box.root, held.folder)
        made = replace(made, moved=True)
    warn = box.warnings.append
    path = os.environ["PATH"]
    with open_prepared(
        made, private=box.private, search_path=path, warn=warn, use_mounts=way == "mounted"
    ):
        write(box.root, "README.md", "agent\n")
        write(box.root, "new", "agent")
        if moved:
            git(box.root, "config", "core.fsmonitor", "/bin/evil")
    trick(held.folder)
    return restore(box, held)


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("way", ["mounted", "moved"])
def test_work_cannot_influence_the_restore(
    box: Box, way: str, trick: Callable[[Path], object]
) -> None:
    before = listing(box.root, git_too=True)
    assert restore_after(box, way, trick) == []
    assert listing(box.root, git_too=True) == before
    assert box.beside == set()


def test_the_control_would_believe_the_throwaway_was_mounted(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: with ``own/shown``, the real one is believed not to have moved."""
    believed = property(lambda s: s.folder / ("-" if s.shown_git.exists() else "git"))
    monkeypatch.setattr(StateFolder, "real_git", believed)
    restore_after(box, "moved", _pretend_it_never_moved)
    assert "evil" in git(box.root, "config", "core.fsmonitor")


def test_the_control_would_believe_there_is_nothing_to_undo(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: without ``own/shown``, nothing is undone."""
    find = checkout_restore._find_saved
    monkeypatch.setattr(
        checkout_restore,
        "_find_saved",
        lambda s, own: find(s, own) if s.shown_git.exists() else None,
    )
    restore_after(box, "mounted", _pretend_nothing_began)
    assert (box.root / "new").exists()


def test_the_control_would_stop_at_a_damaged_reserve(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: an error at the reserve ends the restore."""

    def hold_up(state: Path) -> None:
        _hold_up_the_reserve(state)
        forgiving = SimpleNamespace(suppress=lambda *_: contextlib.nullcontext())
        monkeypatch.setattr(checkout_restore, "contextlib", forgiving)

    with pytest.raises(OSError, match="reserve"):
        restore_after(box, "moved", hold_up)
    assert "evil" in git(box.root, "config", "core.fsmonitor")


CLOSED = ("", "own", "lock", "note.json", "saved.json", "copies", "git", "git/objects")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
@pytest.mark.parametrize("name", CLOSED)
def test_changed_modes_do_not_prevent_the_restore(name: str) -> None:
    """Landlock does not prevent it, and work may run as the supervisor's user."""
    with open_folder() as folder:
        root, private = folder / "builds/shop", folder / "private"
        new_repository(root)
        private.mkdir(mode=0o700)
        box = Box(root, private, "")
        write(root, "untracked", "mine")
        for path in (folder, *folder.rglob("*")):
            os.lchown(path, PLAIN, PLAIN)
        before = listing(root, git_too=True)

        def close(state: Path) -> None:
            gone(root, "untracked")
            within = (state / name).rglob("*") if name in ("copies", "git/objects") else ()
            for path in (*reversed([*within]), state / name):
                path.chmod(0)

        def go() -> None:
            os.setresgid(PLAIN, PLAIN, PLAIN)
            os.setresuid(PLAIN, PLAIN, PLAIN)
            assert restore_after(box, "moved", close) == []

        assert wait_end(fork(go)) == 0
        now = listing(root, git_too=True)
        changed = {path for path in before if now.get(path) != before[path]} - {b""}
        # A mode that was taken may have been another one.
        assert all(path.startswith(name.replace("git", ".git", 1).encode()) for path in changed)
        assert all(path.startswith(b".git/") for path in changed)
        assert now.keys() == before.keys()
        assert box.beside == set()


def prepare_after_restore(box: Box) -> PreparedCheckout:
    """A checkout after a process that changed a tracked, an ignored and an untracked file."""
    write(box.root, "build/kept", "ignored")
    write(box.root, "mine", "untracked")
    held, made = prepare(box)
    with open_prepared(
        made, private=box.private, search_path=os.environ["PATH"], warn=box.warnings.append
    ):
        for name in ("README.md", "build/kept", "mine", "new"):
            write(box.root, name, "agent")
    reports = [RestoreReport()]
    repair(
        box.root,
        private=box.private,
        search_path=os.environ["PATH"],
        unused_since_run=True,
        receive_report=reports.append,
        held=held,
    )
    assert reports[-1].saved
    return replace(made, saved=reports[-1].saved)


def prepare_again(box: Box, earlier: PreparedCheckout) -> PreparedCheckout | None:
    held = hold_state_folder(box.root, box.private.parent)
    try:
        return prepare_restored(held, earlier, "4712")
    finally:
        held.close()


def test_a_restored_checkout_is_prepared_again_without_git(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(box.root, "checkout", "-q", "--detach")
    earlier = prepare_after_restore(box)
    with monkeypatch.context() as patched:
        patched.setattr(Git, "run", lambda *args, **named: pytest.fail(f"git {args}"))
        held = hold_state_folder(box.root, box.private.parent)
        again = prepare_restored(held, earlier, "4712")
    assert again
    write(box.root, "mine", "agent, once more")
    assert restore(box, held) == []
    anew_held, anew = prepare(box)
    assert (box.root / "mine").read_text() == "untracked"
    assert replace(again.saved, folder=anew.saved.folder, entries=NOTHING) == replace(
        anew.saved, entries=NOTHING
    )
    assert restore(box, anew_held) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda box: write(box.root, "README.md", "else\n"),
        lambda box: write(box.root, "new", "new"),
        lambda box: gone(box.root, "mine"),
        lambda box: (box.root / "mine").chmod(0o600),
        lambda box: (box.root / "mine").touch(),
        lambda box: git(box.root, "update-index", "--assume-unchanged", "README.md"),
        lambda box: write(box.root, ".git/info/attributes", "* text\n"),
        lambda box: write(box.root, ".git/info/exclude", "mine\n"),
        lambda box: git(box.root, "config", "core.autocrlf", "true"),
        lambda box: git(box.root, "checkout", "-q", "-b", "branch"),
        lambda box: git(box.root, "commit", "-q", "--allow-empty", "-m", "more"),
    ],
    ids=(
        "content",
        "new file",
        "deleted file",
        "mode",
        "times",
        "index",
        "attributes",
        "ignore rules",
        "configuration",
        "branch",
        "commit",
    ),
)
def test_after_any_other_change_git_has_to_prepare_it(
    box: Box, change: Callable[[Box], object]
) -> None:
    git(box.root, "checkout", "-q", "--detach")
    earlier = prepare_after_restore(box)
    assert prepare_again(box, earlier)
    shutil.rmtree(find_state_folder(box.root, box.private.parent) or "")
    change(box)
    assert prepare_again(box, earlier) is None


IDENT = "README.md ident\n"
ATTRIBUTES: dict[str, Callable[[Box], object]] = {
    "beside it": lambda box: write(box.root, ".gitattributes", IDENT),
    "ignored": lambda box: (
        write(box.root, ".gitattributes", IDENT),
        write(box.root, ".git/info/exclude", ".gitattributes\n"),
    ),
    "of the repository": lambda box: write(box.root, ".git/info/attributes", IDENT),
    "named by a setting": lambda box: git(
        box.root, "config", "core.attributesFile", str(write(box.private, "attributes", IDENT))
    ),
    "none": lambda _box: None,
}


@pytest.mark.parametrize("where", ATTRIBUTES)
def test_a_file_with_conversions_is_copied_wherever_they_are_set(box: Box, where: str) -> None:
    """A checkout may write other bytes than the blob's, of the same size."""
    ATTRIBUTES[where](box)
    held, made = prepare(box)
    assert ("README.md" in made.saved.blobs) is (where == "none")
    assert ("README.md" in made.saved.copies) is (where != "none")
    restore(box, held)
