"""A change read without git in the agent's tree is what ``git add -A`` makes of an honest one."""

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
    """A copy of the checkout as it is now, for as long as the block lasts."""
    folder.mkdir()
    twin = folder / "twin"
    shutil.copytree(box.root, twin, symlinks=True)
    yield twin
    shutil.rmtree(folder)


def edit_all(root: Path, names: Iterable[str]) -> None:
    for name in names:
        EDITS[name](root)


def honest(root: Path, names: Iterable[str]) -> str:
    """The tree that a person's ``git add -A`` makes of the same edits."""
    edit_all(root, names)
    git(root, "add", "-A")
    return git(root, "write-tree")


def expected_files(root: Path) -> dict[str, str]:
    out = git(root, "diff", "--cached", "--no-renames", "--name-status", "-z").split("\0")
    return {path: status for status, path in zip(out[::2], out[1::2], strict=False)}


def entries(root: Path) -> dict[bytes, object]:
    """What a listing says but for times, and modes of folders."""
    found = listing(root).items()
    return {path: entry[0] if entry[0] == "folder" else entry[:3] for path, entry in found}


def checked_out(root: Path, captured: CapturedChange, fresh: Path) -> dict[bytes, object]:
    """A new folder of what git makes of the patch on top of the base."""
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


def make_furnished(root: Path) -> str:
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
    root = Path(tempfile.mkdtemp(prefix="furnished-", dir=kept.folder), "shop")
    return root, make_furnished(root)


@pytest.fixture
def furnished(box: Box) -> Box:
    made, base = _first()
    shutil.rmtree(box.root)
    shutil.copytree(made, box.root, symlinks=True)
    git(box.root, "update-index", "-q", "--refresh")
    return Box(box.root, box.private, base)


def test_it_is_what_git_makes_of_it(furnished: Box, tmp_path: Path) -> None:
    """What ``git add -A`` would store, and applied again what a checkout of that would hold."""
    assert sorted(itertools.chain(*TOGETHER)) == sorted(EDITS)
    failures = []
    before = listing(furnished.root)
    with furnished.open() as checkout:
        for names in TOGETHER:
            with twin_of(furnished, tmp_path / "beside") as twin:
                tree = honest(twin, names)
                edit_all(furnished.root, names)
                captured = checkout.capture()
                write(furnished.root, "build/rubbish", "of the attempt")
                write(furnished.root, "rubbish", "of the attempt")
                told = checkout.apply_change(captured)
                again = checkout.capture()
                found = {
                    "refused": (captured.refusals, ()),
                    "tree": (captured.tree_id, tree),
                    "files": ({f.path: f.status for f in captured.files}, expected_files(twin)),
                    "not laid": (told, ()),
                    "again": (again, captured),
                    "laid": (
                        entries(furnished.root),
                        checked_out(twin, captured, tmp_path / "beside/fresh"),
                    ),
                    "not put back": (checkout.restore(), ()),
                }
                failures += [
                    (names, what, *both) for what, both in found.items() if both[0] != both[1]
                ]
    assert failures == []
    assert listing(furnished.root) == before


def test_under_attributes_and_settings(furnished: Box, tmp_path: Path) -> None:
    names = ("crlf", "gitattributes nested", "executable", "tracked although ignored")
    failures = []
    plain = tmp_path / "plain"
    furnished.root.rename(plain)
    for attributes, text in ATTRIBUTES.items():
        for config in ((), ("core.autocrlf=true", "core.fileMode=false")):
            shutil.copytree(plain, furnished.root, symlinks=True)
            write(furnished.root, ".gitattributes", text)
            commit(furnished.root)
            for setting in config:
                git(furnished.root, "config", *setting.split("="))
            for path in BEFORE:
                (furnished.root / path).unlink()
            git(furnished.root, "reset", "-q", "--hard")
            with twin_of(furnished, tmp_path / "beside") as twin:
                tree = honest(twin, names)
                with furnished.open() as checkout:
                    edit_all(furnished.root, names)
                    if checkout.capture().tree_id != tree:
                        failures.append((attributes, config))
            shutil.rmtree(furnished.root)
    assert failures == []


def test_patch_and_counts_are_gits_own(furnished: Box) -> None:
    with furnished.open() as checkout:
        write(furnished.root, "README.md", "changed\nand more\n")
        write(furnished.root, ODD_NAME, b"\0binary\n\n")
        (furnished.root / "src/app.py").unlink()
        captured = checkout.capture()
    assert (
        b"\nindex " + git(furnished.root, "rev-parse", "HEAD:README.md").encode() in captured.patch
    )
    assert b"GIT binary patch" in captured.patch
    git(furnished.root, "apply", "--cached", "--binary", stdin=captured.patch)
    assert git(furnished.root, "write-tree") == captured.tree_id
    counts = {file.path: (file.added, file.deleted) for file in captured.files}
    assert counts == {"README.md": (2, 1), "src/app.py": (0, 5), ODD_NAME: (2, 1)}
    names = ("README.md", "odd \\xff\\nname", "src/app.py")
    assert captured.build_proposed() == ProposedChange(names, 4, 7, captured.tree_id)
    assert captured.size == ChangeSize(names, 4, 7)


def test_an_attribute_hides_no_lines(furnished: Box) -> None:
    with furnished.open() as checkout:
        write(furnished.root, ".gitattributes", "*.py -diff\n")
        write(furnished.root, "src/app.py", "changed\n")
        captured = checkout.capture()
    assert {f.path: f.added + f.deleted for f in captured.files}["src/app.py"] == 6


def test_what_was_there_before_is_no_part_of_a_change(furnished: Box) -> None:
    write(furnished.root, "untracked", "mine")
    write(furnished.root, "build/old", "mine")
    with furnished.open() as checkout:
        write(furnished.root, "untracked", "agent")
        write(furnished.root, "build/old", "agent")
        write(furnished.root, "nightshift/plan.json", "agent")
        assert checkout.capture() == CapturedChange(
            git(furnished.root, "rev-parse", "HEAD^{tree}"), (), b""
        )
        assert checkout.capture().empty


def test_a_venv_that_ignores_itself_is_ignored(furnished: Box) -> None:
    write(furnished.root, ".venv/.gitignore", "*\n")
    with furnished.open() as checkout:
        write(furnished.root, ".venv/lib/new.pyc", "x")
        assert checkout.capture().empty


def test_rules_with_two_names_count(furnished: Box) -> None:
    """As pnpm leaves them: hard links into a store."""
    write(furnished.root.parent, "store", "*.cache\n")
    (furnished.root / "node").mkdir()
    (furnished.root / "node/.gitignore").hardlink_to(furnished.root.parent / "store")
    with furnished.open() as checkout:
        write(furnished.root, "node/x.cache", "x")
        assert checkout.capture().empty


def test_an_agents_commit_does_not_matter(furnished: Box) -> None:
    with furnished.open() as checkout:
        write(furnished.root, "README.md", "committed\n")
        commit(furnished.root)
        git(furnished.root, "checkout", "-q", "-b", "mine")
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


def test_what_cannot_be_published_is_refused_by_name(
    furnished: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "MAX_FILE_BYTES", 2000)
    monkeypatch.setattr(capture, "MAX_CHANGE_BYTES", 5000)
    before = listing(furnished.root)
    failures: list[tuple[str, object]] = []
    with furnished.open() as checkout:
        for name, (edit, reason) in REFUSED.items():
            monkeypatch.setattr(capture, "MAX_NEW_ENTRIES", 50 if name == "too many" else 1000)
            edit(furnished.root)
            captured = checkout.capture()
            told = any(reason in str(refusal) for refusal in captured.refusals)
            nothing = CapturedChange("", (), b"", captured.refusals)
            if not told or captured != nothing or captured.empty or "s3cret" in str(captured):
                failures.append((name, captured))
            checkout.restore()
            if {**listing(furnished.root), b"": before[b""]} != before:
                failures.append((name, "not put back"))
        assert checkout.capture().empty
    assert failures == []
    assert listing(furnished.root) == before


def test_a_large_file_only_touched_is_no_change(
    furnished: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(furnished.root, "large", b"x" * 5000)
    write(furnished.root, "large.lfs", b"x" * 5000)
    write(furnished.root, ".gitattributes", "*.lfs filter=lfs\n")
    commit(furnished.root)
    monkeypatch.setattr(capture, "MAX_FILE_BYTES", 2000)
    with furnished.open() as checkout:
        for name in ("large", "large.lfs"):
            os.utime(furnished.root / name)
        assert checkout.capture().empty
        write(furnished.root, "large", b"y" * 5000)
        (furnished.root / "large.lfs").chmod(0o755)
        assert [refusal.path for refusal in checkout.capture().refusals][:2] == [
            "large",
            "large.lfs",
        ]


def test_submodules_are_refused(furnished: Box, tmp_path: Path) -> None:
    repository(tmp_path / "other", {"a": "b", "c": "d"})
    git(furnished.root, "submodule", "--quiet", "add", str(tmp_path / "other"), "module")
    commit(furnished.root)
    before = listing(furnished.root)
    with furnished.open() as checkout:
        write(furnished.root, "module/a", "agent")
        write(furnished.root, "module/new", "agent")
        write(furnished.root, "module/new.log", "ignored")
        (furnished.root / "module/c").unlink()
        assert {str(refusal) for refusal in checkout.capture().refusals} == {
            f"module/{name}: it belongs to a submodule" for name in ("a", "c", "new")
        }
        shutil.rmtree(furnished.root / "module")
        assert "module" in {refusal.path for refusal in checkout.capture().refusals}
    assert listing(furnished.root) == before


def test_links_in_the_tree_lead_no_read_and_no_write_outside(furnished: Box) -> None:
    outside = furnished.root.parent / "outside"
    write(outside, "app.py", "s3cret")
    write(outside, ".gitignore", "*\n")
    with furnished.open() as checkout:
        shutil.rmtree(furnished.root / "src")
        (furnished.root / "src").symlink_to(outside)
        captured = checkout.capture()
        assert [str(refusal) for refusal in captured.refusals] == ["src: it is a symbolic link"]
        assert b"s3cret" not in captured.patch
    assert (outside / "app.py").read_text() == "s3cret"


# --- applying a change ------------------------------------------------------------------------


def test_lay_gives_what_a_checkout_gives(furnished: Box) -> None:
    write(furnished.root, ".gitattributes", "*.txt text eol=crlf\n")
    commit(furnished.root)
    (furnished.root / "run.sh").chmod(0o660)
    with furnished.open() as checkout:
        write(furnished.root, "new.txt", "a\nb\n")
        write(furnished.root, "tool", "x", 0o777)
        (furnished.root / "run.sh").write_text("changed")
        (furnished.root / "run.sh").chmod(0o777)
        checkout.apply_change(checkout.capture())
        assert (furnished.root / "new.txt").read_bytes() == b"a\r\nb\r\n"
        assert (furnished.root / "tool").stat().st_mode & 0o111
        assert (furnished.root / "run.sh").stat().st_mode & 0o777 == 0o770


def test_lay_follows_no_link_and_takes_the_place_of_files(furnished: Box) -> None:
    outside = furnished.root.parent / "outside"
    outside.mkdir()
    (furnished.root / "build").symlink_to(outside)
    write(furnished.root, "data", "an untracked file")
    with furnished.open() as checkout:
        (furnished.root / "build").unlink()
        (furnished.root / "data").unlink()
        write(furnished.root, ".gitignore", "")
        write(furnished.root, "build/file", "x")
        write(furnished.root, "data/file", "x")
        captured = checkout.capture()
        checkout.apply_change(captured)
        assert (furnished.root / "build/file").read_text() == "x"
        assert (furnished.root / "data/file").read_text() == "x"
        assert not any(outside.iterdir())
        assert checkout.restore() == ()
    assert (furnished.root / "build").readlink() == outside
    assert (furnished.root / "data").read_text() == "an untracked file"


def test_a_captured_change_is_fixed(furnished: Box) -> None:
    with furnished.open() as checkout:
        write(furnished.root, "README.md", "verified\n")
        captured = checkout.capture()
        write(furnished.root, "README.md", "something else\n")
        shutil.rmtree(furnished.root / ".git")
        checkout.apply_change(captured)
        assert (furnished.root / "README.md").read_text() == "verified\n"
        assert checkout.capture() == captured
    assert b"verified" in captured.patch
