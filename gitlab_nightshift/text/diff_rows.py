"""A unified diff as rows:
https://www.gnu.org/software/diffutils/manual/html_node/Detailed-Unified.html

It was made from somebody else's files: names and lines are hostile data.
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
    """A line: a hunk's begins with its ``sign``, its header's is ``@``, that of a line outside of
    hunks "". ``old`` and ``new`` are its numbers on both sides; on a side without it, that of the
    line before."""

    sign: Sign
    line: str
    old: int = 0
    new: int = 0


def read_rows(lines: Iterable[str]) -> Iterator[DiffRow]:
    """The rows of a diff, in order. A hunk has as many lines as its header says: what comes then
    may look like a line of it, as ``--- a/file`` does."""
    old = new = old_end = new_end = 0
    for line in lines:
        sign = _SIGNS.get(line[:1], "")
        if match := _HUNK.fullmatch(line):
            starts, counts = map(int, match.group(1, 3)), [int(n or 1) for n in match.group(2, 4)]
            # An empty side's hunk names the line before it.
            old, new = (s - bool(n) for s, n in zip(starts, counts, strict=True))
            old_end, new_end = old + counts[0], new + counts[1]
            yield DiffRow("@", line)
        elif sign and (old < old_end or new < new_end):
            old, new = old + (sign != "+"), new + (sign != "-")
            yield DiffRow(sign, line, old, new)
        else:
            yield DiffRow("\\" if line.startswith("\\") else "", line)
