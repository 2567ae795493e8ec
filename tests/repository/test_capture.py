"""A change is captured as ``git add -A`` would store it, without running git in the tree."""

import contextlib
import itertools
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from gitlab_nightshift.records.products import ChangeSize, ProposedChange
from gitlab_nightshift.repository import capture
from gitlab_nightshift.repository.capture import CapturedChange
from tests.repository.conftest import Box, new_repository
from tests.repository.tools import (
    ODD_NAME,
    commit,
    fifo,
    git,
    gone,
    link,
    listing,
    repository,
    write,
)
from tests.support import kept
from tests.system.test_openat import nest_folders

Edit = Callable[[Path], object]

BEFORE: dict[str, str | bytes] = {
    "README.md": "hello\n",
    "src/app.py": "print('app')\n" * 5,
    "src/lib/util.py": "def one():\n    return 1\n",
    "crlf.txt": "one\r\ntwo\r\n",
    "kept/tracked.log": "tracked although ignored\n",
    "run.sh": "#!/bin/sh\n",
    ODD_NAME: "odd\n",
    ":(top)*": "a pattern as a name\n",
    "-name": "an option as a name\n",
    ".gitignore": "build/\n*.log\n!keep.log\n/only-folder/\n",
    "sub/.gitignore": "*.tmp\n",
}


def moved(root: Path, old: str, new: str) -> None:
    (root / new).parent.mkdir(parents=True, exist_ok=True)
    (root / old).rename(root / new)


def folder_to_link(root: Path) -> None:
    shutil.rmtree(root / "src")
    link(root, "src", "sub")


def file_to_folder(root: Path) -> None:
    (root / "README.md").unlink()
    write(root, "README.md/a/b", "x")


def folder_to_file(root: Path) -> None:
    shutil.rmtree(root / "src")
    write(root, "src", "x")


EDITS: dict[str, Edit] = {
    "modified": lambda root: write(root, "README.md", "changed\n"),
    "unchanged": lambda root: write(root, "README.md", "hello\n"),
    "deleted": lambda root: (root / "src/app.py").unlink(),
    "folder deleted": lambda root: shutil.rmtree(root / "src"),
    "added": lambda root: write(root, "new/file", "x"),
    "empty file": lambda root: write(root, "empty"),
    "binary": lambda root: write(root, "bin", b"\0\1\2\n"),
    "no newline": lambda root: write(root, "README.md", "hello"),
    "executable": lambda root: (root / "run.sh").chmod(0o755),
    "new executable": lambda root: write(root, "tool", "x", 0o711),
    "no rights": lambda root: (root / "README.md").chmod(0o600),
    "renamed": lambda root: moved(root, "src/app.py", "lib/app.py"),
    "renamed folder": lambda root: moved(root, "src", "lib/deep"),
    "link deleted": lambda root: gone(root, "link"),
    "link made again": lambda root: link(root, "link", "README.md"),
    "link to file": lambda root: (gone(root, "link"), write(root, "link", "x")),
    "file to folder": file_to_folder,
    "folder to file": folder_to_file,
    "odd names": lambda root: (write(root, ODD_NAME, "x"), write(root, f"d/{ODD_NAME}", "x")),
    "patterns as names": lambda root: (
        write(root, ":(top)*", "x"),
        write(root, "[a-z]*", "x"),
        write(root, ":!x", "x"),
        write(root, "-name", "x"),
        write(root, "--all", "x"),
    ),
    "empty folder": lambda root: (root / "nothing").mkdir(),
    "ignored": lambda root: (
        write(root, "build/x", "x"),
        write(root, "deep/er/x.log", "x"),
        write(root, "keep.log", "x"),
        write(root, "sub/x.tmp", "x"),
        write(root, "only-folder", "a file"),
    ),
    "ignored folder": lambda root: write(root, "only-folder/x", "x"),
    "excluded": lambda root: write(root, "x.excluded", "x"),
    "tracked although ignored": lambda root: write(root, "kept/tracked.log", "changed"),
    "gitignore changed": lambda root: (
        write(root, ".gitignore", "*.md\n"),
        write(root, "new.md", "x"),
        write(root, "new.log", "x"),
        write(root, "README.md", "still tracked"),
    ),
    "gitignore deleted": lambda root: (
        gone(root, ".gitignore"),
        write(root, "new.log", "x"),
    ),
    "gitignore nested": lambda root: (
        write(root, "new/.gitignore", "*\n!.gitignore\n!yes\n"),
        write(root, "new/yes", "x"),
        write(root, "new/no", "x"),
    ),
    "gitignore in an ignored folder": lambda root: (
        write(root, "build/.gitignore", "!*\n"),
        write(root, "build/x", "x"),
    ),
    "crlf": lambda root: (
        write(root, "new.txt", "a\r\nb\r\n"),
        write(root, "crlf.txt", "one\r\nthree\r\n"),
        write(root, "README.md", "hello\r\n"),
    ),
    "gitattributes changed": lambda root: (
        write(root, ".gitattributes", "*.txt text eol=crlf\n"),
        write(root, "new.txt", "a\r\nb\r\n"),
        write(root, "new.bin", "a\r\nb\r\n"),
        write(root, "crlf.txt", "one\r\nthree\r\n"),
    ),
    "gitattributes nested": lambda root: (
        write(root, "d/.gitattributes", "* text\n"),
        write(root, "d/x", "a\r\n"),
        write(root, "x", "a\r\n"),
    ),
    "ident": lambda root: (
        write(root, "d/.gitattributes", "* ident\n"),
        write(root, "d/x", "$Id: 1234 $\n"),
    ),
    "encoding": lambda root: (
        write(root, "d/.gitattributes", "x working-tree-encoding=UTF-16\n"),
        write(root, "d/x", "näme\n".encode("utf-16")),
    ),
}
TOGETHER = (
    ("unchanged", "empty folder", "link made again", "excluded", "ignored"),
    ("modified", "deleted", "added", "empty file", "binary", "executable", "new executable"),
    ("tracked although ignored", "link deleted"),
    ("folder deleted", "odd names", "patterns as names", "ignored folder"),
    ("no newline", "renamed", "link to file", "encoding"),
    ("no rights", "renamed folder", "gitignore nested", "ident"),
    ("file to folder", "folder to file", "gitignore in an ignored folder"),
    ("gitignore changed",),
    ("gitignore deleted",),
    ("crlf", "gitattributes nested"),
    ("gitattributes changed",),
)
"""Edits of different files: one change each, in which every file is compared."""
ATTRIBUTES = {
    "none": "",
    "auto": "* text=auto\n",
    "crlf": "* text=auto\n*.txt eol=crlf\n",
    "binary": "* -text\n",
}


@contextlib.contextmanager
def twin_of(box: Box, folder: Path) -> Iterator[Path]:
    """A copy of the checkout during the block."""
    folder.mkdir()
    twin = folder / "twin"
    shutil.copytree(box.root, twin, symlinks=True)
    yield twin
    shutil.rmtree(folder)


def edit_all(root: Path, names: Iterable[str]) -> None:
    for name in names:
        EDITS[name](root)


def stage_all(root: Path, names: Iterable[str]) -> str:
    """The tree that ``git add -A`` stores after the same edits."""
    edit_all(root, names)
    git(root, "add", "-A")
    return git(root, "write-tree")


def expected_files(root: Path) -> dict[str, str]:
    out = git(root, "diff", "--cached", "--no-renames", "--name-status", "-z").split("\0")
    return {path: status for status, path in zip(out[::2], out[1::2], strict=False)}


def entries(root: Path) -> dict[bytes, object]:
    """A listing without times, and without modes of folders."""
    found = listing(root).items()
    return {path: entry[0] if entry[0] == "folder" else entry[:3] for path, entry in found}


def checked_out(root: Path, captured: CapturedChange, fresh: Path) -> dict[bytes, object]:
    """A listing of what git checks out after applying the patch to the base."""
    fresh.mkdir()
    env = {"GIT_INDEX_FILE": str(fresh.with_name("index")), "GIT_WORK_TREE": str(fresh)}
    env["GIT_DIR"] = str(root / ".git")
    git(fresh, "read-tree", "HEAD", env=env)
    if captured.files:
        git(fresh, "apply", "--cached", "--binary", stdin=captured.patch, env=env)
    assert git(fresh, "write-tree", env=env) == captured.tree_id
    Path(env["GIT_INDEX_FILE"]).unlink()
    git(fresh, "read-tree", "-m", "-u", captured.tree_id, env=env)
    return entries(fresh)


def make_rich_repository(root: Path) -> str:
    """``BEFORE`` in a repository, and its commit."""
    new_repository(root)
    for path, data in BEFORE.items():
        write(root, path, data)
    link(root, "link", "README.md")
    git(root, "add", "-A", "-f")
    base = commit(root)
    write(root, ".git/info/exclude", "*.excluded\n")
    return base


@cache
def _first() -> tuple[Path, str]:
    root = Path(tempfile.mkdtemp(prefix="rich-", dir=kept.folder), "shop")
    return root, make_rich_repository(root)


@pytest.fixture
def rich_box(box: Box) -> Box:
    made, base = _first()
    shutil.rmtree(box.root)
    shutil.copytree(made, box.root, symlinks=True)
    git(box.root, "update-index", "-q", "--refresh")
    return Box(box.root, box.private, base)


def test_a_change_is_what_git_add_stores(rich_box: Box, tmp_path: Path) -> None:
    """Applied again, it gives what git would check out."""
    assert sorted(itertools.chain(*TOGETHER)) == sorted(EDITS)
    failures = []
    before = listing(rich_box.root)
    with rich_box.open() as checkout:
        for names in TOGETHER:
            with twin_of(rich_box, tmp_path / "beside") as twin:
                tree = stage_all(twin, names)
                edit_all(rich_box.root, names)
                captured = checkout.capture()
                write(rich_box.root, "build/rubbish", "of the attempt")
                write(rich_box.root, "rubbish", "of the attempt")
                unrestored = checkout.apply_change(captured)
                again = checkout.capture()
                found = {
                    "refused": (captured.refusals, ()),
                    "tree": (captured.tree_id, tree),
                    "files": ({f.path: f.status for f in captured.files}, expected_files(twin)),
                    "not applied": (unrestored, ()),
                    "again": (again, captured),
                    "applied": (
                        entries(rich_box.root),
                        checked_out(twin, captured, tmp_path / "beside/fresh"),
                    ),
                    "not restored": (checkout.restore(), ()),
                }
                failures += [
                    (names, what, *both) for what, both in found.items() if both[0] != both[1]
                ]
    assert failures == []
    assert listing(rich_box.root) == before


def test_a_change_follows_attributes_and_settings(rich_box: Box, tmp_path: Path) -> None:
    names = ("crlf", "gitattributes nested", "executable", "tracked although ignored")
    failures = []
    plain = tmp_path / "plain"
    rich_box.root.rename(plain)
    for attributes, text in ATTRIBUTES.items():
        for config in ((), ("core.autocrlf=true", "core.fileMode=false")):
            shutil.copytree(plain, rich_box.root, symlinks=True)
            write(rich_box.root, ".gitattributes", text)
            commit(rich_box.root)
            for setting in config:
                git(rich_box.root, "config", *setting.split("="))
            for path in BEFORE:
                (rich_box.root / path).unlink()
            git(rich_box.root, "reset", "-q", "--hard")
            with twin_of(rich_box, tmp_path / "beside") as twin:
                tree = stage_all(twin, names)
                with rich_box.open() as checkout:
                    edit_all(rich_box.root, names)
                    if checkout.capture().tree_id != tree:
                        failures.append((attributes, config))
            shutil.rmtree(rich_box.root)
    assert failures == []


def test_patch_and_line_counts_are_those_of_git(rich_box: Box) -> None:
    with rich_box.open() as checkout:
        write(rich_box.root, "README.md", "changed\nand more\n")
        write(rich_box.root, ODD_NAME, b"\0binary\n\n")
        (rich_box.root / "src/app.py").unlink()
        captured = checkout.capture()
    assert (
        b"\nindex " + git(rich_box.root, "rev-parse", "HEAD:README.md").encode() in captured.patch
    )
    assert b"GIT binary patch" in captured.patch
    git(rich_box.root, "apply", "--cached", "--binary", stdin=captured.patch)
    assert git(rich_box.root, "write-tree") == captured.tree_id
    counts = {file.path: (file.added, file.deleted) for file in captured.files}
    assert counts == {"README.md": (2, 1), "src/app.py": (0, 5), ODD_NAME: (2, 1)}
    names = ("README.md", "odd \\xff\\nname", "src/app.py")
    assert captured.build_proposed() == ProposedChange(names, 4, 7, captured.tree_id)
    assert captured.size == ChangeSize(names, 4, 7)


def test_an_attribute_hides_no_lines(rich_box: Box) -> None:
    with rich_box.open() as checkout:
        write(rich_box.root, ".gitattributes", "*.py -diff\n")
        write(rich_box.root, "src/app.py", "changed\n")
        captured = checkout.capture()
    assert {f.path: f.added + f.deleted for f in captured.files}["src/app.py"] == 6


def test_untracked_files_that_existed_before_are_no_change(rich_box: Box) -> None:
    write(rich_box.root, "untracked", "mine")
    write(rich_box.root, "build/old", "mine")
    with rich_box.open() as checkout:
        write(rich_box.root, "untracked", "agent")
        write(rich_box.root, "build/old", "agent")
        write(rich_box.root, "nightshift/plan.json", "agent")
        assert checkout.capture() == CapturedChange(
            git(rich_box.root, "rev-parse", "HEAD^{tree}"), (), b""
        )
        assert checkout.capture().empty


def test_a_venv_that_ignores_itself_is_ignored(rich_box: Box) -> None:
    write(rich_box.root, ".venv/.gitignore", "*\n")
    with rich_box.open() as checkout:
        write(rich_box.root, ".venv/lib/new.pyc", "x")
        assert checkout.capture().empty


def test_hard_linked_ignore_files_count(rich_box: Box) -> None:
    """pnpm makes hard links into a store."""
    write(rich_box.root.parent, "store", "*.cache\n")
    (rich_box.root / "node").mkdir()
    (rich_box.root / "node/.gitignore").hardlink_to(rich_box.root.parent / "store")
    with rich_box.open() as checkout:
        write(rich_box.root, "node/x.cache", "x")
        assert checkout.capture().empty


def test_an_agents_commit_makes_no_difference(rich_box: Box) -> None:
    with rich_box.open() as checkout:
        write(rich_box.root, "README.md", "committed\n")
        commit(rich_box.root)
        git(rich_box.root, "checkout", "-q", "-b", "mine")
        assert [file.path for file in checkout.capture().files] == ["README.md"]


# --- refusals ---------------------------------------------------------------------------------


def _hard_link(root: Path) -> None:
    write(root.parent, "secret", "s3cret")
    (root / "stolen").hardlink_to(root.parent / "secret")


def _socket(root: Path) -> None:
    """Bound by a short name: a socket's path has at most 107 bytes."""
    with socket.socket(socket.AF_UNIX) as unix, contextlib.chdir(root):
        unix.bind("sock")


REFUSED: dict[str, tuple[Edit, str]] = {
    "link": (lambda root: link(root, "new", "README.md"), "new: it is a symbolic link"),
    "link out": (lambda root: link(root, "new", "/etc/passwd"), "new: it is a symbolic link"),
    "broken link": (lambda root: link(root, "new", "no\nwhere"), "new: it is a symbolic link"),
    "link elsewhere": (lambda root: link(root, "link", "run.sh"), "link: it is a symbolic link"),
    "file to link": (
        lambda root: link(root, "README.md", "src/app.py"),
        "README.md: it is a symbolic link",
    ),
    "folder to link": (folder_to_link, "src: it is a symbolic link"),
    "gitignore as link": (
        lambda root: (write(root, "rules", "*\n"), link(root, "sub/.gitignore", "../rules")),
        "sub/.gitignore: it is a symbolic link",
    ),
    "hard link": (_hard_link, "stolen: it has several hard links"),
    "fifo": (lambda root: fifo(root, "pipe"), "pipe: it is no file or folder"),
    "socket": (_socket, "sock: it is no file or folder"),
    "file to fifo": (
        lambda root: fifo(root, "README.md"),
        "README.md: it is no file or folder",
    ),
    "too large": (
        lambda root: write(root, "large", b"x" * 2001),
        "large: it is larger than 2000 bytes",
    ),
    "all too large": (
        lambda root: [write(root, f"f{n}", b"x" * 1900) for n in range(3)],
        "the change is larger than 5000 bytes",
    ),
    "dot git": (
        lambda root: write(root, "d/.GIT/config", "x"),
        "d/.GIT/config: git reserves such names",
    ),
    "nested repository": (
        lambda root: repository(root / "nested", {"a": "b"}),
        "nested/.git/HEAD: git reserves such names",
    ),
    "filter": (
        lambda root: (
            write(root, ".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n"),
            write(root, "x.bin", "x"),
        ),
        "x.bin: Git LFS keeps its content",
    ),
    "too deep": (lambda root: nest_folders(root / "src", 300), ": its path is too long"),
    "too deep by short names": (
        lambda root: write(root, "/".join("d" * 300), "x"),
        ": it is no file or folder",
    ),
    "too long": (
        lambda root: write(root, "/".join(["d" * 200] * 11), "x"),
        ": its path is too long",
    ),
    "too many": (
        lambda root: [write(root, f"many/{n}") for n in range(60)],
        "more than 50 new files and folders",
    ),
    "wrong encoding": (
        lambda root: (
            write(root, ".gitattributes", "*.u working-tree-encoding=UTF-16LE-BOM\n"),
            write(root, "x.u", b"\xff\xfeodd"),
        ),
        "the change cannot be stored: git update-index: ",
    ),
}


def test_unpublishable_paths_are_refused_by_name(
    rich_box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "MAX_FILE_BYTES", 2000)
    monkeypatch.setattr(capture, "MAX_CHANGE_BYTES", 5000)
    before = listing(rich_box.root)
    failures: list[tuple[str, object]] = []
    with rich_box.open() as checkout:
        for name, (edit, reason) in REFUSED.items():
            monkeypatch.setattr(capture, "MAX_NEW_ENTRIES", 50 if name == "too many" else 1000)
            edit(rich_box.root)
            captured = checkout.capture()
            has_reason = any(reason in str(refusal) for refusal in captured.refusals)
            nothing = CapturedChange("", (), b"", captured.refusals)
            if not has_reason or captured != nothing or captured.empty or "s3cret" in str(captured):
                failures.append((name, captured))
            checkout.restore()
            if {**listing(rich_box.root), b"": before[b""]} != before:
                failures.append((name, "not restored"))
        assert checkout.capture().empty
    assert failures == []
    assert listing(rich_box.root) == before


def test_a_large_file_only_touched_is_no_change(
    rich_box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(rich_box.root, "large", b"x" * 5000)
    write(rich_box.root, "large.lfs", b"x" * 5000)
    write(rich_box.root, ".gitattributes", "*.lfs filter=lfs\n")
    commit(rich_box.root)
    monkeypatch.setattr(capture, "MAX_FILE_BYTES", 2000)
    with rich_box.open() as checkout:
        for name in ("large", "large.lfs"):
            os.utime(rich_box.root / name)
        assert checkout.capture().empty
        write(rich_box.root, "large", b"y" * 5000)
        (rich_box.root / "large.lfs").chmod(0o755)
        assert [refusal.path for refusal in checkout.capture().refusals][:2] == [
            "large",
            "large.lfs",
        ]


def test_submodules_are_refused(rich_box: Box, tmp_path: Path) -> None:
    repository(tmp_path / "other", {"a": "b", "c": "d"})
    git(rich_box.root, "submodule", "--quiet", "add", str(tmp_path / "other"), "module")
    commit(rich_box.root)
    before = listing(rich_box.root)
    with rich_box.open() as checkout:
        write(rich_box.root, "module/a", "agent")
        write(rich_box.root, "module/new", "agent")
        write(rich_box.root, "module/new.log", "ignored")
        (rich_box.root / "module/c").unlink()
        assert {str(refusal) for refusal in checkout.capture().refusals} == {
            f"module/{name}: it belongs to a submodule" for name in ("a", "c", "new")
        }
        shutil.rmtree(rich_box.root / "module")
        assert "module" in {refusal.path for refusal in checkout.capture().refusals}
    assert listing(rich_box.root) == before


def test_no_link_is_followed_out_of_the_tree(rich_box: Box) -> None:
    outside = rich_box.root.parent / "outside"
    write(outside, "app.py", "s3cret")
    write(outside, ".gitignore", "*\n")
    with rich_box.open() as checkout:
        shutil.rmtree(rich_box.root / "src")
        (rich_box.root / "src").symlink_to(outside)
        captured = checkout.capture()
        assert [str(refusal) for refusal in captured.refusals] == ["src: it is a symbolic link"]
        assert b"s3cret" not in captured.patch
    assert (outside / "app.py").read_text() == "s3cret"


# --- applying a change ------------------------------------------------------------------------


def test_an_applied_change_is_what_a_checkout_writes(rich_box: Box) -> None:
    write(rich_box.root, ".gitattributes", "*.txt text eol=crlf\n")
    commit(rich_box.root)
    (rich_box.root / "run.sh").chmod(0o660)
    with rich_box.open() as checkout:
        write(rich_box.root, "new.txt", "a\nb\n")
        write(rich_box.root, "tool", "x", 0o777)
        (rich_box.root / "run.sh").write_text("changed")
        (rich_box.root / "run.sh").chmod(0o777)
        checkout.apply_change(checkout.capture())
        assert (rich_box.root / "new.txt").read_bytes() == b"a\r\nb\r\n"
        assert (rich_box.root / "tool").stat().st_mode & 0o111
        assert (rich_box.root / "run.sh").stat().st_mode & 0o777 == 0o770


def test_an_applied_change_follows_no_link_and_replaces_files(rich_box: Box) -> None:
    outside = rich_box.root.parent / "outside"
    outside.mkdir()
    (rich_box.root / "build").symlink_to(outside)
    write(rich_box.root, "data", "an untracked file")
    with rich_box.open() as checkout:
        (rich_box.root / "build").unlink()
        (rich_box.root / "data").unlink()
        write(rich_box.root, ".gitignore", "")
        write(rich_box.root, "build/file", "x")
        write(rich_box.root, "data/file", "x")
        captured = checkout.capture()
        checkout.apply_change(captured)
        assert (rich_box.root / "build/file").read_text() == "x"
        assert (rich_box.root / "data/file").read_text() == "x"
        assert not any(outside.iterdir())
        assert checkout.restore() == ()
    assert (rich_box.root / "build").readlink() == outside
    assert (rich_box.root / "data").read_text() == "an untracked file"


def test_a_captured_change_cannot_be_altered(rich_box: Box) -> None:
    with rich_box.open() as checkout:
        write(rich_box.root, "README.md", "verified\n")
        captured = checkout.capture()
        write(rich_box.root, "README.md", "something else\n")
        shutil.rmtree(rich_box.root / ".git")
        checkout.apply_change(captured)
        assert (rich_box.root / "README.md").read_text() == "verified\n"
        assert checkout.capture() == captured
    assert b"verified" in captured.patch
