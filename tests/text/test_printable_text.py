"""What a shown text keeps: every character of Unicode is asked about."""

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
def every() -> str:
    return "".join(map(chr, range(sys.maxunicode + 1)))


def test_a_printable_text_has_no_character_that_acts_or_hides(every: str) -> None:
    shown = make_printable(every)
    assert shown.isprintable()
    assert len(shown) == len(every)
    assert make_printable("a\x1b[2Jb\u202ec\u200bd\n") == "a [2Jb c d "
    assert make_printable("a\tb\nc", "?", keep="\n") == "a?b\nc"
    assert make_printable("Größe 日本", "") == "Größe 日本"


def test_several_lines_stay_and_cannot_steer(every: str) -> None:
    kept = replace_controls(every, "?")
    assert len(kept) == len(every)
    assert {c for c in kept if unicodedata.category(c) == "Cc"} == {"\t", "\n"}
    assert replace_controls("a\x1b]0;x\x07\r\nb\x9b2J", "") == "a]0;x\nb2J"


def test_what_hides_is_removed_in_any_script(every: str) -> None:
    left = remove_hidden(every, keep="\n")
    assert "\n" in left
    assert {unicodedata.category(c) for c in left.replace("\n", "")}.isdisjoint({"Cc", "Cf", "Co"})
    assert remove_hidden("pass\u200bword\u202e \U000e0100日\u3000本") == "password 日\u3000本"


def test_lines_end_in_one_way_whatever_ended_them() -> None:
    assert unify_line_ends("a\r\nb\rc\x0bd\x0ce\x85f\u2028g\u2029h\n\ti") == "\n".join(
        ["a", "b", "c", "d", "e", "f", "g", "h", "    i"]
    )


def test_a_long_list_tells_how_much_of_it_is_left_out() -> None:
    names = ["a", "b", "c"]
    assert [join_some(names, most) for most in (2, 3, 4)] == ["a, b and 1 more", *["a, b, c"] * 2]
    assert join_some((), 2) == ""
