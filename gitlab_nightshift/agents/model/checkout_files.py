"""The files of a checkout as a model's tools see them: as they are, or with proposed edits.

Folders are opened one by one and files by the folder's descriptor, so that no link is followed.
Changes are made all or none. Unlike ``system/openat.py``, this also serves a person's own checkout,
so it never changes a folder's mode.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from gitlab_nightshift.agents.model.edits import (
    Edit,
    NotApplicableError,
    ReadFile,
    UnreadableFileError,
    find_path_problem,
)
from gitlab_nightshift.repository.git import Git
from gitlab_nightshift.system.openat import write_all

LARGEST_FILE = 5_000_000
"""Bytes; no change may have a larger file."""
_OPEN = os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_REASONS = {
    errno.ELOOP: "a part of the path is a symbolic link",
    errno.ENOTDIR: "a part of the path is a file or a link, not a folder",
    errno.EISDIR: "a folder",
}


def make_reader(top: Path) -> ReadFile:
    """A reader of files below ``top``."""
    return lambda path: _read(top, path)


def list_folder(top: Path, path: str) -> list[str]:
    """The names in a folder ("": the top itself); folders end in a slash. Raises
    UnreadableFileError."""
    try:
        with contextlib.ExitStack() as stack:
            fd, _ = _open_parent(top, f"{path}/." if path else ".", stack)
            entries = stack.enter_context(os.scandir(fd))
            return sorted(
                f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
                for entry in entries
            )
    except OSError as error:
        raise UnreadableFileError(_describe_error(error)) from None


def apply(top: Path, edits: Iterable[Edit]) -> None:
    """Make the changes below ``top``, all or none.

    Raises :class:`NotApplicableError` if a file cannot be written or has changed since it was read.
    """
    with contextlib.ExitStack() as stack:
        undo_log = _UndoLog()
        try:
            staged = [_stage_file(top, edit, stack, undo_log) for edit in edits]
            for file in staged:  # only once all are written: most failures happen before
                _replace_file(file, undo_log)
        except BaseException:
            undo_log.undo()
            raise
        undo_log.finish()


@dataclass(frozen=True)
class _StagedFile:
    """A file to replace: its folder's descriptor and its name there, the name of the new file
    beside it ("": delete the old one), and whether there is an old file."""

    path: str
    fd: int
    name: str
    new_name: str
    has_old: bool


@dataclass
class _UndoLog:
    """The steps done so far, to be undone: files written beside their targets, folders created, old
    files moved aside, and new files put in their places."""

    staged: list[tuple[int, str]] = field(default_factory=list)
    folders: list[tuple[int, str]] = field(default_factory=list)
    backups: list[tuple[int, str, str]] = field(default_factory=list)
    placed: list[tuple[int, str]] = field(default_factory=list)

    def undo(self) -> None:
        # New files first, as they have the old ones' names; folders last, as they must be empty.
        for fd, name in reversed(self.placed):
            os.unlink(name, dir_fd=fd)
        for fd, name, backup in reversed(self.backups):
            os.rename(backup, name, src_dir_fd=fd, dst_dir_fd=fd)
        for fd, name in self.staged:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=fd)
        for fd, name in reversed(self.folders):
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=fd)

    def finish(self) -> None:
        for fd, _, backup in self.backups:
            os.unlink(backup, dir_fd=fd)


def _read(top: Path, path: str) -> bytes | None:
    try:
        with contextlib.ExitStack() as stack:
            fd, name = _open_parent(top, path, stack)
            return _read_content(stack.enter_context(_open_at(name, fd)))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableFileError(_describe_error(error)) from None


def _read_content(fd: int) -> bytes:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableFileError("not a regular file")
    if status.st_nlink != 1:
        raise UnreadableFileError("it has several hard links; another of its names may lie outside")
    parts, left = list[bytes](), LARGEST_FILE + 1
    while left and (data := os.read(fd, min(left, 1 << 20))):
        parts.append(data)
        left -= len(data)
    if not left:
        raise UnreadableFileError(f"larger than {LARGEST_FILE} bytes")
    return b"".join(parts)


# O_NONBLOCK: to open a FIFO would wait for its writer.
@contextlib.contextmanager
def _open_at(
    name: str, dir_fd: int | None, flags: int = os.O_RDONLY | os.O_NONBLOCK
) -> Iterator[int]:
    fd = os.open(name, flags | _OPEN, dir_fd=dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)


def _open_parent(
    top: Path, path: str, stack: contextlib.ExitStack, undo_log: _UndoLog | None = None
) -> tuple[int, str]:
    """The descriptor of a path's folder, and the last name; with ``undo_log``, missing folders are
    created."""
    # Part by part: O_NOFOLLOW is about the last part of a path alone (open(2)), and a link above it
    # could lead out of the checkout.
    *folders, name = path.split("/")
    fd = stack.enter_context(_open_at(str(top), None, _FOLDER))
    for folder in folders:
        if undo_log is not None:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, dir_fd=fd)
                undo_log.folders.append((fd, folder))
        fd = stack.enter_context(_open_at(folder, fd, _FOLDER))
    return fd, name


def _stage_file(
    top: Path, edit: Edit, stack: contextlib.ExitStack, undo_log: _UndoLog
) -> _StagedFile:
    """Write the new content beside the file, which has to be as it was read."""
    try:
        fd, name = _open_parent(top, edit.path, stack, undo_log)
        mode, owner = _check_unchanged(edit, fd, name)
        new_name = ""
        if edit.after is not None:
            new_name = f".nightshift-{os.urandom(8).hex()}"
            # O_EXCL: nobody else's file, and no link, is opened by this name (open(2)).
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with _open_at(new_name, fd, flags) as file:
                undo_log.staged.append((fd, new_name))
                write_all(file, edit.after)
                # Before the mode: chown clears the set-user-ID and set-group-ID bits (chown(2)).
                if owner:
                    with contextlib.suppress(PermissionError):  # only root may give a file away
                        os.fchown(file, *owner)
                os.fchmod(file, mode)
        return _StagedFile(edit.path, fd, name, new_name, edit.before is not None)
    except OSError as error:
        raise NotApplicableError([f"{edit.path}: {_describe_error(error)}"]) from None


def _check_unchanged(edit: Edit, fd: int, name: str) -> tuple[int, tuple[int, int] | None]:
    """The mode and owner for the new file; the owner is None if there is no old one. Raises
    :class:`NotApplicableError` if the file has changed since it was read."""
    try:
        with _open_at(name, fd) as file:
            status, content = os.fstat(file), _read_content(file)
    except FileNotFoundError:
        content = None
    except UnreadableFileError as error:
        raise NotApplicableError([f"{edit.path}: {error}"]) from None
    if content != edit.before:
        raise NotApplicableError([f"{edit.path}: the file has changed since it was read"])
    if content is None:
        mask = os.umask(0o022)  # the only way to read it is to set it: umask(2)
        os.umask(mask)
        return 0o666 & ~mask, None
    return stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid)


def _replace_file(staged: _StagedFile, undo_log: _UndoLog) -> None:
    """Move the old file aside, and the new one to its place."""
    fd, name = staged.fd, staged.name
    try:
        if staged.has_old:
            # In the same folder, as a rename does not cross file systems (rename(2)).
            backup = f".nightshift-{os.urandom(8).hex()}"
            os.rename(name, backup, src_dir_fd=fd, dst_dir_fd=fd)
            undo_log.backups.append((fd, name, backup))
        if staged.new_name:
            os.rename(staged.new_name, name, src_dir_fd=fd, dst_dir_fd=fd)
            undo_log.placed.append((fd, name))
    except OSError as error:
        raise NotApplicableError([f"{staged.path}: {_describe_error(error)}"]) from None


def _describe_error(error: OSError) -> str:
    return _REASONS.get(error.errno or 0, f"it cannot be used ({error.strerror})")


# --- the files as tools see them ------------------------------------------------------------------


class OutsideError(Exception):
    """A path that tools refuse; the message is for the model."""


@dataclass(frozen=True)
class Workspace:
    """A checkout and the git for it. Files of ``extra_folders`` may be read, too. With
    ``proposed``, edits are collected there and no file is changed. ``is_hidden`` is true for files
    that no tool shows."""

    top: Path
    git: Git
    extra_folders: tuple[Path, ...] = ()
    proposed: dict[str, Edit] | None = None
    is_hidden: Callable[[str], bool] = field(default=lambda path: False)

    def locate(self, argument: str) -> str:
        """The path relative to the checkout's top ("" is the top itself). Raises OutsideError."""
        # Models also give the absolute path, as pwd or a tool's output shows it.
        for top in (str(self.top), os.path.realpath(self.top)):
            if argument == top or argument.startswith(f"{top}/"):
                argument = argument[len(top) :].lstrip("/")
        path = "" if argument in ("", ".", "./") else os.path.normpath(argument)
        if path and (problem := find_path_problem(path)):
            raise OutsideError(f"{argument[:200]!r}: {problem}")
        if path and self.is_hidden(path):
            raise OutsideError(f"{path}: its name says that it holds secrets; it is not shown")
        return path

    def read(self, path: str) -> bytes | None:
        """The file with the proposed edits, None if there is none. Raises UnreadableFileError."""
        edit = (self.proposed or {}).get(path)
        return edit.after if edit else _read(self.top, path)

    def read_extra_file(self, argument: str) -> bytes | None:
        """A file in one of the ``extra_folders``, None for any other path."""
        path = Path(os.path.normpath(argument))
        if path.parent in self.extra_folders and path.is_file():
            return _read(path.parent, path.name)
        return None

    def list_folder(self, path: str) -> list[str]:
        """The names in a folder; folders end in a slash. Raises UnreadableFileError."""
        prefix = f"{path}/" if path else ""
        names = list_folder(self.top, path)
        return [name for name in names if not self.is_hidden(prefix + name)]

    def apply(self, edits: Iterable[Edit]) -> None:
        """Make the changes, all or none. Raises NotApplicableError."""
        if self.proposed is None:
            apply(self.top, edits)
            return
        for edit in edits:
            original = self.proposed.get(edit.path, edit).before
            self.proposed[edit.path] = replace(edit, before=original)
