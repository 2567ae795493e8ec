"""Access control lists of the checkout's files: a rewritten file gets back the list it had.

If a file has a list, the group bits of its mode are the mask of that list (acl(5)). Without the
list, the same mode would give the group more rights.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from gitlab_nightshift.repository.tree_snapshot import TreeSnapshot

NAMES = ("system.posix_acl_access", "system.posix_acl_default")
"""The extended attributes in which Linux keeps the lists; a folder's default is for new files."""

Lists = Mapping[str, bytes]


def read_lists(root: Path, entries: TreeSnapshot) -> dict[str, Lists]:
    """The lists by path, of the files and folders that have any, in a tree that no agent has
    touched."""
    lists_by_path: dict[str, Lists] = {}
    with contextlib.suppress(NotImplementedError):
        for path, mode in entries.read_modes():
            # A string: to make a Path for each of half a million files takes longer than the call.
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
        if error.errno == errno.ENOTSUP:  # this file system has no lists: ask about no more files
            raise NotImplementedError from None
        return {}  # nobody can reach the file, so nobody can change its lists


def _set_list(file: int | str, name: str, value: bytes) -> None:
    try:
        os.setxattr(file, name, value)
    except OSError as error:
        if (
            error.errno == errno.EINVAL
        ):  # the list names a user that this user namespace does not map
            raise PermissionError(errno.EPERM, "its user is unknown here", name) from None
        raise


def give_lists(file: int | str, lists: Lists) -> None:
    """Give a file exactly these lists, once its mode is set. ``file`` is its descriptor, or the
    link that ``pin_file`` yields. Raises PermissionError."""
    present: list[str] = []
    with contextlib.suppress(OSError):  # the file system has no lists
        present = os.listxattr(file)
    for name in NAMES:
        if name in lists:
            _set_list(file, name, lists[name])
        elif name in present:  # a new file inherits the default list of its folder (acl(5))
            with contextlib.suppress(OSError):  # the file is another user's
                os.removexattr(file, name)
