"""What the agents ``model`` and ``patch`` are told of a bead beside its prompt."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class BeadSpec:
    """One bead, as the provider writes it; none of it is secret. ``usd``, ``tokens`` and
    ``seconds`` are what is left of the run, ``hidden`` are files that were taken away, ``rates``
    USD per million tokens in and out."""

    bead: str
    model: str
    checkout: str
    handoff: str
    schema: dict[str, Any] | None
    one_request: bool
    edits: bool
    hidden: list[str]
    allowed: list[str]
    any_command: bool
    answer_tokens: int
    command_s: float
    usd: float | None
    tokens: int | None
    seconds: float | None
    rates: list[float]
