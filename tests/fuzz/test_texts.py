"""Any text of an agent does nothing where it is published; cleaned again it is the same."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from gitlab_nightshift.stages.publish.branches import build_slug
from gitlab_nightshift.stages.publish.escaping import (
    clean,
    to_code_span,
    to_markdown,
    to_markdown_line,
    to_plain_line,
    to_plain_text,
)
from tests.attacks.text_places import (
    OWN_HEADINGS,
    PAGES,
    PLACES,
    body,
    in_commit,
    in_markdown,
    in_xml,
)
from tests.attacks.texts import TEXTS
from tests.fuzz.strategies import steady

PARTS = st.sampled_from([text for text, _ in TEXTS.values() if len(text) < 60])
GLUE = st.sampled_from(["", " ", "\n", "\n\n", "\r", "[", "]", "`", "\\", "/", "\u200b", "#", "- "])
MIXED = st.lists(PARTS | GLUE | st.text(max_size=4), max_size=8).map("".join)
CUT_UP = st.tuples(PARTS, PARTS, st.integers(0, 20)).map(
    lambda drawn: drawn[0][: drawn[2]] + drawn[1] + drawn[0][drawn[2] :]
)
ANYTHING = MIXED | CUT_UP


@steady(100)
@given(ANYTHING)
@example("[[skip ci]]")
def test_cleaning_again_changes_nothing(text: str) -> None:
    assert clean(clean(text)) == clean(text)
    assert to_plain_text(to_plain_text(text)) == to_plain_text(text)
    assert to_plain_line(to_plain_line(text, 10**6), 10**6) == to_plain_line(text, 10**6)


@steady(15)
@given(ANYTHING)
def test_a_description_does_nothing(text: str) -> None:
    done = body(text)
    assert in_markdown(done) - OWN_HEADINGS == set()
    assert in_markdown(re.sub(r"(?m)^(?:## \w+|---)$", "", done)) == set()


@steady(60)
@given(ANYTHING)
def test_its_parts_do_nothing_alone(text: str) -> None:
    for done in (to_markdown(text), to_markdown_line(text), to_code_span(text)):
        assert in_markdown(done) == set()
    assert in_commit(to_plain_text(text)) <= {"trailer", "signature"}, "those go with their lines"


@steady(50)
@given(ANYTHING, st.sampled_from(sorted(PLACES)))
def test_other_places_do_nothing(text: str, place: str) -> None:
    put, deeds = PLACES[place]
    assert deeds(put(text)) == set()


@steady(60)
@given(ANYTHING, st.sampled_from(sorted(PAGES)))
def test_pages_stay_pages(text: str, page: str) -> None:
    assert in_xml(PAGES[page](text)) == in_xml(PAGES[page]("words"))


@steady(60)
@given(st.lists(st.text(max_size=80), max_size=3))
def test_a_branch_has_a_plain_name(texts: list[str]) -> None:
    assert re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", build_slug(*texts))
    assert len(build_slug(*texts)) <= 60
