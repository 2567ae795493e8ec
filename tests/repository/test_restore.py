"""A restored checkout is as before, path by path."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.repository import checkout_restore, restore, saved_state
from gitlab_nightshift.repository.tree_snapshot import ComparedTree, compare
from gitlab_nightshift.sandbox.process import run_bounded
from tests.repository.conftest import Box, new_repository
from tests.repository.tools import (
    ODD_NAME,
    commit,
    fifo,
    git,
    gone,
    link,
    listing,
    remove_all,
    repository,
    write,
)
from tests.support import kept
from tests.system.test_openat import nest_folders

Edit = Callable[[Path], object]
Action = tuple[str, str, str]


def _rewrite_unseen(root: Path) -> None:
    """Same size, same times: only the ctime shows it."""
    for name in ("README.md", "untracked", "build/old.o"):
        status = (root / name).stat()
        (root / name).write_bytes(b"\0" * status.st_size)
        os.utime(root / name, ns=(status.st_atime_ns, status.st_mtime_ns))


def _folder_for_file(root: Path) -> None:
    (root / "README.md").unlink()
    write(root, "README.md/is/now/a/folder")


def _file_for_folder(root: Path) -> None:
    shutil.rmtree(root / "src")
    write(root, "src", "now a file")


def _link_for_folder(root: Path) -> None:
    """Files that are restored below must not land in the link's target."""
    outside = root.parent / "outside"
    shutil.rmtree(outside, ignore_errors=True)
    (root / "src").rename(outside)
    (root / "src").symlink_to(outside)


def _everything_gone(root: Path) -> None:
    remove_all(root)
    for path in root.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _modes(root: Path) -> None:
    for path in ("README.md", "src", "untracked"):
        (root / path).chmod(0o777)


def _times(root: Path) -> None:
    for path in ("README.md", "src", "empty"):
        os.utime(root / path, (1, 1))


def _closed(root: Path) -> None:
    (root / "README.md").chmod(0)
    (root / "src/lib").chmod(0)
    (root / "src").chmod(0)
    root.chmod(0o500)


EDITS: dict[str, Edit] = {
    "nothing": lambda root: None,
    "tracked rewritten": lambda root: write(root, "README.md", "agent\n"),
    "untracked rewritten": lambda root: write(root, "untracked", "agent"),
    "ignored rewritten": lambda root: write(root, "build/old.o", "agent"),
    "same size and time": _rewrite_unseen,
    "tracked deleted": lambda root: (root / "src/app.py").unlink(),
    "folder deleted": lambda root: shutil.rmtree(root / "src"),
    "all deleted": _everything_gone,
    "new": lambda root: write(root, "new/deep/file"),
    "new and ignored": lambda root: write(root, "build/new/file.o"),
    "new names": lambda root: write(root, f"{ODD_NAME}2/{ODD_NAME}"),
    "renamed": lambda root: (root / "src").rename(root / "source"),
    "modes": _modes,
    "times": _times,
    "closed": _closed,
    "empty folder gone": lambda root: (root / "empty").rmdir(),
    "link changed": lambda root: (gone(root, "link"), link(root, "link", "elsewhere")),
    "link to file": lambda root: (gone(root, "link"), write(root, "link", "file")),
    "file to link": lambda root: link(root, "README.md", "/etc/passwd"),
    "hard links": lambda root: (root / "twin").hardlink_to(root / "README.md"),
    "folder for file": _folder_for_file,
    "file for folder": _file_for_folder,
    "link for folder": _link_for_folder,
    "fifo": lambda root: fifo(root, "README.md"),
    "too deep": lambda root: nest_folders(root / "empty", 400),
    "output folder planted": lambda root: (root / "nightshift").symlink_to("/tmp"),
}


def furnish(box: Box) -> None:
    """Add files like those of a before_script."""
    root = box.root
    write(root, "untracked", "mine", 0o640)
    write(root, "secret", "nobody", 0o000)
    write(root, "build/old.o", "object")
    write(root, "locked/inside", "x")
    write(root, ODD_NAME, "odd")
    (root / "empty").mkdir()
    (root / "link").symlink_to("READ\nME")
    (root / "locked").chmod(0o000)
    os.utime(root / "empty", ns=(1_500_000_000_123_456_789,) * 2)


def test_a_restore_is_exact(box: Box) -> None:
    furnish(box)
    failures = []
    with box.open() as checkout:
        top = {b"": 0}
        before = {**listing(box.root), **top}
        for name, edit in EDITS.items():
            edit(box.root)
            if (told := checkout.restore()) or {**listing(box.root), **top} != before:
                failures.append((name, told))
            if name == "link for folder":
                outside = box.root.parent / "outside"
                assert {path.name for path in outside.iterdir()} == {"app.py", "lib"}
                shutil.rmtree(outside)
    assert failures == []


def test_the_final_restore_is_exact(box: Box) -> None:
    """It includes the top folder and the real ``.git``."""
    furnish(box)
    before, before_git = listing(box.root), listing(box.root / ".git", git_too=True)
    for name in ("nothing", "all deleted", "closed", "new", "fifo", "output folder planted"):
        with box.open():
            assert {**listing(box.root), b"": 0} == {**before, b"": 0}
            EDITS[name](box.root)
        assert listing(box.root) == before, name
        assert listing(box.root / ".git", git_too=True) == before_git, name
        assert not box.beside, name


def test_a_listing_shows_every_edit(box: Box) -> None:
    """The control: the comparison above sees each edit."""
    for name, edit in EDITS.items():
        if name not in ("nothing", "too deep"):
            shutil.rmtree(box.root)
            new_repository(box.root)
            furnish(box)
            before = listing(box.root)
            edit(box.root)
            assert listing(box.root) != before, name
            remove_all(box.root)


def test_large_ignored_folders_are_watched(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_state, "COPIED_BYTES", 100)
    write(box.root, "build/small.o", "s" * 50)
    for name in ("a.js", "b.js", "c.js"):
        write(box.root, f"node_modules/{name}", "n" * 90)
    before = listing(box.root)
    with box.open() as checkout:
        write(box.root, "build/small.o", "agent")
        write(box.root, "node_modules/a.js", "agent")
        (box.root / "node_modules/b.js").unlink()
        write(box.root, "node_modules/new.js", "agent")
        named = ("node_modules/a.js", "node_modules/b.js")
        assert checkout.restore() == named
        assert checkout.restore() == named, "it is told again each time"
        after = listing(box.root)
        assert after.keys() == before.keys() - {b"node_modules/b.js"}
        assert after[b"build/small.o"] == before[b"build/small.o"]
        assert checkout.capture().empty


def test_many_untracked_files_are_watched(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small folders are copied first."""
    monkeypatch.setattr(saved_state, "COPIED_FILES", 3)
    write(box.root, "alone", "x" * 500)
    for name in ("a.js", "b.js"):
        write(box.root, f"build/{name}", "n" * 90)
        write(box.root, f"vendor/{name}", "n" * 900)
    write(box.root, "src/beside", "n" * 10)
    before = listing(box.root)
    with box.open() as checkout:
        for path in ("alone", "src/beside", "vendor/a.js", "build/a.js"):
            write(box.root, path, "agent")
        (box.root / "vendor/b.js").unlink()
        write(box.root, "vendor/new.js", "agent")
        assert checkout.capture().size.files == ("vendor/new.js",)
        assert checkout.restore() == ("vendor/a.js", "vendor/b.js")
        after = listing(box.root)
        assert after.keys() == before.keys() - {b"vendor/b.js"}
        changed = {path for path in before if path and after.get(path) != before[path]}
        assert changed == {b"vendor/a.js", b"vendor/b.js"}
        assert checkout.capture().empty


def test_tracked_files_have_another_limit(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file that an agent changed is reported each time, and stays in the change."""
    monkeypatch.setattr(saved_state, "COPIED_FILES", 0)
    monkeypatch.setattr(saved_state, "COPIED_TRACKED_BYTES", 100)
    write(box.root, ".gitattributes", "*.txt eol=crlf\n")
    write(box.root, "small.txt", "s\r\n")
    write(box.root, "large.txt", "l\r\n" * 100)
    commit(box.root)
    before = listing(box.root)
    with box.open() as checkout:
        for path in ("small.txt", "large.txt", "README.md"):
            write(box.root, path, "agent\r\n")
        assert checkout.restore() == ("large.txt",)
        assert checkout.restore() == ("large.txt",)
        after = listing(box.root)
        assert {path for path in before if path and after[path] != before[path]} == {b"large.txt"}
        assert checkout.capture().size.files == ("large.txt",)


def test_copies_leave_most_of_the_disk_free(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=400))
    for name in ("a", "b"):
        write(box.root, name, "u" * 60)
        write(box.root, f"build/{name}", "i" * 60)
    with box.open() as checkout:
        for path in ("a", "b", "build/a", "build/b"):
            write(box.root, path, "agent")
        assert checkout.restore() == ("b", "build/a", "build/b")


def test_a_full_disk_is_reported(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write(box.root, "untracked", "x")
    before = listing(box.root)
    monkeypatch.setattr(saved_state, "copy_all", full)
    with pytest.raises(NightshiftError, match=r"no space left on the disk of .*: free"), box.open():
        pass
    assert listing(box.root) == before
    assert not box.beside


def test_changes_of_watched_files_by_trusted_commands_stay(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_state, "COPIED_FILES", 0)
    for name in ("a.js", "b.js"):
        write(box.root, f"node_modules/{name}", "n")
    with box.open() as checkout:
        write(box.root, "node_modules/a.js", "baseline")
        (box.root / "node_modules/b.js").unlink()
        assert checkout.restore(keep_watched=True) == ()
        assert checkout.restore() == ()
        assert (box.root / "node_modules/a.js").read_text() == "baseline"
        write(box.root, "node_modules/a.js", "agent")
        assert checkout.restore() == ("node_modules/a.js",)


def test_a_damaged_object_is_never_written(box: Box) -> None:
    blob = git(box.root, "rev-parse", "HEAD:README.md")
    with box.open() as checkout:
        stored = box.root.parent / "shop.nightshift/git/objects" / blob[:2] / blob[2:]
        stored.chmod(0o644)
        stored.write_bytes(stored.read_bytes()[:-4] + b"\0\0\0\0")
        write(box.root, "README.md", "agent")
        assert checkout.restore() == ("README.md",)


@pytest.mark.parametrize(
    "attributes",
    ["* text=auto eol=crlf\n", "* ident\n", "*.txt working-tree-encoding=UTF-16\n", "* -text\n"],
)
def test_converted_files_come_back_byte_for_byte(box: Box, attributes: str) -> None:
    write(box.root, ".gitattributes", attributes)
    write(
        box.root, "a.txt", "$Id$ one\r\ntwo\r\n".encode("utf-16" if "UTF" in attributes else "utf8")
    )
    commit(box.root)
    for path in ("a.txt", "README.md"):
        (box.root / path).unlink()
    git(box.root, "checkout", "-q", "--", ".")
    before = listing(box.root)
    with box.open() as checkout:
        for path in ("a.txt", "README.md"):
            write(box.root, path, "agent")
        assert checkout.restore() == ()
    assert listing(box.root) == before


def test_files_with_a_filter_of_the_machine_come_back(box: Box, tmp_path: Path) -> None:
    """As with LFS, the file in the checkout differs from its blob."""
    filters = '[filter "up"]\n\tclean = tr a-z A-Z\n\tsmudge = tr A-Z a-z\n'
    write(tmp_path / "home", ".gitconfig", filters)
    git(box.root, "config", "include.path", str(tmp_path / "home/.gitconfig"))
    write(box.root, ".gitattributes", "*.up filter=up\n")
    write(box.root, "large.up", "content\n")
    commit(box.root)
    git(box.root, "config", "--unset", "include.path")
    os.utime(box.root / "large.up")
    with pytest.raises(NightshiftError, match=r"large\.up"), box.open():
        pass
    before = listing(box.root)
    with box.open(real_home=tmp_path / "home") as checkout:
        write(box.root, "large.up", "agent\n")
        (refusal,) = checkout.capture().refusals
        assert str(refusal) == "large.up: it needs the filter up"
        assert checkout.restore() == ()
    assert listing(box.root) == before


def test_files_that_git_status_hides_come_back(box: Box) -> None:
    git(box.root, "update-index", "--assume-unchanged", "README.md")
    git(box.root, "update-index", "--skip-worktree", "src/app.py")
    write(box.root, "README.md", "HELLO\n")
    write(box.root, "src/app.py", "PRINT('APP')\n")
    before = listing(box.root)
    with box.open() as checkout:
        write(box.root, "README.md", "agent\n")
        (box.root / "src/app.py").unlink()
        assert checkout.restore() == ()
    assert listing(box.root) == before


def test_nested_repositories_are_like_ignored_files(box: Box) -> None:
    repository(box.root / "nested", {"file": "x"})
    before = listing(box.root)
    with box.open() as checkout:
        write(box.root, "nested/file", "agent")
        write(box.root, "nested/.git/config", "agent")
        write(box.root, "nested/new", "agent")
        assert checkout.capture().empty
        assert checkout.restore() == ()
    assert listing(box.root) == before


def test_root_gives_files_back_to_their_owner(box: Box) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    for path in ("README.md", "src"):
        os.chown(box.root / path, 12345, 12345)
    with box.open():
        (box.root / "README.md").unlink()
        shutil.rmtree(box.root / "src")
    assert {(box.root / path).stat().st_uid for path in ("README.md", "src")} == {12345}


# --- random edits -----------------------------------------------------------------------------

PATHS = ["a", "a/b", "a/b/c", "d", "e/f", "e", ".gitignore", "x.log", "x.log/y", ODD_NAME]
TRACKED = {"a", "a/b", "a/b/c", "d", "e", "e/f", ".gitignore"}
paths = st.sampled_from(PATHS)
actions = st.one_of(
    st.tuples(st.just("write"), paths, st.sampled_from(["", "x", "yy"])),
    st.tuples(st.just("remove"), paths, st.just("")),
    st.tuples(st.just("mkdir"), paths, st.just("")),
    st.tuples(st.just("link"), paths, st.sampled_from([*PATHS, "/etc", ".."])),
    st.tuples(st.just("move"), paths, paths),
    st.tuples(st.just("chmod"), paths, st.sampled_from(["000", "700", "555", "644"])),
    st.tuples(st.just("touch"), paths, st.just("")),
)


def _act(root: Path, action: Action) -> None:
    verb, path, value = action
    place = root / path
    try:
        if verb == "write":
            write(root, path, value)
        elif verb == "remove":
            is_folder = place.is_dir() and not place.is_symlink()
            shutil.rmtree(place) if is_folder else place.unlink()
        elif verb == "mkdir":
            place.mkdir(parents=True)
        elif verb == "link":
            place.symlink_to(value)
        elif verb == "move":
            place.rename(root / value)
        elif verb == "chmod" and not place.is_symlink():
            place.chmod(int(value, 8))
        elif verb == "touch":
            os.utime(place, (1, 1), follow_symlinks=False)
    except (OSError, shutil.Error):
        pass


@cache
def _first() -> Path:
    root = Path(tempfile.mkdtemp(prefix="edited-", dir=kept.folder))
    repository(root, {"a/b/c": "1", "d": "22", ".gitignore": "*.log\n", "e/f": "333"})
    return root


several = st.lists(actions, max_size=12)


@settings(max_examples=20, derandomize=True, suppress_health_check=list(HealthCheck))
@given(before=several, rounds=st.lists(several, min_size=3, max_size=3), last=several)
def test_any_edit_is_undone(
    before: list[Action], rounds: list[list[Action]], last: list[Action]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        box = Box(Path(folder) / "b/r", Path(folder), "")
        shutil.copytree(_first(), box.root)
        for action in before:
            if not TRACKED & {action[1], action[2] if action[0] == "move" else ""}:
                _act(box.root, action)
        start = listing(box.root)
        try:
            with box.open() as checkout:
                for during in rounds:
                    for action in during:
                        _act(box.root, action)
                    assert checkout.restore() == ()
                    assert {**listing(box.root), b"": 0} == {**start, b"": 0}
                assert checkout.capture().empty
                for action in last:
                    _act(box.root, action)
            assert listing(box.root) == start
        finally:
            remove_all(Path(folder))


def test_very_many_new_files_are_removed_without_a_list(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitlab_nightshift.repository.restore.MOST_NEW_ENTRIES", 100)
    monkeypatch.setattr("gitlab_nightshift.system.openat._BATCH", 7)
    before = listing(box.root)
    with box.open() as checkout:
        for folder in ("", "src/", "new/deep/"):
            for number in range(50):
                write(box.root, f"{folder}{number}")
                write(box.root, f"{folder}folder-{number}/file")
        link(box.root, "src/link", "/nowhere")
        gone(box.root, "README.md")
        assert checkout.restore() == ()
    assert listing(box.root) == before


def _apply_captured(
    box: Box, monkeypatch: pytest.MonkeyPatch, *, command: str | None = None
) -> tuple[int, str]:
    """Capture a change and apply it, with a command of the project in between. Returns how often
    the tree was compared to apply it, and then the text of another file."""
    comparisons: list[Path] = []

    def count(root: Path, *args: Any, **named: Any) -> ComparedTree:
        comparisons.append(root)
        return compare(root, *args, **named)

    with box.open() as checkout, monkeypatch.context() as patched:
        patched.setattr(restore, "compare", count)
        write(box.root, "src/app.py", "agent")
        captured = checkout.capture()
        if command:
            argv, env = ["sh", "-c", command], dict(os.environ)
            run_bounded(argv, cwd=box.root, env=env, timeout_s=60, longest=1_000)
        checkout.apply_change(captured, unchanged=True)
        assert (box.root / "src/app.py").read_text() == "agent"
        return len(comparisons), (box.root / "README.md").read_text()


def test_a_captured_tree_is_not_compared_again(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _apply_captured(box, monkeypatch) == (0, "hello\n")


@pytest.mark.parametrize("counted", [True, False])
def test_changes_after_the_capture_are_undone(
    box: Box, monkeypatch: pytest.MonkeyPatch, *, counted: bool
) -> None:
    if not counted:  # the attack, were programs not counted
        monkeypatch.setattr(checkout_restore, "count_started_programs", lambda: 0)
    found = _apply_captured(box, monkeypatch, command="echo planted > README.md")
    assert found == ((1, "hello\n") if counted else (0, "planted\n"))


def test_a_comparison_with_many_differences_is_not_reused(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "MOST_SINGLE_CHECKS", 1)
    assert _apply_captured(box, monkeypatch)[0] > 0
