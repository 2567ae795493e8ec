from collections import Counter

import pytest

from gitlab_nightshift.proof.proof_commands import CommandRun
from gitlab_nightshift.proof.reports.reported_cases import CaseOutcome, Collection
from gitlab_nightshift.proof.running.suite_outcome import SuiteOutcome, read_outcome
from gitlab_nightshift.records.bead_results import CommandResult

PASSED, FAILED, SKIPPED = CaseOutcome.PASSED, CaseOutcome.FAILED, CaseOutcome.SKIPPED


def run(status: int | None, counts: dict[str, CaseOutcome], unknown: str = "") -> CommandRun:
    error = "ended by this program: timeout" if status is None else ""
    result = CommandResult("test", status, 2.0, error)
    named = {name: Counter({outcome: 1}) for name, outcome in counts.items()}
    return CommandRun(result, Collection("test", named, unknown))


@pytest.mark.parametrize(
    ("seen", "noticed", "disagrees"),
    [
        (run(0, {"a": PASSED}), False, False),
        (run(1, {"a": FAILED}), True, False),
        (run(0, {"a": FAILED}), False, True),
        (run(1, {"a": PASSED}), False, False),
        (run(1, {}, "no report"), True, False),
        (run(0, {}, "no report"), False, False),
        (run(None, {"a": FAILED}), False, False),
        (run(None, {}, "no report"), False, False),
    ],
)
def test_a_fault_is_noticed_by_status_and_report(
    seen: CommandRun, noticed: bool, disagrees: bool
) -> None:
    outcome = read_outcome([seen])
    assert (outcome.noticed, outcome.disagrees) == (noticed, disagrees)


def test_commands_add_up() -> None:
    runs = [run(0, {"a": PASSED, "b": SKIPPED}), run(1, {"c": FAILED}), run(1, {}, "no report")]
    assert read_outcome(runs) == SuiteOutcome(
        red=True,
        failed=frozenset(["c"]),
        ran=frozenset(["a", "c"]),
        unknown="no report",
        duration_s=6.0,
    )
