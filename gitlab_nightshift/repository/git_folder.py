"""Reads and writes the files of a git repository without running git, which would take longer."""

import contextlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

NO_BRANCH = "ref: refs/heads/main"
"""A HEAD without a commit."""


_LONGEST = 4096
"""Bytes to read of a file that names a folder."""


def write_git_folder(
    folder: Path,
    config: Mapping[str, str],
    *,
    head: str,
    object_format: str = "sha1",
) -> None:
    """Make an empty repository, as ``git init --template=`` does; ``folder`` may exist.

    ``config`` are settings of ``core``; values that are not a single word are left out. ``head`` is
    a commit id or ``ref: NAME``. Raises OSError.
    """
    for part in ("info", "objects/info", "objects/pack", "refs/heads", "refs/tags"):
        (folder / part).mkdir(parents=True)
    (folder / "HEAD").write_text(f"{head}\n")
    # Git honours extensions only with repositoryFormatVersion 1 (its repository-version document).
    version, extension = 0, ""
    if object_format != "sha1":
        version, extension = 1, f"[extensions]\n\tobjectFormat = {object_format}\n"
    words = {key: value for key, value in config.items() if re.fullmatch(r"\w+", value)}
    lines = "".join(f"\t{key.removeprefix('core.')} = {value}\n" for key, value in words.items())
    text = f"[core]\n\trepositoryFormatVersion = {version}\n{lines}{extension}"
    (folder / "config").write_text(text)


def borrow(objects: Path, lenders: Sequence[Path]) -> None:
    """Let an object folder borrow from others (alternates: gitrepository-layout(5))."""
    listed = b"".join(os.fsencode(lender) + b"\n" for lender in lenders)
    (objects / "info/alternates").write_bytes(listed)


def list_object_folders(objects: Path) -> tuple[Path, ...]:
    """An object folder and those from which it borrows, each once."""
    found: list[Path] = []
    queue = [objects]
    while queue and len(found) < 100:
        if (folder := queue.pop(0)) not in found:
            found.append(folder)
            listed = folder / "info/alternates"
            lines = os.fsdecode(listed.read_bytes()).split("\n") if listed.is_file() else []
            queue += [(folder / line).resolve() for line in lines if line and line[0] != "#"]
    return tuple(found)


def copy_if_present(source: Path, target: Path) -> None:
    """Copy a file's bytes if it exists."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(source, target)


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
            text = opened.read(_LONGEST).decode("utf-8", "surrogateescape").strip()
    except OSError:
        return None
    if not text.startswith(prefix):
        return None
    return (file.parent / text.removeprefix(prefix).strip()).resolve()
