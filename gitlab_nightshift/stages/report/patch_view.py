"""A patch as rows for a page. It was made by git from an agent's files: names and lines are hostile
data, and are only cut here, not escaped."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gitlab_nightshift.text.diff_rows import DiffRow, read_rows

MOST_LINES = 3_000
LONGEST_LINE = 2_000


@dataclass(frozen=True)
class PatchFile:
    """The rows of a changed file; notes have the sign of git's own, a backslash."""

    name: str
    rows: tuple[DiffRow, ...]


def parse_patch(patch: str) -> tuple[PatchFile, ...]:
    """The files of a git patch; what is beyond ``MOST_LINES`` is left out, with a note."""
    lines = patch.split("\n")
    found: list[PatchFile] = []
    starts = [n for n, line in enumerate(lines) if line.startswith("diff --git ")]
    left = MOST_LINES
    for start, end in itertools.pairwise([*starts, len(lines)]):
        rows = tuple(_read_rows(lines[start + 1 : min(end, start + left)]))
        if end - start > left:
            rows = (*rows, DiffRow("\\", "The rest is in bundle/change.patch."))
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


def _read_rows(lines: list[str]) -> Iterator[DiffRow]:
    for row in read_rows(lines):
        if row.sign:
            yield replace(row, line=row.line[:LONGEST_LINE])
        elif row.line.startswith(("new file", "deleted file", "rename ", "old mode", "new mode")):
            yield DiffRow("\\", row.line[:LONGEST_LINE])
        elif row.line.startswith("GIT binary patch"):
            yield DiffRow("\\", "A binary file.")
