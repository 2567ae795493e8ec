"""Landlock: a process gives up access to most files, for itself and its descendants.

Rights by ABI: https://docs.kernel.org/userspace-api/landlock.html
"""

import os
import stat
import struct

from .syscalls import make_syscall

# linux/landlock.h
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
ABI_1_RIGHTS = (1 << 13) - 1
READING = EXECUTE | READ_FILE | READ_DIR
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
"""The rights that a file can have, not only a folder."""
BIND_TCP, CONNECT_TCP = 1, 2
ABSTRACT_SOCKETS, SIGNALS = 1, 2
PATH_RULE, PORT_RULE = 1, 2
GET_VERSION = 1
ENOSYS = 38
CAN_MOVE, CAN_TRUNCATE, CAN_LIMIT_TCP, CAN_IOCTL, CAN_SCOPE = 2, 3, 4, 5, 6
"""The first ABIs with a right to move files between folders, and with limits for ``truncate``, TCP,
``ioctl`` of devices, and signals with abstract sockets (landlock(7))."""
LATEST = 6
"""The newest ABI that this module uses."""


def read_abi() -> int:
    """The kernel's Landlock ABI, 0 if it has none."""
    try:
        return make_syscall("landlock_create_ruleset", None, 0, GET_VERSION)
    except OSError:
        return 0


def find_usable_abi() -> int:
    """The ABI that this module uses here, 0 if the kernel has no Landlock."""
    return min(read_abi(), LATEST)


class LandlockPaths:
    """The paths that stay allowed, with all below them; of ``listable`` folders only the lists."""

    def __init__(
        self, readable: list[str], listable: list[str], writable: list[str], devices: list[str]
    ) -> None:
        self.readable, self.listable = readable, listable
        self.writable, self.devices = writable, devices


def restrict(
    version: int, paths: LandlockPaths, ports: list[int] | None, *, binds: bool = True
) -> None:
    """Confine this process to these paths, as far as ABI ``version`` can. Needs no_new_privs.

    ``ports`` are those to which it may connect by TCP, on any host (None: to all). No port may be
    bound if that list is empty, or without ``binds``. A path that cannot be opened grants nothing,
    but writable folders must exist. Raises OSError.
    """
    if read_abi() < version:
        raise OSError(ENOSYS, f"the kernel's Landlock is older than version {version}")
    files = _compute_file_rights(version)
    network = 0
    if ports is not None and version >= CAN_LIMIT_TCP:
        network = CONNECT_TCP if ports and binds else CONNECT_TCP | BIND_TCP
    elif not binds and version >= CAN_LIMIT_TCP:
        network = BIND_TCP
    ruleset = _create_ruleset(version, files, network)
    try:
        for path in paths.readable:
            _allow_path(ruleset, path, files & READING, required=False)
        for path in paths.listable:
            _allow_path(ruleset, path, READ_DIR, required=False)
        for path in paths.writable:
            # A device node would give access to a disk or to memory.
            _allow_path(ruleset, path, files & ~(MAKE_CHAR | MAKE_BLOCK), required=True)
        for path in paths.devices:
            _allow_path(ruleset, path, files & (READ_FILE | WRITE_FILE), required=False)
        for port in ports if network and ports else ():
            rule = struct.pack("=QQ", CONNECT_TCP, port)
            make_syscall("landlock_add_rule", ruleset, PORT_RULE, rule, 0)
        make_syscall("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def restrict_scopes() -> None:
    """Confine signals and abstract sockets of this process to itself and its descendants, but not
    its files, so that it may mount. Needs ABI 6 and no_new_privs. Raises OSError."""
    # A ruleset that handles files would also forbid mount and pivot_root (landlock(7)).
    ruleset = _create_ruleset(CAN_SCOPE, 0, 0)
    try:
        make_syscall("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def _compute_file_rights(version: int) -> int:
    rights = ABI_1_RIGHTS
    for since, right in ((CAN_MOVE, REFER), (CAN_TRUNCATE, TRUNCATE), (CAN_IOCTL, IOCTL_DEV)):
        rights |= right if version >= since else 0
    return rights


def _create_ruleset(version: int, files: int, network: int) -> int:
    scopes = ABSTRACT_SOCKETS | SIGNALS if version >= CAN_SCOPE else 0
    attributes = struct.pack("=QQQ", files, network, scopes)
    # The structure has grown with the ABI (landlock_create_ruleset(2)).
    size = 24
    if version < CAN_LIMIT_TCP:
        size = 8
    elif version < CAN_SCOPE:
        size = 16
    return make_syscall("landlock_create_ruleset", attributes[:size], size, 0)


def _allow_path(ruleset: int, path: str, rights: int, *, required: bool) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        if required:
            raise
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= FILE_RIGHTS  # a right of folders on a file is EINVAL (landlock_add_rule(2))
        if rights:  # so is a rule without rights (ENOMSG), such as listing a file
            rule = struct.pack("=Qi", rights, fd)
            make_syscall("landlock_add_rule", ruleset, PATH_RULE, rule, 0)
    finally:
        os.close(fd)
