"""File names as git and the kernel see them: bytes, held as ``str`` with surrogate escapes."""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from gitlab_nightshift.text.lazy_patterns import compile_lazily

_HFS_IGNORED = compile_lazily("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


def format_path(path: str) -> str:
    """A path as it may be shown and stored: valid UTF-8, on one line, odd bytes as escapes."""
    if path.isascii() and path.isprintable():
        return path
    try:
        text = os.fsencode(path).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half a character, as JSON can hold: no path, an agent's words
        text = path
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def is_dot_git(path: str) -> bool:
    """True where a part of ``path`` is ``.git`` for git on any file system (HFS+, NTFS)."""
    return any(_part_is_dot_git(part) for part in re.split(r"[/\\]", path))


def _part_is_dot_git(part: str) -> bool:
    name = _HFS_IGNORED.sub("", part).split(":", 1)[0].rstrip(" .").casefold()
    return name in (".git", "git~1")


def is_there(path: Path) -> bool:
    """True if a path exists, as far as this user can see."""
    return os.path.exists(path)  # noqa: PTH110 - that of pathlib may raise


def resolve_path(path: Path) -> Path:
    """The path without links; one that leads nowhere stays as it is."""
    return Path(os.path.realpath(path))  # that of pathlib raises where links lead in a circle


def within(path: str, folder: str) -> bool:
    """True where ``path`` is ``folder`` or lies below it."""
    return path == folder or path.startswith(folder + "/")


def list_parents(path: str) -> tuple[str, ...]:
    """The folders above ``path``, outermost first, without the top itself."""
    parts = path.split("/")[:-1]
    return tuple("/".join(parts[: end + 1]) for end in range(len(parts)))


LONGEST_FOR_SOCKETS = 60
"""Characters of a folder's path: a socket's may have 107 (unix(7)), and names are appended."""
LONGEST_OWN_NAME = 20
"""Of these at most a run's own folder there, in which work, being confined, must find room."""


@contextlib.contextmanager
def open_short_folder(preferred: Path) -> Iterator[Path]:
    """A private folder with a path short enough for UNIX sockets: in ``preferred``, else in /tmp.

    Raises OSError where neither can be had.
    """
    with tempfile.TemporaryDirectory(
        prefix="ns-", dir=_choose(preferred, LONGEST_FOR_SOCKETS)
    ) as folder:
        yield Path(folder)


def choose_short_parent(preferred: Path) -> Path:
    """``preferred``, or /tmp where paths below it could be too long for UNIX sockets."""
    return _choose(preferred, LONGEST_FOR_SOCKETS - LONGEST_OWN_NAME)


def _choose(preferred: Path, longest: int) -> Path:
    return preferred if len(str(preferred)) <= longest else Path("/tmp")  # noqa: S108


def open_to_append(path: Path) -> FileIO:
    """A file open to be added to; it follows no link that stands in its place."""

    def open_plain(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW, 0o666)

    return open(path, "ab", buffering=0, opener=open_plain)
