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

from gitlab_nightshift.host.sandbox.attempts import (
    GATEWAY,
    LIVING,
    MODES,
    OWN_CODE,
    ROWS,
    Row,
    Targets,
    Tries,
    gathered,
)
from gitlab_nightshift.host.sandbox.launch import Sandbox
from gitlab_nightshift.host.sandbox.own_code import try_own_code
from gitlab_nightshift.host.sandbox.records import Confinement, Tier
from gitlab_nightshift.host.sandbox.trial import Outcome, Tried, attempt

ENDING_S = 1.0


@dataclass(frozen=True)
class Finding:
    """What became of one attempt. ``promised``: the tier says that it cannot get through."""

    row: Row
    name: str
    open: bool
    promised: bool
    how: str

    @property
    def hole(self) -> bool:
        """A promise that is not kept."""
        return self.open and self.promised


@dataclass(frozen=True)
class Proof:
    """All findings; ``trouble`` is why there are none, "" where there are."""

    tier: Tier
    findings: tuple[Finding, ...]
    trouble: str

    @property
    def holes(self) -> tuple[str, ...]:
        """The names of the ways through that were promised to be closed."""
        return tuple(f"{f.name} ({f.how})" for f in self.findings if f.hole)

    @property
    def held(self) -> bool:
        """True where all that was promised is so."""
        return not self.trouble and not self.holes


def prove(sandbox: Sandbox, confinement: Confinement, targets: Targets) -> Proof:
    """Try to get through, in the same confinement that agents get. Raises NightshiftError."""
    with contextlib.ExitStack() as stack:
        tries = gathered(confinement, targets, stack)
        tried = attempt(sandbox, confinement, tries.attempts)
        outcomes = [_seen_outside(outcome, tries) for outcome in tried.outcomes]
    found = _proof(sandbox, tries, tried, outcomes)
    return replace(found, findings=(*found.findings, *_own_code(targets)))


def _own_code(targets: Targets) -> Iterator[Finding]:
    """Promised in every tier: it is a matter of how this program was started."""
    if targets.git is not None:
        for name, how in try_own_code(targets.written, targets.git):
            yield Finding(OWN_CODE, name, bool(how), True, how or "not found")


def _proof(sandbox: Sandbox, tries: Tries, tried: Tried, outcomes: Sequence[Outcome]) -> Proof:
    findings = []
    for outcome in outcomes:
        row = tries.rows[outcome.name]
        if row is GATEWAY:
            closed = Finding(row, outcome.name, not outcome.open, True, outcome.how)
            findings.append(closed)
            continue
        promised = getattr(sandbox.guarantees, row.promise).held
        if row is MODES and sandbox.tier is Tier.LANDLOCK:
            promised = False  # Landlock does not see chmod; the guarantee says so
        findings.append(Finding(row, outcome.name, outcome.open, promised, outcome.how))
    return Proof(sandbox.tier, tuple(findings), tried.trouble)


# --- what is seen from outside --------------------------------------------------------------------


def _seen_outside(outcome: Outcome, tries: Tries) -> Outcome:
    """Some attempts only seem to succeed inside: another /tmp, a daemon that was ended."""
    if tries.rows[outcome.name] is LIVING:
        survivor = outcome.open and not _ended(tries.lock)
        return Outcome(outcome.name, survivor, "a daemon lives on" if survivor else "ended")
    path = tries.written.get(outcome.name)
    if path and outcome.open and not path.exists():
        return Outcome(outcome.name, False, "not there afterwards")
    return outcome


def _ended(lock: Path) -> bool:
    """True where nobody holds the lock, or not for long; who does is ended now.

    The kernel takes a moment to end a namespace.
    """
    until = time.monotonic() + ENDING_S
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


def table(proof: Proof) -> list[str]:
    """The proof for people: about ten lines of what is held or open, and how."""
    if proof.trouble:
        return [f"the boundary ({proof.tier}) could not be set up: {proof.trouble}"]
    lines = []
    for row in ROWS:
        mine = [f for f in proof.findings if f.row is row]
        if mine:
            lines.append(_line(row, mine))
    return lines


def _line(row: Row, findings: list[Finding]) -> str:
    worst = next((f for f in findings if f.hole), None) or next(
        (f for f in findings if f.open), None
    )
    if worst is None:
        reasons = sorted({f.how for f in findings})
        return f"  {row.title:<34} held   {', '.join(reasons[:3])}"
    return f"  {row.title:<34} {'OPEN' if worst.hole else 'open'}   {worst.name}: {worst.how}"
