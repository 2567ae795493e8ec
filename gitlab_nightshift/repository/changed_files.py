"""Finds changed tracked files of the real checkout, before an agent starts.

If a blob has CRLF and attributes convert its line ends, git may call the file modified right after
the checkout, or not: that depends on the timestamp of the index (racy-git). This module calls such
a file unchanged if its bytes are those that a checkout writes.
"""

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.repository.git import Git, GitError, split_names
from gitlab_nightshift.repository.git_formats import join_names, parse_attributes
from gitlab_nightshift.system.file_names import format_path
from gitlab_nightshift.system.openat import RefusedFileError, read_regular
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import join_some

BATCH_BYTES = 32_000_000
"""Bytes of files to compare at once."""
LARGEST_FILE = 20_000_000
"""Bytes of the largest file to compare; a larger one counts as modified."""
MOST_NAMED_PATHS = 10
"""Paths in a message."""

# What a checkout may have converted: line ends, another encoding, ``$Id$`` (gitattributes(5)).
_CONVERTED = compile_lazily(rb"[\r\0\x80-\xff]|\$Id")

RunGit = Callable[..., bytes]
"""Runs a git command in a checkout, by its arguments and ``stdin``, and returns its stdout."""


class _ModifiedBlob(NamedTuple):
    path: str
    blob: str  # in the index
    data: bytes  # in the checkout


@dataclass(frozen=True)
class ModifiedFiles:
    """Two kinds of files that git calls modified: ``untouched`` have the bytes that a checkout
    writes, ``converted`` differ from those bytes only in line ends."""

    untouched: frozenset[str]
    converted: frozenset[str]


def list_changed_files(git: Git, checkout: Path) -> tuple[str, ...]:
    """Tracked files that differ from HEAD, staged or not; ignores submodules."""
    return _find_changed(git, checkout)[0]


def refuse_changed(git: Git, checkout: Path) -> None:
    """Raise E_WORKSPACE_DIRTY for local changes.

    ``git`` needs the machine's configuration: without its filters, LFS files would look changed.
    """
    changed, converted = _find_changed(git, checkout)
    if not changed:
        return
    names = format_some_paths([*map(format_path, changed)])
    text = f"{checkout} has local changes ({names}): commit or undo them first"
    if converted.issuperset(changed):
        text = (
            f"{checkout}: the line ends of {names} are neither those of the commit nor those that"
            " .gitattributes asks for: run `git add --renormalize .`, then commit"
        )
    raise NightshiftError(Code.WORKSPACE_DIRTY, text)


def format_some_paths(paths: Sequence[str]) -> str:
    """Paths for a message: the first ones, and how many more there are."""
    return join_some(paths, MOST_NAMED_PATHS)


def _find_changed(git: Git, checkout: Path) -> tuple[tuple[str, ...], frozenset[str]]:
    """The changed tracked files, and the unstaged ones among them that differ only in line ends."""
    options = ("--porcelain=v1", "-z", "-uno", "--no-renames", "--ignore-submodules=all")
    lines = split_names(git.run("status", *options, cwd=checkout))
    changed = tuple(line[3:] for line in lines)
    unstaged = {line[3:] for line in lines if line.startswith(" M")}
    if not unstaged:
        return changed, frozenset()
    modified = compare_line_ends(functools.partial(git.run, cwd=checkout), checkout)
    untouched = modified.untouched & unstaged
    return tuple(p for p in changed if p not in untouched), modified.converted & unstaged


def list_untouched(run: RunGit, top: Path) -> frozenset[str]:
    """The files that git calls modified although they have the bytes that a checkout writes. Only
    files with bytes that a checkout may have converted are compared."""
    return compare_line_ends(run, top, _CONVERTED.search).untouched


def compare_line_ends(
    run: RunGit, top: Path, select: Callable[[bytes], object] = lambda _data: True
) -> ModifiedFiles:
    """Compare files that git calls modified with the bytes that a checkout would write. Skips files
    whose bytes ``select`` rejects, and files with a filter: running it could fetch."""
    untouched, converted = set[str](), set[str]()
    for files in _read_batches(_list_modified(run), top):
        batch = _drop_filtered(run, [file for file in files if select(file.data)])
        written = _read_as_checked_out(run, batch) if batch else []
        for (path, _, data), expected in zip(batch, written, strict=False):
            if data == expected:
                untouched.add(path)
            elif data.replace(b"\r\n", b"\n") == expected.replace(b"\r\n", b"\n"):
                converted.add(path)
    return ModifiedFiles(frozenset(untouched), frozenset(converted))


def _list_modified(run: RunGit) -> dict[str, str]:
    """The index's blobs of regular files that may differ in content, but not in mode, by path."""
    out = split_names(run("diff-files", "-z", "--raw", "--ignore-submodules=all"))
    blobs = {}
    for meta, path in zip(out[::2], out[1::2], strict=True):
        # ":old-mode new-mode old-blob new-blob status" (git-diff-files(1), raw output)
        before, after, blob, _, status = meta.removeprefix(":").split(" ")
        if status == "M" and before == after and before.startswith("100") and "\n" not in path:
            blobs[path] = blob
    return blobs


def _drop_filtered(run: RunGit, batch: list[_ModifiedBlob]) -> list[_ModifiedBlob]:
    if not batch:
        return []
    stdin = join_names(file.path for file in batch)
    filtered = parse_attributes(run("check-attr", "-z", "--stdin", "filter", stdin=stdin))
    return [file for file in batch if file.path not in filtered]


def _read_batches(blobs: Mapping[str, str], top: Path) -> Iterator[list[_ModifiedBlob]]:
    batch, size = list[_ModifiedBlob](), 0
    for path, blob in blobs.items():
        try:
            data = read_regular(top, path, LARGEST_FILE, allow_links=True)
        except RefusedFileError:
            continue
        batch.append(_ModifiedBlob(path, blob, data))
        size += len(data)
        if size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _read_as_checked_out(run: RunGit, batch: Sequence[_ModifiedBlob]) -> list[bytes]:
    """The bytes that a checkout would write of each file; [] if a blob is missing."""
    # With --filters, the reported size is that of the blob: a random line separates the outputs.
    separator = os.urandom(16).hex()
    stdin = b"".join(f"{file.blob} ".encode() + os.fsencode(file.path) + b"\n" for file in batch)
    try:
        out = run("cat-file", f"--batch={separator}", "--filters", stdin=stdin)
    except GitError:
        return []
    outputs = out.split(f"{separator}\n".encode())[1:]
    return [output[:-1] for output in outputs] if len(outputs) == len(batch) else []
