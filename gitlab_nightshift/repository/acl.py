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

ATTRIBUTE_NAMES = ("system.posix_acl_access", "system.posix_acl_default")
"""The extended attributes in which Linux keeps the lists; a folder's default is for new files."""

Acls = Mapping[str, bytes]
"""The lists of one file or folder, by the names of their attributes."""


def read_acls(root: Path, entries: TreeSnapshot) -> dict[str, Acls]:
    """The lists of files and folders that have any, by path. No agent may have changed the tree."""
    acls_by_path: dict[str, Acls] = {}
    with contextlib.suppress(NotImplementedError):
        for path, mode in entries.read_modes():
            # A string: to make a Path for each of half a million files takes longer than the call.
            is_file_or_folder = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
            if is_file_or_folder and (acls := _read_file_acls(f"{root}/{path}")):
                acls_by_path[path] = acls
    return acls_by_path


def _read_file_acls(path: str) -> Acls:
    try:
        names = os.listxattr(path, follow_symlinks=False)
        return {name: os.getxattr(path, name) for name in names if name in ATTRIBUTE_NAMES}
    except OSError as error:
        if error.errno == errno.ENOTSUP:  # the file system has no lists: ask about no more files
            raise NotImplementedError from None
        return {}  # nobody can reach the file, so nobody can change its lists


def _set_acl(file: int | str, name: str, value: bytes) -> None:
    try:
        os.setxattr(file, name, value)
    except OSError as error:
        if error.errno == errno.EINVAL:  # a user of the list is not mapped in this user namespace
            raise PermissionError(errno.EPERM, "its user is unknown here", name) from None
        raise


def set_acls(file: int | str, acls: Acls) -> None:
    """Give a file exactly these lists; call it after setting the mode. ``file`` is its descriptor,
    or the link that ``pin_file`` yields. Raises PermissionError."""
    present: list[str] = []
    with contextlib.suppress(OSError):  # the file system has no lists
        present = os.listxattr(file)
    for name in ATTRIBUTE_NAMES:
        if name in acls:
            _set_acl(file, name, acls[name])
        elif name in present:  # a new file inherits the default list of its folder (acl(5))
            with contextlib.suppress(OSError):  # the file is another user's
                os.removexattr(file, name)
