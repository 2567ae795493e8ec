"""The boundary around agents and the team's commands: chosen once, and tested before any bead."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.events import (
    BoundaryChosen,
    BoundaryProven,
    Emit,
    Note,
    StepEnded,
    StepStarted,
)
from gitlab_nightshift.registry.sandbox_guarantees import GuaranteeState
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.repository.git import list_setting_files, with_machine_config
from gitlab_nightshift.repository.owners import OwnershipError
from gitlab_nightshift.sandbox import uid_tier
from gitlab_nightshift.sandbox.confinement import ConfinementMode
from gitlab_nightshift.sandbox.credential_files import TOOL_SETTINGS
from gitlab_nightshift.sandbox.launch import ProcessBoundary, Sandbox
from gitlab_nightshift.sandbox.probes import ProbeTargets
from gitlab_nightshift.sandbox.proof import judge_guarantees, prove, refuse_weaker
from gitlab_nightshift.sandbox.self_confinement import (
    OwnConfinement,
    WorkNeeds,
    try_own_access,
    weaken_sandbox,
)
from gitlab_nightshift.sandbox.system_paths import HOME_FILES, SYSTEM_SETTINGS
from gitlab_nightshift.sandbox.tier_choice import UnavailableTier, choose
from gitlab_nightshift.sandbox.tiers import Confinement, Mount, ServicePort, Tier
from gitlab_nightshift.sandbox.uid_tier import give
from gitlab_nightshift.sandbox.visible_system import (
    LookAtSystem,
    System,
    is_within_any,
    look_at_system,
)
from gitlab_nightshift.settings.allowed_hosts import parse_egress_host
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.system.private_folders import open_scratch_folder
from gitlab_nightshift.text.printable_text import join_some

GIT_FILES = TOOL_SETTINGS["git"]
MOST_NAMED = 8
"""Hidden paths that the job log names."""
_HOW_TO_EXPOSE = "To expose it, add it to agent_paths."

OpenCheckout = Callable[..., contextlib.AbstractContextManager[Checkout]]
"""Opens the run's checkout, with ``identity`` and ``use_mounts`` as ``open_checkout`` has them."""


class SandboxUnavailable(BaseException):
    """No sandbox works within this process's namespaces; the text says why. Neither a bug nor a
    result: the process has done nothing yet, and can be started again without namespaces."""


@dataclass(frozen=True)
class Boundary:
    """One sandbox for a whole run. Agents' folders are created in ``scratch``. Agents may read
    ``read_only`` besides the system, connect to ``services``, and through the proxy to
    ``hosts``. ``allowlist`` is a folder with the only programs on their PATH (None: all programs),
    ``program_folders`` are folders of the checkout on the PATH inside. ``mounts`` give folders
    another path inside, ``accepted`` are guarantees that may hold only in part."""

    sandbox: Sandbox
    scratch: Path
    read_only: tuple[Path, ...]
    services: tuple[ServicePort, ...] = ()
    hosts: tuple[str, ...] = ()
    allowlist: Path | None = None
    mounts: tuple[Mount, ...] = ()
    accepted: tuple[str, ...] = ()
    program_folders: tuple[Path, ...] = ()

    def build_confinement(self, checkout: Path, scratch: Path) -> ProcessBoundary:
        """The confinement of one process, which may write to the checkout and to ``scratch``."""
        writable = (checkout, scratch)
        confinement = Confinement(checkout, writable, self.read_only, self.services, self.mounts)
        return ProcessBoundary(self.sandbox, confinement)

    def give_to_agents(self, folder: Path) -> None:
        """Give ownership of a scratch folder and its content to the agents' user."""
        if identity := self.sandbox.identity:
            give(folder, (identity.uid, identity.gid))

    def filter_search_path(self, path: str) -> str:
        """The folders of PATH that are readable inside. Others are removed: a shell stops at the
        first program that it finds, even one that it may not run."""
        if self.sandbox.tier is Tier.NONE:
            return path
        folders = [Path(f) for f in path.split(os.pathsep) if self._is_on_path(Path(f).resolve())]
        return os.pathsep.join(str(f if self._is_on_path(f) else f.resolve()) for f in folders)

    def _is_on_path(self, folder: Path) -> bool:
        return folder in self.program_folders or self.is_readable(folder)

    def build_agent_path(self, path: str) -> str:
        """An agent's PATH: the program allowlist if there is one, else the readable folders."""
        return str(self.allowlist) if self.allowlist else self.filter_search_path(path)

    def is_readable(self, path: Path) -> bool:
        """True if a process inside may read this path outside the checkout; links resolved."""
        if self.sandbox.tier is Tier.NONE:
            return True
        return self.sandbox.machine.shows(path) or _is_below(path, self.read_only)

    def build_git_env(self) -> dict[str, str]:
        """The variable by which git ignores the machine's settings, if these are hidden."""
        private = self.sandbox.machine.private
        hidden = [path for path in GIT_FILES if is_within_any(os.path.realpath(path), private)]
        # git skips a missing /etc/gitconfig, but dies if it may not read one (git's config.c).
        unreadable = any(not self.is_readable(Path(path)) for path in hidden)
        return {"GIT_CONFIG_NOSYSTEM": "1"} if unreadable else {}

    def __str__(self) -> str:
        """The tier, and which of its guarantees hold here."""
        if self.sandbox.tier is Tier.NONE:
            return "none"
        guarantees = ", ".join(
            f"{each.name} {each.state}"
            + (" as accepted" if each.state is GuaranteeState.PARTIAL else "")
            for each in judge_guarantees(self.sandbox.guarantees)
        )
        hosts = f"; open to {', '.join(self.hosts)}" if self.hosts else ""
        return f"{self.sandbox.tier} ({guarantees}{hosts})"


def _is_below(path: Path, folders: Iterable[Path]) -> bool:
    """True if a folder contains the path, as named or with the folder's links resolved."""
    return any(path.is_relative_to(form) for each in folders for form in (each, each.resolve()))


@dataclass(frozen=True)
class BoundarySearch:
    """What the choice of a boundary depends on.

    ``cli_files`` are the files that the agent's CLI needs, ``tools`` those of ``agent_paths``;
    ``look`` finds what is private on this machine.
    """

    work: WorkContext
    cli_files: tuple[Path, ...]
    tools: tuple[Path, ...]
    look: LookAtSystem = look_at_system


@contextlib.contextmanager
def open_boundary(
    search: BoundarySearch, open_checkout: OpenCheckout, emit: Emit
) -> Iterator[tuple[Checkout, Boundary]]:
    """Open the checkout in the boundary that the settings ask for, and log that boundary.

    Raises NightshiftError: ``E_CONFIG`` if a tier requested by name does not work,
    ``E_POLICY_DENY`` if none works, or a guarantee holds only in part and is not accepted; and
    what ``open_checkout`` raises.
    """
    work = search.work
    with contextlib.ExitStack() as stack:
        scratch = (
            work.prepared.scratch
            if work.prepared
            else stack.enter_context(open_scratch_folder(work.private.parent, work.checkout))
        )
        sandbox, checkout = stack.enter_context(_open_sandbox(search, scratch, open_checkout))
        if work.own_confinement:
            needs = WorkNeeds(
                sandbox.machine,
                tuple(map(str, (*search.cli_files, *search.tools, *checkout.objects))),
                identity=sandbox.identity,
                keep_owners=sandbox.identity is not None or not checkout.belongs_to_process,
                monitored=sandbox.features.notify,
            )
            sandbox = replace(sandbox, broker=work.own_confinement.complete(needs))
        yield checkout, _build_boundary(search, sandbox, checkout, scratch, emit)


@contextlib.contextmanager
def _open_sandbox(
    search: BoundarySearch, scratch: Path, open_checkout: OpenCheckout
) -> Iterator[tuple[Sandbox, Checkout]]:
    """Choose a tier and open the checkout. If its files cannot be given to the agents' user, choose
    another tier."""
    programs = [path for path in (*search.cli_files, *search.tools) if os.access(path, os.X_OK)]
    choose_tier = functools.partial(
        choose,
        search.work.settings.isolation,
        scratch,
        programs,
        search.work.checkout.resolve(),
        look=search.look,
    )
    with contextlib.ExitStack() as stack:

        def open_in(sandbox: Sandbox) -> Checkout:
            use_mounts = sandbox.tier is Tier.NAMESPACES
            return stack.enter_context(
                open_checkout(identity=sandbox.identity, use_mounts=use_mounts)
            )

        sandbox = choose_sandbox(search.work.own_confinement, choose_tier)
        if sandbox.identity:
            stack.callback(uid_tier.release_user, sandbox.identity)
        try:
            checkout = open_in(sandbox)
        except OwnershipError as error:
            passed_over = (*sandbox.passed_over, (Tier.UID, str(error)))
            unavailable = [UnavailableTier(tier, why) for tier, why in passed_over]
            sandbox = choose_sandbox(search.work.own_confinement, choose_tier, unavailable)
            checkout = open_in(sandbox)
        yield sandbox, checkout


def choose_sandbox(
    confinement: OwnConfinement | None,
    choose_tier: Callable[..., Sandbox],
    unavailable: Sequence[UnavailableTier] = (),
) -> Sandbox:
    """Call ``choose_tier`` for a sandbox that works within this process's own ``confinement``, and
    weaken its guarantees to those of that. ``unavailable`` are tiers that are known not to work.
    Raises SandboxUnavailable."""
    # A process under Landlock's file system rules may not mount (landlock(7)). The tier that mounts
    # must not be chosen, although it would still work now, before the rules are in force.
    if confinement and confinement.mode is ConfinementMode.LANDLOCK:
        unavailable = (*unavailable, UnavailableTier(Tier.NAMESPACES, confinement.reason))
    in_namespaces = confinement is not None and confinement.mode is ConfinementMode.NAMESPACES
    try:
        sandbox = choose_tier(unavailable=unavailable)
    except NightshiftError as error:
        if in_namespaces:
            raise SandboxUnavailable(error.message) from None
        raise
    # A process cannot leave its namespaces (setns(2) needs CAP_SYS_ADMIN in those to return to), so
    # if only a weaker tier works, it must be started again.
    if in_namespaces and sandbox.tier is not Tier.NAMESPACES:
        raise SandboxUnavailable(next((why for _, why in sandbox.passed_over), "agents get none"))
    return weaken_sandbox(sandbox, confinement) if confinement else sandbox


def _build_boundary(
    search: BoundarySearch, sandbox: Sandbox, checkout: Checkout, scratch: Path, emit: Emit
) -> Boundary:
    """The boundary of the open checkout, logged as a step. Raises ``E_POLICY_DENY`` if a guarantee
    holds only in part and is not accepted."""
    emit(StepStarted("boundary", "Boundary: what agents and commands can reach"))
    chosen = _build_choice_event(search, sandbox)
    emit(chosen)
    accepted = tuple(search.work.settings.accept_partial)
    refuse_weaker(sandbox.tier, chosen.guarantees, accepted)
    if chosen.hosts:
        hosts = ", ".join(chosen.hosts)
        emit(Note(f"network: data can also leave to the hosts of policy.egress_hosts: {hosts}"))
    objects = tuple(path for path in checkout.objects if path.exists())
    # Mounting a path that is visible already would also show the private files below it.
    cli_files = (path for path in search.cli_files if not sandbox.machine.shows(path))
    read_only = (*cli_files, *objects, *search.tools)
    boundary = Boundary(
        sandbox,
        scratch,
        read_only,
        hosts=chosen.hosts,
        accepted=accepted,
        mounts=checkout.mounts,
        program_folders=search.work.programs,
    )
    for note in _describe_hidden_paths(sandbox.machine, (*read_only, search.work.checkout)):
        emit(note)
    if unreadable := _find_unreadable_folders(boundary, search.work.search_path):
        names = ", ".join(unreadable)
        emit(Note(f"PATH: agents cannot read {names}. To expose a folder, add it to agent_paths."))
    emit(StepEnded("boundary", sandbox.tier is not Tier.NONE, f"isolation: {boundary}"))
    return boundary


def _find_unreadable_folders(boundary: Boundary, path: str) -> list[str]:
    """The folders of ``path`` that agents cannot read, except the CI template's own: that holds
    only this program and the agent's CLI, which is readable anyway."""
    template_folder = "/.nightshift/bin"  # below HOME: `.nightshift:install` in ci/templates
    folders = {each for each in path.split(os.pathsep) if not each.endswith(template_folder)}
    usable = (folder for folder in folders if os.access(folder, os.X_OK))
    return sorted(each for each in usable if not boundary.is_readable(Path(each).resolve()))


def _build_choice_event(search: BoundarySearch, sandbox: Sandbox) -> BoundaryChosen:
    return BoundaryChosen(
        isolation=search.work.settings.isolation,
        tier=sandbox.tier,
        passed_over=tuple((tier.value, why) for tier, why in sandbox.passed_over),
        guarantees=judge_guarantees(sandbox.guarantees),
        agent=search.work.settings.agent,
        places=tuple(map(str, search.cli_files)),
        tools=tuple(map(str, search.tools)),
        hosts=tuple(
            str(parse_egress_host(host)) for host in search.work.settings.policy.egress_hosts
        ),
    )


def _describe_hidden_paths(machine: System, shown: Sequence[Path]) -> Iterator[Note]:
    """Notes on private paths that a build may need; below ``/etc`` only on settings of tools."""
    others = (path for path in machine.private if path not in machine.job_paths)
    hidden = [path for path in others if not _is_below(Path(path), shown)]
    for path in machine.unscanned:
        if path in hidden:
            yield Note(
                f"{path} is hidden from agents: it is too large to search for private files."
                f" {_HOW_TO_EXPOSE}",
                warning=True,
            )
    listed = [
        f"{path} ({machine.credentials[path]})" if path in machine.credentials else path
        for path in hidden
        if path not in machine.unscanned
        and (path in machine.credentials or not is_within_any(path, (SYSTEM_SETTINGS,)))
    ]
    if listed:
        names = join_some(listed, MOST_NAMED)
        yield Note(f"Hidden from agents: {names}. To expose one, add it to agent_paths.")


def prove_boundary(boundary: Boundary, checkout: Checkout, work: WorkContext) -> None:
    """Try to break out of the agents' confinement and of this process's own, and check that this
    program loads nothing that agents write into the checkout and its ``work.named_folders``.

    Raises ``E_POLICY_DENY``, which names the guarantees that do not hold.
    """
    if boundary.sandbox.tier is Tier.NONE:
        return
    scratch = boundary.scratch / "proof"
    scratch.mkdir(mode=0o700)
    boundary.give_to_agents(scratch)
    confined = boundary.build_confinement(checkout.path, scratch)
    proof = prove(boundary.sandbox, confined.confinement, _list_targets(checkout, work))
    if work.own_confinement:
        own_findings = try_own_access(work.own_confinement, boundary.sandbox.broker)
        proof = replace(proof, findings=(*proof.findings, *own_findings))
    strengths = judge_guarantees(boundary.sandbox.guarantees, proof.findings)
    work.emit(BoundaryProven(strengths, proof.rows))
    if proof.failure:
        raise NightshiftError(
            Code.POLICY_DENY, f"the boundary could not be set up here: {proof.failure}"
        )
    refuse_weaker(boundary.sandbox.tier, strengths, boundary.accepted)


def _list_targets(checkout: Checkout, work: WorkContext) -> ProbeTargets:
    """What the probes try to read and to change, and where they plant files."""
    private = work.private
    secrets = (
        *checkout.secrets,
        # GitLab Runner keeps a job's variables of type file in this folder.
        checkout.path.with_name(f"{checkout.path.name}.tmp"),
        *(work.home / name for name in HOME_FILES),
        private / "results",
        private / "logs",
    )
    machine_git = with_machine_config(private / "proof-git", work.search_path, work.home)
    return ProbeTargets(
        secrets=tuple(path for path in secrets if path.exists()),
        outside=(private / "logs",),
        named=tuple(dict.fromkeys((checkout.path, *work.named_folders))),
        list_setting_files=functools.partial(list_setting_files, machine_git),
    )
