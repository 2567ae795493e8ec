"""Tests without a syntax tree: of other languages, too large, or mostly unreadable.

They are read by lines: ``unparsed_tests.toml`` says how a test begins in each language. Found are
tests that are gone or skipped, and files in which fewer lines assert; nothing else is certain.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from gitlab_nightshift.flag_entry import Level
from gitlab_nightshift.lazy_patterns import compile_lazily
from gitlab_nightshift.printable_text import format_excerpt
from gitlab_nightshift.repository.difference import ChangedFile, Line
from gitlab_nightshift.verdict.reviewed_change import Changeset, RuleViolation
from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax.file_side import read_sides
from gitlab_nightshift.verdict.syntax.languages import (
    beside_tests,
    is_code,
    is_named_test,
    is_product,
)

_TABLE = RuleTable(__file__)
_SKIPS = _TABLE.get_pattern("skips")
_COMMENTED = _TABLE.get_pattern("commented")
_ANYWAY = _TABLE.get_pattern("anyway")
_DATA = _TABLE.get_pattern("data")
_CALLED = _TABLE.get_pattern("called")
_CONDITION = compile_lazily(r"(^|\s)(then|else)\s*$|^\s*if\s*\((?!\s*(true|1)\s*\)).*[){]\s*$")
_LONGEST = 2000
_STILL_THERE = 0.7


@dataclass(frozen=True)
class _Style:
    """How tests look in some files: where one begins, with its name, and lines that assert."""

    test: re.Pattern[str] | None
    asserts: re.Pattern[str]


@dataclass(frozen=True)
class _LineTest:
    name: str
    line: int
    body: tuple[str, ...]


def find_skipping_lines(change: Changeset) -> Iterator[RuleViolation]:
    """Lines that came and keep a test from running."""
    for file in _list_unparsed_files(change):
        gone = {each.text.strip() for each in file.deleted}
        for added in file.added:
            said = added.text[:_LONGEST]
            if said.strip() not in gone and not _COMMENTED.match(said) and _SKIPS.search(said):
                detail = f"A test is skipped now: {format_excerpt(said.strip())}"
                level: Level | None = "warn" if _is_conditional(file, added.number) else None
                certain = not level and not _is_new(file, added.number)
                yield RuleViolation(file.path, added.number, detail, level, certain)


def _is_new(file: ChangedFile, number: int) -> bool:
    """More than the skip comes at its place: a test that never ran, perhaps."""
    return any(
        hunk.new <= number < hunk.new + hunk.new_count and hunk.new_count > hunk.old_count + 1
        for hunk in file.hunks
    )


def _is_conditional(file: ChangedFile, number: int) -> bool:
    """A skip under a condition, of a shell or C: where that is true nobody knows here."""
    above = next((each for each in file.new_lines[number - 2 :: -1] if each.strip()), "")
    return bool(_CONDITION.search(above[:_LONGEST]))


def find_removed_assertion_lines(change: Changeset) -> Iterator[RuleViolation]:
    """Files in which fewer lines assert than before."""
    for file in _list_unparsed_files(change):
        asserts = _find_style(file.path).asserts
        was, now = (_match_lines(side, asserts) for side in (file.deleted, file.added))
        if file.status != "D" and len(was) > len(now):
            left = {each.text.strip() for each in now}
            lost = next((each for each in was if each.text.strip() not in left), was[0])
            said = f"This is not checked any more: {format_excerpt(lost.text.strip())}"
            yield RuleViolation(file.path, lost.number, said)


def _match_lines(lines: list[Line], pattern: re.Pattern[str]) -> list[Line]:
    """The lines that say something, and whose failure counts."""
    return [
        each
        for each in lines
        if pattern.search(each.text[:_LONGEST])
        and not _COMMENTED.match(each.text[:_LONGEST])
        and not _ANYWAY.search(each.text[:_LONGEST])
    ]


# --- whole tests ----------------------------------------------------------------------------------


def find_deleted_line_tests(change: Changeset) -> Iterator[RuleViolation]:
    """Tests that no new one stands for, though what they call is still there."""
    files = [file for file in _list_unparsed_files(change) if file.status != "D"]
    old = [(file, test) for file in files for test in _list_tests(file.path, file.old_lines)]
    new = [test for file in files for test in _list_tests(file.path, file.new_lines)]
    known, names = {test.name for _, test in old}, {test.name for test in new}
    came = [test.body for test in new if test.name not in known]
    renamed, vanished = came.count(()), _find_vanished_calls(change) if old else frozenset()
    for file, test in old:
        called = {word for line in test.body for word in re.findall(r"\w+", line)}
        replaced = any(_share(test, body) >= _STILL_THERE for body in came)
        if test.name in names or replaced or called & vanished:
            continue
        if not test.body and renamed:
            renamed -= 1
            continue
        detail = f"{format_excerpt(test.name)} is gone, though what it tests is still there."
        yield RuleViolation(file.path, test.line, detail)


def _share(test: _LineTest, lines: tuple[str, ...]) -> float:
    """The share of the lines of a test that are among others, from 0 to 1."""
    own = set(test.body)
    return len(own & set(lines)) / len(own) if own else 0.0


def _list_tests(path: str, lines: list[str]) -> list[_LineTest]:
    """The tests of a file, each to where its indentation ends."""
    begins = _find_style(path).test
    found: list[_LineTest] = []
    for at, line in enumerate(lines if begins else ()):
        if begins and (match := begins.search(line[:_LONGEST])):
            name = next(group for group in match.groups() if group).replace("DISABLED_", "")
            found.append(_LineTest(name, at + 1, tuple(_list_body(lines, at))))
    return found


def _list_body(lines: list[str], at: int) -> Iterator[str]:
    depth = len(lines[at]) - len(lines[at].lstrip())
    for line in lines[at + 1 :]:
        said = line.strip()
        if said and len(line) - len(line.lstrip()) <= depth:
            return
        if len(said) > 1 and not _COMMENTED.match(said):
            yield said


def _find_vanished_calls(change: Changeset) -> frozenset[str]:
    """Functions that product code names nowhere any more."""
    product = [file for file in change.files if is_product(file.path) and not file.binary]
    was = {name for file in product for line in file.deleted for name in _list_calls(line.text)}
    now = {word for file in product for line in file.new_lines for word in re.findall(r"\w+", line)}
    return frozenset(was - now)


def _list_calls(line: str) -> list[str]:
    return _CALLED.findall(line[:_LONGEST])


@cache
def _read_styles() -> list[tuple[re.Pattern[str], _Style]]:
    compile_rule, usual = _TABLE.compile, _TABLE.get_pattern("asserts")
    return [
        (
            compile_rule(row["file"]),
            _Style(
                compile_rule(row["test"]),
                compile_rule(row["asserts"]) if "asserts" in row else usual,
            ),
        )
        for row in _TABLE.entries["style"]
    ]


def _find_style(path: str) -> _Style:
    other = _Style(None, _TABLE.get_pattern("asserts"))
    return next((style for file, style in _read_styles() if file.search(path)), other)


def _list_unparsed_files(change: Changeset) -> Iterator[ChangedFile]:
    for file in change.files:
        if file.binary or not is_code(file.path) or _DATA.search(file.path):
            continue
        if not (is_named_test(file.path) or beside_tests(file.path)):
            continue
        if any(side.source and side.root is None for side in read_sides(file)):
            yield file
