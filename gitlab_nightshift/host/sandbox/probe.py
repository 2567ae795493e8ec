"""Which boundary works on this machine: found out by trying, never by looking at versions."""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError, config_error
from gitlab_nightshift.host.sandbox import bwrap, uid
from gitlab_nightshift.host.sandbox.guarantees import guarantees
from gitlab_nightshift.host.sandbox.inside import landlock
from gitlab_nightshift.host.sandbox.launch import Sandbox
from gitlab_nightshift.host.sandbox.places import System, system
from gitlab_nightshift.host.sandbox.records import (
    Confinement,
    Features,
    Gate,
    Tier,
)
from gitlab_nightshift.host.sandbox.trial import (
    Attempt,
    attempt,
    greeter,
    tcp_listener,
    unix_listener,
)

AUTO = "auto"
ORDER = (Tier.NAMESPACES, Tier.UID, Tier.LANDLOCK)


@dataclass(frozen=True)
class Missing:
    """A tier that does not work here, and why."""

    tier: Tier
    reason: str


@dataclass(frozen=True)
class _Ground:
    """What a trial is held on."""

    confinement: Confinement
    canary: Path
    outside: Path
    other_port: int
    programs: tuple[Path, ...]


def choose(
    requested: str, folder: Path, programs: Sequence[Path] = (), tiers: Sequence[Tier] = ORDER
) -> Sandbox:
    """The boundary to use: ``auto`` takes the strongest that works, a name exactly that one.

    ``tiers`` are those that ``auto`` tries; ``folder`` is where agents' scratch folders will be
    (private to this process); ``programs`` have to be runnable inside: a tier in which they are not
    does not work. Raises NightshiftError: E_CONFIG where a named tier does not work, E_POLICY_DENY
    where none does.
    """
    machine = system()
    if requested == Tier.NONE:
        return _none(machine)
    if requested != AUTO:
        found = _try(Tier(requested), machine, folder, tuple(programs))
        if isinstance(found, Missing):
            raise config_error(f"isolation: {requested} does not work here: {found.reason}")
        return found
    passed_over: list[tuple[Tier, str]] = []
    for tier in tiers:
        found = _try(tier, machine, folder, tuple(programs))
        if isinstance(found, Sandbox):
            return replace(found, passed_over=tuple(passed_over))
        passed_over.append((tier, found.reason))
    reasons = "; ".join(f"{tier}: {reason}" for tier, reason in passed_over)
    raise NightshiftError(
        Code.POLICY_DENY,
        f"nothing on this runner keeps an agent from the job's secrets ({reasons});"
        " see SECURITY.md, or set isolation: none",
    )


def survey(folder: Path, programs: Sequence[Path] = ()) -> list[Sandbox | Missing]:
    """Every tier, the strongest first, for ``doctor``."""
    machine = system()
    return [_try(tier, machine, folder, tuple(programs)) for tier in ORDER]


def _none(machine: System) -> Sandbox:
    nothing = Features(landlock=0, notify=False)
    return Sandbox(Tier.NONE, guarantees(Tier.NONE, nothing), nothing, machine)


def _try(
    tier: Tier, machine: System, folder: Path, programs: tuple[Path, ...]
) -> Sandbox | Missing:
    """The tier at its best here, else with less of the network, else why it does not work."""
    candidate = _candidate(tier, machine)
    if isinstance(candidate, Missing):
        return candidate
    with _ground(folder, programs, candidate) as ground:
        reason = _judged(candidate, ground)
        if reason and candidate.features.notify:
            less = _with(candidate, replace(candidate.features, notify=False))
            if not _judged(less, ground):
                return less
    if reason and candidate.identity:
        uid.release(candidate.identity)
    return Missing(tier, reason) if reason else candidate


def _candidate(tier: Tier, machine: System) -> Sandbox | Missing:
    features = Features(min(landlock.abi(), landlock.LATEST), notify=tier is not Tier.NAMESPACES)
    sandbox = Sandbox(tier, guarantees(tier, features), features, machine)
    if tier is Tier.NAMESPACES:
        found = bwrap.find()
        return replace(sandbox, bwrap=found) if found else Missing(tier, "bwrap is not installed")
    if tier is Tier.UID:
        if os.geteuid() != 0:
            return Missing(tier, "the job is not root")
        identity = uid.pick()
        return replace(sandbox, identity=identity) if identity else Missing(tier, "no user is free")
    if not features.landlock:
        return Missing(tier, "this kernel has no Landlock, or it is switched off")
    return sandbox


def _with(sandbox: Sandbox, features: Features) -> Sandbox:
    return replace(sandbox, features=features, guarantees=guarantees(sandbox.tier, features))


@contextlib.contextmanager
def _ground(folder: Path, programs: tuple[Path, ...], sandbox: Sandbox) -> Iterator[_Ground]:
    with contextlib.ExitStack() as stack:
        own = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="probe-", dir=folder)))
        scratch, private = own / "scratch", own / "private"
        scratch.mkdir()
        private.mkdir(mode=0o700)
        if sandbox.identity:
            own.chmod(0o711)
            os.chown(scratch, sandbox.identity.uid, sandbox.identity.gid)
        canary = private / "canary"
        canary.write_text("canary")
        canary.chmod(0o600)
        gate = stack.enter_context(tcp_listener())
        other = stack.enter_context(tcp_listener())
        inner = stack.enter_context(unix_listener(private / "gate"))
        stack.enter_context(greeter(gate, inner, other))
        way = Gate(gate.getsockname()[1], private / "gate")
        yield _Ground(
            Confinement(scratch, (scratch,), tuple(programs), (way,)),
            canary,
            private / "written",
            other.getsockname()[1],
            programs,
        )


def _judged(sandbox: Sandbox, ground: _Ground) -> str:
    """Why this boundary does not work, "" where it does."""
    gate = ground.confinement.gates[0]
    must = [
        Attempt("write to the scratch folder", "write", (str(ground.confinement.cwd / "made"),)),
        Attempt("reach the gateway", "greeted", ("127.0.0.1", gate.port)),
        *(Attempt(f"run {path}", "usable", (str(path),)) for path in ground.programs),
    ]
    must_not = [
        Attempt("read a private file", "read", (str(ground.canary),)),
        Attempt("write outside", "write", (str(ground.outside),)),
    ]
    if sandbox.guarantees.network.held:
        other = ("127.0.0.1", ground.other_port)
        must_not.append(Attempt("reach another service", "greeted", other))
    tried = attempt(sandbox, ground.confinement, [*must, *must_not])
    (ground.confinement.cwd / "made").unlink(missing_ok=True)
    if tried.trouble:
        return _why(sandbox, ground, tried.trouble)
    refused = [o for o in tried.outcomes[: len(must)] if not o.open]
    passed = [o for o in tried.outcomes[len(must) :] if o.open]
    if refused:
        return _why(sandbox, ground, f"an agent could not {refused[0].name}: {refused[0].how}")
    return f"an agent could {passed[0].name}" if passed else ""


def _why(sandbox: Sandbox, ground: _Ground, seen: str) -> str:
    """The reason as a person can mend it, else what was seen."""
    if sandbox.identity and (closed := uid.closed_folder(ground.confinement.cwd)):
        return f"{closed} may only be entered by its owner, not by another user"
    if sandbox.identity and (closed_programs := uid.unreachable(ground.programs)):
        return closed_programs[0]
    return seen
