"""What is kept of a base's canaries: a light module, as nights hold one before any change."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gitlab_nightshift.proof.running.combined_canaries import CombinedRun
    from gitlab_nightshift.proof.running.faults import Fault


@dataclass
class BaseCanaries:
    """What the untouched suite noticed, kept for all attempts at a night's change. ``asked`` is
    true once it was tried; ``texts`` are those of a language that is not understood, None where
    they were not asked for; ``unable`` is why it cannot be, as where it fails without a fault."""

    combined: "CombinedRun | None" = None
    asked: bool = False
    texts: "tuple[Fault, ...] | None" = None
    unable: str = ""
