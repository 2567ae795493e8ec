"""A patch as rows for a page. It was made by git from an agent's files: names and lines are hostile
data, and are only cut here, not escaped."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gitlab_nightshift.text.diff_rows import read_rows

MOST_LINES = 3_000
LONGEST_LINE = 2_000
RowKind = Literal["added", "deleted", "same", "hunk", "note"]
_KINDS: dict[str, RowKind] = {
    "+": "added",
    "-": "deleted",
    " ": "same",
    "@": "hunk",
    "\\": "note",
}


@dataclass(frozen=True)
class PatchRow:
    """A line of a patch: ``number`` is that in the new file, of a deleted line in the old; 0 where
    there is none. ``text`` begins with its sign."""

    kind: RowKind
    number: int
    text: str


@dataclass(frozen=True)
class PatchFile:
    """The rows of a changed file."""

    name: str
    rows: tuple[PatchRow, ...]


def parse_patch(patch: str) -> tuple[PatchFile, ...]:
    """The files of a git patch; what is beyond ``MOST_LINES`` is left out, with a note."""
    lines = patch.split("\n")
    found: list[PatchFile] = []
    starts = [n for n, line in enumerate(lines) if line.startswith("diff --git ")]
    left = MOST_LINES
    for start, end in itertools.pairwise([*starts, len(lines)]):
        rows = tuple(_read_rows(lines[start + 1 : min(end, start + left)]))
        if end - start > left:
            rows = (*rows, PatchRow("note", 0, "The rest is in bundle/change.patch."))
        found.append(PatchFile(_read_name(lines[start:end]), rows))
        left -= end - start
        if left <= 0:
            break
    return tuple(found)


def _read_name(lines: list[str]) -> str:
    """The file's name as git writes it, odd ones in quotes."""
    for line in lines[1:]:
        if line.startswith("@@"):
            break
        for sign, prefix in (("+++ ", "b/"), ("--- ", "a/")):
            if line.startswith(sign) and "/dev/null" not in line:
                name = line.removeprefix(sign).rstrip("\t")
                if sign == "+++ " or "+++ /dev/null" in lines:
                    return name.removeprefix(prefix)
    return lines[0].removeprefix("diff --git ").partition(" b/")[2] or lines[0]


def _read_rows(lines: list[str]) -> Iterator[PatchRow]:
    for row in read_rows(lines):
        if row.sign:
            number = row.old if row.sign == "-" else row.new
            yield PatchRow(_KINDS[row.sign], number, row.line[:LONGEST_LINE])
        elif row.line.startswith(("new file", "deleted file", "rename ", "old mode", "new mode")):
            yield PatchRow("note", 0, row.line[:LONGEST_LINE])
        elif row.line.startswith("GIT binary patch"):
            yield PatchRow("note", 0, "A binary file.")
