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
from gitlab_nightshift.system.file_names import format_path
from gitlab_nightshift.system.openat import RefusedFileError, read_regular
from gitlab_nightshift.text.lazy_patterns import compile_lazily

BATCH_BYTES = 32_000_000
"""Bytes of files to compare at once."""
LARGEST = 20_000_000
"""Bytes of the largest file to compare; a larger one stays modified."""
MOST_NAMED = 10
"""Paths that a message names."""

# What a checkout may have converted: line ends, another encoding, ``$Id$`` (gitattributes(5)).
_CONVERTED = compile_lazily(rb"[\r\0\x80-\xff]|\$Id")

Run = Callable[..., bytes]
"""Runs a git command in a checkout, by its arguments and ``stdin``, and returns its stdout."""


class _ModifiedFile(NamedTuple):
    path: str
    blob: str
    data: bytes


@dataclass(frozen=True)
class LineEnds:
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
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    return f"{', '.join(paths[:MOST_NAMED])}{more}"


def _find_changed(git: Git, checkout: Path) -> tuple[tuple[str, ...], frozenset[str]]:
    """The changed tracked files, and those of the unstaged ones that differ only in line ends."""
    asked = ("--porcelain=v1", "-z", "-uno", "--no-renames", "--ignore-submodules=all")
    rows = split_names(git.run("status", *asked, cwd=checkout))
    unstaged = {row[3:] for row in rows if row.startswith(" M")}
    if not unstaged:
        return tuple(row[3:] for row in rows), frozenset()
    ends = compare_line_ends(functools.partial(git.run, cwd=checkout), checkout)
    untouched = ends.untouched & unstaged
    return tuple(row[3:] for row in rows if row[3:] not in untouched), ends.converted & unstaged


def list_untouched(run: Run, top: Path) -> frozenset[str]:
    """The files that git calls modified although they have the bytes that a checkout writes. Git is
    asked only about files with bytes that a checkout may have converted."""
    return compare_line_ends(run, top, _CONVERTED.search).untouched


def compare_line_ends(
    run: Run, top: Path, select: Callable[[bytes], object] = lambda _data: True
) -> LineEnds:
    """Compare files that git calls modified with the bytes that a checkout would write. Skips files
    whose bytes ``select`` does not accept, and files with a filter: running it could fetch."""
    untouched, converted = set[str](), set[str]()
    for read in _read_batches(_list_modified(run), top):
        batch = _drop_filtered(run, [row for row in read if select(row.data)])
        written = _read_as_checked_out(run, batch) if batch else []
        for (path, _, data), expected in zip(batch, written, strict=False):
            if data == expected:
                untouched.add(path)
            elif data.replace(b"\r\n", b"\n") == expected.replace(b"\r\n", b"\n"):
                converted.add(path)
    return LineEnds(frozenset(untouched), frozenset(converted))


def _list_modified(run: Run) -> dict[str, str]:
    """The blobs in the index of regular files that may differ, in their content only, by path."""
    out = split_names(run("diff-files", "-z", "--raw", "--ignore-submodules=all"))
    blobs = {}
    for meta, path in zip(out[::2], out[1::2], strict=True):
        # ":old-mode new-mode old-blob new-blob status" (git-diff-files(1), raw output)
        before, after, blob, _, status = meta.removeprefix(":").split(" ")
        if status == "M" and before == after and before.startswith("100") and "\n" not in path:
            blobs[path] = blob
    return blobs


def _drop_filtered(run: Run, batch: list[_ModifiedFile]) -> list[_ModifiedFile]:
    if not batch:
        return []
    stdin = b"".join(os.fsencode(row.path) + b"\0" for row in batch)
    filters = split_names(run("check-attr", "-z", "--stdin", "filter", stdin=stdin))[2::3]
    rows = zip(batch, filters, strict=True)
    return [row for row, value in rows if value in ("unspecified", "unset")]


def _read_batches(blobs: Mapping[str, str], top: Path) -> Iterator[list[_ModifiedFile]]:
    batch, size = list[_ModifiedFile](), 0
    for path, blob in blobs.items():
        try:
            data = read_regular(top, path, LARGEST, allow_links=True)
        except RefusedFileError:
            continue
        batch.append(_ModifiedFile(path, blob, data))
        size += len(data)
        if size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _read_as_checked_out(run: Run, batch: Sequence[_ModifiedFile]) -> list[bytes]:
    """The bytes that a checkout would write of each file; [] if a blob is missing."""
    # With --filters, the reported size is that of the blob, so a random line separates the outputs.
    mark = os.urandom(16).hex()
    stdin = b"".join(f"{row.blob} ".encode() + os.fsencode(row.path) + b"\n" for row in batch)
    try:
        out = run("cat-file", f"--batch={mark}", "--filters", stdin=stdin)
    except GitError:
        return []
    parts = out.split(f"{mark}\n".encode())[1:]
    return [part[:-1] for part in parts] if len(parts) == len(batch) else []
