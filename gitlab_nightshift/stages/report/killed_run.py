"""The result of a night that was killed: what it had written until then, read as strictly as if
somebody else had."""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import Code
from gitlab_nightshift.records.bead_results import BeadResult, Usage
from gitlab_nightshift.records.codec import make_record
from gitlab_nightshift.records.notary_records import NOTARY, NotaryRecord
from gitlab_nightshift.records.products import Bundle, Outcome, Plan, Publication
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.storage import read_kept
from gitlab_nightshift.stages.report.event_file import MOST_BYTES
from gitlab_nightshift.stages.report.report_files import read_patch, write_results
from gitlab_nightshift.stages.report.result_files import (
    EARLIER,
    OUTPUT,
    RESULTS,
    place_results,
    remove_part,
)
from gitlab_nightshift.stages.report.run_result import build_run_result
from gitlab_nightshift.stages.report.upkeep_result import read_upkeep_result
from gitlab_nightshift.system.raw_logs import move_logs

LONGEST_LINE = 2_000_000
MOST_BEADS, LARGEST = 1_000, 1e15
"""What is taken for a file of ours: bytes of a line, beads, dollars or tokens."""

_COST = "the cost is what was known until then"


@dataclass
class _EventSummary:
    """What the events say. ``so_far`` is the usage that was last reported while a bead ran."""

    run: bool = False
    ended: bool = False
    project: str = ""
    tier: str = "none"
    times: list[datetime] = field(default_factory=list)
    beads: list[BeadResult] = field(default_factory=list)
    so_far: Usage | None = None

    @property
    def usage(self) -> Usage:
        """What is known: the beads that had ended, and what the last one had reported."""
        return self.so_far or sum((bead.usage for bead in self.beads), Usage())

    @property
    def duration_s(self) -> float:
        """From the first event to the last."""
        return max(0.0, (self.times[-1] - self.times[0]).total_seconds()) if self.times else 0.0


def recover_results(private: Path, why: str = "killed", run_id: str = "unknown") -> None:
    """Put what a killed run had got into its output folder, unless there are newer results."""
    with contextlib.suppress(OSError):
        output = Path(os.fsdecode((private / OUTPUT).read_bytes()))
        remove_part(private, output)
        if not os.path.lexists(output):
            with contextlib.suppress(OSError):
                write_killed(private / RESULTS, private / EARLIER, why, run_id)
                move_logs(private / "logs", private / RESULTS / "logs")
            place_results(private, output)


def write_killed(results: Path, earlier: Path, why: str, run_id: str) -> None:
    """Write into ``results`` what a run would have written there at its end, had it not been
    killed: ``FAILED`` and ``why``, or what it had published already. Nothing for a command that
    leaves no result, or where there is one.

    ``earlier`` holds products of earlier stages. ``run_id`` counts where no plan names it. Texts
    are redacted already. Raises OSError.
    """
    from gitlab_nightshift.redaction.redactor import Redactor

    summary = _read_summary(results / "events.jsonl")
    if not summary.run or summary.ended or read_kept(RunResult, results / "result.json"):
        return
    bundle = read_kept(Bundle, results / "bundle/bundle.json")
    bundle = bundle or _add_plan(_build_bundle(summary), results, earlier, run_id)
    bundle = replace(
        bundle, outcome=Outcome.FAILED, error_code=Code.TERMINATED.value, reason=f"{why}; {_COST}"
    )
    published = read_kept(Publication, results / "published.json")
    upkeep, notary = read_upkeep_result(results), read_kept(NotaryRecord, results / NOTARY)
    result = build_run_result(bundle, published, summary.project, upkeep=upkeep, notary=notary)
    write_results(results, result, read_patch(results / "bundle"), Redactor(()))


def build_partial_bundle(results: Path) -> Bundle:
    """A bundle for a run that wrote none, from its events. Raises OSError."""
    return _build_bundle(_read_summary(results / "events.jsonl"))


def _build_bundle(summary: _EventSummary) -> Bundle:
    return Bundle(
        run_id="",
        created_at=(summary.times or [datetime.now(UTC)])[-1].isoformat(timespec="seconds"),
        base_sha="",
        target_branch="",
        outcome=Outcome.FAILED,
        usage=summary.usage,
        duration_s=summary.duration_s,
        isolation=summary.tier,
        beads=tuple(summary.beads),
    )


def _add_plan(bundle: Bundle, results: Path, earlier: Path, run_id: str) -> Bundle:
    """The same with what the plan says of the run, as far as there is one."""
    plan = read_kept(Plan, results / "plan.json") or read_kept(Plan, earlier / "plan.json")
    if plan is None:
        return replace(bundle, run_id=run_id)
    return replace(
        bundle,
        run_id=plan.run_id,
        base_sha=plan.base_sha,
        target_branch=plan.target_branch,
        task=plan.task,
    )


# --- the events ---------------------------------------------------------------------------------


def _read_summary(path: Path) -> _EventSummary:
    summary = _EventSummary()
    with contextlib.suppress(FileNotFoundError):
        for event in _read_events(path):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                _add(summary, event)
    return summary


def _read_events(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a file; it ends at a line that is not whole."""
    with path.open("rb") as file:
        while file.tell() < 2 * MOST_BYTES and (line := file.readline(LONGEST_LINE)).endswith(
            b"\n"
        ):
            with contextlib.suppress(ValueError, RecursionError):
                if isinstance(event := json.loads(line), dict):
                    yield event


def _add(summary: _EventSummary, event: dict[str, Any]) -> None:
    """Raises ValueError, KeyError, TypeError for what is no event."""
    name, time = event["event"], datetime.fromisoformat(event["time"]).astimezone(UTC)
    summary.times = [*summary.times[:1], time]
    summary.run = summary.run or name == "run_started"
    summary.ended = summary.ended or name == "run_ended"
    if name == "run_started":
        summary.project = str(event["project"])[:1000]
    elif name == "boundary_chosen":
        summary.tier = str(event["tier"])[:100]
    elif name == "bead_ended" and len(summary.beads) < MOST_BEADS:
        summary.beads.append(make_record(BeadResult, event["result"]))
        summary.so_far = None
    elif name == "progress":
        tokens = _parse_amount(event["tokens"])
        summary.so_far = Usage(
            _parse_amount(event["cost_usd"]), None if tokens is None else int(tokens)
        )


def _parse_amount(value: object) -> float | None:
    """A sum, None for unknown. Raises ValueError."""
    if value is None:
        return None
    if not isinstance(value, int | float) or not 0 <= value <= LARGEST:
        raise ValueError("no sum")
    return float(value)
