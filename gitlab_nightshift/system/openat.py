"""Files below a folder with hostile content: no link is followed, no name is trusted.

Every path is opened component by component from an open folder (openat(2)), so neither a planted
link nor a path too long for the kernel can lead elsewhere. Needs ``/proc``.
"""

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Container, Iterator
from pathlib import Path

_NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | _NO_LINK
_CHUNK = 1 << 20
_BATCH = 100_000
"""Entries of a folder to hold in memory at once."""
Owner = tuple[int, int]
"""User and group."""


class RefusedFileError(Exception):
    """A file was not read; the text is the reason."""


@contextlib.contextmanager
def open_folder(folder: str | Path, dir_fd: int | None = None) -> Iterator[int]:
    """Open a folder, and yield its descriptor. If its mode forbids access and this user owns it,
    the mode is changed."""
    try:
        fd = os.open(folder, _OPEN_FOLDER, dir_fd=dir_fd)
    except PermissionError:
        grant_access(folder, dir_fd)
        fd = os.open(folder, _OPEN_FOLDER, dir_fd=dir_fd)
    try:
        mode = os.fstat(fd).st_mode
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            with contextlib.suppress(PermissionError):
                _change_mode(fd, stat.S_IMODE(mode) | stat.S_IRWXU)
        yield fd
    finally:
        os.close(fd)


def grant_access(name: str | Path, dir_fd: int | None = None) -> None:
    """Give the owner all rights on a folder. A file keeps its mode: it may be a hard link to one
    outside."""
    with pin_file(name, dir_fd) as (link, mode):
        if stat.S_ISDIR(mode):
            _change_mode(link, stat.S_IMODE(mode) | stat.S_IRWXU)


@contextlib.contextmanager
def pin_file(name: str | Path, dir_fd: int | None = None) -> Iterator[tuple[str, int]]:
    """Hold a file by an ``O_PATH`` descriptor, and yield its name in ``/proc`` and its mode."""
    # chmod always follows links (chmod(2)); under the name in /proc it changes exactly this file.
    fd = os.open(name, os.O_PATH | _NO_LINK, dir_fd=dir_fd)
    try:
        yield f"/proc/self/fd/{fd}", os.fstat(fd).st_mode
    finally:
        os.close(fd)


def set_mode(name: str | Path, dir_fd: int | None, mode: int) -> None:
    """``chmod`` that follows no link."""
    with pin_file(name, dir_fd) as (link, _):
        _change_mode(link, mode)


def _change_mode(file: int | str, mode: int) -> None:
    """``chmod`` that raises PermissionError for a read-only file system too, as callers treat both
    alike."""
    try:
        os.chmod(file, mode)  # noqa: PTH101
    except OSError as error:
        if error.errno == errno.EROFS:
            raise PermissionError(errno.EPERM, error.strerror, error.filename) from None
        raise


@contextlib.contextmanager
def open_parent(
    root: Path, path: str, *, create: bool = False, owner: Owner | None = None
) -> Iterator[tuple[int, str]]:
    """Open the folder that contains ``path`` (relative to ``root``), and yield its descriptor and
    the last name of the path.

    With ``create``, missing folders are created for ``owner``, and whatever else is in their place
    is removed.
    """
    *above, name = path.split("/")
    with contextlib.ExitStack() as stack:
        # One by one: O_NOFOLLOW is about the last component only (open(2)).
        fd = stack.enter_context(open_folder(root))
        for part in above:
            if create:
                _create_folder(part, fd, owner)
            fd = stack.enter_context(open_folder(part, fd))
        yield fd, name


def _create_folder(name: str, dir_fd: int, owner: Owner | None) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.lstat(name, dir_fd=dir_fd).st_mode):
            return
        os.unlink(name, dir_fd=dir_fd)
    os.mkdir(name, 0o755, dir_fd=dir_fd)
    if owner:
        with open_folder(name, dir_fd) as folder:
            change_owner(folder, owner)


# --- reading ----------------------------------------------------------------------------------


def read_regular(root: Path, path: str, limit: int, *, allow_links: bool = False) -> bytes:
    """The bytes of a regular file of at most ``limit`` bytes.

    Raises RefusedFileError if it cannot be read, is no regular file, is larger, or (unless
    ``allow_links``) has several hard links: it may be a file outside under another name.
    """
    try:
        with open_parent(root, path) as (fd, name), open_regular(name, fd) as file:
            if not allow_links and os.fstat(file).st_nlink != 1:
                raise RefusedFileError("it has several hard links")
            return _read_bounded(file, limit)
    except OSError as error:
        raise RefusedFileError(f"it cannot be read ({error.strerror})") from None


@contextlib.contextmanager
def open_regular(name: str, dir_fd: int) -> Iterator[int]:
    """Open a regular file for reading, even if its mode forbids it. Raises RefusedFileError."""
    if not stat.S_ISREG(os.lstat(name, dir_fd=dir_fd).st_mode):
        raise RefusedFileError("it is no regular file")
    fd = _open_readable(name, dir_fd)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise RefusedFileError("it is no regular file")
        yield fd
    finally:
        os.close(fd)


def _open_readable(name: str, dir_fd: int) -> int:
    # O_NONBLOCK: if the file was replaced by a FIFO, open must not wait for a writer (fifo(7)).
    flags = os.O_RDONLY | os.O_NONBLOCK | _NO_LINK
    try:
        return os.open(name, flags, dir_fd=dir_fd)
    except PermissionError:
        with pin_file(name, dir_fd) as (link, mode):
            # The mode is changed only while the file is opened: an open descriptor stays readable.
            os.chmod(link, 0o400)  # noqa: PTH101
            try:
                return os.open(name, flags, dir_fd=dir_fd)
            finally:
                os.chmod(link, stat.S_IMODE(mode))  # noqa: PTH101


def _read_bounded(fd: int, limit: int) -> bytes:
    parts: list[bytes] = []
    left = limit + 1  # one byte more shows that the file is too large
    while left and (data := os.read(fd, min(left, _CHUNK))):
        parts.append(data)
        left -= len(data)
    if not left:
        raise RefusedFileError(f"it is larger than {limit} bytes")
    return b"".join(parts)


# --- removing ---------------------------------------------------------------------------------


def remove(name: str, dir_fd: int) -> None:
    """Remove a file or folder, however deeply nested. Raises OSError."""
    # Inner folders are moved up before they are emptied: no recursion, and at most two descriptors.
    if not stat.S_ISDIR(os.lstat(name, dir_fd=dir_fd).st_mode):
        os.unlink(name, dir_fd=dir_fd)
        return
    with open_folder(name, dir_fd) as top:
        folders = _unlink_files(top)
        prefix = f".{os.urandom(8).hex()}-"  # so that no moved folder meets a name that exists
        numbers = itertools.count()
        while folders:
            folder = folders.pop()
            with open_folder(folder, top) as fd:
                for inner in _unlink_files(fd):
                    # To move a folder takes the right to write it: its ".." changes (rename(2)).
                    grant_access(inner, fd)
                    folders.append(f"{prefix}{next(numbers)}")
                    os.rename(inner, folders[-1], src_dir_fd=fd, dst_dir_fd=top)
            os.rmdir(folder, dir_fd=top)
    os.rmdir(name, dir_fd=dir_fd)


def _unlink_files(fd: int) -> list[str]:
    """Unlink everything but folders; returns the names of the folders."""
    folders: dict[str, None] = {}
    for entry in list_entries(fd, folders):
        if entry.is_dir(follow_symlinks=False):
            folders[entry.name] = None
        else:
            os.unlink(entry.name, dir_fd=fd)
    return list(folders)


def list_entries(fd: int, excluded: Container[str]) -> Iterator["os.DirEntry[str]"]:
    """The entries of a folder except the ``excluded`` names. The caller removes each entry, or adds
    its name to ``excluded``: the folder is read in rounds, so that millions of entries are never
    held in memory."""
    while True:
        with os.scandir(fd) as entries:
            batch = list(itertools.islice((e for e in entries if e.name not in excluded), _BATCH))
        if not batch:
            return
        yield from batch


def remove_path(path: Path) -> None:
    """Remove a folder or file by its absolute path, if it exists; links above it are followed."""
    with contextlib.suppress(FileNotFoundError), open_folder(path.parent) as fd:
        remove(path.name, fd)


def remove_tree(path: Path) -> None:
    """Remove as much of a folder as possible, without an error."""
    try:
        remove_path(path)
    except OSError:
        import shutil

        with contextlib.suppress(RecursionError):
            shutil.rmtree(path, ignore_errors=True)


# --- writing ----------------------------------------------------------------------------------


@contextlib.contextmanager
def replace_file(name: str, dir_fd: int, mode: int = 0o600) -> Iterator[int]:
    """Open a new file; at the end of the block it replaces ``name``, whatever that is."""
    # A random name, O_EXCL and O_NOFOLLOW: nobody can plant a link in its place.
    temporary = f".nightshift-{os.urandom(8).hex()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, mode, dir_fd=dir_fd)
    try:
        yield fd
        # Atomic: others see the whole old file or the whole new one (rename(2)).
        _rename_over(temporary, name, dir_fd)
    except BaseException:
        os.unlink(temporary, dir_fd=dir_fd)
        raise
    finally:
        os.close(fd)


def put_link(
    name: str, target: str, dir_fd: int, mtime_ns: int | None = None, owner: Owner | None = None
) -> None:
    """Make a symbolic link that replaces ``name``, whatever that is."""
    temporary = f".nightshift-{os.urandom(8).hex()}"
    os.symlink(target, temporary, dir_fd=dir_fd)
    if owner:
        with pin_file(temporary, dir_fd) as (link, mode):
            if stat.S_ISLNK(mode):
                change_owner(link, owner)
    if mtime_ns is not None:
        os.utime(temporary, ns=(mtime_ns, mtime_ns), dir_fd=dir_fd, follow_symlinks=False)
    _rename_over(temporary, name, dir_fd)


def change_owner(file: int | str, owner: Owner) -> None:
    """Give an open file, or the name from ``pin_file``, to this owner, or at least to its group."""
    # A plain user may only change the group of its files: EPERM. A user namespace may not map the
    # owner: EINVAL (chown(2)).
    status = os.stat(file, follow_symlinks=True)  # noqa: PTH116
    for wanted in (owner, (status.st_uid, owner[1])):
        if (status.st_uid, status.st_gid) == wanted:
            return
        try:
            return os.chown(file, *wanted)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EINVAL):
                raise


def _rename_over(old: str, new: str, dir_fd: int) -> None:
    try:
        os.rename(old, new, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except IsADirectoryError:  # a file cannot replace a folder (rename(2))
        remove(new, dir_fd)
        os.rename(old, new, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)


def write_all(fd: int, data: bytes) -> None:
    """Write all of ``data``."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_chunks(fd: int) -> Iterator[bytes]:
    """The remaining bytes of an open file, in chunks."""
    while data := os.read(fd, _CHUNK):
        yield data


def copy_all(source: int, target: int) -> None:
    """Copy the remaining bytes of an open file."""
    for data in read_chunks(source):
        write_all(target, data)
