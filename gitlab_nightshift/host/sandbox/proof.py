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

from gitlab_nightshift.host.sandbox.attempts import Targets, Tries, gathered
from gitlab_nightshift.host.sandbox.launch import Sandbox
from gitlab_nightshift.host.sandbox.own_code import try_own_code
from gitlab_nightshift.host.sandbox.records import Confinement, Guarantees, Tier
from gitlab_nightshift.host.sandbox.rows import GATEWAY, LIVING, OWN_CODE, ROWS, Row
from gitlab_nightshift.host.sandbox.trial import Outcome, attempt, repeated
from gitlab_nightshift.promises import Hold, TriedRow

ENDING_S = 10.0
"""Seconds in which a daemon has to be gone, on a busy machine too; left alone it lives longer."""
MOST_PRIVATE = 200


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
    """All findings; ``trouble`` is why there are none, "" where there are. ``late``: the time was
    too short to see anything."""

    tier: Tier
    findings: tuple[Finding, ...]
    trouble: str
    late: bool = False

    @property
    def holes(self) -> tuple[str, ...]:
        """The names of the ways through that were promised to be closed."""
        return tuple(f"{f.name} ({f.how})" for f in self.findings if f.hole)

    @property
    def held(self) -> bool:
        """True where all that was promised is so."""
        return not self.trouble and not self.holes

    @property
    def rows(self) -> tuple[TriedRow, ...]:
        """The findings for people, about a dozen rows."""
        mine = ((row, [f for f in self.findings if f.row is row]) for row in ROWS)
        return tuple(_tried_row(row, findings) for row, findings in mine if findings)


def _tried_row(row: Row, findings: Sequence[Finding]) -> TriedRow:
    """The worst of its findings, else the ways in which all of them were stopped."""
    worst = max(findings, key=lambda f: (f.hole, f.open))
    if not worst.open:
        how = ", ".join(sorted({f.how for f in findings})[:3])
        return TriedRow(row.title, len(findings), Hold.HELD, how)
    state = Hold.BROKEN if worst.hole else Hold.PARTIAL
    return TriedRow(row.title, len(findings), state, f"{worst.name}: {worst.how}")


def prove(sandbox: Sandbox, confinement: Confinement, targets: Targets) -> Proof:
    """Try to get through, in the same confinement that agents get; once more where the machine was
    too busy for it. Raises NightshiftError."""
    found = repeated(lambda limit_s: _proven(sandbox, confinement, targets, limit_s))
    return replace(found, findings=(*found.findings, *_own_code(targets)))


def _proven(sandbox: Sandbox, confinement: Confinement, targets: Targets, limit_s: float) -> Proof:
    with contextlib.ExitStack() as stack:
        private = _private_files(sandbox, confinement)
        tries = gathered(confinement, replace(targets, secrets=(*targets.secrets, *private)), stack)
        tried = attempt(sandbox, confinement, tries.attempts, limit_s)
        ending_s = ENDING_S if sandbox.guarantees.closes(LIVING) else 0.0
        outcomes = [_seen_outside(outcome, tries, ending_s) for outcome in tried.outcomes]
    findings = [_finding(tries.rows[each.name], each, sandbox.guarantees) for each in outcomes]
    return Proof(sandbox.tier, tuple(findings), tried.trouble, tried.late)


def _finding(row: Row, outcome: Outcome, guarantees: Guarantees) -> Finding:
    """The gateway is the one thing that has to be reached."""
    passed = outcome.open is not (row is GATEWAY)
    return Finding(row, outcome.name, passed, guarantees.closes(row), outcome.how)


def _private_files(sandbox: Sandbox, confinement: Confinement) -> Iterator[Path]:
    """What is hidden in the system's folders, without what is opened by name.

    Another user alone hides nothing that everybody may read: that guarantee says so.
    """
    if sandbox.tier is Tier.UID and not sandbox.features.landlock:
        return
    for path in map(Path, sandbox.machine.private[:MOST_PRIVATE]):
        opened = (*confinement.read_only, *confinement.writable)
        if not any(path.is_relative_to(place) or place.is_relative_to(path) for place in opened):
            yield path


def _own_code(targets: Targets) -> Iterator[Finding]:
    """Promised in every tier: it is a matter of how this program was started."""
    if targets.git is not None:
        for name, how in try_own_code(targets.written, targets.git):
            yield Finding(OWN_CODE, name, bool(how), True, how or "not found")


# --- what is seen from outside --------------------------------------------------------------------


def _seen_outside(outcome: Outcome, tries: Tries, ending_s: float) -> Outcome:
    """Some attempts only seem to succeed inside: another /tmp, a daemon that was ended."""
    if tries.rows[outcome.name] is LIVING:
        survivor = outcome.open and not _ended(tries.lock, ending_s)
        return Outcome(outcome.name, survivor, "a daemon lives on" if survivor else "ended")
    path = tries.written.get(outcome.name)
    if path and outcome.open and not path.exists():
        return Outcome(outcome.name, False, "not there afterwards")
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
