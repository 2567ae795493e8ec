"""Every combination of owner and user of a checkout that runners make.

Each night is a process of that user, in a tree as some executor leaves it.
"""

import os
import shutil
import stat
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from gitlab_nightshift.repository import restore
from gitlab_nightshift.repository.acl import ATTRIBUTE_NAMES
from tests.repository.conftest import Box, new_repository
from tests.repository.tools import fork, git, listing, wait_end, write
from tests.sandbox.tools import open_folder

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")

NOBODY = 54321
"""A user and a group without an entry anywhere, as a container's may be."""
GROUP = 54400
OTHER = 54999


def everything(root: Path) -> list[Path]:
    return [root, *root.rglob("*")]


def give(root: Path, uid: int, gid: int) -> None:
    for path in everything(root):
        os.lchown(path, uid, gid)


def open_to_all(root: Path) -> None:
    """As made under umask 0000."""
    for path in everything(root):
        path.chmod(path.stat().st_mode | 0o666 | (0o111 if path.is_dir() else 0))


def owned_by_user(root: Path) -> None:
    give(root, NOBODY, NOBODY)


def owned_by_another(root: Path) -> None:
    give(root, OTHER, OTHER)
    open_to_all(root)


def of_a_group(root: Path) -> None:
    give(root, 0, GROUP)
    for path in everything(root):
        mode = stat.S_IMODE(path.stat().st_mode) & 0o770
        path.chmod(mode | (mode & 0o700) >> 3 | (0o2000 if path.is_dir() else 0))


def access_list(user: int, rights: int) -> bytes:
    """An access control list as the kernel keeps it: these rights for the owner and one user."""
    nobody = 0xFFFFFFFF
    rows = [(1, rights, nobody), (2, rights, user), (4, 0, nobody), (16, rights, nobody)]
    rows.append((32, 0, nobody))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)


def by_access_list(root: Path) -> None:
    for path in everything(root):
        executable = path.stat().st_mode & 0o100
        for name in ATTRIBUTE_NAMES[: 2 if path.is_dir() else 1]:
            os.setxattr(path, name, access_list(NOBODY, 7 if executable else 6))


def with_closed_parts(root: Path) -> None:
    """Read-only parts of another user, such as a mounted cache or a part of the image."""
    give(root, OTHER, OTHER)
    open_to_all(root)
    write(root, "node_modules/dep/index.js", "1")
    for path in everything(root / "node_modules"):
        os.lchown(path, 0, 0)
        path.chmod(0o555 if path.is_dir() else 0o444)
    (root / "src/lib/util.py").chmod(0o444)
    (root / "src/lib").chmod(0o555)


@dataclass(frozen=True)
class Case:
    """A tree, the user who works in it, and whether restored files get that user as owner."""

    prepare: Callable[[Path], None]
    user: int
    loses_owners: bool = False


CASES = {
    "root in its own": Case(open_to_all, 0),
    "root in another's": Case(owned_by_another, 0),
    "a user in its own": Case(owned_by_user, NOBODY),
    "a user in root's open tree": Case(open_to_all, NOBODY, loses_owners=True),
    "a user in another's open tree": Case(owned_by_another, NOBODY, loses_owners=True),
    "by group": Case(of_a_group, NOBODY, loses_owners=True),
    "by access list": Case(by_access_list, NOBODY, loses_owners=True),
    "with closed parts": Case(with_closed_parts, NOBODY, loses_owners=True),
}


@pytest.fixture
def box() -> Iterator[Box]:
    with open_folder() as folder:
        root = folder / "builds" / "shop"
        base = new_repository(root)
        write(root, "run.sh", "#!/bin/sh\n", 0o755)
        git(root, "add", "run.sh")
        git(root, "commit", "-qm", "run")
        write(root, "build/cache", "by before_script")
        root.chmod(0o755)
        root.parent.chmod(0o777)
        (folder / "private").mkdir(mode=0o700)
        yield Box(root, folder / "private", git(root, "rev-parse", "HEAD") or base)


def as_user(user: int, function: Callable[[], object]) -> int:
    """The exit status of a process of that user that calls a function."""

    def become() -> None:
        os.setgroups([GROUP] if user else [])
        os.setgid(user)
        os.setuid(user)
        function()

    return wait_end(fork(become))


def change_files(root: Path) -> None:
    """Change files in all ways that agents do."""
    with (root / "README.md").open("a") as file:
        file.write("in place\n")
    write(root, "run.sh.new", "#!/bin/sh\nexit 1\n").rename(root / "run.sh")
    shutil.copymode(root / "src/app.py", root / ".gitignore") if os.geteuid() == 0 else None
    (root / "src/app.py").unlink()
    write(root, "build/cache", "poisoned")
    write(root, "build/deep/er/new", "x")
    write(root, "new/file", "x")


def run_night(box: Box, *, use_mounts: bool) -> None:
    """Two attempts; called as the user."""
    with box.open(use_mounts=use_mounts) as checkout:
        for _ in range(2):
            change_files(box.root)
            captured = checkout.capture()
            assert captured.refusals == ()
            names = ["README.md", "new/file", "run.sh", "src/app.py"]
            assert [file.path for file in captured.files] == names
            assert checkout.apply_change(captured) == ()
            assert (box.root / "README.md").read_text().endswith("in place\n")
            assert not (box.root / "src/app.py").exists()
            assert (box.root / "build/cache").read_text() == "by before_script"
            assert checkout.restore() == ()
            assert checkout.capture().empty, "nothing that was put back is taken for a change"
        change_files(box.root)
    (box.private / "warnings").write_text("\n".join(box.warnings))


def contents(root: Path) -> dict[bytes, tuple[object, ...]]:
    """Kinds, modes and bytes; not times."""
    return {path: entry[:3] for path, entry in listing(root, git_too=True).items()}


@dataclass(frozen=True)
class Rights:
    """The owner of a path, and its access control lists."""

    owner: tuple[int, int]
    lists: tuple[bytes, ...]


def prepare(case: Case, root: Path) -> None:
    give(root, 0, 0)
    try:
        case.prepare(root)
    except OSError as error:
        pytest.skip(f"this file system knows no access lists: {error}")


def rights(root: Path) -> dict[str, Rights]:
    found: dict[str, Rights] = {}
    for path in everything(root):
        status = path.lstat()
        lists = tuple(
            os.getxattr(path, name) for name in os.listxattr(path) if name in ATTRIBUTE_NAMES
        )
        found[str(path.relative_to(root))] = Rights((status.st_uid, status.st_gid), lists)
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_tree_is_restored_whoever_owns_it(box: Box, name: str) -> None:
    case = CASES[name]
    os.chown(box.private, case.user, case.user)
    for use_mounts in (False, True):
        prepare(case, box.root)
        before, rights_before = contents(box.root), rights(box.root)
        assert as_user(case.user, partial(run_night, box, use_mounts=use_mounts)) == 0, (
            name,
            use_mounts,
        )
        assert contents(box.root) == before, (name, use_mounts)
        after = rights(box.root)
        given = {path for path in after if after[path] != rights_before[path]}
        assert [path for path in after if after[path].lists != rights_before[path].lists] == []
        touched = {"README.md", "run.sh", "src/app.py", "build/cache"}
        assert given <= (touched if case.loses_owners else set()), (name, use_mounts)
        assert (box.private / "warnings").read_text() == "", "nothing that anybody can mend"
        assert not box.beside, (name, use_mounts)
    assert git(box.root, "-c", "safe.directory=*", "status", "--porcelain") == ""


def test_without_access_lists_the_group_would_get_rights(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: with an access list the group's bits are its mask."""
    prepare(CASES["by access list"], box.root)
    os.chown(box.private, NOBODY, NOBODY)
    monkeypatch.setattr(restore, "set_acls", lambda *_: None)
    for path in everything(box.root):
        if path.is_dir():
            os.removexattr(path, ATTRIBUTE_NAMES[1])
    assert as_user(NOBODY, partial(run_night, box, use_mounts=True)) == 0
    assert (box.root / "README.md").stat().st_mode & 0o060 == 0o060
    assert ATTRIBUTE_NAMES[0] not in os.listxattr(box.root / "README.md")


def test_a_read_only_parent_needs_the_temporary_folder(box: Box) -> None:
    """The state folder is in the folder for temporary files, if on the same file system."""
    open_to_all(box.root)
    box.root.parent.chmod(0o755)
    os.chown(box.private, NOBODY, NOBODY)
    box.private.parent.chmod(0o777)
    before = contents(box.root)
    for use_mounts in (False, True):
        assert as_user(NOBODY, partial(run_night, box, use_mounts=use_mounts)) == 0
        assert contents(box.root) == before
        assert {path.name for path in box.private.parent.iterdir()} == {"builds", "private"}
