"""Which ideas count as the same one."""

import doctest
from dataclasses import replace

import pytest

from gitlab_nightshift.policy import repeated_ideas
from gitlab_nightshift.policy.repeated_ideas import find_repeated, find_repeated_change
from gitlab_nightshift.records.bead_results import AnalysisCandidate
from gitlab_nightshift.records.products import KnownMergeRequest

KNOWN = KnownMergeRequest(
    7, "T", "", "tests", "b", ("shop/cart.py", "tests/test_cart.py"), ("TestCart.test_total_empty",)
)


def repeats(files: tuple[str, ...], text: str, category: str = "tests") -> bool:
    return find_repeated(category, AnalysisCandidate(files, text), [KNOWN]) is not None


@pytest.mark.parametrize(
    ("files", "text"),
    [
        (("tests/test_cart.py",), "Nothing checks an empty cart."),
        (("shop/cart.py",), "Cover `total()` for no items"),
        (("shop/cart.py", "tests/test_cart.py"), "`Cart.total` has no test"),
        (("shop/cart.py", "tests/test_new.py"), "test_total_of_nothing and total() are missing"),
    ],
)
def test_the_same_in_other_words(files: tuple[str, ...], text: str) -> None:
    assert repeats(files, text)


@pytest.mark.parametrize(
    ("files", "text", "category"),
    [
        (("shop/stock.py",), "Cover `total()`", "tests"),
        (("shop/cart.py",), "Cover `total()`", "refactoring"),
        (("shop/cart.py", "tests/test_cart.py"), "Cover `discount()` of cart.py", "tests"),
        (("shop/cart.py", *"abcdef"), "Test all", "tests"),
        ((), "Test all", "tests"),
    ],
)
def test_another_idea(files: tuple[str, ...], text: str, category: str) -> None:
    assert not repeats(files, text, category)


def test_a_change_by_what_it_touches() -> None:
    files = ("tests/test_cart.py",)
    assert (
        find_repeated_change("tests", files, ("TestCart.test_total_empty",), "", [KNOWN]) is KNOWN
    )
    assert find_repeated_change("tests", files, ("TestCart.test_add",), "", [KNOWN]) is None
    assert find_repeated_change("tests", files, (), "", [KNOWN]) is KNOWN  # a language not known


def test_the_very_same_lines_are_no_other_idea_in_another_category() -> None:
    known = [replace(KNOWN, digest="0123456789abcdef")]
    files, names = ("shop/cart.py",), ("total",)
    assert find_repeated_change("docs", files, names, "0123456789abcdef", known) == known[0]
    assert find_repeated_change("docs", files, names, "0" * 16, known) is None
    assert find_repeated_change("docs", files, names, "", [KNOWN]) is None


def test_examples() -> None:
    assert doctest.testmod(repeated_ideas).failed == 0
