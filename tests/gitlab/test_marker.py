"""How a merge request of a night is recognized."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.gitlab.marker import (
    Marker,
    compute_fingerprint,
    find_category,
    read_marker,
    write_marker,
)

TEXT = st.text(max_size=100)


@given(st.builds(Marker, TEXT, TEXT, TEXT))
def test_a_marker_is_read_as_it_was_written(marker: Marker) -> None:
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
def test_a_description_without_a_valid_marker_has_none(text: str | None) -> None:
    assert read_marker(text) is None


def test_the_last_marker_counts() -> None:
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
def test_the_category_is_the_markers_else_the_titles(
    title: str, marker: Marker | None, category: str
) -> None:
    assert find_category(title, marker) == category


def test_the_fingerprint_depends_on_category_files_and_symbols_in_any_order() -> None:
    one = compute_fingerprint("tests", ["b.py", "a.py"], ["parse", "read"])
    assert len(one) == 16
    assert int(one, 16) >= 0
    assert one == compute_fingerprint("tests", ["a.py", "b.py", "a.py"], ["read", "parse"])
    assert one != compute_fingerprint("docs", ["a.py", "b.py"], ["parse", "read"])
    assert one != compute_fingerprint("tests", ["a.py"], ["parse", "read"])
    assert one != compute_fingerprint("tests", ["a.py", "b.py"], ["parse"])
    compute_fingerprint("tests", ["a\udcff.py", "a\ud800"], ["lone surrogates"])


def test_symbols_that_do_not_fit_are_left_out() -> None:
    many = Marker("1", "tests", "0", tuple(f"<{number:->40}>" for number in range(50)))
    read = read_marker(write_marker(many))
    assert read is not None
    assert 5 < len(read.symbols) < 50
    assert read.symbols == many.symbols[: len(read.symbols)]


@pytest.mark.parametrize("symbols", ['"parse"', "7", "null", "[7, null]", '{"parse": 1}'])
def test_invalid_symbols_are_dropped(symbols: str) -> None:
    text = '<!-- nightshift: {"run_id": "1", "symbols": ' + symbols + "} -->"
    assert read_marker(text) == Marker("1", "", "")
