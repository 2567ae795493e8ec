"""The data of a night, and how it runs one bead."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gitlab_nightshift.records.bead_results import BeadResult
from gitlab_nightshift.records.events import Emit, StepStarted
from gitlab_nightshift.records.handoffs import AnalysisResult
from gitlab_nightshift.records.products import Plan
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.work.attempt import format_step_key
from gitlab_nightshift.stages.work.bead import BeadContext, run_bead
from gitlab_nightshift.stages.work.prompt_values import build_bead_values
from gitlab_nightshift.stages.work.proof_context import ProofContext
from gitlab_nightshift.stages.work.recording import Recorder
from gitlab_nightshift.stages.work.step_input import FIRST_STEP, StepInput

_TITLES = {"analyze": "Analyze", "implement": "Implement", "verify": "Verify", "mr": "MR"}


@dataclass(frozen=True)
class Night:
    """Everything that a night needs; only the checkout and the bead context's ledger change."""

    plan: Plan
    bead_context: BeadContext
    checkout: Checkout
    proof: ProofContext
    values: Mapping[str, str]
    recorder: Recorder

    @property
    def emit(self) -> Emit:
        """Where events go."""
        return self.bead_context.work.emit

    @property
    def settings(self) -> Settings:
        """The run's settings."""
        return self.bead_context.work.settings


def run_night_bead(
    night: Night,
    bead: str,
    category: str,
    attempt: int = 1,
    analysis: AnalysisResult | None = None,
    step_input: StepInput = FIRST_STEP,
    sections: Mapping[str, str] = MappingProxyType({}),
) -> BeadResult:
    """Run one bead of a night or a given task; ``sections`` follow its template. Raises Stop."""
    night.emit(
        StepStarted(
            format_step_key(bead, category, attempt),
            _format_step_title(night, bead, category, attempt),
        )
    )
    with_recent = night.plan.recent_files_enforced or bead == "analyze"
    values = build_bead_values(
        night.values if with_recent else {**night.values, "recent_files": ""},
        night.settings,
        category,
        left_s=night.bead_context.ledger.compute_left_s(),
        analysis=analysis,
        step_input=step_input,
        context=night.plan.request.context if night.plan.request else "",
    )
    text = json.dumps(dataclasses.asdict(analysis), indent=2) if analysis else ""
    patch = step_input.patch if bead == "implement" else b""
    return run_bead(night.bead_context, bead, category, attempt, values, text, sections, patch)


def _format_step_title(night: Night, bead: str, category: str, attempt: int) -> str:
    again = f", attempt {attempt}" if bead in {"implement", "verify"} else ""
    return f"{_TITLES[bead]}: {category}{again}, by {getattr(night.settings.models, bead)}"
