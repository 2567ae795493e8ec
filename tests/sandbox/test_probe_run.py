"""Trials on a busy machine: only those that time out are repeated."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from gitlab_nightshift.sandbox import bwrap, probe_run, tier_choice
from gitlab_nightshift.sandbox.launch import Sandbox
from gitlab_nightshift.sandbox.probe_run import TRIAL_LIMITS_S, ProbeOutcome, repeat_if_timed_out
from gitlab_nightshift.sandbox.probes import ProbeTargets
from gitlab_nightshift.sandbox.proof import prove
from gitlab_nightshift.sandbox.tier_choice import probe_tiers
from gitlab_nightshift.sandbox.tiers import Tier
from tests.sandbox.tools import Room, open_folder

AT_ONCE = 0.0
"""Seconds in which no trial can end."""


@dataclass(frozen=True)
class Trial:
    limit_s: float
    timed_out: bool


def test_only_a_timed_out_trial_is_repeated_a_few_times() -> None:
    for slow, expected in ((0, 1), (1, 2), (2, 3), (9, 3)):
        limits: list[float] = []

        def once(limit_s: float, limits: list[float] = limits, slow: int = slow) -> Trial:
            limits.append(limit_s)
            return Trial(limit_s, timed_out=len(limits) <= slow)

        assert repeat_if_timed_out(once) == Trial(TRIAL_LIMITS_S[expected - 1], timed_out=slow >= 3)
        assert limits == list(TRIAL_LIMITS_S[:expected])
    assert sorted(TRIAL_LIMITS_S) == list(TRIAL_LIMITS_S)


def test_a_slow_trial_does_not_weaken_a_tier(
    any_room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second attempt decides about the tier, its network and the proof."""
    tier = any_room.sandbox.tier
    monkeypatch.setattr(probe_run, "TRIAL_LIMITS_S", (AT_ONCE, 60.0))
    with open_folder() as folder:
        found = {each.tier: each for each in probe_tiers(folder)}[tier]
    assert isinstance(found, Sandbox), found
    assert found.features == any_room.sandbox.features
    assert found.guarantees == any_room.sandbox.guarantees
    proof = prove(any_room.sandbox, any_room.confinement, ProbeTargets())
    assert (proof.failure, proof.holes, proof.timed_out) == ("", (), False)
    assert len(proof.findings) > 40


def test_a_machine_that_stays_too_slow_is_reported(
    landlock_room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_run, "TRIAL_LIMITS_S", (AT_ONCE, AT_ONCE))
    proof = prove(landlock_room.sandbox, landlock_room.confinement, ProbeTargets())
    assert (proof.failure, proof.held) == ("no end within 0 seconds", False)
    with open_folder() as folder:
        found = {each.tier: each for each in probe_tiers(folder)}[Tier.LANDLOCK]
    assert isinstance(found, tier_choice.UnavailableTier)
    assert found.reason == "no end within 0 seconds"


def test_a_sandbox_that_fails_for_a_reason_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, calls = tmp_path / "bwrap", tmp_path / "calls"
    fake.write_text(f"#!/bin/sh\necho x >> {calls}\necho 'bwrap: no permission' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(bwrap, "find", lambda: str(fake))
    found = probe_tiers(tmp_path)[0]
    assert isinstance(found, tier_choice.UnavailableTier)
    assert found.reason == "bwrap: no permission"
    assert calls.read_text().split() == ["x"]


def test_a_missing_answer_is_a_timeout(
    landlock_room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that was too busy answers at the second attempt."""
    parse = probe_run._parse_outcomes
    slow = [ProbeOutcome("reach the gateway", False, probe_run.NO_ANSWER)]
    monkeypatch.setattr(
        probe_run, "_parse_outcomes", lambda out: [slow.pop()] if slow else parse(out)
    )
    with open_folder() as folder:
        results = {result.tier: result for result in probe_tiers(folder)}
    assert slow == []
    assert isinstance(results[Tier.LANDLOCK], Sandbox)
