"""All rows of ``nightshift doctor``, the verdict that follows from them, and their formats."""

import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from gitlab_nightshift.commands.doctor_boundary import LONGEST_LINE, describe_verdict, examine
from gitlab_nightshift.commands.doctor_checkout import (
    DoctorRow,
    RowState,
    build_fail_row,
    list_checkout_rows,
    try_rows,
)
from gitlab_nightshift.commands.doctor_gitlab import list_gitlab_rows
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.registry.sandbox_guarantees import GuaranteeState
from gitlab_nightshift.repository.git import read_head
from gitlab_nightshift.run.session_opening import locate_project, open_run
from gitlab_nightshift.run_folder import Invocation
from gitlab_nightshift.stages.report.job_log import JobLog, format_line

# ANSI (ECMA-48, SGR): green, yellow, red, cyan.
_COLOURS: dict[RowState, str] = {"ok": "32", "warn": "33", "fail": "31", "not known": "36"}


def examine_night(call: Invocation) -> Iterator[DoctorRow]:
    """The rows for everything that a night needs, each as soon as it is known. Only the first row
    shows a problem that several have. Only bugs of this program raise."""
    reported: list[str] = []
    for row in try_rows("settings", lambda: _list_rows(call)):
        if row.state not in ("fail", "warn"):
            yield row
        elif not _is_reported(row.text, reported):
            reported.append(row.text)
            yield row
        if row.name == "settings" and row.exit_status:
            return
    yield _examine_sandbox(call, reported)


def _is_reported(text: str, reported: Iterable[str]) -> bool:
    """True if an earlier row contains this text."""
    return any(text in each for each in reported)


def _list_rows(call: Invocation) -> Iterator[DoctorRow]:
    with open_run(call) as opened:
        # Rows, or JSON, are alone on stdout.
        log = JobLog(sections=False, colour=False, redact=opened.redact, stream=sys.stderr)
        session = dataclasses.replace(locate_project(opened), emit=log)
        yield DoctorRow("settings", "ok", "valid (nightshift config show lists them)")
        try:
            read_head(session.git, session.checkout)
        except NightshiftError as error:  # an empty project, of which nothing else can be checked
            yield build_fail_row("history", error)
            return
        yield from list_gitlab_rows(session)
        yield from list_checkout_rows(session)


def _examine_sandbox(call: Invocation, reported: Iterable[str]) -> DoctorRow:
    """The row of the sandbox, without the errors that earlier rows have reported."""
    examination = examine(call)
    examination.refusals = [
        error for error in examination.refusals if not _is_reported(error.message, reported)
    ]
    if not (examination.refusals or examination.chosen):
        return DoctorRow("sandbox", "not known", "not tried: fix the above first")
    state: RowState = "ok"
    if any(each.state is not GuaranteeState.HELD for each in examination.guarantees):
        state = "warn"
    if examination.refusals:
        state = "fail"
    return DoctorRow("sandbox", state, describe_verdict(examination), examination.exit_status)


def describe_outcome(rows: Sequence[DoctorRow]) -> str:
    """A sentence: would a night start here and find all it needs?"""
    counts = Counter(row.state for row in rows)
    not_known = counts["not known"]
    unknown = f"; {not_known} could not be checked from here" if not_known else ""
    review = f", {counts['warn']} to review" if counts["warn"] else ""
    if counts["fail"]:
        return f"A night would fail here: {counts['fail']} to fix{review}{unknown}."
    if counts["warn"]:
        return f"A night would start here{review}{unknown}."
    return f"A night would start here and has what it needs{unknown}."


def format_row(row: DoctorRow, *, colour: bool) -> str:
    """A row for a person, on one line."""
    state = f"{row.state:<10}"
    if colour:
        state = f"\x1b[{_COLOURS[row.state]}m{state}\x1b[0m"
    return f"{state}{row.name:<14} {format_line(row.text, LONGEST_LINE)}"


def find_exit_status(rows: Iterable[DoctorRow]) -> int:
    """The status of a night that would end here, 0 if none would."""
    return next((row.exit_status for row in rows if row.exit_status), 0)


def format_json(rows: Sequence[DoctorRow]) -> str:
    """``{"rows": [{"name", "state", "text", "exit_status"}], "verdict", "exit_status"}``."""
    data = {
        "rows": [dataclasses.asdict(row) for row in rows],
        "verdict": describe_outcome(rows),
        "exit_status": find_exit_status(rows),
    }
    return json.dumps(data, ensure_ascii=False, indent=2)
