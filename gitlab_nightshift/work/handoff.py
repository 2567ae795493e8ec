"""The hand-off of a bead: its schema, the stub that the agent replaces, and how it is read.

What an agent wrote is hostile data: bounded, validated, and never a pass when in doubt.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

from gitlab_nightshift.agents.agent import Report
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.handoffs import AnalysisResult, Draft, Handoff, Verdict
from gitlab_nightshift.records.storage import build_adapter
from gitlab_nightshift.system.openat import RefusedFileError, read_regular

KINDS: dict[str, type[AnalysisResult] | type[Verdict] | type[Draft]] = {
    "analyze": AnalysisResult,
    "verify": Verdict,
    "mr": Draft,
}
"""Which beads hand something off; the change of Implement is read from the tree."""
STUBS: dict[str, dict[str, Any]] = {
    "analyze": {"result": "NO_IMPROVEMENT", "reason": "pending"},
    "verify": {"passed": False, "error_details": "pending"},
    "mr": {},
}
LARGEST = 512 * 1024


class HandoffError(Exception):
    """Why a hand-off cannot be used, as a text for the log and the next attempt."""


@cache
def build_schema(bead: str) -> dict[str, Any] | None:
    """The JSON Schema of a bead's hand-off; None for a bead without one."""
    kind = KINDS.get(bead)
    return build_adapter(kind).json_schema() if kind else None


def write_stub(bead: str, file: Path) -> None:
    """Write the stub where the hand-off will be."""
    if bead in STUBS:
        file.write_text(json.dumps(STUBS[bead]), encoding="utf-8")


def accept_handoff(bead: str, report: Report, file: Path) -> tuple[BeadStatus, str, Handoff | None]:
    """How the bead has ended, why, and its hand-off where that can be used."""
    try:
        return BeadStatus.OK, "", read_handoff(bead, report.structured, file)
    except HandoffError as error:
        status = BeadStatus.DENIED if report.denied else BeadStatus.NO_HANDOFF
        return status, str(error), None


def read_handoff(bead: str, structured: object, file: Path) -> Handoff:
    """The validated hand-off: the CLI's structured output if there is one, else the file.

    Raises :class:`HandoffError` for a stub left over, bad JSON or a breach of the schema.
    """
    data = structured if structured is not None else _from_file(file)
    if data == STUBS[bead]:
        raise HandoffError("the hand-off is still the stub: the agent reported nothing")
    if not isinstance(data, dict):
        raise HandoffError("the hand-off is not a JSON object")
    if structured is not None and len(json.dumps(structured)) > 2 * LARGEST:  # as escapes
        raise HandoffError(f"the hand-off is larger than {LARGEST} bytes")
    return _check_selected(_validate_handoff(bead, data))


def _from_file(file: Path) -> object:
    try:
        return json.loads(read_regular(file.parent, file.name, LARGEST))
    except RefusedFileError as refused:
        raise HandoffError(f"the hand-off file cannot be read: {refused}") from None
    except (ValueError, RecursionError) as error:
        raise HandoffError(f"the hand-off is not JSON: {error}") from None


def _validate_handoff(bead: str, data: dict[str, Any]) -> Handoff:
    from pydantic import ValidationError

    if bead == "verify" and not isinstance(data.get("passed"), bool):
        raise HandoffError("passed: true or false is expected")
    try:
        made: Handoff = build_adapter(KINDS[bead]).validate_python(data)
        return made
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise HandoffError(f"{place}: {first['msg']}") from None
    except RecursionError:
        raise HandoffError("the hand-off is nested too deeply") from None


def _check_selected(handoff: Handoff) -> Handoff:
    if isinstance(handoff, AnalysisResult) and handoff.result == "IMPROVEMENT_FOUND":
        selected = handoff.selected
        if selected is None or not selected.files:
            raise HandoffError("selected: files and description are required")
    return handoff
