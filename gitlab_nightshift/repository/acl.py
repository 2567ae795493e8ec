"""Access control lists of the checkout's files: a file that is written anew gets the one it had.

With one, a file's group bits are its mask: without it, the same mode would give its group more.
"""

import contextlib
import errno
import os
from collections.abc import Mapping
from pathlib import Path

from gitlab_nightshift.repository.tree_snapshot import EntryKind, Snapshot

NAMES = ("system.posix_acl_access", "system.posix_acl_default")
"""The attributes that Linux keeps them in, as they are (acl(5)); the second is for folders."""

Lists = Mapping[str, bytes]


def read_lists(root: Path, entries: Snapshot) -> dict[str, Lists]:
    """The lists of the files and folders that have any. For a tree that no agent has touched."""
    found: dict[str, Lists] = {}
    with contextlib.suppress(NotImplementedError):
        for path, entry in entries.items():
            if entry.kind in (EntryKind.FILE, EntryKind.FOLDER) and (
                lists := _read_acls(root / path)
            ):
                found[path] = lists
    return found


def _read_acls(place: Path) -> Lists:
    try:
        listed = os.listxattr(place, follow_symlinks=False)
        return {name: os.getxattr(place, name) for name in listed if name in NAMES}
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            raise NotImplementedError from None
        return {}  # it cannot be reached, and so not be changed either


def _set(file: int | str, name: str, value: bytes) -> None:
    try:
        os.setxattr(file, name, value)
    except OSError as error:
        if error.errno == errno.EINVAL:  # it names somebody whom this user namespace does not know
            raise PermissionError(errno.EPERM, "nobody here may name that user", name) from None
        raise


def give_lists(file: int | str, lists: Lists) -> None:
    """Give an open file, or one of ``pin_file``, exactly these; after its mode.

    Raises PermissionError.

    A new file has one where its folder has a default.
    """
    there: list[str] = []
    with contextlib.suppress(OSError):  # the file system knows none
        there = os.listxattr(file)
    for name in NAMES:
        if name in lists:
            _set(file, name, lists[name])
        elif name in there:
            with contextlib.suppress(OSError):  # it is another user's
                os.removexattr(file, name)
