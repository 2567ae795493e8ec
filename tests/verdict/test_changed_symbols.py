"""The functions that a change touches."""

from gitlab_nightshift.verdict.changed_symbols import list_changed_symbols
from tests.support.pairs import change_of

BEFORE = """\
import os


class Cart:
    items = []

    def total(self):
        return 0

    def gone(self):
        return 1


def other():
    return 2
"""


def test_the_innermost_names_of_both_sides() -> None:
    after = BEFORE.replace("return 0", "return 7").replace(
        "    def gone(self):\n        return 1\n", ""
    )
    found = list_changed_symbols(change_of({"cart.py": BEFORE}, {"cart.py": after}))
    assert found == ("Cart.total", "Cart.gone")


def test_a_class_by_its_own_lines() -> None:
    after = BEFORE.replace("items = []", "items = [1]")
    assert list_changed_symbols(change_of({"a.py": BEFORE}, {"a.py": after})) == ("Cart",)


def test_what_has_no_names() -> None:
    after = {"a.py": BEFORE.replace("import os", "import re"), "a.xyz": "b", "README.md": "c"}
    before = {"a.py": BEFORE, "a.xyz": "a", "README.md": "a"}
    assert list_changed_symbols(change_of(before, after)) == ()
