"""The proof of the boundary: every known attack is tried from inside, before any agent runs. The
findings decide how well each guarantee holds here, and whether the run goes on.

Canaries are planted beside the real targets. An attack that gets through although the tier promises
to stop it is a hole, and is reported by name. Harmless files are planted in folders that agents may
write and the job's variables name: this program must not load them. They have unique names, are
removed at once, and are never run, only found or not.
"""

import contextlib
import ctypes
import fcntl
import importlib
import importlib.util
import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.registry.sandbox_guarantees import GuaranteeState, ProbeSummary, Strength
from gitlab_nightshift.sandbox.launch import Sandbox
from gitlab_nightshift.sandbox.probe_run import ProbeOutcome, repeat_if_timed_out, run_probes
from gitlab_nightshift.sandbox.probes import ListFiles, ProbeSet, ProbeTargets, gather_probes
from gitlab_nightshift.sandbox.process import capture
from gitlab_nightshift.sandbox.system_paths import build_python_command
from gitlab_nightshift.sandbox.tiers import (
    GATEWAY,
    OUTLIVING,
    OWN_CODE,
    ROWS,
    Confinement,
    Guarantees,
    ProofRow,
    Tier,
)
from gitlab_nightshift.sealed_start import lies_in

ENDING_S = 10.0
"""Seconds after which the daemon must be gone, even on a busy machine; by itself it lives
longer."""
MOST_PRIVATE_FILES = 200


@dataclass(frozen=True)
class ProbeFinding:
    """The result of an attempt. ``open``: it got through, or to the gateway did not get through;
    ``promised``: the tier promises that this cannot be; ``how`` it ended."""

    row: ProofRow
    name: str
    open: bool
    promised: bool
    how: str

    @property
    def hole(self) -> bool:
        """True if the attempt breaks a guarantee."""
        return self.open and self.promised


@dataclass(frozen=True)
class BoundaryProof:
    """The findings of a proof; ``failure`` is why there are none, "" if there are some.
    ``timed_out``: the proof ended before it showed anything."""

    tier: Tier
    findings: tuple[ProbeFinding, ...]
    failure: str
    timed_out: bool = False

    @property
    def holes(self) -> tuple[str, ...]:
        """The names of the attacks that got through although the tier promises to stop them."""
        return tuple(f"{f.name} ({f.how})" for f in self.findings if f.hole)

    @property
    def held(self) -> bool:
        """True if every guarantee holds."""
        return not self.failure and not self.holes

    @property
    def rows(self) -> tuple[ProbeSummary, ...]:
        """The findings as a table for people, about a dozen rows."""
        grouped = ((row, [f for f in self.findings if f.row is row]) for row in ROWS)
        return tuple(summarize_findings(row, findings) for row, findings in grouped if findings)


def summarize_findings(row: ProofRow, findings: Sequence[ProbeFinding]) -> ProbeSummary:
    """A row in one line: the worst finding, or the ways in which all attempts were stopped."""
    worst = max(findings, key=lambda f: (f.hole, f.open))
    if not worst.open:
        how = ", ".join(sorted({f.how for f in findings})[:3])
        return ProbeSummary(row.title, len(findings), GuaranteeState.HELD, how)
    state = GuaranteeState.BROKEN if worst.hole else GuaranteeState.PARTIAL
    return ProbeSummary(row.title, len(findings), state, f"{worst.name}: {worst.how}")


def prove(sandbox: Sandbox, confinement: Confinement, targets: ProbeTargets) -> BoundaryProof:
    """Run all attacks in the confinement that agents get, again if the machine was too busy. Raises
    NightshiftError."""
    proof = repeat_if_timed_out(lambda limit_s: _run_proof(sandbox, confinement, targets, limit_s))
    return replace(proof, findings=(*proof.findings, *_probe_own_code(targets)))


def _run_proof(
    sandbox: Sandbox, confinement: Confinement, targets: ProbeTargets, limit_s: float
) -> BoundaryProof:
    with contextlib.ExitStack() as stack:
        private = _list_private_files(sandbox, confinement)
        probes = gather_probes(
            confinement, replace(targets, secrets=(*targets.secrets, *private)), stack
        )
        result = run_probes(sandbox, confinement, probes.attempts, limit_s)
        ending_s = ENDING_S if sandbox.guarantees.closes(OUTLIVING) else 0.0
        outcomes = [_verify_outside(outcome, probes, ending_s) for outcome in result.outcomes]
    findings = tuple(
        _build_finding(probes.rows[outcome.name], outcome, sandbox.guarantees)
        for outcome in outcomes
    )
    return BoundaryProof(sandbox.tier, findings, result.failure, result.timed_out)


def _build_finding(row: ProofRow, outcome: ProbeOutcome, guarantees: Guarantees) -> ProbeFinding:
    # The gateway is the one thing that agents must reach: there a hole is an attempt that does not
    # get through. An attempt that could not be made (None) proves nothing, so it counts as a hole.
    expected = row is GATEWAY
    is_open = outcome.succeeded is not expected
    return ProbeFinding(row, outcome.name, is_open, guarantees.closes(row), outcome.how)


def _list_private_files(sandbox: Sandbox, confinement: Confinement) -> Iterator[Path]:
    """The hidden paths in the system's folders, except those that a setting opens.

    Without Landlock, the uid tier hides no file that everybody may read, nor promises to.
    """
    if sandbox.tier is Tier.UID and not sandbox.features.landlock:
        return
    opened = (*confinement.read_only, *confinement.writable)
    for path in map(Path, sandbox.machine.private[:MOST_PRIVATE_FILES]):
        if not any(path.is_relative_to(other) or other.is_relative_to(path) for other in opened):
            yield path


def _probe_own_code(targets: ProbeTargets) -> Iterator[ProbeFinding]:
    """Check that this program loads no planted code. Every tier promises that: it depends only on
    how this program was started."""
    if targets.list_setting_files is not None:
        for name, how in try_own_code(targets.named, targets.list_setting_files):
            yield ProbeFinding(OWN_CODE, name, bool(how), True, how or "not found")


# --- checks from outside --------------------------------------------------------------------------


def _verify_outside(outcome: ProbeOutcome, probes: ProbeSet, ending_s: float) -> ProbeOutcome:
    """Correct the outcome of an attempt that only seemed to succeed inside: a file in another /tmp,
    or a daemon that has ended since."""
    if outcome.succeeded is None:
        return outcome
    if probes.rows[outcome.name] is OUTLIVING:
        survives = outcome.succeeded and not _wait_until_released(probes.lock, ending_s)
        return ProbeOutcome(outcome.name, survives, "a daemon survives" if survives else "ended")
    path = probes.written.get(outcome.name)
    if path and outcome.succeeded and not path.exists():
        return ProbeOutcome(outcome.name, False, "absent afterwards")
    return outcome


def _wait_until_released(lock: Path, within_s: float) -> bool:
    """True if nobody holds the lock after ``within_s`` seconds; else kill the holder."""
    # Not at once: the kernel takes a moment to end all processes of a namespace.
    deadline = time.monotonic() + within_s
    while _is_locked(lock):
        if time.monotonic() > deadline:
            _kill_holder(lock)
            return False
        time.sleep(0.002)  # flock(2) itself would wait without a limit
    return True


def _kill_holder(lock: Path) -> None:
    """Kill the process that the lock file names."""
    # Only if that process has the file open: an agent could have written any pid into it.
    with contextlib.suppress(OSError, ValueError):
        pid = int(lock.read_bytes())
        if any(entry.resolve() == lock for entry in Path(f"/proc/{pid}/fd").iterdir()):
            os.kill(pid, signal.SIGKILL)


def _is_locked(lock: Path) -> bool:
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
    except BlockingIOError:
        return True
    except OSError:
        return False


# --- the meaning of the findings ------------------------------------------------------------------


def judge_guarantees(
    guarantees: Guarantees, findings: Iterable[ProbeFinding] = ()
) -> tuple[Strength, ...]:
    """The state of each guarantee, from the rows that the tier leaves open and the findings of the
    proof (none before it has run). ``gateway`` and ``code``, which no tier lists, are added if they
    are broken."""
    broken: dict[str, list[str]] = {}
    for finding in findings:
        if finding.hole:
            broken.setdefault(finding.row.guarantee, []).append(f"{finding.name} ({finding.how})")
    strengths = {}
    for name, guarantee in vars(guarantees).items():
        state = GuaranteeState.HELD if guarantee.held else GuaranteeState.PARTIAL
        strengths[name] = Strength(name, state, guarantee.text)
    for name, holes in broken.items():
        strengths[name] = Strength(name, GuaranteeState.BROKEN, "; ".join(holes))
    return tuple(strengths.values())


def refuse_weaker(tier: Tier, strengths: Iterable[Strength], accepted: Collection[str]) -> None:
    """Raise NightshiftError ``E_POLICY_DENY`` if the boundary is too weak: a guarantee is broken,
    or holds only partly and is not ``accepted``. The tier ``none``, which was requested by name,
    promises nothing."""
    guarantees = tuple(strengths)
    if broken := [each.reason for each in guarantees if each.state is GuaranteeState.BROKEN]:
        text = f"the boundary does not hold here: {'; '.join(broken)}"
        raise NightshiftError(Code.POLICY_DENY, text)
    partial = [each for each in guarantees if each.state is GuaranteeState.PARTIAL]
    weaker = [each for each in partial if each.name not in accepted]
    if tier is Tier.NONE or not weaker:
        return
    subject = f"{', '.join(each.name for each in weaker)} {'are' if len(weaker) > 1 else 'is'}"
    reasons = "; ".join(each.reason for each in weaker)
    to_accept = [each.name for each in guarantees if each.name in accepted or each in weaker]
    text = (
        f"{subject} only partly held in the tier {tier} ({reasons}); accept it with"
        f" accept_partial: [{', '.join(to_accept)}] (SECURITY.md)"
    )
    raise NightshiftError(Code.POLICY_DENY, text)


# --- this program's own code ----------------------------------------------------------------------


MOST_FOLDERS = 20
_LIBRARY_NOT_FOUND = "cannot open shared object file"
"""glibc's error for a missing library; the planted one, which is empty, gives another."""

Attempt = Callable[[str, Path], str]
"""Tries to load one kind of file by name and folder; returns how it was found, "" if it was not."""


def list_named_folders(env: Mapping[str, str], checkout: Path) -> tuple[Path, ...]:
    """The folders of a checkout that a job's variables name, and its top. Not those behind a link
    that leads out of it: this program, which may be root, writes there."""
    folders = {checkout: None}
    for path in map(Path, os.pathsep.join(env.values()).split(os.pathsep)):
        inside = path.is_absolute() and path.resolve().is_relative_to(checkout.resolve())
        if inside and path.is_dir():
            folders[path] = None
    return tuple(folders)[:MOST_FOLDERS]


def try_own_code(
    folders: Sequence[Path], list_setting_files: ListFiles
) -> Iterator[tuple[str, str]]:
    """Plant files in the folders, and try to load them as this program would. Yields the name of
    each attempt and how it found its file, "" if it did not. ``list_setting_files`` lists the files
    from which git reads this machine's settings."""
    for folder in folders:
        if not os.access(folder, os.W_OK):  # nor can an agent write there: it has no more rights
            continue
        name = f"nightshift_planted_{secrets.token_hex(8)}"
        with _plant_files(folder, name):
            for kind, attempt in _ATTEMPTS.items():
                yield f"load {kind} of {folder}", attempt(name, folder)
        settings = (file for file in list_setting_files() if lies_in(Path("/", file), folder))
        yield f"read git's settings in {folder}", next(settings, "")


@contextlib.contextmanager
def _plant_files(folder: Path, name: str) -> Iterator[None]:
    """Plant a file of each kind, without touching the project's own files."""
    contents = {
        # Empty, so that nothing happens if it is loaded after all.
        **dict.fromkeys((f"{name}_a.py", f"{name}_b.pyc", f"lib{name}.so"), ""),
        f"{name}.pth": f"import {name}_a\n",
        name: "#!/bin/sh\n",
    }
    try:
        for file_name, text in contents.items():
            (folder / file_name).write_text(text)
        (folder / name).chmod(0o755)
        # Else a finder may have the old listing of a folder (importlib.invalidate_caches).
        importlib.invalidate_caches()
        yield
    finally:
        for file_name in contents:
            (folder / file_name).unlink(missing_ok=True)


def _find_origin(module: str) -> str:
    spec = importlib.util.find_spec(module)
    return f"imported from {spec.origin}" if spec else ""


def _start_python_in(name: str, folder: Path) -> str:
    """Another Python of this program, in the folder that holds the ``.pth`` file."""
    command = build_python_command("-c", f"import {name}_a")
    done = capture(command, cwd=folder, env=dict(os.environ))
    return "another Python of ours imports it" if done.ok else ""


def _load_library(name: str, _folder: Path) -> str:
    try:
        ctypes.CDLL(f"lib{name}.so")
    except OSError as error:
        return "" if _LIBRARY_NOT_FOUND in str(error) else f"found: {error}"
    return "loaded"


_ATTEMPTS: dict[str, Attempt] = {
    "a module": lambda name, _: _find_origin(f"{name}_a"),
    "a compiled module": lambda name, _: _find_origin(f"{name}_b"),
    "a .pth file": _start_python_in,
    "a library": _load_library,
    "a program": lambda name, _: shutil.which(name) or "",
}
