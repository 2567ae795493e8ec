"""The cache of a base's canaries. This module imports nothing heavy, as every night makes a cache
before there is any change."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gitlab_nightshift.proof.running.faults import Fault
    from gitlab_nightshift.proof.running.trial import SuiteOutcome


@dataclass(frozen=True)
class CombinedRun:
    """Faults planted in a tree at once, and the outcome of the whole suite with them."""

    faults: "tuple[Fault, ...]"
    outcome: "SuiteOutcome"


@dataclass
class BaseCanaries:
    """The faults that the untouched suite noticed, cached for all attempts at a night's change.
    ``combined`` is the run with faults planted at once: None if no run was useful, or as long as
    ``has_combined`` is False. ``texts`` are faults in an unsupported language, None as long as they
    were not looked for. ``unable`` is why there can be none, such as a suite that fails already."""

    combined: CombinedRun | None = None
    has_combined: bool = False
    texts: "tuple[Fault, ...] | None" = None
    unable: str = ""
