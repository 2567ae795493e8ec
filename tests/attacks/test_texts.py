"""Hostile texts in every place where an agent's words end up: none of them does anything."""

import itertools
import re

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


def test_they_do_nothing_in_a_description() -> None:
    failures = []
    for name, (hostile, _) in TEXTS.items():
        text = body(hostile)
        deeds = in_markdown(text) - OWN_HEADINGS
        deeds |= in_markdown(re.sub(r"(?m)^(?:## \w+|---)$", "", text))
        headings = re.findall(r"(?m)^## (.*)$", text)
        if deeds or headings != HEADINGS:
            failures.append((name, deeds, headings))
    assert failures == []


def test_they_do_nothing_elsewhere() -> None:
    failures = []
    for (name, (hostile, _)), place in itertools.product(TEXTS.items(), PLACES):
        put, deeds = PLACES[place]
        text = put(hostile)
        if not text or deeds(text):  # something is left to read
            failures.append((name, place, text))
    assert failures == []


def test_they_stay_text_in_a_page() -> None:
    for place, put in PAGES.items():
        harmless = in_xml(put("words"))
        changed = [name for name, (text, _) in TEXTS.items() if in_xml(put(text)) != harmless]
        assert changed == [], place


def test_as_they_are_they_do_what_is_said() -> None:
    failures = {name: deeds - careless(text) for name, (text, deeds) in TEXTS.items()}
    assert {name: missing for name, missing in failures.items() if missing} == {}


def test_harmless_words_do_nothing() -> None:
    """So the detectors find the deeds, not any text."""
    assert careless("plain words") == {"name"}
    assert careless("words") == set()
