"""Which tests a change touches."""

from collections.abc import Mapping

import pytest

from gitlab_nightshift.proof.running.touched_tests import find_touched_tests
from gitlab_nightshift.proof.running.tree_files import TreeFiles
from tests.proof.running.shops import (
    GO_TEST,
    GOLANG,
    HELPER,
    LABEL_TEST,
    PRICE_TEST,
    PYTHON,
    SHOP,
)
from tests.proof.running.test_canaries import GO_FILE, LABELS, PRICES, change
from tests.support.tried import Files, Tried

PRICE_TESTS, LABEL_TESTS = {"test_members", "test_guests"}, {"test_nobody", "test_somebody"}
GOLDEN_TEST = change(LABEL_TEST, '"nobody")', 'open("tests/nobody.txt").read())')


@pytest.mark.parametrize(
    ("before", "after", "old", "new"),
    [
        pytest.param(
            PYTHON,
            {LABELS: change(LABEL_TEST, '"for a"', '"for " + "a"')},
            {"test_somebody"},
            {"test_somebody"},
            id="its text",
        ),
        pytest.param(
            PYTHON,
            {LABELS: change(LABEL_TEST, "test_somebody", "test_anybody")},
            {"test_somebody"},
            {"test_anybody"},
            id="its name",
        ),
        pytest.param(PYTHON, {LABELS: None}, LABEL_TESTS, set(), id="it is gone"),
        pytest.param(
            PYTHON,
            {"tests/helper.py": change(HELPER.lstrip(), "    case", "    return\n    case")},
            PRICE_TESTS,
            PRICE_TESTS,
            id="its helper",
        ),
        pytest.param(
            PYTHON,
            {PRICES: change(PRICE_TEST, "from shop import price", "price = max")},
            PRICE_TESTS,
            PRICE_TESTS,
            id="a name of its file",
        ),
        pytest.param(
            PYTHON | {LABELS: GOLDEN_TEST, "tests/nobody.txt": "nobody"},
            {"tests/nobody.txt": "somebody"},
            {"test_nobody"},
            {"test_nobody"},
            id="a file that it reads",
        ),
        pytest.param(
            GOLANG,
            {GO_FILE: change(GO_TEST, "got != want", "false")},
            {"TestMembers", "TestGuests", "TestLabel"},
            {"TestMembers", "TestGuests", "TestLabel"},
            id="its helper in Go",
        ),
        pytest.param(PYTHON, {"shop.py": SHOP + "\n\nLIMIT = 3\n"}, set(), set(), id="its subject"),
        pytest.param(PYTHON, {LABELS: LABEL_TEST + "\n# The end.\n"}, set(), set(), id="a comment"),
    ],
)
def test_a_test_is_touched_by_what_it_stands_on(
    tried: Tried, before: Files, after: Mapping[str, str | None], old: set[str], new: set[str]
) -> None:
    with tried(before, after) as (subject, workbench):
        repository = workbench.checkout.repository
        files = (TreeFiles(repository, tree) for tree in (subject.base, subject.tree))
        found = find_touched_tests(subject.change, *files)
    assert {test.name for each in found for test in each.old} == old
    assert {test.name for each in found for test in each.new} == new


def test_languages_are_told_apart_and_the_larger_one_is_first(tried: Tried) -> None:
    after = {LABELS: None, PRICES: None, GO_FILE: change(GO_TEST, '"for a"', '"for " + "a"')}
    with tried(PYTHON | GOLANG, after) as (subject, workbench):
        repository = workbench.checkout.repository
        files = (TreeFiles(repository, tree) for tree in (subject.base, subject.tree))
        found = find_touched_tests(subject.change, *files)
    assert [(each.language, len(each.old)) for each in found] == [("python", 4), ("go", 1)]
    assert {"label", "price"} <= found[0].named
    assert "Label" in found[1].named
