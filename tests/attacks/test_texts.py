"""Hostile texts in every place where an agent's words end up: none of them does anything."""

import re

import pytest

from tests.attacks.text_places import (
    OWN_HEADINGS,
    PAGES,
    PLACES,
    body,
    careless,
    in_markdown,
    in_xml,
)
from tests.attacks.texts import TEXTS

HEADINGS = ["Summary", "Reasoning", "Changes", "Verification"]


@pytest.mark.parametrize("name", TEXTS)
def test_it_does_nothing_in_a_description(name: str) -> None:
    text = body(TEXTS[name][0])
    assert re.findall(r"(?m)^## (.*)$", text) == HEADINGS
    assert in_markdown(text) - OWN_HEADINGS == set()
    assert in_markdown(re.sub(r"(?m)^(?:## \w+|---)$", "", text)) == set()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", TEXTS)
def test_it_does_nothing_elsewhere(name: str, place: str) -> None:
    put, deeds = PLACES[place]
    text = put(TEXTS[name][0])
    assert text, "something is left to read"
    assert deeds(text) == set(), text


@pytest.mark.parametrize("place", PAGES)
@pytest.mark.parametrize("name", TEXTS)
def test_it_stays_text_in_a_page(name: str, place: str) -> None:
    assert in_xml(PAGES[place](TEXTS[name][0])) == in_xml(PAGES[place]("words"))


@pytest.mark.parametrize("name", TEXTS)
def test_as_it_is_it_does_what_is_said(name: str) -> None:
    text, deeds = TEXTS[name]
    assert deeds <= careless(text)


def test_harmless_words_do_nothing() -> None:
    """So the detectors find the deeds, not any text."""
    assert careless("plain words") == {"name"}
    assert careless("words") == set()
