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

    The file has to match ``file``. A call is harmless if its statement matches ``unless`` or
    ``purpose``, or if the first line of its function matches ``purpose``. ``in_strings``: the call
    may begin in a string. ``warn_if_repeated``: it is only a warning in a file that had such a call
    before. ``debatable``: people may have a good reason for it.
    """

    languages: frozenset[str]
    pattern: re.Pattern[str]
    detail: str
    unless: re.Pattern[str] | None = None
    file: re.Pattern[str] | None = None
    purpose: re.Pattern[str] | None = None
    in_strings: bool = False
    warn_if_repeated: bool = False
    debatable: bool = False


_LINE_COMMENTS = {"python": "#", "ruby": "#", "shell": "#"}  # how a comment begins; elsewhere: //
_MODE = compile_lazily(r"(?:(?<![\w.])0o?|(?<=chmod ))[0-7]?([0-7]{3})\b(?!\.)")
"""An octal file mode, ``0o644`` or ``chmod 644``, with its last three digits as the group."""
_TRAILING_COMMENT = compile_lazily(r"\s(#|//)\s.*$")
_PATTERNS = ("pattern", "unless", "file", "purpose")
# Nodes inside string literals whose content is code.
_CODE_IN_STRINGS = frozenset("interpolation template_substitution string_interpolation".split())
# Files of unsupported languages, by path, and the language whose dangers they may have.
_EMBEDDED_CODE = (
    (r"\.(sh|bash)$|(^|/)Dockerfile[\w.]*$", "shell"),
    (r"\.(html|vue|svelte|ejs|hbs)$", "javascript"),
    (r"\.erb$", "ruby"),
)
_ARGUMENT_LINES = 4  # lines after the first one in which a call's arguments are looked for
_LONGEST_LINE = 2000  # characters of a line


def find_dangerous_calls(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Dangerous calls that the change adds."""
    moved = {_strip_spaces(line.text) for file in change.files for line in file.deleted}
    for file in change.files:
        supported = find_language(file.path)
        embedded = (name for pattern, name in _EMBEDDED_CODE if re.search(pattern, file.path))
        language = supported.name if supported else next(embedded, "")
        if language and is_product(file.path):
            yield from _search_file(file, language, moved)
            yield from _find_looser_modes(file)


def _find_looser_modes(file: ChangedFile) -> Iterator[RuleViolation]:
    """Lines in which only a file mode changes, and other users get more rights."""
    deleted = {_MODE.sub("MODE", line.text): line.text for line in file.deleted}
    for line in file.added:
        old_line = deleted.get(_MODE.sub("MODE", line.text), "")
        for old, new in zip(_MODE.findall(old_line), _MODE.findall(line.text), strict=False):
            # The bits of the group and of others.
            if int(new, 8) & ~int(old, 8) & 0o077:
                detail = f"Other users get more rights to this file: mode {old} became {new}."
                yield RuleViolation(file.path, line.number, detail, "warn")


def _search_file(file: ChangedFile, language: str, moved: set[str]) -> Iterator[RuleViolation]:
    dangers = [each for each in _read_dangers() if not each.languages or language in each.languages]
    comment = (_LINE_COMMENTS.get(language, "//"), "* ", "/*", "*/", "<!--")
    for line in file.added:
        text = line.text[:_LONGEST_LINE].strip()
        if _strip_spaces(text) not in moved and not text.startswith(comment):
            following = file.new_lines[line.number : line.number + _ARGUMENT_LINES]
            code = " ".join([text, *(each.strip()[:_LONGEST_LINE] for each in following)])
            yield from _find_first(file, line.number, dangers, code, len(text))


def _find_first(
    file: ChangedFile, number: int, dangers: list[Danger], code: str, end: int
) -> Iterator[RuleViolation]:
    """The first dangerous call that begins on the added line: the first ``end`` characters of
    ``code``, which has also the lines after it."""
    deleted = [_strip_spaces(line.text) for line in file.deleted]
    for danger in dangers:
        call = danger.pattern.search(code)
        # A call that a deleted line contained, too, was moved.
        if not call or call.start() >= end or any(_strip_spaces(call[0]) in x for x in deleted):
            continue
        if _is_harmless(danger, file, number):
            continue
        if not _is_not_code(file, number, call.start(), allow_string=danger.in_strings):
            repeated = danger.warn_if_repeated and danger.pattern.search("\n".join(file.old_lines))
            detail = f"`{_format_excerpt(call[0])}`: {danger.detail}."
            level: Level | None = "warn" if repeated else None
            yield RuleViolation(file.path, number, detail, level, not danger.debatable)
            return


def _is_harmless(danger: Danger, file: ChangedFile, number: int) -> bool:
    """True if the code around a call makes it harmless; a comment cannot."""
    if danger.file and not danger.file.search("\n".join(file.new_lines)):
        return True
    lines = _collect_statement(file.new_lines, number)
    statement = " ".join(_TRAILING_COMMENT.sub("", line) for line in lines)
    if danger.unless and danger.unless.search(statement):
        return True
    texts = (statement, _find_function_head(file, number)) if danger.purpose else ()
    return danger.purpose is not None and any(map(danger.purpose.search, texts))


def _find_function_head(file: ChangedFile, number: int) -> str:
    """The first line of the function around a line; "" outside of functions."""
    root = read_sides(file)[1].root
    start, end = (number - 1, 0), (number - 1, 1)
    node = root.descendant_for_point_range(start, end) if root is not None else None
    functions = (each for each in list_enclosing(node, including=True) if each.type in FUNCTIONS)
    function = next(functions, None)
    return file.new_lines[function.start_point.row] if function is not None else ""


def _is_not_code(file: ChangedFile, number: int, at: int, *, allow_string: bool) -> bool:
    """True inside a comment or, unless ``allow_string``, a string literal. ``at`` is a position in
    the line without its indentation."""
    root = read_sides(file)[1].root
    if root is None:
        return False
    line = file.new_lines[number - 1]
    indent = len(line) - len(line.lstrip())
    # tree-sitter counts columns in bytes.
    column = len(line[: indent + at].encode("utf-8", "surrogateescape"))
    point = (number - 1, column)
    for node in list_enclosing(root.descendant_for_point_range(point, point), including=True):
        if node.type in _CODE_IN_STRINGS:
            return False
        in_string = node.type in STRINGS and node.start_point < point
        if node.type in COMMENTS or (in_string and not allow_string):
            return True
    return False


def _collect_statement(lines: list[str], number: int) -> list[str]:
    """The line, and the lines up to the ends of the parentheses around it."""
    first = last = number - 1
    depth = 0
    for index in range(number - 2, max(number - 2 - _ARGUMENT_LINES * 2, -1), -1):
        depth += lines[index].count("(") - lines[index].count(")")
        if depth > 0:
            first = index
            break
    depth = sum(line.count("(") - line.count(")") for line in lines[first:number])
    while depth > 0 and last + 1 < min(len(lines), number + _ARGUMENT_LINES * 3):
        last += 1
        depth += lines[last].count("(") - lines[last].count(")")
    return [line.strip()[:_LONGEST_LINE] for line in lines[first : last + 1]]


def _strip_spaces(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _format_excerpt(text: str) -> str:
    line = " ".join(text.split()).replace("`", "'")
    return line if len(line) <= 50 else f"{line[:47]}…"


@cache
def _read_dangers() -> list[Danger]:
    table = RuleTable(__file__, "dangers.toml")
    dangers = []
    for row in table.entries["danger"]:
        compiled = {key: table.compile(row[key]) for key in _PATTERNS if key in row}
        dangers.append(Danger(**{**row, **compiled, "languages": frozenset(row["languages"])}))
    return dangers
