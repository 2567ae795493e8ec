"""The corpus against the machine: every attack in every tier and place; and, so that none fails for
another reason, where nothing is in its way. See README.md."""

import os
import re
from pathlib import Path

import pytest

from gitlab_nightshift.host.sandbox.records import Tier
from tests.attacks.harness import TIERS, Results, corpus, open_in, results, why_not

CORPUS = corpus()
SECURITY = Path(__file__).parents[2] / "SECURITY.md"
PROMISES = {"files", "secrets", "network", "lifetime"}
RUNS = [
    *(("here", tier) for tier in TIERS),
    *(("user", tier) for tier in (Tier.NAMESPACES, Tier.LANDLOCK)),
    *(("docker root", tier) for tier in (Tier.UID, Tier.LANDLOCK)),
    ("docker user", Tier.LANDLOCK),
]


def run_or_skip(place: str, tier: Tier, shared: Path) -> Results:
    if reason := why_not(place):
        pytest.skip(reason)
    found = results(place, tier, shared)
    if found.missing:
        pytest.skip(f"{tier}: {found.missing}")
    return found


@pytest.mark.parametrize("name", CORPUS)
def test_it_gets_through_where_nothing_stops_it(name: str, shared: Path) -> None:
    found = run_or_skip("here", Tier.NONE, shared)
    if name in found.cannot:
        pytest.skip(f"{name} cannot be shown here: {found.cannot[name]}")
    kind, how = found.attacks[name]
    assert kind == "through", how


@pytest.mark.parametrize(("place", "tier"), RUNS)
@pytest.mark.parametrize("name", CORPUS)
def test_it_is_stopped(name: str, place: str, tier: Tier, shared: Path) -> None:
    kind, how = run_or_skip(place, tier, shared).attacks[name]
    if kind == "broken":
        pytest.fail(f"the attack itself does not work: {how}")
    if kind == "through":
        assert open_in(CORPUS[name], tier), f"{tier} has a hole: {CORPUS[name].TITLE}: {how}"


@pytest.mark.parametrize(("place", "tier"), RUNS)
def test_what_an_agent_needs_is_there(place: str, tier: Tier, shared: Path) -> None:
    """Else all attacks could fail because nothing works: files, processes, servers, the gateway."""
    assert run_or_skip(place, tier, shared).needed == ""


def test_what_is_said_to_be_open_is_open(shared: Path) -> None:
    """An expectation that has outlived its reason is a mistake, too."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    for name, attack in CORPUS.items():
        for tier in getattr(attack, "OPEN_IN", {}):
            found = [results(place, t, shared) for place, t in RUNS if t == tier]
            kinds = {one.attacks[name][0] for one in found if not one.missing}
            assert "through" in kinds, f"{name} is stopped in {tier}: OPEN_IN is out of date"


def test_what_is_open_is_told() -> None:
    """In the words of SECURITY.md."""
    said = re.sub(r"\s+", " ", SECURITY.read_text())
    for name, attack in CORPUS.items():
        for tier, words in getattr(attack, "OPEN_IN", {}).items():
            assert tier in set(Tier)
            assert words in said, f"{name}: SECURITY.md does not say: {words}"


def test_most_of_the_corpus_can_be_shown_as_root(shared: Path) -> None:
    """A control that skips everything would prove nothing."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    kinds = [kind for kind, _ in results("here", Tier.NONE, shared).attacks.values()]
    assert kinds.count("through") >= 60


@pytest.mark.parametrize("name", CORPUS)
def test_an_attack_says_what_it_is(name: str) -> None:
    attack = CORPUS[name]
    for text in (attack.TITLE, attack.TRIES, attack.MUST_FAIL):
        assert text and "\n" not in text
    assert attack.PROMISE in PROMISES
    lines = Path(str(attack.__file__)).read_text().splitlines()
    assert 8 <= len(lines) <= 60
