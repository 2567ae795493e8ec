"""What one delegation has at hand, and what is known of its result so far."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.events import Emit, now_s
from gitlab_nightshift.host.logs import Logs, logs_in
from gitlab_nightshift.records import Plan
from gitlab_nightshift.records.delegation import Payload
from gitlab_nightshift.redaction import Redactor
from gitlab_nightshift.settings import Job
from gitlab_nightshift.work.delegation.choice import Chosen
from gitlab_nightshift.work.delegation.phases import Phases, Trail
from gitlab_nightshift.work.ending import Ending
from gitlab_nightshift.work.ledger import Ledger

SHORTEST_S = 0.1


@dataclass(frozen=True)
class Desk:
    """The same from the first phase to the last; ``began`` is monotonic seconds.

    ``private`` is a folder that no agent can reach, ``results`` one in it: what is kept.
    """

    payload: Payload
    env: Mapping[str, str]
    folder: Path
    job: Job
    private: Path
    results: Path
    redact: Redactor
    emit: Emit
    phases: Phases
    trail: Trail
    began: float

    @property
    def logs(self) -> Logs:
        """Raw logs while it goes on."""
        return logs_in(self.private, self.redact)

    def left_s(self) -> float:
        """Seconds until ``max_runtime_s``."""
        passed = now_s() - self.began
        return max(self.payload.execution.max_runtime_s - passed, SHORTEST_S)


@dataclass
class Known:
    """What the phases have found out and done. ``output_dir`` is set once results may be kept;
    ``laid``: the change is in the caller's checkout, ``left``: in the workspace that is kept."""

    output_dir: str | None = None
    base: str | None = None
    chosen: Chosen | None = None
    plan: Plan | None = None
    ledger: Ledger | None = None
    ending: Ending | None = None
    branch: str | None = None
    commit: str | None = None
    local: bool = False
    laid: bool = False
    left: bool = False
