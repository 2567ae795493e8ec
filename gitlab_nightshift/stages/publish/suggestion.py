"""Renders a change as a GitLab suggestion if it lies around the commented line, else as a folded
patch. Pure functions.

A click on "Apply suggestion" replaces the lines by the text between the fences, so the text must be
exact to the character. What cannot be shown unescaped becomes a patch.
"""

import re

from gitlab_nightshift.records.request import DiffSpot
from gitlab_nightshift.stages.publish.escaping import to_markdown
from gitlab_nightshift.text.diff_rows import DiffRow, read_rows
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import remove_hidden

MOST_LINES = 100
"""Lines above and below the commented one; GitLab's MAX_LINES_CONTEXT."""
LONGEST_PATCH = 20_000
_WHERE = "The patch is in the artifacts: bundle/change.patch"
_ACTIVE = compile_lazily(r"```|~~~|<!--|(?m:^\s*/[A-Za-z])|\ufffd")
"""Text that would end the block, act (``/quick action``, a marker), or was not UTF-8."""


def render_suggestion(patch: str, wide: str, spot: DiffSpot | None) -> str:
    """The Markdown. ``wide`` is the patch with ``MOST_LINES`` lines around each change, ``spot``
    the line whose thread it goes to."""
    return (spot and _render_block(wide, spot)) or render_patch(patch)


def _render_block(patch: str, spot: DiffSpot) -> str:
    """The suggestion; "" unless the whole change is within the lines that the diff shows."""
    rows = _list_rows(patch, spot.path)
    changed = [max(row.old, 1) for row in rows if row.sign != " "]
    if not changed:
        return ""
    first, last = min(*changed, spot.line), max(*changed, spot.line)
    above, below = spot.line - first, last - spot.line
    inside = spot.first <= first and last <= spot.last and max(above, below) <= MOST_LINES
    shown = (row for row in rows if row.sign != "-" and first <= max(row.old, 1) <= last)
    lines = [row.line[1:] for row in shown]
    body = "\n".join(lines)
    if not inside or _ACTIVE.search(body) or remove_hidden(body, keep="\n\t") != body:
        return ""
    return "\n".join([f"```suggestion:-{above}+{below}", *lines, "```"])


def _list_rows(patch: str, path: str) -> list[DiffRow]:
    """The lines of a diff of only this text file; [] for any other diff."""
    rows = list(read_rows(patch.removesuffix("\n").split("\n")))
    head = "\n".join(row.line for row in rows if not row.sign)
    same = head.count("diff --git ") == 1 and head.endswith(f"\n--- a/{path}\n+++ b/{path}")
    if not same or "\nold mode" in head or any(row.sign == "\\" for row in rows):
        return []
    return [row for row in rows if row.sign in ("+", "-", " ")]


def render_patch(patch: str) -> str:
    """The whole change, folded, to be read: what could act in it is escaped."""
    if len(patch) > LONGEST_PATCH:
        return f"It is too long for a comment. {_WHERE}."
    fence = "`" * max(3, *(len(run) + 1 for run in ["", *re.findall("`+", patch)]))
    shown = to_markdown(f"{fence}diff\n{patch.rstrip()}\n{fence}", 2 * LONGEST_PATCH)
    return f"<details><summary>{_WHERE}</summary>\n\n{shown}\n\n</details>"
