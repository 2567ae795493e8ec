"""What the processes of a delegation share: its phases, and how an exception becomes a result."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from gitlab_nightshift.errors import Code, Interruption
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.delegation_records import Payload
from gitlab_nightshift.records.events import Emit, Note, StepEnded, StepStarted, read_clock
from gitlab_nightshift.stages.work.night_ending import explain_exception
from gitlab_nightshift.wire.channel import OutputChannel

TEST_LOG_PREFIX = "checks-"
"""Begins the log names of the requested test; other commands are run for evidence."""


class Phase(StrEnum):
    """The phases of a delegation, in this order; Apply and Verify occur once for each attempt."""

    PREPARE = "Prepare"
    PLAN = "Plan"
    APPLY = "Apply"
    VERIFY = "Verify"
    PACKAGE = "Package"
    FINALIZE = "Finalize"


@dataclass
class Phases:
    """Reports phases as events: each ends where the next begins."""

    emit: Emit
    _current: tuple[Phase, int] | None = None

    def enter(self, phase: Phase, attempt: int = 1) -> None:
        """Begin a phase and end the current one; nothing changes if they are the same."""
        if self._current == (phase, attempt):
            return
        self.leave()
        self._current = (phase, attempt)
        title = phase.value if attempt == 1 else f"{phase.value} · attempt {attempt}"
        self.emit(StepStarted(phase.value, title, phase=True, attempt=attempt))

    def leave(self, why: str = "") -> None:
        """End the current phase; ``why`` it failed, "" if it did not."""
        if self._current:
            self.emit(StepEnded(self._current[0].value, not why, why, phase=True))
        self._current = None


Failure = tuple[Code, str] | None
"""Why a delegation has failed, as code and text; None if it has not."""


@dataclass(frozen=True)
class DelegationContext:
    """What is the same in all phases of a delegation.

    ``folder`` is the caller's current folder, ``private`` one that no agent can access. ``emit``
    takes the events, and the records of the result. ``started`` is a monotonic time in seconds.
    """

    payload: Payload
    folder: Path
    job: JobFacts
    private: Path
    emit: OutputChannel
    phases: Phases
    started: float
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    def compute_left_s(self) -> float:
        """Seconds until ``max_runtime_s``."""
        passed_s = read_clock() - self.started
        # Never 0, as it limits what still has to run.
        return max(self.payload.execution.max_runtime_s - passed_s, 0.1)


def catch_failure(context: DelegationContext, act: Callable[[], None]) -> Failure:
    """Call ``act``. An exception ends the current phase, and its code and reason are returned."""
    try:
        act()
    except (Exception, Interruption) as error:
        disks = (context.private, context.folder)
        failure = explain_exception(error, disks, context.emit.send_text)
        context.phases.leave(failure[1])
        return failure
    return None


# --- texts about a fallback ---------------------------------------------------------------------


def describe_no_fallback(why: str, why_none: str) -> str:
    """The message if neither agent can be used."""
    return f"{why}; no fallback: {why_none}"


def build_fallback_note(why: str) -> Note:
    """The note that the plain endpoint takes over, and why."""
    return Note(f"{why}; the agent model takes over", warning=True)
