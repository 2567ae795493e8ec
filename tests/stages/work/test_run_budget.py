"""Money, tokens and time of a run, and how often its progress is shown."""

import pytest

from gitlab_nightshift.errors import Code
from gitlab_nightshift.records.bead_results import BeadResult, BeadStatus, CommandResult
from gitlab_nightshift.records.events import read_clock
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.usage import UNKNOWN_USAGE, SpendingLimit, Usage, add_usage
from gitlab_nightshift.stages.work.run_budget import (
    HEARTBEAT_S,
    LONGEST_TEXT,
    PACE_S,
    Ledger,
    Pace,
    Stop,
)


def bead(usd: float | None, tokens: int | None, status: BeadStatus = BeadStatus.OK) -> BeadResult:
    return BeadResult("analyze", "tests", 1, "m", status, Usage(usd, tokens), 1.0)


def ledger(
    *results: BeadResult, usd: float = 1.0, tokens: int | None = None, left_s: float | None = None
) -> Ledger:
    deadline = None if left_s is None else read_clock() + left_s
    return Ledger(SpendingLimit(usd, tokens), deadline, results=list(results))


def test_failed_beads_count() -> None:
    run_ledger = ledger(bead(0.25, 10), bead(0.5, 20, BeadStatus.CRASHED))
    assert add_usage(run_ledger.list_usage()) == Usage(0.75, 30)
    assert run_ledger.compute_budget_left() == SpendingLimit(0.25)
    assert ledger(bead(0.25, 10), tokens=100).compute_budget_left() == SpendingLimit(0.75, 90)


def test_unknown_stays_unknown_and_is_not_counted() -> None:
    run_ledger = ledger(bead(0.25, 10), bead(None, None), tokens=100)
    assert add_usage(run_ledger.list_usage()) == UNKNOWN_USAGE
    assert run_ledger.compute_budget_left() == SpendingLimit(0.75, 90)


def test_time_is_reserved_for_the_notary() -> None:
    """Twice the baseline's time, but at most half of what is left."""
    ran = (CommandResult("make test", 0, 100.0, output="ok"), CommandResult("make lint", 0, 50.0))
    for left_s, kept_s in ((1_000.0, 300.0), (400.0, 200.0)):
        run_ledger = ledger(left_s=left_s)
        before = run_ledger.compute_left_s()
        run_ledger.note_baseline(ran)
        after = run_ledger.compute_left_s()
        assert before and after and kept_s <= before - after < kept_s + 60
    free = ledger()
    free.note_baseline(ran)
    assert (free.compute_left_s(), [each.output for each in free.baseline]) == (None, ["", ""])


def test_nothing_is_spent_at_the_start() -> None:
    run_ledger = ledger(tokens=5, left_s=60)
    run_ledger.check()
    assert add_usage(run_ledger.list_usage()) == Usage(0.0, 0)
    assert not run_ledger.is_late()


@pytest.mark.parametrize(
    ("run_ledger", "outcome", "reason", "code"),
    [
        (ledger(bead(0.995, 1)), Outcome.NO_IMPROVEMENT, "budget of $1 reached", None),
        (ledger(bead(2.5, 1), usd=2.5), Outcome.NO_IMPROVEMENT, "budget of $2.5 reached", None),
        (ledger(bead(0, 9), tokens=9), Outcome.NO_IMPROVEMENT, "budget of 9 tokens reached", None),
        (ledger(bead(2, 9), tokens=9), Outcome.NO_IMPROVEMENT, "budget of $1 reached", None),
        (ledger(left_s=0), Outcome.FAILED, "the run's deadline is reached", Code.TIMEOUT),
    ],
)
def test_a_limit_that_is_reached(
    run_ledger: Ledger, outcome: Outcome, reason: str, code: Code | None
) -> None:
    with pytest.raises(Stop) as caught:
        run_ledger.check()
    assert (caught.value.outcome, caught.value.reason, caught.value.code) == (outcome, reason, code)


def test_the_reason_names_the_limit_with_the_smaller_share_left() -> None:
    """An agent stops with something of both budgets left."""
    for spent, named in (((0.5, 90), "100 tokens"), ((0.95, 20), "$1"), ((None, 90), "100 tokens")):
        stop = ledger(bead(*spent), tokens=100).build_budget_stop()
        assert stop.reason == f"budget of {named} reached"


def test_the_last_cent_may_be_spent() -> None:
    ledger(bead(0.98, 1)).check()


def test_the_deadline_runs() -> None:
    assert ledger().compute_left_s() is None
    assert 59 < (ledger(left_s=60).compute_left_s() or 0) <= 60
    assert ledger(left_s=-1).is_late()
    assert not ledger().is_late()


def show(times: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """The lines shown of a bead with these texts ("" for none), each with its second."""
    now = 0.0
    pace, out = Pace(lambda: now), []
    for now, text in times:
        if text:
            pace.note(text)
        if line := pace.take_due_text():
            out.append((now, line))
    return out


def test_the_first_text_is_shown_at_once_then_the_newest_every_two_seconds() -> None:
    said = [(n / 1000, str(n)) for n in range(10_000)]
    lines = show(said)
    assert lines == [(0.0, "0"), (2.0, "2000"), (4.0, "4000"), (6.0, "6000"), (8.0, "8000")]


def test_an_early_text_is_shown_when_it_is_due() -> None:
    assert show([(0, "a"), (1, "b"), (1.5, ""), (PACE_S, ""), (9, "")]) == [(0, "a"), (PACE_S, "b")]


def test_an_ellipsis_is_shown_once_a_minute_without_texts() -> None:
    ticks = [(n / 5, "") for n in range(int(5 * HEARTBEAT_S * 2) + 1)]
    assert show(ticks) == [(HEARTBEAT_S, "…"), (2 * HEARTBEAT_S, "…")]
    assert show([(1, "a"), *ticks[10:]]) == [(1, "a"), (1 + HEARTBEAT_S, "…")]


def test_a_text_is_bounded() -> None:
    assert show([(0, "x" * 10**6)]) == [(0, "x" * LONGEST_TEXT)]
