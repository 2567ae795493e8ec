"""How a merge request of a night is known again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.gitlab.marker import (
    Marker,
    category_of,
    fingerprint,
    read_marker,
    write_marker,
)

TEXT = st.text(max_size=100)


@given(st.builds(Marker, TEXT, TEXT, TEXT))
def test_round_trip(marker: Marker) -> None:
    text = write_marker(marker)
    assert text.count("--") == 2
    assert text.count(">") == 1
    assert read_marker(f"## Summary\n\n{text}\n") == marker


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "nightshift",
        "<!-- nightshift: {} x -->",
        "<!-- nightshift: {not json} -->",
        '<!-- nightshift: ["a"] -->',
        "<!-- nightshift: " + "{" * 2000 + " -->",
    ],
)
def test_no_marker(text: str | None) -> None:
    assert read_marker(text) is None


def test_the_last_one_counts() -> None:
    first, last = Marker("1", "docs", "a"), Marker("2", "tests", "b")
    assert read_marker(write_marker(first) + "\n" + write_marker(last)) == last


@pytest.mark.parametrize(
    ("title", "marker", "category"),
    [
        ("[night-shift/docs] x", None, "docs"),
        ("Draft: [Night-Shift/Docs] x", None, "docs"),
        ("[night-shift/docs] x", Marker("1", "tests", ""), "tests"),
        ("[night-shift/docs] x", Marker("1", "", ""), "docs"),
        ("about [night-shift/docs]", None, ""),
    ],
)
def test_category(title: str, marker: Marker | None, category: str) -> None:
    assert category_of(title, marker) == category


def test_fingerprint() -> None:
    one = fingerprint("tests", ["b.py", "a.py"], "Cover the parser's Errors")
    assert len(one) == 16
    assert int(one, 16) >= 0
    assert one == fingerprint("tests", ["a.py", "b.py", "a.py"], "errors of the PARSER: cover")
    assert one != fingerprint("docs", ["a.py", "b.py"], "Cover the parser's errors")
    assert one != fingerprint("tests", ["a.py"], "Cover the parser's errors")
    assert one != fingerprint("tests", ["a.py", "b.py"], "Cover the cache")
    fingerprint("tests", ["a\udcff.py", "a\ud800"], "lone surrogates")
