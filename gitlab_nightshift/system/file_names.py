"""File names as git and the kernel see them: bytes, held as ``str`` with surrogate escapes."""

import contextlib
import os
import re
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from gitlab_nightshift.text.lazy_patterns import compile_lazily

_HFS_IGNORED = compile_lazily("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


def format_path(path: str) -> str:
    """A path for display and storage: valid UTF-8, on one line, other bytes as escapes."""
    if path.isascii() and path.isprintable():
        return path
    try:
        text = os.fsencode(path).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # a lone surrogate from an agent's JSON, so not a path from the disk
        text = path
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def is_dot_git(path: str) -> bool:
    """True if git takes a part of ``path`` for ``.git`` on any file system (HFS+, NTFS)."""
    return any(_part_is_dot_git(part) for part in re.split(r"[/\\]", path))


def _part_is_dot_git(part: str) -> bool:
    name = _HFS_IGNORED.sub("", part).split(":", 1)[0].rstrip(" .").casefold()
    return name in (".git", "git~1")


def is_there(path: Path) -> bool:
    """True if a path exists, as far as this user can see."""
    return os.path.exists(path)  # noqa: PTH110 - Path.exists may raise


def resolve_path(path: Path) -> Path:
    """The path with links resolved, as far as it exists."""
    return Path(os.path.realpath(path))  # Path.resolve raises for a circle of links


def within(path: str, folder: str) -> bool:
    """True if ``path`` is ``folder`` or lies below it."""
    return path == folder or path.startswith(folder + "/")


def list_parents(path: str) -> tuple[str, ...]:
    """The folders above ``path``, outermost first, without the top itself."""
    parts = path.split("/")[:-1]
    return tuple("/".join(parts[: end + 1]) for end in range(len(parts)))


LONGEST_FOR_SOCKETS = 60
"""Characters of a folder's path: a socket's may have 107 (unix(7)), and names are appended."""
LONGEST_OWN_NAME = 20
"""Characters of these for a run's own folder, the only one where confined work may put sockets."""


@contextlib.contextmanager
def open_short_folder(preferred: Path) -> Iterator[Path]:
    """A private folder with a path short enough for UNIX sockets: in ``preferred``, else in /tmp.

    Raises OSError if neither is possible.
    """
    import tempfile

    with tempfile.TemporaryDirectory(
        prefix="ns-", dir=_choose(preferred, LONGEST_FOR_SOCKETS)
    ) as folder:
        yield Path(folder)


def choose_short_parent(preferred: Path) -> Path:
    """``preferred``, or /tmp if paths below it could be too long for UNIX sockets."""
    return _choose(preferred, LONGEST_FOR_SOCKETS - LONGEST_OWN_NAME)


def _choose(preferred: Path, longest: int) -> Path:
    return preferred if len(str(preferred)) <= longest else Path("/tmp")  # noqa: S108


def open_to_append(path: Path) -> FileIO:
    """Open a file to append to it; refuses a link in its place."""

    def open_plain(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW, 0o666)

    return open(path, "ab", buffering=0, opener=open_plain)
