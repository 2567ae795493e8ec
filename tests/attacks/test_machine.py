"""The corpus against the machine: every attack in every tier and place; and, so that none fails for
another reason, where nothing is in its way. See README.md."""

import inspect
import os
import re
from pathlib import Path

import pytest

from gitlab_nightshift.sandbox.tiers import Tier
from tests.attacks.attack import read_corpus
from tests.attacks.harness import Results, results, why_not

CORPUS = read_corpus()
SECURITY = Path(__file__).parents[2] / "SECURITY.md"
PROMISES = {"files", "secrets", "network", "lifetime"}
RUNS = [
    ("here", Tier.NAMESPACES),  # the other tiers as it is here: whole nights, in test_night.py
    *(("user", tier) for tier in (Tier.NAMESPACES, Tier.LANDLOCK)),
    *(("docker root", tier) for tier in (Tier.UID, Tier.LANDLOCK)),
    ("docker user", Tier.LANDLOCK),
]

OPEN_FOR = {Tier.LANDLOCK: "user"}
"""Where a tier shows all that is open in it: a process without rights cannot read root's."""


def run_or_skip(place: str, tier: Tier, shared: Path) -> Results:
    if reason := why_not(place):
        pytest.skip(reason)
    found = results(place, tier, shared)
    if found.missing:
        pytest.skip(f"{tier}: {found.missing}")
    return found


def test_they_get_through_where_nothing_stops_them(shared: Path) -> None:
    found = run_or_skip("here", Tier.NONE, shared)
    assert found.attacks.keys() | found.cannot.keys() == CORPUS.keys()
    assert {name: how for name, how in found.attacks.items() if how[0] != "through"} == {}
    print("cannot be shown here:", found.cannot)
    # A control that skips everything would prove nothing.
    assert len(found.attacks) >= 60 or os.geteuid() != 0


@pytest.mark.parametrize(("place", "tier"), RUNS)
def test_they_are_stopped(place: str, tier: Tier, shared: Path) -> None:
    found = run_or_skip(place, tier, shared)
    # Else all attacks could fail because nothing works: files, processes, servers, the gateway.
    assert found.needed == "", "what an agent needs is there"
    assert found.attacks.keys() == CORPUS.keys()
    broken = {name: how for name, (kind, how) in found.attacks.items() if kind == "broken"}
    assert broken == {}, "these attacks themselves do not work"
    through = {name: how for name, (kind, how) in found.attacks.items() if kind == "through"}
    known = {name for name, attack in CORPUS.items() if tier in attack.open_in}
    assert {name: how for name, how in through.items() if name not in known} == {}, "holes"
    # An expectation that has outlived its reason is a mistake, too.
    outlived = known - through.keys() if place == OPEN_FOR.get(tier, place) else set()
    assert outlived == set(), "these are stopped: open_in is out of date"


def test_what_is_open_is_told() -> None:
    """In the words of SECURITY.md."""
    said = re.sub(r"\s+", " ", SECURITY.read_text())
    for name, attack in CORPUS.items():
        for tier, words in attack.open_in.items():
            assert tier in set(Tier)
            assert words in said, f"{name}: SECURITY.md does not say: {words}"


def test_an_attack_says_what_it_is() -> None:
    for name, attack in CORPUS.items():
        assert inspect.getdoc(attack.attempt) and attack.must_fail, name
        assert attack.promise in PROMISES, name
        assert len(inspect.getsource(attack.attempt).splitlines()) <= 50, name
