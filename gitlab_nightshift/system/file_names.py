"""File names as git and the kernel see them: bytes, held as ``str`` with surrogate escapes."""

import contextlib
import os
import re
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from gitlab_nightshift.text.lazy_patterns import compile_lazily

# Characters that HFS+ ignores in names (git's utf8.c: next_hfs_char).
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
    # NTFS: a stream's name follows a colon, spaces and dots at the end do not count, and git~1 may
    # be the short name (git's path.c: is_ntfs_dotgit).
    name = _HFS_IGNORED.sub("", part).split(":", 1)[0].rstrip(" .").casefold()
    return name in (".git", "git~1")


def path_exists(path: Path) -> bool:
    """True if a path exists, as far as this user can see: False if the folder around it is
    closed."""
    return os.path.exists(path)  # noqa: PTH110 - Path.exists may raise


def resolve_path(path: Path) -> Path:
    """The path with the links in its existing part resolved."""
    return Path(os.path.realpath(path))  # Path.resolve raises for a circle of links


def within(path: str, folder: str) -> bool:
    """True if ``path`` is ``folder`` or lies below it."""
    return path == folder or path.startswith(folder + "/")


def list_parents(path: str) -> tuple[str, ...]:
    """The folders above ``path``, outermost first, without the top itself."""
    parts = path.split("/")[:-1]
    return tuple("/".join(parts[: end + 1]) for end in range(len(parts)))


LONGEST_SOCKET_FOLDER = 60
"""Characters of the path of a folder for sockets: a socket's own path may have 107 (unix(7))."""
LONGEST_RUN_FOLDER_NAME = 20
"""Characters of ``LONGEST_SOCKET_FOLDER`` for the name of a run's own folder, the only one in which
confined work may make sockets."""


@contextlib.contextmanager
def open_short_folder(preferred: Path) -> Iterator[Path]:
    """A private folder with a path short enough for UNIX sockets: in ``preferred``, or in /tmp if
    that path is too long. Raises OSError."""
    import tempfile

    with tempfile.TemporaryDirectory(
        prefix="ns-", dir=_choose_parent(preferred, LONGEST_SOCKET_FOLDER)
    ) as folder:
        yield Path(folder)


def choose_short_parent(preferred: Path) -> Path:
    """``preferred``, or /tmp if paths below it could be too long for UNIX sockets."""
    return _choose_parent(preferred, LONGEST_SOCKET_FOLDER - LONGEST_RUN_FOLDER_NAME)


def _choose_parent(preferred: Path, longest: int) -> Path:
    return preferred if len(str(preferred)) <= longest else Path("/tmp")  # noqa: S108


def open_to_append(path: Path) -> FileIO:
    """Open a file to append to it; refuses a link in its place."""

    def open_plain(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW, 0o666)

    return open(path, "ab", buffering=0, opener=open_plain)
