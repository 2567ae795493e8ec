"""The functions that a change touches."""

from gitlab_nightshift.proof.changed_symbols import compute_digest, list_changed_symbols
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


def test_the_same_lines_have_the_same_digest_wherever_they_stand() -> None:
    def digest(before: str, after: str, name: str = "a.py") -> str:
        return compute_digest(change_of({name: before}, {name: after}))

    there = digest("a\nb\n", "a\nb\nx = 1\n")
    assert digest("a\nb\n", "a\n\n    x  =  1\nb\n") == there
    others = (digest("a\n", "a\nx = 2\n"), digest("a\n", "a\nx = 1\n", "b.py"))
    assert there not in (*others, digest("x = 1\na\n", "a\n"), "")
    assert compute_digest(change_of({"a": "x\n"}, {"b": "x\n"})) == ""
