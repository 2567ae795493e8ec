"""Dangerous calls in added lines of product code; ``dangers.toml`` is the closed table of them.

Patterns look at a call with its arguments on the lines that follow, never at comments or at what
stands in a text alone. A line that only moved raises nothing.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gitlab_nightshift.verdict.change import Change, ChangedFile, Context, Found
from gitlab_nightshift.verdict.syntax.languages import is_product, language_of
from gitlab_nightshift.verdict.syntax.nodes import COMMENTS, FUNCTIONS, STRINGS
from gitlab_nightshift.verdict.syntax.side import sides


@dataclass(frozen=True)
class Danger:
    """``languages`` is empty where any may hold it; ``unless`` is what makes it harmless, ``where``
    what the file must hold, ``purpose`` what makes it harmless from the function's head, too.
    ``text`` is true where it may begin within a text."""

    languages: frozenset[str]
    pattern: re.Pattern[str]
    detail: str
    unless: re.Pattern[str] | None
    where: re.Pattern[str] | None
    purpose: re.Pattern[str] | None
    text: bool


_COMMENT = {"python": "#", "ruby": "#", "shell": "#"}
_REMARK = re.compile(r"\s(#|//)\s.*$")
_CODE_IN_TEXT = frozenset("interpolation template_substitution string_interpolation".split())
_SCRIPTS = (
    (r"\.(sh|bash)$|(^|/)Dockerfile[\w.]*$", "shell"),
    (r"\.(html|vue|svelte|ejs|hbs)$", "javascript"),
    (r"\.erb$", "ruby"),
)
_LINES = 4
_LONGEST = 2000


def dangerous_call(change: Change, _context: Context) -> Iterator[Found]:
    """Dangerous calls that were not there before."""
    moved = {_plain(line.text) for file in change.files for line in file.deleted}
    for file in change.files:
        language = language_of(file.path)
        kind = language.name if language else _kind(file.path)
        if kind and is_product(file.path):
            yield from _in_file(file, kind, moved)


def _kind(path: str) -> str:
    """What a page or a script is written in; "" for another file."""
    return next((kind for pattern, kind in _SCRIPTS if re.search(pattern, path)), "")


def _in_file(file: ChangedFile, kind: str, moved: set[str]) -> Iterator[Found]:
    dangers = [each for each in _dangers() if not each.languages or kind in each.languages]
    for line in file.added:
        text = line.text[:_LONGEST].strip()
        if _plain(text) not in moved and not _is_comment(text, kind):
            after = file.new_lines[line.number : line.number + _LINES]
            call = " ".join([text, *(each.strip()[:_LONGEST] for each in after)])
            yield from _first(file, line.number, dangers, call, len(text))


def _first(
    file: ChangedFile, number: int, dangers: list[Danger], call: str, end: int
) -> Iterator[Found]:
    """The first danger that begins on the line itself."""
    for danger in dangers:
        found = danger.pattern.search(call)
        if not found or found.start() >= end or not _counts(danger, file, number):
            continue
        if not _is_said(file, number, found.start(), danger.text):
            yield Found(file.path, number, f"`{_shown(found[0])}`: {danger.detail}.")
            return


def _counts(danger: Danger, file: ChangedFile, number: int) -> bool:
    """False where what stands around it makes it harmless; a comment does not."""
    if danger.where and not danger.where.search("\n".join(file.new_lines)):
        return False
    bare = " ".join(_REMARK.sub("", line) for line in _statement(file.new_lines, number))
    if danger.unless and danger.unless.search(bare):
        return False
    if not danger.purpose:
        return True
    return not any(danger.purpose.search(text) for text in (bare, _head(file, number)))


def _head(file: ChangedFile, number: int) -> str:
    """The first line of the function around a line, "" where none can be told."""
    root = sides(file)[1].root
    at = (number - 1, 0)
    node = root.descendant_for_point_range(at, (number - 1, 1)) if root is not None else None
    while node is not None and node.type not in FUNCTIONS:
        node = node.parent
    return file.new_lines[node.start_point.row] if node is not None else ""


def _is_said(file: ChangedFile, number: int, at: int, text: bool) -> bool:
    """True within a comment or, unless ``text`` may hold it, within a text."""
    root = sides(file)[1].root
    if root is None:
        return False
    line = file.new_lines[number - 1]
    indent = len(line) - len(line.lstrip())
    column = len(line[: indent + at].encode("utf-8", "surrogateescape"))
    place = (number - 1, column)
    node = root.descendant_for_point_range(place, place)
    while node is not None and node.type not in _CODE_IN_TEXT:
        inside = node.start_point < place
        if node.type in COMMENTS or (node.type in STRINGS and inside and not text):
            return True
        node = node.parent
    return False


def _statement(lines: list[str], number: int) -> list[str]:
    """The line with those around it up to the brackets that enclose it."""
    first = last = number - 1
    depth = 0
    for at in range(number - 2, max(number - 2 - _LINES * 2, -1), -1):
        depth += lines[at].count("(") - lines[at].count(")")
        if depth > 0:
            first = at
            break
    depth = sum(line.count("(") - line.count(")") for line in lines[first:number])
    while depth > 0 and last + 1 < min(len(lines), number + _LINES * 3):
        last += 1
        depth += lines[last].count("(") - lines[last].count(")")
    return [line.strip()[:_LONGEST] for line in lines[first : last + 1]]


def _is_comment(text: str, kind: str) -> bool:
    sign = _COMMENT.get(kind, "//")
    return text.lstrip().startswith((sign, "* ", "/*", "*/", "<!--"))


def _plain(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _shown(text: str) -> str:
    one = re.sub(r"\s+", " ", text).strip().replace("`", "'")
    return one if len(one) <= 50 else f"{one[:47]}…"


@cache
def _dangers() -> list[Danger]:
    table = tomllib.loads((Path(__file__).parent / "dangers.toml").read_text("utf-8"))

    def compiled(text: str) -> re.Pattern[str]:
        for name in ("SECRETS", "SQL", "NAMES", "SHELL", "HARMLESS"):
            text = text.replace(f"{{{name}}}", table[name])
        return re.compile(text)

    def given(row: Mapping[str, str], key: str) -> re.Pattern[str] | None:
        return compiled(row[key]) if key in row else None

    return [
        Danger(
            frozenset(row["languages"]),
            compiled(row["pattern"]),
            row["detail"],
            given(row, "unless"),
            given(row, "where"),
            given(row, "purpose"),
            row.get("text", False),
        )
        for row in table["danger"]
    ]
