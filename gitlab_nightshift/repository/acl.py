"""Access control lists of the checkout's files: a rewritten file gets back the one it had.

With a list, the group bits of a file's mode are its mask (acl(5)): without the list, the same mode
would give the group more rights.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from gitlab_nightshift.repository.tree_snapshot import TreeSnapshot

NAMES = ("system.posix_acl_access", "system.posix_acl_default")
"""The extended attributes in which Linux keeps them; the second is for folders."""

Lists = Mapping[str, bytes]


def read_lists(root: Path, entries: TreeSnapshot) -> dict[str, Lists]:
    """The lists of the files and folders that have any. For a tree that no agent has touched."""
    lists_by_path: dict[str, Lists] = {}
    with contextlib.suppress(NotImplementedError):
        for path, mode in entries.read_modes():
            # Text: a path object for each of many files costs more than to ask the kernel.
            if (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and (
                lists := _read_acls(f"{root}/{path}")
            ):
                lists_by_path[path] = lists
    return lists_by_path


def _read_acls(path: str) -> Lists:
    try:
        names = os.listxattr(path, follow_symlinks=False)
        return {name: os.getxattr(path, name) for name in names if name in NAMES}
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            raise NotImplementedError from None
        return {}  # nobody can reach it, so nobody can change it either


def _set(file: int | str, name: str, value: bytes) -> None:
    try:
        os.setxattr(file, name, value)
    except OSError as error:
        if error.errno == errno.EINVAL:  # it names a user that this user namespace does not map
            raise PermissionError(errno.EPERM, "its user is unknown here", name) from None
        raise


def give_lists(file: int | str, lists: Lists) -> None:
    """Give exactly these lists to an open file, or one of ``pin_file``, after its mode is set.

    Removes others: a new file inherits the default list of its folder. Raises PermissionError.
    """
    present: list[str] = []
    with contextlib.suppress(OSError):  # the file system has no lists
        present = os.listxattr(file)
    for name in NAMES:
        if name in lists:
            _set(file, name, lists[name])
        elif name in present:
            with contextlib.suppress(OSError):  # the file is another user's
                os.removexattr(file, name)
