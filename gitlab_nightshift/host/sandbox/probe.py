"""Which boundary works on this machine: found out by trying, never by looking at versions."""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError, config_error
from gitlab_nightshift.host.sandbox import bwrap, uid
from gitlab_nightshift.host.sandbox.guarantees import guarantees
from gitlab_nightshift.host.sandbox.inside import landlock
from gitlab_nightshift.host.sandbox.launch import Sandbox
from gitlab_nightshift.host.sandbox.records import (
    Confinement,
    Features,
    Gate,
    Tier,
)
from gitlab_nightshift.host.sandbox.system import Look, System, look_at_system
from gitlab_nightshift.host.sandbox.trial import (
    Attempt,
    Tried,
    attempt,
    greeter,
    repeated,
    tcp_listener,
    unix_listener,
)

AUTO = "auto"
ORDER = (Tier.NAMESPACES, Tier.UID, Tier.LANDLOCK)
MADE = "made"


@dataclass(frozen=True)
class Missing:
    """A tier that does not work here, and why."""

    tier: Tier
    reason: str


@dataclass(frozen=True)
class _Site:
    """What is the same for all tiers that are tried."""

    machine: System
    folder: Path
    programs: tuple[Path, ...]
    checkout: Path | None
    known: Mapping[Tier, Missing]


@dataclass(frozen=True)
class _Ground:
    """What a trial is held on."""

    confinement: Confinement
    canary: Path
    outside: Path
    other_port: int
    programs: tuple[Path, ...]


def choose(
    requested: str,
    folder: Path,
    programs: Sequence[Path] = (),
    checkout: Path | None = None,
    known: Sequence[Missing] = (),
    look: Look = look_at_system,
) -> Sandbox:
    """The boundary to use: ``auto`` takes the strongest that works, a name exactly that one.

    ``folder`` is where agents' scratch folders will be; ``programs`` have to be runnable inside: a
    tier in which they are not does not work. With ``checkout`` another user must be able to have
    it. ``known`` are tiers that are known not to work, ``look`` tells what is private here. Raises
    NightshiftError: E_CONFIG where a named tier does not work, E_POLICY_DENY where none does.
    """
    if requested == Tier.NONE:
        return _none()
    site = _Site(look(), folder, tuple(programs), checkout, {row.tier: row for row in known})
    if requested != AUTO:
        found = _try(Tier(requested), site)
        if isinstance(found, Missing):
            raise config_error(f"isolation: {requested} does not work here: {found.reason}")
        return found
    passed_over: list[tuple[Tier, str]] = []
    for tier in ORDER:
        found = _try(tier, site)
        if isinstance(found, Sandbox):
            return replace(found, passed_over=tuple(passed_over))
        passed_over.append((tier, found.reason))
    reasons = "; ".join(f"{tier}: {reason}" for tier, reason in passed_over)
    raise NightshiftError(
        Code.POLICY_DENY,
        f"nothing on this runner keeps an agent from the job's secrets ({reasons});"
        " see SECURITY.md, or set isolation: none",
    )


def survey(folder: Path, checkout: Path | None = None) -> list[Sandbox | Missing]:
    """Every tier, the strongest first. Arguments as of ``choose``."""
    site = _Site(look_at_system(), folder, (), checkout, {})
    return [_try(tier, site) for tier in ORDER]


def _none() -> Sandbox:
    nothing = Features(landlock=0, notify=False)
    return Sandbox(Tier.NONE, guarantees(Tier.NONE, nothing), nothing, System(()))


def _try(tier: Tier, site: _Site) -> Sandbox | Missing:
    """The tier at its best here, else with less of the network, else why it does not work."""
    if tier in site.known:
        return site.known[tier]
    candidate = _candidate(tier, site.machine)
    if isinstance(candidate, Missing):
        return candidate
    found = _tried(candidate, site)
    if isinstance(found, Missing) and candidate.identity:
        uid.release(candidate.identity)
    return found


def _tried(candidate: Sandbox, site: _Site) -> Sandbox | Missing:
    try:
        if reason := _out_of_reach(candidate, site):
            return Missing(candidate.tier, reason)
        with _ground(site, candidate) as ground:
            reason = _judged(candidate, ground)
            if reason and candidate.features.notify:
                features = replace(candidate.features, notify=False, lacking=reason)
                less = _with(candidate, features)
                if not _judged(less, ground):
                    return less
    except OSError as error:
        reason = f"{error.filename or site.checkout}: {error.strerror}"
    return Missing(candidate.tier, reason) if reason else candidate


def _out_of_reach(sandbox: Sandbox, site: _Site) -> str:
    """Why another user cannot work where it has to, or too much there; "" where all is well."""
    if sandbox.identity is None:
        return ""
    above = site.checkout.parent if site.checkout else site.folder
    for place in (site.folder, above):
        if closed := uid.closed_folder(place):
            return f"{closed} may only be entered by its owner, not by another user"
        if not sandbox.features.landlock and (shared := uid.exposed_folder(place)):
            return f"{shared} may be written by everybody, and this kernel has no Landlock"
    return next(iter(uid.unreachable(site.programs)), "")


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
def _ground(site: _Site, sandbox: Sandbox) -> Iterator[_Ground]:
    """Raises OSError, also where the checkout's file system knows no other user."""
    with contextlib.ExitStack() as stack:
        new = tempfile.TemporaryDirectory(prefix="probe-", dir=site.folder)
        own = Path(stack.enter_context(new))
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
        stack.enter_context(greeter(gate, inner))
        way = Gate(gate.getsockname()[1], private / "gate")
        writable = (scratch, *_beside(site, sandbox, stack))
        yield _Ground(
            Confinement(scratch, writable, site.programs, (way,)),
            canary,
            private / "written",
            other.getsockname()[1],
            site.programs,
        )


def _beside(site: _Site, sandbox: Sandbox, stack: contextlib.ExitStack) -> Iterator[Path]:
    """A folder beside the checkout that is another user's, as the checkout will be."""
    if sandbox.identity and site.checkout:
        prefix = f"{site.checkout.name}.nightshift-probe-"
        new = tempfile.TemporaryDirectory(prefix=prefix, dir=site.checkout.parent)
        folder = Path(stack.enter_context(new))
        os.chown(folder, sandbox.identity.uid, sandbox.identity.gid)
        yield folder


def _judged(sandbox: Sandbox, ground: _Ground) -> str:
    """Why this boundary does not work, "" where it does; what is too slow is tried again."""
    must, must_not = _musts(ground), _must_nots(sandbox, ground)

    def once(limit_s: float) -> Tried:
        try:
            return attempt(sandbox, ground.confinement, [*must, *must_not], limit_s)
        finally:
            for folder in ground.confinement.writable:
                (folder / MADE).unlink(missing_ok=True)
            ground.outside.unlink(missing_ok=True)

    tried = repeated(once)
    if tried.trouble:
        return tried.trouble
    refused = [o for o in tried.outcomes[: len(must)] if not o.open]
    passed = [o for o in tried.outcomes[len(must) :] if o.open]
    if refused:
        return f"an agent could not {refused[0].name}: {refused[0].how}"
    return f"an agent could {passed[0].name}" if passed else ""


def _musts(ground: _Ground) -> list[Attempt]:
    gate = ground.confinement.gates[0]
    return [
        *(
            Attempt(f"write to {folder}", "write", (str(folder / MADE),))
            for folder in ground.confinement.writable
        ),
        Attempt("reach the gateway", "greeted", ("127.0.0.1", gate.port)),
        *(Attempt(f"run {path}", "usable", (str(path),)) for path in ground.programs),
    ]


def _must_nots(sandbox: Sandbox, ground: _Ground) -> list[Attempt]:
    """To connect is enough: waiting for an answer could take slowness for a closed way."""
    network = (
        [Attempt("reach another service", "connect", ("127.0.0.1", ground.other_port))]
        if sandbox.guarantees.network.held
        else []
    )
    return [
        Attempt("read a private file", "read", (str(ground.canary),)),
        Attempt("write outside", "write", (str(ground.outside),)),
        *network,
    ]
