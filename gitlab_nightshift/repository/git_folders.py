"""Finds the git folders of a checkout that lie outside it."""

from pathlib import Path

LONGEST = 4096
"""Bytes to read of a file that names a folder."""


def list_git_folders(checkout: Path) -> list[Path]:
    """The git folders of a worktree or submodule, whose ``.git`` is a file that names them; none if
    ``.git`` is a folder (gitrepository-layout(5))."""
    if not (named := _read_folder(checkout / ".git", "gitdir:")):
        return []
    common = _read_folder(named / "commondir", "")
    return [named, *([common] if common else [])]


def _read_folder(file: Path, prefix: str) -> Path | None:
    try:
        with file.open("rb") as opened:
            text = opened.read(LONGEST).decode("utf-8", "surrogateescape").strip()
    except OSError:
        return None
    if not text.startswith(prefix):
        return None
    return (file.parent / text.removeprefix(prefix).strip()).resolve()
