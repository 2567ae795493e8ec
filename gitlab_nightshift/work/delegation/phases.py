"""The phases of a delegation as data, and what is known of it so far."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from gitlab_nightshift.errors import Interrupted, NightshiftError
from gitlab_nightshift.events import Emit, PhaseEnd, PhaseStart
from gitlab_nightshift.host.changes import Captured
from gitlab_nightshift.host.saved import Saved
from gitlab_nightshift.records import CommandResult


class Phase(StrEnum):
    """In this order; Apply and Verify once for each attempt."""

    PREPARE = "Prepare"
    PLAN = "Plan"
    APPLY = "Apply"
    VERIFY = "Verify"
    PACKAGE = "Package"
    FINALIZE = "Finalize"


@dataclass
class Phases:
    """Tells phases to the events: one ends where the next begins."""

    emit: Emit
    _open: tuple[Phase, int] | None = None

    def enter(self, phase: Phase, attempt: int = 1) -> None:
        """Begin a phase; the one that is open goes on."""
        if self._open == (phase, attempt):
            return
        self.leave()
        self._open = (phase, attempt)
        self.emit(PhaseStart(phase.value, attempt))

    def leave(self, why: str = "") -> None:
        """End the one that is open; ``why`` where it failed."""
        if self._open:
            self.emit(PhaseEnd(self._open[0].value, not why, why))
        self._open = None

    @contextmanager
    def told(self) -> Iterator[None]:
        """Tell a failure as the end of the phase that is open."""
        try:
            yield
        except (NightshiftError, Interrupted) as error:
            self.leave(str(error))
            raise


@dataclass
class Trail:
    """What has happened so far, for a result whatever comes next.

    ``change`` is what the last attempt changed, None where there is nothing to undo; ``exit_code``
    the last agent process's; ``tests`` the runs of the test that was asked for. ``began``: an agent
    has been started; ``saved`` is the workspace before it.
    """

    began: bool = False
    saved: Saved | None = None
    exit_code: int | None = None
    change: Captured | None = None
    tests: list[CommandResult] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """True once an agent has changed something."""
        return self.change is not None and not self.change.empty
