"""Finds dangerous calls in added lines of product code; ``dangers.toml`` lists their patterns.

A pattern is matched against a call with its arguments, which may be on the next lines. Comments,
string literals and moved lines do not count.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.file_side import read_sides
from gitlab_nightshift.proof.syntax.languages import find_language, is_product
from gitlab_nightshift.proof.syntax.nodes import COMMENTS, FUNCTIONS, STRINGS, list_enclosing
from gitlab_nightshift.registry.flag_registry import Level
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.text.lazy_patterns import compile_lazily


@dataclass(frozen=True)
class Danger:
    """A dangerous kind of call, which ``pattern`` matches in the ``languages``, or in all languages
    if there are none.

    The file has to match ``where``. A call is harmless if its statement matches ``unless`` or
    ``purpose``, or if the first line of its function matches ``purpose``. ``text``: the call may
    begin in a string. ``usual``: it is only a warning in a file that had such a call before.
    ``debatable``: people may have a good reason for it.
    """

    languages: frozenset[str]
    pattern: re.Pattern[str]
    detail: str
    unless: re.Pattern[str] | None = None
    where: re.Pattern[str] | None = None
    purpose: re.Pattern[str] | None = None
    text: bool = False
    usual: bool = False
    debatable: bool = False


_COMMENT = {"python": "#", "ruby": "#", "shell": "#"}  # how a comment begins; elsewhere: //
_MODE = compile_lazily(r"(?:(?<![\w.])0o?|(?<=chmod ))[0-7]?([0-7]{3})\b(?!\.)")
"""An octal file mode, ``0o644`` or ``chmod 644``, with its last three digits as the group."""
_TRAILING_COMMENT = compile_lazily(r"\s(#|//)\s.*$")
_PATTERNS = ("pattern", "unless", "where", "purpose")
# Nodes inside string literals whose content is code.
_CODE_IN_TEXT = frozenset("interpolation template_substitution string_interpolation".split())
# Files of unsupported languages, by path, and the language whose dangers they may have.
_SCRIPTS = (
    (r"\.(sh|bash)$|(^|/)Dockerfile[\w.]*$", "shell"),
    (r"\.(html|vue|svelte|ejs|hbs)$", "javascript"),
    (r"\.erb$", "ruby"),
)
_LINES = 4  # lines after the first one in which a call's arguments are looked for
_LONGEST = 2000  # characters of a line


def find_dangerous_calls(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Dangerous calls that the change adds."""
    moved = {_strip_spaces(line.text) for file in change.files for line in file.deleted}
    for file in change.files:
        language = find_language(file.path)
        scripts = (script for pattern, script in _SCRIPTS if re.search(pattern, file.path))
        kind = language.name if language else next(scripts, "")
        if kind and is_product(file.path):
            yield from _search_file(file, kind, moved)
            yield from _find_looser_modes(file)


def _find_looser_modes(file: ChangedFile) -> Iterator[RuleViolation]:
    """Lines in which only a file mode changes, and other users get more rights."""
    before = {_MODE.sub("MODE", line.text): line.text for line in file.deleted}
    for line in file.added:
        was = before.get(_MODE.sub("MODE", line.text), "")
        for old, new in zip(_MODE.findall(was), _MODE.findall(line.text), strict=False):
            # The bits of the group and of others.
            if int(new, 8) & ~int(old, 8) & 0o077:
                detail = f"Other users get more rights to this file: mode {old} became {new}."
                yield RuleViolation(file.path, line.number, detail, "warn")


def _search_file(file: ChangedFile, kind: str, moved: set[str]) -> Iterator[RuleViolation]:
    dangers = [each for each in _read_dangers() if not each.languages or kind in each.languages]
    comment = (_COMMENT.get(kind, "//"), "* ", "/*", "*/", "<!--")
    for line in file.added:
        text = line.text[:_LONGEST].strip()
        if _strip_spaces(text) not in moved and not text.startswith(comment):
            following = file.new_lines[line.number : line.number + _LINES]
            call = " ".join([text, *(each.strip()[:_LONGEST] for each in following)])
            yield from _find_first(file, line.number, dangers, call, len(text))


def _find_first(
    file: ChangedFile, number: int, dangers: list[Danger], call: str, end: int
) -> Iterator[RuleViolation]:
    """The first danger in a call that begins on the added line, whose text ends at ``end``; the
    rest of ``call`` are the lines after it."""
    deleted = [_strip_spaces(line.text) for line in file.deleted]
    for danger in dangers:
        found = danger.pattern.search(call)
        # A call that a deleted line contained, too, was moved.
        if not found or found.start() >= end or any(_strip_spaces(found[0]) in x for x in deleted):
            continue
        if _is_harmless(danger, file, number):
            continue
        if not _is_in_text(file, number, found.start(), allowed=danger.text):
            known = danger.usual and danger.pattern.search("\n".join(file.old_lines))
            detail = f"`{_format_excerpt(found[0])}`: {danger.detail}."
            level: Level | None = "warn" if known else None
            yield RuleViolation(file.path, number, detail, level, not danger.debatable)
            return


def _is_harmless(danger: Danger, file: ChangedFile, number: int) -> bool:
    """True if the code around a call makes it harmless; a comment cannot."""
    if danger.where and not danger.where.search("\n".join(file.new_lines)):
        return True
    lines = _collect_statement(file.new_lines, number)
    statement = " ".join(_TRAILING_COMMENT.sub("", line) for line in lines)
    if danger.unless and danger.unless.search(statement):
        return True
    places = (statement, _find_function_head(file, number)) if danger.purpose else ()
    return danger.purpose is not None and any(map(danger.purpose.search, places))


def _find_function_head(file: ChangedFile, number: int) -> str:
    """The first line of the function around a line; "" outside of functions."""
    root = read_sides(file)[1].root
    place = (number - 1, 0), (number - 1, 1)
    node = root.descendant_for_point_range(*place) if root is not None else None
    around = (each for each in list_enclosing(node, including=True) if each.type in FUNCTIONS)
    function = next(around, None)
    return file.new_lines[function.start_point.row] if function is not None else ""


def _is_in_text(file: ChangedFile, number: int, at: int, *, allowed: bool) -> bool:
    """True inside a comment or, unless that is ``allowed``, a string literal. ``at`` is a position
    in the line without its indentation."""
    root = read_sides(file)[1].root
    if root is None:
        return False
    line = file.new_lines[number - 1]
    indent = len(line) - len(line.lstrip())
    # tree-sitter counts columns in bytes.
    column = len(line[: indent + at].encode("utf-8", "surrogateescape"))
    place = (number - 1, column)
    for node in list_enclosing(root.descendant_for_point_range(place, place), including=True):
        if node.type in _CODE_IN_TEXT:
            return False
        inside = node.start_point < place
        if node.type in COMMENTS or (node.type in STRINGS and inside and not allowed):
            return True
    return False


def _collect_statement(lines: list[str], number: int) -> list[str]:
    """The line, and the lines around it as far as parentheses around it reach."""
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


def _strip_spaces(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _format_excerpt(text: str) -> str:
    line = " ".join(text.split()).replace("`", "'")
    return line if len(line) <= 50 else f"{line[:47]}…"


@cache
def _read_dangers() -> list[Danger]:
    table = RuleTable(__file__, "dangers.toml")
    found = []
    for row in table.entries["danger"]:
        compiled = {key: table.compile(row[key]) for key in _PATTERNS if key in row}
        found.append(Danger(**{**row, **compiled, "languages": frozenset(row["languages"])}))
    return found
