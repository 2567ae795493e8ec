"""The boundary around agents and the team's commands: chosen once, proven before the first bead."""

import os
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError, config_error
from gitlab_nightshift.events import Emit, Note, StepEnded, StepStarted
from gitlab_nightshift.host.checkout import Checkout
from gitlab_nightshift.host.sandbox.attempts import Targets
from gitlab_nightshift.host.sandbox.launch import Confined, Sandbox
from gitlab_nightshift.host.sandbox.places import HOME_FILES
from gitlab_nightshift.host.sandbox.probe import choose
from gitlab_nightshift.host.sandbox.proof import prove
from gitlab_nightshift.host.sandbox.records import Confinement, Gate, Tier
from gitlab_nightshift.settings import Settings

WIRED = (Tier.NAMESPACES, Tier.LANDLOCK)
"""The tiers that a night can use; a user of its own needs the checkout to change its owner."""


@dataclass(frozen=True)
class Boundary:
    """One sandbox for a whole run. ``read_only`` is what agents may read beside the system."""

    sandbox: Sandbox
    read_only: tuple[Path, ...]
    gates: tuple[Gate, ...] = ()

    def around(self, checkout: Path, scratch: Path) -> Confined:
        """The confinement of one process: it may write in the checkout and in ``scratch``."""
        confinement = Confinement(checkout, (checkout, scratch), self.read_only, self.gates)
        return Confined(self.sandbox, confinement)

    def search_path(self, path: str) -> str:
        """The folders of PATH that are readable inside: a shell stops at the first program that it
        sees, also where it may not run it."""
        if self.sandbox.tier is Tier.NONE:
            return path
        roots = [Path(root) for root in self.sandbox.machine.readable] + list(self.read_only)
        folders = path.split(os.pathsep)
        return os.pathsep.join(f for f in folders if _lies_in(Path(f).resolve(), roots))

    def __str__(self) -> str:
        """The tier, and which of its promises are kept here."""
        if self.sandbox.tier is Tier.NONE:
            return "none"
        kept = ", ".join(
            f"{name} {'held' if promise.held else 'partial'}"
            for name, promise in vars(self.sandbox.guarantees).items()
        )
        return f"{self.sandbox.tier} ({kept})"


def _lies_in(folder: Path, roots: list[Path]) -> bool:
    return any(folder.is_relative_to(root.resolve()) for root in roots)


def open_boundary(
    settings: Settings,
    checkout: Checkout,
    private: Path,
    places: tuple[Path, ...],
    path: str,
    emit: Emit,
) -> Boundary:
    """The boundary that the settings ask for, told in the log.

    ``places`` are what the agent's CLI is and needs, ``path`` is where programs are looked up.
    Raises NightshiftError: ``E_CONFIG`` where a tier that is asked for by name does not work,
    ``E_POLICY_DENY`` where none does.
    """
    if settings.isolation == "uid":
        raise config_error("isolation: uid is not available in this version; use auto")
    emit(StepStarted("boundary", "Boundary · what agents and commands can reach"))
    programs = [place for place in places if os.access(place, os.X_OK)]
    sandbox = choose(settings.isolation, private, programs, WIRED)
    for tier, why in sandbox.passed_over:
        emit(Note(f"  {tier} does not work here: {why}"))
    for line in sandbox.guarantees.lines():
        emit(Note(f"  {line}"))
    tools = tuple(Path(tool).absolute() for tool in settings.agent_paths)
    if missing := [tool for tool in tools if not tool.exists()]:
        raise config_error(f"agent_paths: {missing[0]} is not there")
    there = tuple(path for path in checkout.objects if path.exists())
    boundary = Boundary(sandbox, (*places, *there, *tools))
    closed = set(path.split(os.pathsep)) - set(boundary.search_path(path).split(os.pathsep))
    if closed := {folder for folder in closed if Path(folder).is_dir()}:
        names = ", ".join(sorted(closed))
        emit(Note(f"  not readable: {names} (agent_paths opens tool folders)"))
    emit(StepEnded("boundary", sandbox.tier is not Tier.NONE, f"isolation: {boundary}"))
    return boundary


def proven(boundary: Boundary, checkout: Checkout, private: Path, home: Path) -> None:
    """Try to get through, in the same confinement that agents get.

    Raises ``E_POLICY_DENY`` with the name of the first hole.
    """
    if boundary.sandbox.tier is Tier.NONE:
        return
    scratch = private / "proof"
    scratch.mkdir()
    secrets = (
        *(checkout.real_git / name for name in ("config", "logs")),
        checkout.path.with_name(f"{checkout.path.name}.tmp"),
        *(home / name for name in HOME_FILES),
        private / "results",
        private / "logs",
    )
    confined = boundary.around(checkout.path, scratch)
    targets = Targets(tuple(path for path in secrets if path.exists()), (private / "logs",))
    proof = prove(boundary.sandbox, confined.confinement, targets)
    if not proof.held:
        why = proof.trouble or "; ".join(proof.holes)
        raise NightshiftError(Code.POLICY_DENY, f"the boundary does not hold here: {why}")
