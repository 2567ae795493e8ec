"""With Git LFS, unchanged files are no change, and changed ones are refused."""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.repository.conftest import Box
from tests.repository.tools import commit, git, listing, write
from tests.support.programs import need_program

CONTENT = b"\0\1 a large binary file\n" * 40
POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    f"oid sha256:{hashlib.sha256(CONTENT).hexdigest()}\nsize {len(CONTENT)}\n"
).encode()
ATTRIBUTES = "*.bin filter=lfs diff=lfs merge=lfs -text\n"
Edit = Callable[[Path], object]

HONEST: dict[str, Edit] = {
    "another file": lambda root: write(root, "README.md", "changed\n"),
    "rewritten with the same bytes": lambda root: (
        write(root, "asset.bin", (root / "asset.bin").read_bytes()),
        write(root, "new/file.py", "x\n"),
    ),
    "deleted": lambda root: (root / "asset.bin").unlink(),
    "more attributes": lambda root: write(root, ".gitattributes", f"{ATTRIBUTES}*.md text\n"),
    "tracked no more": lambda root: (
        write(root, ".gitattributes", ""),
        write(root, "asset.bin", "text\n"),
    ),
}
REFUSED: dict[str, tuple[str, Edit]] = {
    "changed": ("asset.bin", lambda root: write(root, "asset.bin", "agent\n")),
    "a pointer to nowhere": (
        "asset.bin",
        lambda root: write(root, "asset.bin", POINTER.replace(b"sha256:", b"sha256:00")),
    ),
    "new": ("new.bin", lambda root: write(root, "new.bin", CONTENT)),
    "renamed": ("moved.bin", lambda root: (root / "asset.bin").rename(root / "moved.bin")),
    "executable": ("asset.bin", lambda root: (root / "asset.bin").chmod(0o755)),
    "tracked from now on": (
        "README.md",
        lambda root: (
            write(root, ".gitattributes", f"{ATTRIBUTES}*.md filter=lfs\n"),
            write(root, "README.md", "agent\n"),
        ),
    ),
}


@pytest.fixture(params=["smudged", "pointers", "pointers, no git-lfs"])
def lfs(box: Box, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Box, Path]:
    """A checkout with an LFS file in one of the states that runners leave, and the home."""
    home = tmp_path / "home"
    home.mkdir()
    write(box.root, ".gitattributes", ATTRIBUTES)
    if request.param == "pointers, no git-lfs":
        write(box.root, "asset.bin", POINTER)
        return Box(box.root, box.private, commit(box.root)), home
    need_program("git-lfs")
    git(home, "lfs", "install", "--skip-repo", env={"HOME": str(home)})
    write(box.root, "asset.bin", CONTENT)
    add(box.root, home)
    git(box.root, "commit", "-q", "-m", "an asset", env={"HOME": str(home)})
    base = git(box.root, "rev-parse", "HEAD")
    if request.param == "pointers":
        (box.root / "asset.bin").unlink()
        skip = {"HOME": str(home), "GIT_LFS_SKIP_SMUDGE": "1"}
        git(box.root, "checkout", "-q", "--", "asset.bin", env=skip)
    shown = (box.root / "asset.bin").read_bytes()
    assert shown == (CONTENT if request.param == "smudged" else POINTER)
    return Box(box.root, box.private, base), home


def add(root: Path, home: Path) -> str:
    """The tree that a person's ``git add -A`` makes, with LFS where it is installed."""
    git(root, "add", "-A", env={"HOME": str(home)})
    return git(root, "write-tree")


@pytest.mark.parametrize("name", HONEST)
def test_a_change_of_other_files_is_what_git_add_stores(
    lfs: tuple[Box, Path], tmp_path: Path, name: str
) -> None:
    box, home = lfs
    twin = tmp_path / "twin"
    shutil.copytree(box.root, twin, symlinks=True)
    HONEST[name](twin)
    tree = add(twin, home)
    before = listing(box.root)
    with box.open(real_home=home) as checkout:
        HONEST[name](box.root)
        captured = checkout.capture()
        assert captured.refusals == ()
        assert captured.tree_id == tree
        changed = listing(box.root)
        assert checkout.apply_change(captured) == ()
        assert bytes_of(box.root) == {path: row[2] for path, row in changed.items()}
        assert checkout.restore() == ()
    assert listing(box.root) == before


def bytes_of(root: Path) -> dict[bytes, object]:
    return {path: row[2] for path, row in listing(root).items()}


@pytest.mark.parametrize("name", REFUSED)
def test_a_change_of_an_lfs_file_is_refused_by_name(lfs: tuple[Box, Path], name: str) -> None:
    """Only the pointer would be published, and its content be nowhere."""
    box, home = lfs
    path, edit = REFUSED[name]
    before = listing(box.root)
    with box.open(real_home=home) as checkout:
        edit(box.root)
        (refusal,) = checkout.capture().refusals
        assert str(refusal) == f"{path}: Git LFS keeps its content, which is not uploaded from here"
        assert checkout.restore() == ()
    assert listing(box.root) == before
