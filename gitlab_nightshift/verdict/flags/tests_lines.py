"""Tests that no syntax tree tells about: of other languages, too large, or mostly unreadable.

Only lines are compared. Not seen here: weaker assertions, renamed tests, tests that cannot fail.
"""

import re
from collections.abc import Iterator

from gitlab_nightshift.verdict.change import Change, ChangedFile, Found, Line
from gitlab_nightshift.verdict.flags.tests_seen import shown
from gitlab_nightshift.verdict.syntax.languages import beside_tests
from gitlab_nightshift.verdict.syntax.side import sides

_OTHER_TEST = re.compile(
    r"(?i)[._-](test|tests|spec)s?\.\w+$|(^|/)test_[^/]*\.\w+$|Tests?\.\w+$|\.(bats|t)$"
)
_CODE = re.compile(
    r"\.(py|[cm]?[jt]sx?|go|java|rb|rs|scala|kts?|php|cs|c|cc|cpp|cxx|h|hpp|m"
    r"|mm|swift|exs?|erl|hs|ml"
    r"|lua|dart|jl|r|pl|t|sh|bats|clj[cs]?|groovy|fs|vb|nim|zig|cr|elm|vue|svelte)$",
    re.IGNORECASE,
)
_SKIPS = re.compile(
    r"@(skip|Ignore|Disabled|pending|tag\s+:?skip)|\.(skip|only|todo)\b|\b(xit"
    r"|xdescribe|xtest|fdescribe|fit)\s*[(\"']"
    r"|\b(GTEST_SKIP|XCTSkip\w*|DISABLED_\w+|markTestSkipped|skip_test|t\.Skip"
    r"|pytest\.skip)\b|^\s*skip\b|#\[ignore"
)
_ASSERTS = re.compile(
    r"\b(assert\w*|expect\w*|EXPECT_\w+|ASSERT_\w+|XCTAssert\w*|should\w*|refute\w*"
    r"|REQUIRE\w*|CHECK\w*|t\.Error\w*"
    r"|t\.Fatal\w*|is|ok)\b\s*[(!{\s]"
)
_COMMENTED = re.compile(r"^\s*(#|//|--|;|\*|/\*|%)")
_LONGEST = 2000


def skipped_lines(change: Change) -> Iterator[Found]:
    """Lines that came and keep a test from running."""
    for file in _files(change):
        gone = {each.text.strip() for each in file.deleted}
        for added in file.added:
            said = added.text[:_LONGEST]
            if said.strip() not in gone and not _COMMENTED.match(said) and _SKIPS.search(said):
                yield Found(
                    file.path, added.number, f"A test is skipped now: {shown(said.strip())}"
                )


def removed_lines(change: Change) -> Iterator[Found]:
    """Files in which fewer lines assert than before."""
    for file in _files(change):
        was, now = _asserting(file.deleted), _asserting(file.added)
        if file.status != "D" and len(was) > len(now):
            left = {each.text.strip() for each in now}
            lost = next((each for each in was if each.text.strip() not in left), was[0])
            yield Found(
                file.path, lost.number, f"This is not checked any more: {shown(lost.text.strip())}"
            )


def _files(change: Change) -> Iterator[ChangedFile]:
    for file in change.files:
        if file.binary or not _CODE.search(file.path):
            continue
        if not (_OTHER_TEST.search(file.path) or beside_tests(file.path)):
            continue
        before, after = sides(file)
        unread = [side for side in (before, after) if side.source and side.root is None]
        if unread:
            yield file


def _asserting(lines: list[Line]) -> list[Line]:
    return [
        each
        for each in lines
        if _ASSERTS.search(each.text[:_LONGEST]) and not _COMMENTED.match(each.text[:_LONGEST])
    ]
