"""What of a text is shown, tried with every character of Unicode."""

import sys
import unicodedata

import pytest

from gitlab_nightshift.text.printable_text import (
    join_some,
    make_printable,
    remove_hidden,
    replace_controls,
    unify_line_ends,
)


@pytest.fixture(scope="module")
def all_characters() -> str:
    return "".join(map(chr, range(sys.maxunicode + 1)))


def test_a_printable_text_has_no_character_that_acts_or_hides(all_characters: str) -> None:
    shown = make_printable(all_characters)
    assert shown.isprintable()
    assert len(shown) == len(all_characters)
    assert make_printable("a\x1b[2Jb\u202ec\u200bd\n") == "a [2Jb c d "
    assert make_printable("a\tb\nc", "?", keep="\n") == "a?b\nc"
    assert make_printable("Größe 日本", "") == "Größe 日本"


def test_replaced_controls_leave_lines_and_tabs(all_characters: str) -> None:
    kept = replace_controls(all_characters, "?")
    assert len(kept) == len(all_characters)
    assert {c for c in kept if unicodedata.category(c) == "Cc"} == {"\t", "\n"}
    assert replace_controls("a\x1b]0;x\x07\r\nb\x9b2J", "") == "a]0;x\nb2J"


def test_hidden_characters_are_removed_in_any_script(all_characters: str) -> None:
    left = remove_hidden(all_characters, keep="\n")
    assert "\n" in left
    assert {unicodedata.category(c) for c in left.replace("\n", "")}.isdisjoint({"Cc", "Cf", "Co"})
    assert remove_hidden("pass\u200bword\u202e \U000e0100日\u3000本") == "password 日\u3000本"


def test_all_line_ends_become_line_feeds() -> None:
    assert unify_line_ends("a\r\nb\rc\x0bd\x0ce\x85f\u2028g\u2029h\n\ti") == "\n".join(
        ["a", "b", "c", "d", "e", "f", "g", "h", "    i"]
    )


def test_a_long_list_says_how_many_names_are_left_out() -> None:
    names = ["a", "b", "c"]
    assert [join_some(names, most) for most in (2, 3, 4)] == ["a, b and 1 more", *["a, b, c"] * 2]
    assert join_some((), 2) == ""
