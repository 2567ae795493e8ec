"""Git's own formats, read and written without running git, which would take longer: repository
folders, tree objects, and indexes."""

import contextlib
import hashlib
import os
import re
import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

FOLDER, PLAIN_FILE, PROGRAM = "40000", "100644", "100755"
LINK, SUBMODULE = "120000", "160000"
"""The modes that git stores, in octal digits."""
NO_BRANCH = "ref: refs/heads/main"
"""A HEAD without a commit."""
_LONGEST = 4096
"""Bytes to read of a file that names a folder."""
_MOST_FOLDERS = 100
"""Object folders that a repository may borrow from, however often lenders borrow themselves."""


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
    """Let the object folder ``objects`` borrow from others (alternates:
    gitrepository-layout(5))."""
    listed = b"".join(os.fsencode(lender) + b"\n" for lender in lenders)
    (objects / "info/alternates").write_bytes(listed)


def list_object_folders(objects: Path) -> tuple[Path, ...]:
    """An object folder and those from which it borrows, each once."""
    found: list[Path] = []
    queue = [objects]
    while queue and len(found) < _MOST_FOLDERS:
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


# --- objects, as git cat-file --batch writes them (git-cat-file(1)) -------------------------------


Row = tuple[str, str]
"""An entry of a folder: its mode, as git stores it, and the id of its object."""


def is_full_id(revision: str) -> bool:
    """True for the whole id of an object. Unlike a branch or a short id, it always names the
    same."""
    return re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", revision) is not None


def parse_header(line: str) -> tuple[str, int] | None:
    """The id and the size in bytes of an object, from the line in front of it; None if that says
    ``missing`` or ``ambiguous`` instead."""
    found, *_, size = line.split(" ")
    return (found, int(size)) if size.isdigit() else None


def split_objects(out: bytes) -> Iterator[tuple[str, bytes] | None]:
    """The id and the bytes of each object that was asked for, None for a missing one."""
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        header = parse_header(os.fsdecode(out[at:end]))
        at = end + 1
        if header is None:
            yield None
        else:
            found, size = header
            yield found, out[at : at + size]
            at += size + 1


def parse_rows(data: bytes, length: int) -> Iterator[tuple[str, Row]]:
    """The entries of a tree object by raw name; ids have ``length`` hex digits."""
    at = 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, _, name = data[at:end].partition(b" ")
        at = end + 1 + length // 2
        yield os.fsdecode(name), (mode.decode(), data[end + 1 : at].hex())


# --- indexes --------------------------------------------------------------------------------------


# Of a few files: git takes as long for a whole one as its tree is large. The form
# (gitformat-index(5), versions 2 and 3): a header, entries sorted by path and padded to eight
# bytes, extensions, and a checksum.
_HEADER = struct.Struct(">4sII")
_BEFORE_ID = struct.Struct(">24xI12x")
"""What is in front of an id: times, device, inode, mode, owner and size. All but the mode are
zeros, which tells git that the entry was never compared with a file."""
_FLAGS = struct.Struct(">H")
_LENGTH, _STAGE, _EXTENDED = 0x0FFF, 0x3000, 0x4000
"""The flags behind an id: length of the name, stage of a conflict, and whether more flags
follow."""


def write_index(path: Path, rows: Mapping[str, Row], length: int) -> None:
    """Write an index of these files, by raw path; ids have ``length`` hex digits."""
    named = sorted((os.fsencode(name), row) for name, row in rows.items())
    entries = b"".join(_format_entry(name, row) for name, row in named)
    data = _HEADER.pack(b"DIRC", 2, len(named)) + entries
    path.write_bytes(data + _compute_checksum(data, length))


def read_index(path: Path, length: int) -> dict[str, Row]:
    """The files of an index by raw path; {} if there is no index. Raises ValueError for an index
    with conflicts, or of another version than 2 or 3."""
    if not path.exists():
        return {}
    data = path.read_bytes()
    magic, version, count = _HEADER.unpack_from(data)
    if magic != b"DIRC" or version not in (2, 3):
        raise ValueError(f"an index of version {version}")
    rows: dict[str, Row] = {}
    at = _HEADER.size
    for _ in range(count):
        (mode,) = _BEFORE_ID.unpack_from(data, at)
        start = at + _BEFORE_ID.size + length // 2
        (flags,) = _FLAGS.unpack_from(data, start)
        if flags & _STAGE:
            raise ValueError("an index with conflicts")
        first = start + (4 if flags & _EXTENDED else 2)
        end = data.index(b"\0", first)
        blob = data[start - length // 2 : start].hex()
        rows[os.fsdecode(data[first:end])] = f"{mode:o}", blob
        at += _compute_padded(end - at)
    return rows


def _format_entry(name: bytes, row: Row) -> bytes:
    mode, blob = row
    flags = _FLAGS.pack(min(len(name), _LENGTH))
    entry = _BEFORE_ID.pack(int(mode, 8)) + bytes.fromhex(blob) + flags + name
    return entry.ljust(_compute_padded(len(entry)), b"\0")


def _compute_padded(size: int) -> int:
    """The size of an entry with its padding: a multiple of eight, with at least one NUL."""
    return (size + 8) & ~7


def _compute_checksum(data: bytes, length: int) -> bytes:
    return (hashlib.sha1(data) if length == 40 else hashlib.sha256(data)).digest()  # noqa: S324
