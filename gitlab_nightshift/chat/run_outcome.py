"""Reads a run's result from a pipeline's artifacts: hostile data, perhaps written by an agent."""

import json
from dataclasses import dataclass
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ValidationError

from gitlab_nightshift.records.products import ChangeSize, Outcome

_Text = Annotated[str, AfterValidator(lambda text: text[:10_000])]


class ExecutedCommand(BaseModel):
    """A command that was run on the change."""

    command: _Text
    exit_status: int | None = None


class Result(BaseModel):
    """The keys of ``result.json`` that a message shows; ``published.json`` has them too."""

    outcome: Outcome
    error_code: _Text = ""
    reason: _Text = ""
    summary: _Text = ""
    mr_url: _Text = ""
    branch: _Text = ""
    total_cost_usd: float | None = None
    assumed_tokens: int = 0
    total_duration_s: float | None = None
    commands: list[ExecutedCommand] = []
    reported: list[ExecutedCommand] = []


_NOTHING = ChangeSize((), 0, 0)


class _Draft(BaseModel):
    title: _Text = ""


class _Proposal(BaseModel):
    change: ChangeSize = _NOTHING
    draft: _Draft = _Draft()


class _Bundle(BaseModel):
    proposal: _Proposal | None = None


@dataclass(frozen=True)
class EndedRun:
    """A run that ended: its result, and its change if there is one; a dry run's as a patch."""

    result: Result
    title: str = ""
    change: ChangeSize = _NOTHING
    patch: bytes = b""


def read_ended_run(result: bytes, bundle: bytes | None) -> EndedRun | None:
    """The two files as a record; None if the first is not a run's result."""
    parsed = _read(Result, result)
    if parsed is None:
        return None
    whole = _read(_Bundle, bundle) if bundle else None
    proposal = whole.proposal if whole else None
    if proposal is None:
        return EndedRun(parsed)
    return EndedRun(parsed, proposal.draft.title, proposal.change)


_Model = TypeVar("_Model", bound=BaseModel)


def _read(kind: type[_Model], data: bytes) -> _Model | None:
    try:
        return kind.model_validate(json.loads(data))
    except (ValueError, ValidationError, RecursionError):
        return None
