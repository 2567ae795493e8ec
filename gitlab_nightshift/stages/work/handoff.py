"""The hand-off of a bead: the stub that the agent replaces, and how it is read.

It is hostile data: bounded, validated, and never a pass when in doubt.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.agents.agent import Report
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.codec import InvalidRecordError
from gitlab_nightshift.records.handoffs import AnalysisResult, Handoff
from gitlab_nightshift.records.storage import replace_surrogates
from gitlab_nightshift.stages.work.handoff_schema import KINDS, fit_record
from gitlab_nightshift.stages.work.named_paths import PathResolver, ResolvedHandoff, resolve_paths
from gitlab_nightshift.system.openat import RefusedFileError, read_regular

STUBS: dict[str, dict[str, Any]] = {
    "analyze": {"result": "NO_IMPROVEMENT", "reason": "pending"},
    "verify": {"passed": False, "error_details": "pending"},
    "mr": {},
}
LARGEST = 2 * 1024 * 1024
LONGEST_NUMBER = 300
"""Digits of a number; longer ones are dropped. Python refuses to parse 4,301
(sys.set_int_max_str_digits)."""


class HandoffError(Exception):
    """Why a hand-off cannot be used, as a text for the log and the next attempt."""


@dataclass(frozen=True)
class ReadHandoff:
    """How a bead ended and why, its hand-off if valid, and a note of what was dropped from it."""

    status: BeadStatus
    error: str = ""
    handoff: Handoff | None = None
    note: str = ""


def write_stub(bead: str, file: Path) -> None:
    """Write the stub that the agent replaces."""
    if bead in STUBS:
        file.write_text(json.dumps(STUBS[bead]), encoding="utf-8")


def accept_handoff(bead: str, report: Report, file: Path, paths: PathResolver) -> ReadHandoff:
    """Read the hand-off of a bead that ended well, its paths resolved in the tree."""
    try:
        resolved = resolve_paths(read_handoff(bead, report.structured, file), paths)
        _refuse_foreign_selection(resolved)
    except HandoffError as error:
        status = BeadStatus.DENIED if report.denied else BeadStatus.NO_HANDOFF
        return ReadHandoff(status, str(error))
    left_out = resolved.describe_dropped()
    note = f"no files of this project, so left out: {left_out}" if left_out else ""
    return ReadHandoff(BeadStatus.OK, handoff=resolved.handoff, note=note)


def read_handoff(bead: str, structured: object, file: Path) -> Handoff:
    """The validated hand-off: the CLI's structured output if there is one, else the file.

    Its paths are unverified. Raises :class:`HandoffError` for a leftover stub, bad JSON or a breach
    of the schema.
    """
    data = structured if structured is not None else _read_file(file)
    if data == STUBS[bead]:
        raise HandoffError("the report file still holds the stub: the agent reported nothing")
    if not isinstance(data, dict):
        raise HandoffError("the report is not a JSON object")
    if structured is not None and len(json.dumps(structured)) > 2 * LARGEST:  # json.dumps escapes
        raise HandoffError(f"the report is larger than {LARGEST} bytes")
    return _check_selected(_validate_handoff(bead, data))


def _read_file(file: Path) -> object:
    try:
        data = read_regular(file.parent, file.name, LARGEST)
        return json.loads(data, parse_int=lambda n: int(n) if len(n) <= LONGEST_NUMBER else None)
    except RefusedFileError as refused:
        raise HandoffError(f"the report file cannot be read: {refused}") from None
    except (ValueError, RecursionError) as error:
        raise HandoffError(f"the report is not JSON: {error}") from None


def _validate_handoff(bead: str, data: dict[str, Any]) -> Handoff:
    if bead == "verify" and not isinstance(data.get("passed"), bool):
        raise HandoffError("passed: expected true or false")
    try:
        # JSON may escape half a surrogate pair (RFC 8259, 8.2), which UTF-8 cannot encode.
        data = json.loads(replace_surrogates(json.dumps(data, ensure_ascii=False)))
        made: Handoff = fit_record(KINDS[bead], data)
    except RecursionError:
        raise HandoffError("the report is nested too deeply") from None
    except InvalidRecordError as error:
        raise HandoffError(str(error)) from None
    return made


def _check_selected(handoff: Handoff) -> Handoff:
    if isinstance(handoff, AnalysisResult) and handoff.result == "IMPROVEMENT_FOUND":
        selected = handoff.selected
        if selected is None or not selected.files:
            raise HandoffError("selected: files and description are required")
    return handoff


def _refuse_foreign_selection(resolved: ResolvedHandoff) -> None:
    handoff = resolved.handoff
    if not isinstance(handoff, AnalysisResult) or handoff.result == "NO_IMPROVEMENT":
        return
    if handoff.selected and not handoff.selected.files:
        left_out = resolved.describe_dropped()
        raise HandoffError(f"selected: none of its files is one of this project: {left_out}")
