"""A unified diff as rows (GNU diffutils manual, "Detailed Description of Unified Format").

Names and lines are hostile: the files may be an agent's.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from gitlab_nightshift.text.lazy_patterns import compile_lazily

Sign = Literal["+", "-", " ", "@", "\\", ""]
# A header omits a count of one.
_HUNK = compile_lazily(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@.*")
_SIGNS: dict[str, Sign] = {"+": "+", "-": "-", " ": " "}


@dataclass(frozen=True)
class DiffRow:
    """A line of a diff. Its ``sign`` is its first character in a hunk, ``@`` for a hunk's header, a
    backslash for a note such as "No newline at end of file", else "". ``old`` and ``new`` are the
    line's numbers on both sides; on a side that lacks it, the number of the line before."""

    sign: Sign
    line: str
    old: int = 0
    new: int = 0


def read_rows(lines: Iterable[str]) -> Iterator[DiffRow]:
    """The rows of a diff, in order. The counts in a hunk's header tell where it ends: a line after
    it may look like a deleted one, as ``--- a/file`` does."""
    old = new = old_end = new_end = 0
    for line in lines:
        sign = _SIGNS.get(line[:1], "")
        if match := _HUNK.fullmatch(line):
            old, old_end = _parse_range(match[1], match[2])
            new, new_end = _parse_range(match[3], match[4])
            yield DiffRow("@", line)
        elif sign and (old < old_end or new < new_end):
            old += sign != "+"
            new += sign != "-"
            yield DiffRow(sign, line, old, new)
        else:
            yield DiffRow("\\" if line.startswith("\\") else "", line)


def _parse_range(start: str, count: str | None) -> tuple[int, int]:
    """The number of the line before a hunk on one side, and that of its last line."""
    lines = int(count or 1)
    before = int(start) - 1 if lines else int(start)  # an empty range names the line before it
    return before, before + lines
