"""Git's own formats, read and written without running git, which would take longer: repository
folders, tree objects, and indexes."""

import contextlib
import hashlib
import os
import re
import shutil
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

FOLDER, PLAIN_FILE, PROGRAM = "40000", "100644", "100755"
LINK, SUBMODULE = "120000", "160000"
"""The modes that git stores, in octal digits."""
UNBORN_HEAD = "ref: refs/heads/main"
"""The content of HEAD before the first commit."""
_LONGEST_LINK = 4096
"""Bytes to read of a file that names a folder."""
_MOST_FOLDERS = 100
"""Object folders of a repository that borrows from others, which may borrow themselves."""


def write_git_folder(
    folder: Path, config: Mapping[str, str], *, head: str, object_format: str = "sha1"
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
    settings = [(key, value) for key, value in config.items() if re.fullmatch(r"\w+", value)]
    lines = "".join(f"\t{key.removeprefix('core.')} = {value}\n" for key, value in settings)
    text = f"[core]\n\trepositoryFormatVersion = {version}\n{lines}{extension}"
    (folder / "config").write_text(text)


def write_alternates(objects: Path, lenders: Sequence[Path]) -> None:
    """Let the object folder ``objects`` borrow from others (gitrepository-layout(5))."""
    lines = b"".join(os.fsencode(lender) + b"\n" for lender in lenders)
    (objects / "info/alternates").write_bytes(lines)


def list_object_folders(objects: Path) -> tuple[Path, ...]:
    """An object folder and those from which it borrows, each once."""
    folders: list[Path] = []
    queue = [objects]
    while queue and len(folders) < _MOST_FOLDERS:
        if (folder := queue.pop(0)) not in folders:
            folders.append(folder)
            file = folder / "info/alternates"
            lines = os.fsdecode(file.read_bytes()).split("\n") if file.is_file() else []
            queue += [(folder / line).resolve() for line in lines if line and line[0] != "#"]
    return tuple(folders)


def copy_if_present(source: Path, target: Path) -> None:
    """Copy a file's bytes if it exists."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(source, target)


def list_git_folders(checkout: Path) -> list[Path]:
    """The git folders of a worktree or submodule, whose ``.git`` is a file that names them; none if
    ``.git`` is a folder (gitrepository-layout(5))."""
    if not (git_dir := _read_link_file(checkout / ".git", "gitdir:")):
        return []
    common_dir = _read_link_file(git_dir / "commondir", "")
    return [git_dir, common_dir] if common_dir else [git_dir]


def _read_link_file(file: Path, prefix: str) -> Path | None:
    """The folder that a file names after ``prefix``; None if it names none."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_LONGEST_LINK).decode("utf-8", "surrogateescape").strip()
    except OSError:
        return None
    if not text.startswith(prefix):
        return None
    return (file.parent / text.removeprefix(prefix).strip()).resolve()


def join_names(paths: Iterable[str]) -> bytes:
    """The paths for git's stdin, with a NUL after each."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def parse_attributes(out: bytes) -> dict[str, str]:
    """Path → value of an attribute that is set, from the rows of ``git check-attr -z``."""
    # A value may be empty: git then looks for a filter with an empty name (its convert.c).
    fields = os.fsdecode(out).split("\0")[:-1]
    rows = zip(fields[::3], fields[2::3], strict=True)
    return {path: value for path, value in rows if value not in ("unspecified", "unset")}


# --- objects, as git cat-file --batch writes them (git-cat-file(1)) -------------------------------


GitEntry = tuple[str, str]
"""An entry of a tree: its mode, as git stores it, and the id of its object."""


def is_full_id(revision: str) -> bool:
    """True for the whole id of an object, which always names the same one, unlike a branch."""
    return re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", revision) is not None


def parse_header(line: str) -> tuple[str, int] | None:
    """The id and the size in bytes of an object, from the line in front of it; None if the line
    says ``missing`` or ``ambiguous`` instead."""
    object_id, *_, size = line.split(" ")
    return (object_id, int(size)) if size.isdigit() else None


def split_objects(out: bytes) -> Iterator[tuple[str, bytes] | None]:
    """The id and the bytes of each requested object, None for a missing one."""
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        header = parse_header(os.fsdecode(out[at:end]))
        at = end + 1
        if header is None:
            yield None
        else:
            object_id, size = header
            yield object_id, out[at : at + size]
            at += size + 1


def parse_tree(data: bytes, id_length: int) -> Iterator[tuple[str, GitEntry]]:
    """The entries of a tree object by raw name; ids have ``id_length`` hex digits."""
    at = 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, _, name = data[at:end].partition(b" ")
        at = end + 1 + id_length // 2
        yield os.fsdecode(name), (mode.decode(), data[end + 1 : at].hex())


# --- indexes --------------------------------------------------------------------------------------


# Indexes of a few files: git takes longer for an index of a whole large tree. The format
# (gitformat-index(5), versions 2 and 3) is a header, entries sorted by path and padded to eight
# bytes, extensions, and a checksum.
_HEADER = struct.Struct(">4sII")
_BEFORE_ID = struct.Struct(">24xI12x")
"""What precedes an id: times, device, inode, mode, owner and size. All but the mode are written as
zeros, which tells git that the entry was never compared with a file."""
_FLAGS = struct.Struct(">H")
_NAME_LENGTH, _STAGE, _EXTENDED = 0x0FFF, 0x3000, 0x4000
"""The flags after an id: length of the name, stage of a conflict, and whether more flags follow."""


def write_index(path: Path, entries: Mapping[str, GitEntry], id_length: int) -> None:
    """Write an index of these files, by raw path; ids have ``id_length`` hex digits."""
    ordered = sorted((os.fsencode(name), entry) for name, entry in entries.items())
    data = _HEADER.pack(b"DIRC", 2, len(ordered))
    data += b"".join(_format_entry(name, entry) for name, entry in ordered)
    path.write_bytes(data + _compute_checksum(data, id_length))


def read_index(path: Path, id_length: int) -> dict[str, GitEntry]:
    """The files of an index by raw path; {} if there is no index. Raises ValueError for an index
    with conflicts, or of another version than 2 or 3."""
    if not path.exists():
        return {}
    data = path.read_bytes()
    magic, version, count = _HEADER.unpack_from(data)
    if magic != b"DIRC" or version not in (2, 3):
        raise ValueError(f"an index of version {version}")
    entries: dict[str, GitEntry] = {}
    at = _HEADER.size
    for _ in range(count):
        (mode,) = _BEFORE_ID.unpack_from(data, at)
        id_start = at + _BEFORE_ID.size
        id_end = id_start + id_length // 2
        (flags,) = _FLAGS.unpack_from(data, id_end)
        if flags & _STAGE:
            raise ValueError("an index with conflicts")
        name_start = id_end + (4 if flags & _EXTENDED else 2)
        name_end = data.index(b"\0", name_start)
        name = os.fsdecode(data[name_start:name_end])
        entries[name] = f"{mode:o}", data[id_start:id_end].hex()
        at += _compute_padded_size(name_end - at)
    return entries


def _format_entry(name: bytes, entry: GitEntry) -> bytes:
    mode, blob = entry
    flags = _FLAGS.pack(min(len(name), _NAME_LENGTH))
    data = _BEFORE_ID.pack(int(mode, 8)) + bytes.fromhex(blob) + flags + name
    return data.ljust(_compute_padded_size(len(data)), b"\0")


def _compute_padded_size(size: int) -> int:
    """The size of an entry with its padding: a multiple of eight, with at least one NUL."""
    return (size + 8) & ~7


def _compute_checksum(data: bytes, id_length: int) -> bytes:
    return (hashlib.sha1(data) if id_length == 40 else hashlib.sha256(data)).digest()  # noqa: S324
