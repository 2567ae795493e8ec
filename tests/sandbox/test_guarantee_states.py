"""How well each guarantee is kept, and what of it stops a run: tables of pure functions."""

from dataclasses import replace

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.registry.sandbox_guarantees import GuaranteeState
from gitlab_nightshift.sandbox.guarantee_states import judge, refuse_weaker
from gitlab_nightshift.sandbox.proof import ProbeFinding
from gitlab_nightshift.sandbox.tier_choice import build_guarantees
from gitlab_nightshift.sandbox.tiers import (
    DIRECT,
    GATEWAY,
    JOB,
    MODES,
    OWN_CODE,
    ROWS,
    SERVICES,
    WRITING,
    Features,
    ProofRow,
    Tier,
)

FOUR = ("files", "secrets", "network", "lifetime")
FULL = Features(landlock=7, notify=True)
OLD = Features(landlock=3, notify=False, lacking="seccomp: Invalid argument")


def finding(row: ProofRow, tier: Tier, features: Features, *, is_open: bool = True) -> ProbeFinding:
    promised = build_guarantees(tier, features).closes(row)
    return ProbeFinding(row, "try it", is_open, promised, "it can be done")


@pytest.mark.parametrize(
    ("tier", "features", "partial"),
    [
        (Tier.NAMESPACES, FULL, ()),
        (Tier.NAMESPACES, Features(0, notify=False), ()),
        (Tier.UID, FULL, ()),
        (Tier.UID, Features(0, notify=True), ("files",)),
        (Tier.UID, replace(FULL, notify=False), ("network",)),
        (Tier.UID, Features(0, notify=False), ("files", "network")),
        (Tier.LANDLOCK, FULL, ()),
        (Tier.LANDLOCK, replace(FULL, notify=False), ("files", "network")),
        (Tier.LANDLOCK, OLD, ("files", "network", "lifetime")),
        (Tier.NONE, Features(0, notify=False), FOUR),
    ],
)
def test_what_a_tier_leaves_open_is_partial(
    tier: Tier, features: Features, partial: tuple[str, ...]
) -> None:
    """Also where the proof gets through there; what it cannot do is no wider promise."""
    promised = build_guarantees(tier, features)
    open_ones = [finding(row, tier, features) for row in ROWS if not promised.closes(row)]
    closed = [finding(row, tier, features, is_open=False) for row in ROWS]
    for findings in ([], open_ones, closed):
        judged = judge(promised, findings)
        assert [each.name for each in judged] == list(FOUR)
        assert {each.name for each in judged if each.state is GuaranteeState.PARTIAL} == set(
            partial
        )
        assert {each.name for each in judged if each.state is GuaranteeState.BROKEN} == set()
        assert all(each.reason for each in judged)


def test_the_reason_says_what_the_kernel_refused() -> None:
    network = judge(build_guarantees(Tier.LANDLOCK, OLD))[2]
    assert network.reason == (
        "TCP goes anywhere: connects cannot be judged (seccomp: Invalid argument)"
    )
    files = judge(build_guarantees(Tier.LANDLOCK, OLD))[0]
    assert files.reason == (
        "modes and times of the job user's other files can be changed:"
        " changes cannot be judged (seccomp: Invalid argument)"
    )


@pytest.mark.parametrize("row", ROWS)
def test_a_way_through_that_is_promised_to_be_closed_breaks_its_guarantee(row: ProofRow) -> None:
    """So in a guarantee that is partial for another row: modes left open excuse no writing."""
    without = Features(landlock=6, notify=False)
    tiers = [(tier, FULL) for tier in (Tier.NAMESPACES, Tier.UID, Tier.LANDLOCK)]
    for tier, features in (*tiers, (Tier.LANDLOCK, without)):
        judged = judge(build_guarantees(tier, features), [finding(row, tier, features)])
        broken = [
            (each.name, each.reason) for each in judged if each.state is GuaranteeState.BROKEN
        ]
        excused = features is without and row in (MODES, SERVICES, DIRECT)
        assert broken == ([] if excused else [(row.promise, "try it (it can be done)")])


def refusal(tier: Tier, features: Features, accepted: tuple[str, ...], *rows: ProofRow) -> str:
    """Why a run is stopped, "" where it goes on."""
    findings = [finding(row, tier, features) for row in rows]
    try:
        refuse_weaker(tier, judge(build_guarantees(tier, features), findings), accepted)
    except NightshiftError as error:
        assert error.code is Code.POLICY_DENY
        assert len(error.message.splitlines()) == 1
        return error.message
    return ""


def test_what_is_only_partly_held_stops_a_run_unless_it_is_accepted() -> None:
    assert refusal(Tier.NAMESPACES, FULL, ()) == refusal(Tier.LANDLOCK, FULL, ()) == ""
    said = refusal(Tier.LANDLOCK, OLD, ())
    names = "files, network, lifetime are only partly held in the tier landlock"
    assert said.startswith(f"{names} (modes and times of ")
    assert "; TCP goes anywhere: " in said
    assert "; accept it with accept_partial: [files, network, lifetime] (" in said
    assert len(said) < 400, "which is what a log's last line shows"
    said = refusal(Tier.LANDLOCK, OLD, ("network", "lifetime"))
    assert said.startswith("files is only partly held in the tier landlock (modes ")
    assert "accept_partial: [files, network, lifetime]" in said
    assert refusal(Tier.LANDLOCK, OLD, FOUR) == ""
    assert refusal(Tier.NAMESPACES, FULL, FOUR) == ""


def test_what_is_broken_cannot_be_accepted() -> None:
    for row in (JOB, DIRECT, SERVICES, WRITING, GATEWAY, OWN_CODE):
        said = refusal(Tier.LANDLOCK, FULL, FOUR, row)
        assert said == "the boundary does not hold here: try it (it can be done)"


def test_no_tier_at_all_was_asked_for_by_name() -> None:
    assert refusal(Tier.NONE, Features(0, notify=False), ()) == ""
