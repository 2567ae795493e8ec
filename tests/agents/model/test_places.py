"""Where an edit stands: exactly, else but for white space; what is not there is never put there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.agents.model.edits import NotApplicableError, plan_edits, write_blocks
from gitlab_nightshift.agents.model.places import build_block

FILE = """\
class Shop:
    def total(self, prices):
        return sum(prices)

    def count(self, prices):
        return len(prices)
"""


def edited(text: str, old: str, new: str) -> str:
    block = build_block("f", text, old, new)
    [edit] = plan_edits([block], lambda path: text.encode())
    assert edit.after is not None
    return edit.after.decode()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sum(prices)", "float(sum(prices))"),
        ("        return sum(prices)\n", "        return 1\n"),
        ("        return sum(prices)\n", ""),
        ("        return sum(prices)\n\n", "\n"),
        ("class Shop:\n", "class Shop:\n    x = 1\n"),
        ("        return len(prices)\n", "        return 2\n        # the end\n"),
        ("prices):\n        return sum(", "values):\n        return sum("),
        ("total(self, prices):\n", "total(self): "),
        (FILE, "x = 1\n"),
    ],
)
def test_what_stands_there_once_is_replaced_exactly(old: str, new: str) -> None:
    assert edited(FILE, old, new) == FILE.replace(old, new)


def test_line_ends_of_the_file_stay() -> None:
    text = FILE.replace("\n", "\r\n")
    assert edited(text, "return sum(prices)\n", "return 1\n") == text.replace("sum(prices)", "1")


def test_without_the_indentation_it_is_found_and_moved() -> None:
    old = "def count(self, prices):\n    return len(prices)"
    new = "def count(self, prices):\n    # All of them.\n    return len(prices)"
    assert edited(FILE, old, new) == FILE.replace(
        "        return len", "        # All of them.\n        return len"
    )


@pytest.mark.parametrize(
    ("old", "why"),
    [
        ("prices", "occurs 4 times"),
        ("return   sum( values )", "not there; the nearest place is line 3:\n        return sum"),
        ("def nothing_like_it(at, all)", "the old text is not there$"),
        ("self, prices ) :", "the old text is not there"),
    ],
)
def test_what_is_not_there_once_is_refused_with_the_nearest_place(old: str, why: str) -> None:
    with pytest.raises(NotApplicableError, match=why.replace("(", r"\(")):
        build_block("f", FILE, old, "x")


def test_two_places_that_differ_by_white_space_are_told() -> None:
    with pytest.raises(NotApplicableError, match="at lines 1, 2; copy it exactly"):
        build_block("f", "a = 1\na  =  1\n", " a = 1 ", "b")


LINES = st.lists(st.sampled_from(["a", "b", "  a", "", "c d"]), max_size=8)


@given(LINES, LINES, LINES, LINES)
def test_any_edit_is_made_exactly_or_refused(
    before: list[str], old: list[str], new: list[str], after: list[str]
) -> None:
    text = "\n".join([*before, *old, *after, ""])
    wanted, by = "\n".join(old), "\n".join(new)
    if not wanted:
        return
    try:
        made = edited(text, wanted, by)
    except NotApplicableError:
        return
    assert text.count(wanted) > 1 or made == text.replace(wanted, by)


@given(LINES, LINES)
def test_blocks_that_are_written_make_the_same_edit(before: list[str], after: list[str]) -> None:
    old, new = ("".join(f"{line}\n" for line in lines).encode() for lines in (before, after))
    if old == new or not before or not after:
        return
    from gitlab_nightshift.agents.model.edits import Edit

    blocks = write_blocks([Edit("f", old, new, 0, 0)])
    [made] = plan_edits(blocks, lambda path: old)
    assert made.after == new
