"""The phases of a delegation, and what is known of it so far."""

from dataclasses import dataclass, field
from enum import StrEnum

from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.events import (
    AGENT,
    BeadEnded,
    CommandEnded,
    Emit,
    Event,
    ProgramEnded,
    ProgramStarted,
    StepEnded,
    StepStarted,
)
from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.stages.work.delegation.delegation_workspace import DelegationWorkspace

TEST_LOG = "checks-"
"""How the log names of the test begin; other commands are evidence."""


class Phase(StrEnum):
    """In this order; Apply and Verify once for each attempt."""

    PREPARE = "Prepare"
    PLAN = "Plan"
    APPLY = "Apply"
    VERIFY = "Verify"
    PACKAGE = "Package"
    FINALIZE = "Finalize"


_PHASES = {
    "implement": Phase.APPLY,
    "checks": Phase.VERIFY,
    "evidence": Phase.VERIFY,
    "verify": Phase.VERIFY,
}
"""The phase that a step of an attempt belongs to, by the first word of its key."""


@dataclass
class Phases:
    """Reports phases as events: one ends where the next begins."""

    emit: Emit
    _open: tuple[Phase, int] | None = None

    def enter(self, phase: Phase, attempt: int = 1) -> None:
        """Begin a phase, unless it is the current one, which goes on."""
        if self._open == (phase, attempt):
            return
        self.leave()
        self._open = (phase, attempt)
        again = f" · attempt {attempt}" if attempt > 1 else ""
        title = f"{phase.value}{again}"
        self.emit(StepStarted(phase.value, title, phase=True, attempt=attempt))

    def leave(self, why: str = "") -> None:
        """End the current phase; ``why`` if it failed."""
        if self._open:
            self.emit(StepEnded(self._open[0].value, not why, why, phase=True))
        self._open = None


@dataclass
class DelegationProgress:
    """What has happened so far, for a result whatever comes next: a sink that passes events on,
    each in its phase.

    ``change`` is what the last attempt changed, None where there is nothing to undo; ``exit_code``
    the last agent process's; ``tests`` the runs of the test that was asked for. ``began``: an agent
    has been started; ``said``: the last Implement's own words about its change.
    """

    emit: Emit
    phases: Phases
    workspace: DelegationWorkspace | None = None
    began: bool = False
    exit_code: int | None = None
    change: CapturedChange | None = None
    said: str = ""
    tests: list[CommandResult] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        """Note what the event tells, and pass it on."""
        match event:
            case StepStarted(key=key) if phase := _PHASES.get(key.partition("-")[0]):
                self.phases.enter(phase, int(key.rpartition("-")[2]))
            case ProgramStarted(command=command) if command.startswith(AGENT):
                self.began = True
            case ProgramEnded(command=command) if command.startswith(AGENT):
                self.exit_code = event.exit_status
            case BeadEnded(result=result) if result.bead == "implement":
                self.said = result.said
            case CommandEnded(result=result):
                self.tests.append(result)
        self.emit(event)

    @property
    def changed(self) -> bool:
        """True once an agent has changed something."""
        return self.change is not None and not self.change.empty
