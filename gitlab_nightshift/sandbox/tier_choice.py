"""Finds out which boundary works on this machine, by trials, never by looking at versions."""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.sandbox import bwrap, uid_tier
from gitlab_nightshift.sandbox.inside import landlock
from gitlab_nightshift.sandbox.launch import Sandbox
from gitlab_nightshift.sandbox.probe_run import (
    Probe,
    ProbeResult,
    open_greeter,
    open_tcp_listener,
    open_unix_listener,
    repeat_if_timed_out,
    run_probes,
)
from gitlab_nightshift.sandbox.tiers import (
    DIRECT_NETWORK,
    FILE_MODES,
    OTHER_FILES,
    ROWS,
    SERVICES,
    SIGNALS,
    WRITING,
    Confinement,
    Features,
    Guarantee,
    Guarantees,
    ProofRow,
    ServicePort,
    Tier,
)
from gitlab_nightshift.sandbox.visible_system import LookAtSystem, System, look_at_system

AUTO = "auto"
ORDER = (Tier.NAMESPACES, Tier.UID, Tier.LANDLOCK)
"""The tiers to try, the strongest first."""
TRIAL_FILE = "made"
"""The name of the file that a trial makes in each writable folder."""
_NOTHING = "nothing stops an agent"
_LONGEST_REASON = 100
_NETWORK_ROWS = (SERVICES, DIRECT_NETWORK)


@dataclass(frozen=True)
class UnavailableTier:
    """A tier that does not work here, and why."""

    tier: Tier
    reason: str


@dataclass(frozen=True)
class _TierSearch:
    """The parameters of the trials of all tiers, as in ``choose``."""

    machine: System
    folder: Path
    programs: tuple[Path, ...]
    checkout: Path | None
    unavailable: Mapping[Tier, UnavailableTier]


@dataclass(frozen=True)
class _TierTrial:
    """The files and services of the trial of one tier. ``canary`` is a private file, ``outside`` a
    path where no file may appear; nobody may connect to ``other_port``."""

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
    unavailable: Sequence[UnavailableTier] = (),
    look: LookAtSystem = look_at_system,
) -> Sandbox:
    """The boundary to use: with ``auto`` the strongest that works, else the requested tier.

    ``folder`` will contain the agents' scratch folders; a tier works only if ``programs`` can be
    run inside, and the uid tier only if it can give a ``checkout`` to another user. ``unavailable``
    are tiers that are known not to work; ``look`` finds the private files.

    Raises NightshiftError: E_CONFIG if a requested tier does not work, E_POLICY_DENY if none does.
    """
    if requested == Tier.NONE:
        return _build_unconfined()
    known = {each.tier: each for each in unavailable}
    search = _TierSearch(look(), folder, tuple(programs), checkout, known)
    if requested == AUTO:
        return _choose_strongest(search)
    result = _try_tier(Tier(requested), search)
    if isinstance(result, UnavailableTier):
        raise build_config_error(
            f"isolation: {requested} does not work here: {result.reason}"
            " (isolation: auto takes the strongest that does)"
        )
    return result


def _choose_strongest(search: _TierSearch) -> Sandbox:
    """The first tier that works. Raises NightshiftError E_POLICY_DENY."""
    passed_over: list[tuple[Tier, str]] = []
    for tier in ORDER:
        result = _try_tier(tier, search)
        if isinstance(result, Sandbox):
            return replace(result, passed_over=tuple(passed_over))
        passed_over.append((tier, result.reason))
    reasons = "; ".join(f"{tier}: {reason}" for tier, reason in passed_over)
    raise NightshiftError(
        Code.POLICY_DENY,
        f"nothing on this runner keeps an agent from the job's secrets ({reasons});"
        " see SECURITY.md, or set isolation: none",
    )


def probe_tiers(folder: Path, checkout: Path | None = None) -> list[Sandbox | UnavailableTier]:
    """The result for every tier, the strongest first. Arguments as in ``choose``."""
    search = _TierSearch(look_at_system(), folder, (), checkout, {})
    return [_try_tier(tier, search) for tier in ORDER]


def _build_unconfined() -> Sandbox:
    nothing = Features(landlock=0, notify=False)
    return Sandbox(Tier.NONE, build_guarantees(Tier.NONE, nothing), nothing, System(()))


def _try_tier(tier: Tier, search: _TierSearch) -> Sandbox | UnavailableTier:
    """The tier with all its features, else without ``notify``, else why it does not work."""
    if tier in search.unavailable:
        return search.unavailable[tier]
    candidate = _build_candidate(tier, search.machine)
    if isinstance(candidate, UnavailableTier):
        return candidate
    result = _try_candidate(candidate, search)
    if isinstance(result, UnavailableTier) and candidate.identity:
        uid_tier.release_user(candidate.identity)
    return result


def _try_candidate(candidate: Sandbox, search: _TierSearch) -> Sandbox | UnavailableTier:
    try:
        if reason := _find_access_problem(candidate, search):
            return UnavailableTier(candidate.tier, reason)
        with _open_trial(search, candidate) as trial:
            reason = _find_failure(candidate, trial)
            if reason and candidate.features.notify:
                features = replace(candidate.features, notify=False, monitor_failure=reason)
                reduced = _with_features(candidate, features)
                if not _find_failure(reduced, trial):
                    return reduced
    except OSError as error:
        reason = f"{error.filename or search.checkout}: {error.strerror}"
    return UnavailableTier(candidate.tier, reason) if reason else candidate


def _find_access_problem(sandbox: Sandbox, search: _TierSearch) -> str:
    """Why another user could access too little or too much here; "" if neither."""
    if sandbox.identity is None:
        return ""
    above_checkout = search.checkout.parent if search.checkout else search.folder
    for folder in (search.folder, above_checkout):
        if closed := uid_tier.find_closed_folder(folder):
            return f"{closed} may only be entered by its owner, not by another user"
        if not sandbox.features.landlock and (exposed := uid_tier.find_exposed_folder(folder)):
            return f"{exposed} may be written by everybody, and this kernel has no Landlock"
    return next(iter(uid_tier.list_unreachable(search.programs)), "")


def _build_candidate(tier: Tier, machine: System) -> Sandbox | UnavailableTier:
    features = Features(landlock.find_usable_abi(), notify=tier is not Tier.NAMESPACES)
    sandbox = Sandbox(tier, build_guarantees(tier, features), features, machine)
    if tier is Tier.NAMESPACES:
        sandbox = replace(sandbox, bwrap=bwrap.find())
        if not sandbox.bwrap:
            return UnavailableTier(tier, "bwrap is not installed")
    elif tier is Tier.UID:
        # Only root may become another user and give files away (setresuid(2), chown(2)).
        if os.geteuid() != 0:
            return UnavailableTier(tier, "the job is not root")
        sandbox = replace(sandbox, identity=uid_tier.reserve_user())
        if not sandbox.identity:
            return UnavailableTier(tier, "no user is free")
    elif not features.landlock:
        return UnavailableTier(tier, "this kernel has no Landlock, or it is switched off")
    return sandbox


def _with_features(sandbox: Sandbox, features: Features) -> Sandbox:
    return replace(sandbox, features=features, guarantees=build_guarantees(sandbox.tier, features))


@contextlib.contextmanager
def _open_trial(search: _TierSearch, sandbox: Sandbox) -> Iterator[_TierTrial]:
    """Set up a trial. Raises OSError, also if the checkout's file system has no owners."""
    with contextlib.ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(prefix="probe-", dir=search.folder)
        folder = Path(stack.enter_context(temporary))
        scratch, private = folder / "scratch", folder / "private"
        scratch.mkdir()
        private.mkdir(mode=0o700)
        if sandbox.identity:
            # The user has to pass through the folder, but may not list it.
            folder.chmod(0o711)
            os.chown(scratch, sandbox.identity.uid, sandbox.identity.gid)
        canary = private / "canary"
        canary.write_text("canary")
        canary.chmod(0o600)
        tcp = stack.enter_context(open_tcp_listener())
        other = stack.enter_context(open_tcp_listener())
        unix = stack.enter_context(open_unix_listener(private / "socket"))
        stack.enter_context(open_greeter(tcp, unix))
        service = ServicePort(tcp.getsockname()[1], private / "socket")
        writable = [scratch]
        if sandbox.identity and search.checkout:
            beside_checkout = uid_tier.open_trial_folder(search.checkout, sandbox.identity)
            writable.append(stack.enter_context(beside_checkout))
        yield _TierTrial(
            Confinement(scratch, tuple(writable), search.programs, (service,)),
            canary,
            private / "written",
            other.getsockname()[1],
            search.programs,
        )


def _find_failure(sandbox: Sandbox, trial: _TierTrial) -> str:
    """Why this boundary does not work, "" if it does. A trial that timed out is repeated."""
    required, forbidden = _list_required_probes(trial), _list_forbidden_probes(sandbox, trial)

    def run_once(limit_s: float) -> ProbeResult:
        try:
            return run_probes(sandbox, trial.confinement, [*required, *forbidden], limit_s)
        finally:
            for folder in trial.confinement.writable:
                (folder / TRIAL_FILE).unlink(missing_ok=True)
            trial.outside.unlink(missing_ok=True)

    result = repeat_if_timed_out(run_once)
    if result.failure:
        return result.failure
    for outcome in result.outcomes[: len(required)]:
        if not outcome.succeeded:
            return f"an agent could not {outcome.name}: {outcome.how}"
    for outcome in result.outcomes[len(required) :]:
        if outcome.succeeded is not False:
            return f"an agent could {outcome.name}: {outcome.how}{_describe_cause(trial)}"
    return ""


def _describe_cause(trial: _TierTrial) -> str:
    """The setting that opens the run's folder to agents, and how to change it; "" if none does."""
    run_folder = trial.canary.parent.resolve()
    for opened in trial.programs:
        if run_folder.is_relative_to(opened.resolve()):
            return (
                f", since {opened} is opened: name a smaller folder in agent_paths, or move TMPDIR"
            )
    return ""


def _list_required_probes(trial: _TierTrial) -> list[Probe]:
    """Attempts that must succeed."""
    files = [(folder, str(folder / TRIAL_FILE)) for folder in trial.confinement.writable]
    port = trial.confinement.services[0].port
    changing = "change the mode of a file in"
    return [
        *(Probe(f"write to {folder}", "write", (file,)) for folder, file in files),
        Probe("reach the gateway", "greeted", ("127.0.0.1", port)),
        *(Probe(f"{changing} {folder}", "change_mode", (file,)) for folder, file in files),
        *(Probe(f"run {path}", "usable", (str(path),)) for path in trial.programs),
    ]


def _list_forbidden_probes(sandbox: Sandbox, trial: _TierTrial) -> list[Probe]:
    """Attempts that must fail."""
    attempts = [
        Probe("read a private file", "read", (str(trial.canary),)),
        Probe("write outside", "write", (str(trial.outside),)),
    ]
    if sandbox.guarantees.network.held:
        # Only "connect", without a greeting: a slow answer would look like a refusal.
        port = trial.other_port
        attempts.append(Probe("reach another service", "connect", ("127.0.0.1", port)))
    if sandbox.guarantees.closes(FILE_MODES):
        canary = str(trial.canary)
        attempts.append(Probe("change the mode of a private file", "change_mode", (canary,)))
    return attempts


def build_guarantees(tier: Tier, features: Features) -> Guarantees:
    """The guarantees of a tier on a kernel with these features. The agent is the subject of the
    texts: its scratch space, and it can also read what it may write."""
    if tier is Tier.NONE:
        ended = "what an agent leaves running is ended if it can be found"
        texts = {"files": _NOTHING, "secrets": _NOTHING, "network": _NOTHING, "lifetime": ended}
        return Guarantees(
            **{name: Guarantee(text, open_rows=_list_rows(name)) for name, text in texts.items()}
        )
    return Guarantees(
        _build_file_guarantee(tier, features),
        _build_secret_guarantee(tier, features),
        _build_network_guarantee(tier, features),
        _build_lifetime_guarantee(tier, features),
    )


def _list_rows(guarantee: str) -> tuple[ProofRow, ...]:
    return tuple(row for row in ROWS if row.guarantee == guarantee)


def _build_file_guarantee(tier: Tier, features: Features) -> Guarantee:
    if tier is Tier.NAMESPACES:
        return Guarantee(
            "only the checkout, its scratch space and the public part of the system are visible"
        )
    if features.landlock and (tier is Tier.UID or features.notify):
        return Guarantee("writes only in the checkout and its scratch space; reads only the system")
    if features.landlock:
        text = "modes and times of the job user's other files can be changed"
        text += _describe_monitor_failure("changes", features)
        return Guarantee(text, open_rows=(FILE_MODES,))
    text = "whatever any user of this machine may read is readable, and /tmp is writable"
    return Guarantee(text, open_rows=(OTHER_FILES, WRITING))


def _build_secret_guarantee(tier: Tier, features: Features) -> Guarantee:
    if tier is Tier.NAMESPACES:
        return Guarantee("no process, socket or private file of the job can be reached")
    if tier is Tier.UID and not features.landlock:
        return Guarantee("another user: environments, memory and private files are closed")
    return Guarantee("environments, memory, descriptors and files of the job are closed")


def _build_network_guarantee(tier: Tier, features: Features) -> Guarantee:
    if tier is Tier.NAMESPACES:
        return Guarantee("only the gateway, and a separate loopback for tests")
    if features.notify:
        return Guarantee("every connection is checked: only the gateway and its own test servers")
    text = "TCP goes anywhere"
    if features.landlock >= landlock.CAN_LIMIT_TCP:
        text = "TCP goes to the gateway's port on any host"
    text += _describe_monitor_failure("connects", features)
    return Guarantee(text, open_rows=_NETWORK_ROWS)


def _describe_monitor_failure(subject: str, features: Features) -> str:
    """The end of a sentence that says why no monitor judges ``subject``, such as "changes"; "" if
    that is not known."""
    reason = features.monitor_failure[:_LONGEST_REASON]
    return f": {subject} cannot be judged ({reason})" if reason else ""


def _build_lifetime_guarantee(tier: Tier, features: Features) -> Guarantee:
    if tier is Tier.NAMESPACES:
        return Guarantee("the kernel ends every process when the agent ends")
    if tier is Tier.UID:
        return Guarantee("every process of the agents' user is ended when the agent ends")
    if features.landlock >= landlock.CAN_SCOPE or features.notify:
        return Guarantee("every descendant is ended when the agent ends; no signal gets out")
    text = "signals reach other processes of the job's user"
    return Guarantee(text, open_rows=(SIGNALS,))
