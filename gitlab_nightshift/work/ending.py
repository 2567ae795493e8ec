"""How a night ends: its outcome and its reason, as data."""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import Code, Interrupted, NightshiftError
from gitlab_nightshift.host.changes import Captured
from gitlab_nightshift.host.logs import Logs
from gitlab_nightshift.host.space import is_full_disk, no_space
from gitlab_nightshift.records import Outcome, Plan, Proposal


@dataclass(frozen=True)
class Tried:
    """A category, and what came of it."""

    category: str
    why: str

    def __str__(self) -> str:
        return f"{self.category}: {self.why}"


@dataclass(frozen=True)
class Ending:
    """How the night ended; ``captured`` is the change of a proposal."""

    outcome: Outcome
    reason: str
    category_used: str
    is_fallback: bool = False
    files_scanned: int = 0
    summary: str = ""
    error_code: str = ""
    proposal: Proposal | None = None
    captured: Captured | None = None


def nothing_scheduled(plan: Plan) -> Ending:
    """A day without a category: nothing is spent."""
    why = plan.skip or "No category scheduled for today"
    outcome = Outcome.SKIPPED if plan.skip else Outcome.NO_IMPROVEMENT
    return Ending(outcome, why, plan.scheduled or "none")


def caught(plan: Plan, logs: Logs, disks: Sequence[Path], make: Callable[[], Ending]) -> Ending:
    """The one function of the work stage where an exception becomes a result.

    ``disks`` are folders on those that a night may fill.
    """
    try:
        return make()
    except NightshiftError as error:
        return _failed(plan, error.code, error.message)
    except Interrupted as stop:
        return _failed(plan, stop.code, "stopped by a signal")
    except Exception as error:
        if is_full_disk(error):
            return _failed(plan, Code.CONFIG, no_space(*disks).message)
        logs.write("traceback.txt", traceback.format_exc())
        text = f"a defect of nightshift: {type(error).__name__}; see logs/traceback.txt"
        return _failed(plan, Code.INTERNAL, text)


def _failed(plan: Plan, code: Code, reason: str) -> Ending:
    return Ending(Outcome.FAILED, reason, plan.scheduled or "none", error_code=code.value)


def used(category: str, scheduled: str) -> str:
    """How a category is written in results: with where it was the fallback from."""
    return category if category == scheduled else f"{category} (fallback from {scheduled})"


def first_line(text: str) -> str:
    """The first line of a text, bounded."""
    return " ".join(text.strip().partition("\n")[0].split())[:300]
