"""The boundary around agents and the team's commands: chosen once, proven before the first bead."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.events import (
    BoundaryChosen,
    BoundaryProven,
    Emit,
    Note,
    StepEnded,
    StepStarted,
)
from gitlab_nightshift.host.checkout import Checkout
from gitlab_nightshift.host.git import with_machine_config
from gitlab_nightshift.host.owners import OwnersRefused
from gitlab_nightshift.host.paths import short_parent
from gitlab_nightshift.host.private import SCRATCH, own_folder
from gitlab_nightshift.host.sandbox import uid
from gitlab_nightshift.host.sandbox.attempts import Targets
from gitlab_nightshift.host.sandbox.credential_files import SETTINGS as SETTINGS_OF_TOOLS
from gitlab_nightshift.host.sandbox.launch import Confined, Sandbox
from gitlab_nightshift.host.sandbox.ownership import give
from gitlab_nightshift.host.sandbox.places import HOME_FILES, SETTINGS
from gitlab_nightshift.host.sandbox.probe import Missing, choose
from gitlab_nightshift.host.sandbox.proof import prove
from gitlab_nightshift.host.sandbox.records import Confinement, Gate, Mount, Tier
from gitlab_nightshift.host.sandbox.strength import judge, refuse_weaker
from gitlab_nightshift.host.sandbox.system import Look, System, is_within, look_at_system
from gitlab_nightshift.promises import Hold
from gitlab_nightshift.settings import Settings
from gitlab_nightshift.settings.hosts import egress_host

GIT_FILES = SETTINGS_OF_TOOLS["git"]
MOST_TOLD = 8
_NAMED = "agent_paths opens what it names"

Opener = Callable[..., contextlib.AbstractContextManager[Checkout]]
"""``open_checkout`` for this run; ``identity`` and ``mounting`` are left to be named."""


@dataclass(frozen=True)
class Boundary:
    """One sandbox for a whole run. ``scratch`` is where agents' own folders are made, ``read_only``
    what they may read beside the system, ``hosts`` what they may reach through the proxy,
    ``fence`` the folder of the programs that agents find by name (None: all of PATH), ``accepted``
    what may be only partly held."""

    sandbox: Sandbox
    scratch: Path
    read_only: tuple[Path, ...]
    gates: tuple[Gate, ...] = ()
    hosts: tuple[str, ...] = ()
    fence: Path | None = None
    mounts: tuple[Mount, ...] = ()
    accepted: tuple[str, ...] = ()

    def around(self, checkout: Path, scratch: Path) -> Confined:
        """The confinement of one process: it may write in the checkout and in ``scratch``."""
        writable = (checkout, scratch)
        confinement = Confinement(checkout, writable, self.read_only, self.gates, self.mounts)
        return Confined(self.sandbox, confinement)

    def hand_over(self, folder: Path) -> None:
        """Make a scratch folder with what this program has put there the agents'."""
        if identity := self.sandbox.identity:
            give(folder, (identity.uid, identity.gid))

    def search_path(self, path: str) -> str:
        """The folders of PATH that are readable inside: a shell stops at the first program that it
        sees, also where it may not run it."""
        if self.sandbox.tier is Tier.NONE:
            return path
        folders = [Path(f) for f in path.split(os.pathsep) if self.opens(Path(f).resolve())]
        return os.pathsep.join(str(f if self.opens(f) else f.resolve()) for f in folders)

    def agent_path(self, path: str) -> str:
        """PATH of an agent: behind the fence, where there is one."""
        return str(self.fence) if self.fence else self.search_path(path)

    def opens(self, path: Path) -> bool:
        """True where a process inside may read this outside the checkout; links resolved."""
        if self.sandbox.tier is Tier.NONE:
            return True
        return self.sandbox.machine.shows(path) or _lies_in(path, self.read_only)

    def git_env(self) -> dict[str, str]:
        """git ends where the machine's settings are there and closed: then it is not to look."""
        hidden = [
            p for p in GIT_FILES if is_within(os.path.realpath(p), self.sandbox.machine.private)
        ]
        return {"GIT_CONFIG_NOSYSTEM": "1"} if any(not self.opens(Path(p)) for p in hidden) else {}

    def __str__(self) -> str:
        """The tier, and how its promises are kept here."""
        if self.sandbox.tier is Tier.NONE:
            return "none"
        kept = ", ".join(
            f"{each.name} {each.state}{' as accepted' if each.state is Hold.PARTIAL else ''}"
            for each in judge(self.sandbox.guarantees)
        )
        hosts = f"; open to {', '.join(self.hosts)}" if self.hosts else ""
        return f"{self.sandbox.tier} ({kept}{hosts})"


def _lies_in(folder: Path, roots: Iterable[Path]) -> bool:
    return any(folder.is_relative_to(way) for root in roots for way in (root, root.resolve()))


@dataclass(frozen=True)
class Search:
    """What a boundary is sought for.

    ``places`` are what the agent's CLI is and needs, ``tools`` what ``agent_paths`` opens, ``path``
    is where programs are looked up, ``look`` tells what is private on this machine.
    """

    settings: Settings
    checkout: Path
    private: Path
    places: tuple[Path, ...]
    tools: tuple[Path, ...]
    path: str
    look: Look = look_at_system


@contextlib.contextmanager
def enclosed(search: Search, opener: Opener, emit: Emit) -> Iterator[tuple[Checkout, Boundary]]:
    """The checkout, opened for the boundary that the settings ask for, which is told in the log.

    Raises NightshiftError: ``E_CONFIG`` where a tier that is asked for by name does not work,
    ``E_POLICY_DENY`` where none does, or a guarantee is only partly held and not accepted; and as
    ``opener``.
    """
    parent = short_parent(search.private.parent)
    with own_folder(parent, search.checkout, SCRATCH) as scratch:
        scratch.chmod(0o711)  # another user has to pass through
        with _opened(search, scratch, opener) as (sandbox, checkout):
            yield checkout, _told(search, sandbox, checkout, scratch, emit)


@contextlib.contextmanager
def _opened(search: Search, scratch: Path, opener: Opener) -> Iterator[tuple[Sandbox, Checkout]]:
    """Choose, then open; once more where the checkout cannot be another user's after all."""
    programs = [place for place in (*search.places, *search.tools) if os.access(place, os.X_OK)]
    choice = functools.partial(
        choose,
        search.settings.isolation,
        scratch,
        programs,
        search.checkout.resolve(),
        look=search.look,
    )
    with contextlib.ExitStack() as stack:
        sandbox = choice()
        if sandbox.identity:
            stack.callback(uid.release, sandbox.identity)
        try:
            checkout = stack.enter_context(_open(opener, sandbox))
        except OwnersRefused as refused:
            passed_over = (*sandbox.passed_over, (Tier.UID, str(refused)))
            sandbox = choice(known=[Missing(tier, why) for tier, why in passed_over])
            checkout = stack.enter_context(_open(opener, sandbox))
        yield sandbox, checkout


def _open(opener: Opener, sandbox: Sandbox) -> contextlib.AbstractContextManager[Checkout]:
    return opener(identity=sandbox.identity, mounting=sandbox.tier is Tier.NAMESPACES)


def _told(
    search: Search, sandbox: Sandbox, checkout: Checkout, scratch: Path, emit: Emit
) -> Boundary:
    emit(StepStarted("boundary", "Boundary · what agents and commands can reach"))
    chosen = _chosen(search, sandbox)
    emit(chosen)
    accepted = tuple(search.settings.accept_partial)
    refuse_weaker(sandbox.tier, chosen.guarantees, accepted)
    if chosen.hosts:
        hosts = ", ".join(chosen.hosts)
        emit(Note(f"network: beside that policy.egress_hosts, each a way out: {hosts}"))
    there = tuple(path for path in checkout.objects if path.exists())
    # A place that is shown anyway would show what is private in it, too.
    places = (place for place in search.places if not sandbox.machine.shows(place))
    read_only = (*places, *there, *search.tools)
    boundary = Boundary(
        sandbox,
        scratch,
        read_only,
        hosts=chosen.hosts,
        accepted=accepted,
        mounts=checkout.mounts,
    )
    for text in _closed(sandbox.machine, (*read_only, search.checkout)):
        emit(text)
    folders = {folder for folder in search.path.split(os.pathsep) if os.access(folder, os.X_OK)}
    if closed := {f for f in folders if not boundary.opens(Path(f).resolve())}:
        names = ", ".join(sorted(closed))
        emit(Note(f"  not readable: {names} (agent_paths opens tool folders)"))
    emit(StepEnded("boundary", sandbox.tier is not Tier.NONE, f"isolation: {boundary}"))
    return boundary


def _chosen(search: Search, sandbox: Sandbox) -> BoundaryChosen:
    return BoundaryChosen(
        isolation=search.settings.isolation,
        tier=sandbox.tier,
        passed_over=tuple((tier.value, why) for tier, why in sandbox.passed_over),
        guarantees=judge(sandbox.guarantees),
        agent=search.settings.agent,
        places=tuple(map(str, search.places)),
        tools=tuple(map(str, search.tools)),
        hosts=tuple(str(egress_host(host)) for host in search.settings.policy.egress_hosts),
    )


def _closed(machine: System, opened: Sequence[Path]) -> Iterator[Note]:
    """What a build may miss: private places outside of ``/etc``, and files of tools."""
    others = (path for path in machine.private if path not in machine.own)
    closed = [path for path in others if not _lies_in(Path(path), opened)]
    for path in machine.cut:
        if path in closed:
            yield Note(
                f"{path} is too large to be searched for private files, so it is hidden; {_NAMED}",
                warning=True,
            )
    told = [
        f"{path} ({machine.credentials[path]})" if path in machine.credentials else path
        for path in closed
        if path not in machine.cut
        and (path in machine.credentials or not is_within(path, (SETTINGS,)))
    ]
    if told:
        more = f" and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else ""
        yield Note(f"private, so hidden: {', '.join(told[:MOST_TOLD])}{more} ({_NAMED})")


def proven(
    boundary: Boundary,
    checkout: Checkout,
    private: Path,
    home: Path,
    named: Sequence[Path],
    path: str,
    emit: Emit,
) -> None:
    """Try to get through, in the same confinement that agents get; and whether this program would
    load what they write, in the checkout and its ``named`` folders. ``path`` is where git is.

    Raises ``E_POLICY_DENY`` with the names of the holes.
    """
    if boundary.sandbox.tier is Tier.NONE:
        return
    scratch = boundary.scratch / "proof"
    scratch.mkdir(mode=0o700)
    boundary.hand_over(scratch)
    secrets = (
        *checkout.secrets,
        checkout.path.with_name(f"{checkout.path.name}.tmp"),
        *(home / name for name in HOME_FILES),
        private / "results",
        private / "logs",
    )
    confined = boundary.around(checkout.path, scratch)
    targets = Targets(
        secrets=tuple(path for path in secrets if path.exists()),
        outside=(private / "logs",),
        written=tuple(dict.fromkeys((checkout.path, *named))),
        git=with_machine_config(private / "proof-git", path, home),
    )
    proof = prove(boundary.sandbox, confined.confinement, targets)
    strengths = judge(boundary.sandbox.guarantees, proof.findings)
    emit(BoundaryProven(strengths, proof.rows))
    if proof.trouble:
        raise NightshiftError(
            Code.POLICY_DENY, f"the boundary could not be set up here: {proof.trouble}"
        )
    refuse_weaker(boundary.sandbox.tier, strengths, boundary.accepted)
