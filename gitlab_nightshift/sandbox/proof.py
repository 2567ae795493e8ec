"""The proof of the boundary: everything known to work is tried from inside, before any agent.

Canaries are planted beside the real places. One way through that the tier promises to be closed is
a hole, and has a name.
"""

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gitlab_nightshift.registry.sandbox_guarantees import GuaranteeState, ProbeSummary
from gitlab_nightshift.sandbox.import_check import try_own_code
from gitlab_nightshift.sandbox.launch import Sandbox
from gitlab_nightshift.sandbox.probe_run import ProbeOutcome, repeat_if_late, run_probes
from gitlab_nightshift.sandbox.probes import ProbeSet, ProbeTargets, gather_probes
from gitlab_nightshift.sandbox.proof_rows import GATEWAY, LIVING, OWN_CODE, ROWS, ProofRow
from gitlab_nightshift.sandbox.tiers import Confinement, Guarantees, Tier

ENDING_S = 10.0
"""Seconds in which a daemon has to be gone, on a busy machine too; left alone it lives longer."""
MOST_PRIVATE = 200


@dataclass(frozen=True)
class ProbeFinding:
    """What became of one attempt. ``promised``: the tier says that it cannot get through."""

    row: ProofRow
    name: str
    open: bool
    promised: bool
    how: str

    @property
    def hole(self) -> bool:
        """A promise that is not kept."""
        return self.open and self.promised


@dataclass(frozen=True)
class BoundaryProof:
    """All findings; ``trouble`` is why there are none, "" where there are. ``late``: the time was
    too short to see anything."""

    tier: Tier
    findings: tuple[ProbeFinding, ...]
    trouble: str
    late: bool = False

    @property
    def holes(self) -> tuple[str, ...]:
        """The names of the ways through that were promised to be closed."""
        return tuple(f"{f.name} ({f.how})" for f in self.findings if f.hole)

    @property
    def held(self) -> bool:
        """True where every promise is kept."""
        return not self.trouble and not self.holes

    @property
    def rows(self) -> tuple[ProbeSummary, ...]:
        """The findings for people, about a dozen rows."""
        mine = ((row, [f for f in self.findings if f.row is row]) for row in ROWS)
        return tuple(summarize_findings(row, findings) for row, findings in mine if findings)


def summarize_findings(row: ProofRow, findings: Sequence[ProbeFinding]) -> ProbeSummary:
    """The worst of its findings, else the ways in which all of them were stopped."""
    worst = max(findings, key=lambda f: (f.hole, f.open))
    if not worst.open:
        how = ", ".join(sorted({f.how for f in findings})[:3])
        return ProbeSummary(row.title, len(findings), GuaranteeState.HELD, how)
    state = GuaranteeState.BROKEN if worst.hole else GuaranteeState.PARTIAL
    return ProbeSummary(row.title, len(findings), state, f"{worst.name}: {worst.how}")


def prove(sandbox: Sandbox, confinement: Confinement, targets: ProbeTargets) -> BoundaryProof:
    """Try to get through, in the same confinement that agents get; once more where the machine was
    too busy for it. Raises NightshiftError."""
    found = repeat_if_late(lambda limit_s: _run_proof(sandbox, confinement, targets, limit_s))
    return replace(found, findings=(*found.findings, *_probe_own_code(targets)))


def _run_proof(
    sandbox: Sandbox, confinement: Confinement, targets: ProbeTargets, limit_s: float
) -> BoundaryProof:
    with contextlib.ExitStack() as stack:
        private = _list_private_files(sandbox, confinement)
        planned = gather_probes(
            confinement, replace(targets, secrets=(*targets.secrets, *private)), stack
        )
        tried = run_probes(sandbox, confinement, planned.attempts, limit_s)
        ending_s = ENDING_S if sandbox.guarantees.closes(LIVING) else 0.0
        outcomes = [_verify_outside(outcome, planned, ending_s) for outcome in tried.outcomes]
    findings = [
        _build_finding(planned.rows[each.name], each, sandbox.guarantees) for each in outcomes
    ]
    return BoundaryProof(sandbox.tier, tuple(findings), tried.trouble, tried.late)


def _build_finding(row: ProofRow, outcome: ProbeOutcome, guarantees: Guarantees) -> ProbeFinding:
    """The gateway is the one thing that has to be accessible; what was not tried proves nothing."""
    passed = outcome.open is not (row is GATEWAY)
    return ProbeFinding(row, outcome.name, passed, guarantees.closes(row), outcome.how)


def _list_private_files(sandbox: Sandbox, confinement: Confinement) -> Iterator[Path]:
    """What is hidden in the system's folders, without what is opened by name.

    Another user alone hides nothing that everybody may read: that guarantee says so.
    """
    if sandbox.tier is Tier.UID and not sandbox.features.landlock:
        return
    for path in map(Path, sandbox.machine.private[:MOST_PRIVATE]):
        opened = (*confinement.read_only, *confinement.writable)
        if not any(path.is_relative_to(place) or place.is_relative_to(path) for place in opened):
            yield path


def _probe_own_code(targets: ProbeTargets) -> Iterator[ProbeFinding]:
    """Promised in every tier: it depends on how this program was started."""
    if targets.list_setting_files is not None:
        for name, how in try_own_code(targets.written, targets.list_setting_files):
            yield ProbeFinding(OWN_CODE, name, bool(how), True, how or "not found")


# --- what is checked from outside -----------------------------------------------------------------


def _verify_outside(outcome: ProbeOutcome, planned: ProbeSet, ending_s: float) -> ProbeOutcome:
    """Some attempts only seem to succeed inside: another /tmp, a daemon that was ended."""
    if outcome.open is None:
        return outcome
    if planned.rows[outcome.name] is LIVING:
        survivor = outcome.open and not _ended(planned.lock, ending_s)
        return ProbeOutcome(outcome.name, survivor, "a daemon lives on" if survivor else "ended")
    path = planned.written.get(outcome.name)
    if path and outcome.open and not path.exists():
        return ProbeOutcome(outcome.name, False, "not there afterwards")
    return outcome


def _ended(lock: Path, within_s: float) -> bool:
    """True where nobody holds the lock, or not for long; who does is ended now.

    The kernel takes a moment to end a namespace.
    """
    until = time.monotonic() + within_s
    while _is_held(lock):
        if time.monotonic() > until:
            _kill_holder(lock)
            return False
        time.sleep(0.002)
    return True


def _kill_holder(lock: Path) -> None:
    """End the process that the lock names, if it is the one that has the lock open."""
    with contextlib.suppress(OSError, ValueError):
        pid = int(lock.read_bytes())
        if any(entry.resolve() == lock for entry in Path(f"/proc/{pid}/fd").iterdir()):
            os.kill(pid, signal.SIGKILL)


def _is_held(lock: Path) -> bool:
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
    except BlockingIOError:
        return True
    except OSError:
        return False
