"""Tests without a syntax tree: of other languages, too large, mostly unreadable, or in a macro.

They are read by lines: ``unparsed_tests.toml`` says how a test begins in each language. Not found
here: doubles, tests that cannot fail. What a changed expectation demands is not known, and said.
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
from gitlab_nightshift.verdict.syntax.file_side import Side, read_sides
from gitlab_nightshift.verdict.syntax.languages import (
    beside_tests,
    is_code,
    is_named_test,
    is_product,
)
from gitlab_nightshift.verdict.syntax.nodes import read_line_number, read_text, walk

_TABLE = RuleTable(__file__)
_SKIPS = _TABLE.get_pattern("skips")
_COMMENTED = _TABLE.get_pattern("commented")
_ANYWAY = _TABLE.get_pattern("anyway")
_DATA = _TABLE.get_pattern("data")
_CALLED = _TABLE.get_pattern("called")
_CONDITION = compile_lazily(r"(^|\s)(then|else)\s*$|^\s*if\s*\((?!\s*(true|1)\s*\)).*[){]\s*$")
_MACRO_TEST = compile_lazily(
    r"((?:#\[[^\]]*\]\s*)*#\[(?:\w+::)*test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*)"
    r"(?:async\s+)?fn\s+(\$?\w+)((?:(?!#\[(?:\w+::)*test\b)[^\0])*)"
)
_LONGEST = 2000
_LONGEST_MACRO = 20_000
_STILL_THERE = 0.7


@dataclass(frozen=True)
class _Style:
    """How tests look in some files: where one begins, with its name; lines that assert, and those
    of them that name the very value."""

    test: re.Pattern[str] | None
    asserts: re.Pattern[str]
    exact: re.Pattern[str]


@dataclass(frozen=True)
class _LineTest:
    name: str
    line: int
    body: tuple[str, ...]
    marks: str = ""


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
    for file, old, new in _list_macro_tests(change):
        was, now = ([test for test in side if "ignore" in test.marks] for side in (old, new))
        if len(now) > len(was):
            detail = f"{now[-1].name} is skipped now wherever its macro is used."
            yield RuleViolation(file.path, now[-1].line, detail)


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
    for file, asserting, _ in _compare_lines(change):
        if len(asserting[0]) > len(asserting[1]):
            yield _build_violation(file, asserting, "This is not checked any more")


def find_loosened_lines(change: Changeset) -> Iterator[RuleViolation]:
    """Files in which as many lines assert, and fewer of them name the very value."""
    for file, asserting, exact in _compare_lines(change):
        if len(asserting[0]) <= len(asserting[1]) and len(exact[0]) > len(exact[1]):
            yield _build_violation(file, exact, "Less is demanded here now")


def find_changed_expectations(change: Changeset) -> Iterator[RuleViolation]:
    """Files in which asserting lines were replaced by as many or more, and as exact ones."""
    for file, (was, now), exact in _compare_lines(change):
        known = {each.text.strip() for each in now} | _list_gone_lines(file)
        lost = [each for each in was if each.text.strip() not in known and not _begins(file, each)]
        if lost and len(was) <= len(now) and len(exact[0]) <= len(exact[1]):
            shown = format_excerpt(now[0].text.strip())
            detail = f"What this demands now is not known here: {shown}"
            yield RuleViolation(file.path, now[0].number, detail, "warn")


def _begins(file: ChangedFile, line: Line) -> bool:
    """A test on one line: another name or call is no other expectation."""
    begins = _find_style(file.path).test
    return bool(begins and begins.search(line.text[:_LONGEST]))


def _list_gone_lines(file: ChangedFile) -> set[str]:
    """What tests said whose names are gone: that is a deleted test, no changed expectation."""
    names = {test.name for test in _list_tests(file.path, file.new_lines)}
    gone = [test for test in _list_tests(file.path, file.old_lines) if test.name not in names]
    return {line for test in gone for line in test.body}


_Sides = tuple[list[Line], list[Line]]


def _compare_lines(change: Changeset) -> Iterator[tuple[ChangedFile, _Sides, _Sides]]:
    for file in _list_unparsed_files(change):
        style = _find_style(file.path)
        was, now = (_match_lines(side, style.asserts) for side in (file.deleted, file.added))
        if file.status != "D":
            exact = (_match_lines(was, style.exact), _match_lines(now, style.exact))
            yield file, (was, now), exact


def _match_lines(lines: list[Line], pattern: re.Pattern[str]) -> list[Line]:
    """The lines that say something, and whose failure counts."""
    return [
        each
        for each in lines
        if pattern.search(each.text[:_LONGEST])
        and not _COMMENTED.match(each.text[:_LONGEST])
        and not _ANYWAY.search(each.text[:_LONGEST])
    ]


def _build_violation(file: ChangedFile, sides: _Sides, said: str) -> RuleViolation:
    left = {each.text.strip() for each in sides[1]}
    lost = next((each for each in sides[0] if each.text.strip() not in left), sides[0][0])
    return RuleViolation(file.path, lost.number, f"{said}: {format_excerpt(lost.text.strip())}")


# --- whole tests ----------------------------------------------------------------------------------


def find_deleted_line_tests(change: Changeset) -> Iterator[RuleViolation]:
    """Tests that no new one stands for, though what they call is still there."""
    vanished = _find_vanished_calls(change)
    for file, test, left in _list_gone_tests(change):
        called = {word for line in test.body for word in re.findall(r"\w+", line)}
        if left < _STILL_THERE and not called & vanished:
            detail = f"{format_excerpt(test.name)} is gone, though what it tests is still there."
            yield RuleViolation(file.path, test.line, detail)
    for file, old, new in _list_macro_tests(change):
        names = {test.name for test in new}
        lost = [test for test in old if test.name not in names] or old[:1]
        if len(new) < len(old) and not set(lost[0].body) & vanished:
            detail = f"{lost[0].name} is no test of its macro any more."
            yield RuleViolation(file.path, lost[0].line, detail)


def find_line_tests_renamed_away(change: Changeset) -> Iterator[RuleViolation]:
    """Tests whose lines live on where no runner collects them."""
    for file, test, left in _list_gone_tests(change):
        if left >= _STILL_THERE:
            detail = f"{format_excerpt(test.name)} is there, but no runner collects it any more."
            yield RuleViolation(file.path, test.line, detail)


def _list_gone_tests(change: Changeset) -> Iterator[tuple[ChangedFile, _LineTest, float]]:
    """Tests that are gone, with the share of their lines that the file holds outside of tests."""
    files = [file for file in _list_unparsed_files(change) if file.status != "D"]
    old = [(file, test) for file in files for test in _list_tests(file.path, file.old_lines)]
    new = [test for file in files for test in _list_tests(file.path, file.new_lines)]
    known, names = {test.name for _, test in old}, {test.name for test in new}
    came = [test.body for test in new if test.name not in known]
    renamed = came.count(())
    for file, test in old:
        if test.name in names or any(_share(test, body) >= _STILL_THERE for body in came):
            continue
        if not test.body and renamed:
            renamed -= 1
            continue
        inside = {line for each in _list_tests(file.path, file.new_lines) for line in each.body}
        outside = {line.strip() for line in file.new_lines} - inside
        yield file, test, _share(test, outside)


def _share(test: _LineTest, lines: tuple[str, ...] | set[str]) -> float:
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


def _list_macro_tests(
    change: Changeset,
) -> Iterator[tuple[ChangedFile, list[_LineTest], list[_LineTest]]]:
    """Rust's tests in macros, which are no more than words to the grammar, on both sides."""
    for file in change.files:
        if file.path.endswith(".rs") and not file.binary and file.status != "D":
            old, new = ([*_read_macro_tests(side)] for side in read_sides(file))
            yield file, old, new


def _read_macro_tests(side: Side) -> Iterator[_LineTest]:
    if side.root is None or b"macro_rules!" not in side.source:
        return
    for macro in (node for node in walk(side.root) if node.type == "macro_definition"):
        text, first = read_text(macro)[:_LONGEST_MACRO], read_line_number(macro)
        for marks, name, body in _MACRO_TEST.findall(text):
            line = first + text[: text.find(name)].count("\n")
            yield _LineTest(name, line, tuple(re.findall(r"\w+", body)), marks)


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
    default = _TABLE.get_pattern("asserts"), _TABLE.get_pattern("exact")
    return [
        (
            _TABLE.compile(row["file"]),
            _Style(
                _TABLE.compile(row["test"]),
                _TABLE.compile(row["asserts"]) if "asserts" in row else default[0],
                _TABLE.compile(row["exact"]) if "exact" in row else default[1],
            ),
        )
        for row in _TABLE.entries["style"]
    ]


def _find_style(path: str) -> _Style:
    other = _Style(None, _TABLE.get_pattern("asserts"), _TABLE.get_pattern("exact"))
    return next((style for file, style in _read_styles() if file.search(path)), other)


def _list_unparsed_files(change: Changeset) -> Iterator[ChangedFile]:
    for file in change.files:
        if file.binary or not is_code(file.path) or _DATA.search(file.path):
            continue
        if not (is_named_test(file.path) or beside_tests(file.path)):
            continue
        if any(side.source and side.root is None for side in read_sides(file)):
            yield file
