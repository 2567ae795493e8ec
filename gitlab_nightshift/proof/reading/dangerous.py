"""Dangerous calls in added lines of product code; ``dangers.toml`` is the closed table of them.

Patterns look at a call with its arguments on the lines that follow, never at comments or at what
stands in a text alone. A line that only moved raises nothing.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.file_side import read_sides
from gitlab_nightshift.proof.syntax.languages import find_language, is_product
from gitlab_nightshift.proof.syntax.nodes import COMMENTS, FUNCTIONS, STRINGS
from gitlab_nightshift.registry.flag_registry import Level
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.text.lazy_patterns import compile_lazily


@dataclass(frozen=True)
class Danger:
    """``languages`` is empty where any may hold it; ``unless`` is what makes it harmless, ``where``
    what the file must hold, ``purpose`` what makes it harmless from the function's head, too.
    ``text`` is true where it may begin within a text, ``usual`` where a file that holds it already
    is only asked about, ``asked`` where people may have a good use for it."""

    languages: frozenset[str]
    pattern: re.Pattern[str]
    detail: str
    unless: re.Pattern[str] | None = None
    where: re.Pattern[str] | None = None
    purpose: re.Pattern[str] | None = None
    text: bool = False
    usual: bool = False
    asked: bool = False


_COMMENT = {"python": "#", "ruby": "#", "shell": "#"}
_MODE = compile_lazily(r"(?:(?<![\w.])0o?|(?<=chmod ))[0-7]?([0-7]{3})\b(?!\.)")
_REMARK = compile_lazily(r"\s(#|//)\s.*$")
_CODE_IN_TEXT = frozenset("interpolation template_substitution string_interpolation".split())
_SCRIPTS = (
    (r"\.(sh|bash)$|(^|/)Dockerfile[\w.]*$", "shell"),
    (r"\.(html|vue|svelte|ejs|hbs)$", "javascript"),
    (r"\.erb$", "ruby"),
)
_LINES = 4
_LONGEST = 2000


def find_dangerous_calls(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Dangerous calls that were not there before."""
    moved = {_strip_spaces(line.text) for file in change.files for line in file.deleted}
    for file in change.files:
        language = find_language(file.path)
        kind = language.name if language else _find_script_kind(file.path)
        if kind and is_product(file.path):
            yield from _search_file(file, kind, moved)
            yield from _find_looser_modes(file)


def _find_looser_modes(file: ChangedFile) -> Iterator[RuleViolation]:
    """Lines in which only the mode of a file changed, and others may do more with it now."""
    before = {_MODE.sub("MODE", line.text): line.text for line in file.deleted}
    for line in file.added:
        was = before.get(_MODE.sub("MODE", line.text), "")
        for old, new in zip(_MODE.findall(was), _MODE.findall(line.text), strict=False):
            if int(new, 8) & ~int(old, 8) & 0o077:
                detail = f"Others may do more with this file: mode {old} became {new}."
                yield RuleViolation(file.path, line.number, detail, "warn")


def _find_script_kind(path: str) -> str:
    """What a page or a script is written in; "" for another file."""
    return next((kind for pattern, kind in _SCRIPTS if re.search(pattern, path)), "")


def _search_file(file: ChangedFile, kind: str, moved: set[str]) -> Iterator[RuleViolation]:
    dangers = [each for each in _read_dangers() if not each.languages or kind in each.languages]
    for line in file.added:
        text = line.text[:_LONGEST].strip()
        if _strip_spaces(text) not in moved and not _is_comment(text, kind):
            after = file.new_lines[line.number : line.number + _LINES]
            call = " ".join([text, *(each.strip()[:_LONGEST] for each in after)])
            yield from _find_first(file, line.number, dangers, call, len(text))


def _find_first(
    file: ChangedFile, number: int, dangers: list[Danger], call: str, end: int
) -> Iterator[RuleViolation]:
    """The first danger that begins on the line itself."""
    for danger in dangers:
        found = danger.pattern.search(call)
        if not found or found.start() >= end or _stood_before(file, found[0]):
            continue
        if not _counts(danger, file, number):
            continue
        if not _is_said(file, number, found.start(), danger.text):
            known = danger.usual and danger.pattern.search("\n".join(file.old_lines))
            detail = f"`{_format_excerpt(found[0])}`: {danger.detail}."
            level: Level | None = "warn" if known else None
            yield RuleViolation(file.path, number, detail, level, not danger.asked)
            return


def _stood_before(file: ChangedFile, call: str) -> bool:
    """True where a line that went held the same: the code around it changed."""
    return any(_strip_spaces(call) in _strip_spaces(line.text) for line in file.deleted)


def _counts(danger: Danger, file: ChangedFile, number: int) -> bool:
    """False where the code around it makes it harmless; a comment does not."""
    if danger.where and not danger.where.search("\n".join(file.new_lines)):
        return False
    bare = " ".join(_REMARK.sub("", line) for line in _collect_statement(file.new_lines, number))
    if danger.unless and danger.unless.search(bare):
        return False
    places = (bare, _find_function_head(file, number)) if danger.purpose else ()
    return not (danger.purpose and any(map(danger.purpose.search, places)))


def _find_function_head(file: ChangedFile, number: int) -> str:
    """The first line of the function around a line, "" where none is found."""
    root = read_sides(file)[1].root
    at = (number - 1, 0)
    node = root.descendant_for_point_range(at, (number - 1, 1)) if root is not None else None
    while node is not None and node.type not in FUNCTIONS:
        node = node.parent
    return file.new_lines[node.start_point.row] if node is not None else ""


def _is_said(file: ChangedFile, number: int, at: int, text: bool) -> bool:
    """True within a comment or, unless ``text`` may hold it, within a text."""
    root = read_sides(file)[1].root
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


def _collect_statement(lines: list[str], number: int) -> list[str]:
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


def _strip_spaces(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _format_excerpt(text: str) -> str:
    one = re.sub(r"\s+", " ", text).strip().replace("`", "'")
    return one if len(one) <= 50 else f"{one[:47]}…"


@cache
def _read_dangers() -> list[Danger]:
    table = RuleTable(__file__, "dangers.toml")
    return [_read_danger(table, row) for row in table.entries["danger"]]


def _read_danger(table: RuleTable, row: Mapping[str, Any]) -> Danger:
    patterns = ("pattern", "unless", "where", "purpose")
    compiled = {key: table.compile(row[key]) for key in patterns if key in row}
    return Danger(**{**row, **compiled, "languages": frozenset(row["languages"])})
