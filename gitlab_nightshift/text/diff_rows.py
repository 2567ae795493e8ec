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
    backslash for a note such as "No newline at end of file", else "". ``old`` and ``new`` are its
    numbers on both sides; on the side that lacks it, that of the line before."""

    sign: Sign
    line: str
    old: int = 0
    new: int = 0


def read_rows(lines: Iterable[str]) -> Iterator[DiffRow]:
    """The rows of a diff, in order. A hunk ends by the count in its header: the next line may look
    like one more of it, as ``--- a/file`` does."""
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
