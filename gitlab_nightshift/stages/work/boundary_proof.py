"""Tries to break out of the boundary around agents, and of this process's own, before any bead."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.events import BoundaryProven, Emit
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.repository.git import list_setting_files, with_machine_config
from gitlab_nightshift.sandbox.probes import ProbeTargets
from gitlab_nightshift.sandbox.proof import judge_guarantees, prove, refuse_weaker
from gitlab_nightshift.sandbox.self_confinement import OwnConfinement, try_own_access
from gitlab_nightshift.sandbox.system_paths import HOME_FILES
from gitlab_nightshift.sandbox.tiers import Tier
from gitlab_nightshift.stages.work.boundary import Boundary


def prove_boundary(
    boundary: Boundary,
    checkout: Checkout,
    private: Path,
    home: Path,
    named: Sequence[Path],
    path: str,
    emit: Emit,
    own: OwnConfinement | None = None,
) -> None:
    """Try to break out of the confinement of agents, and check that this program loads nothing that
    they write in the checkout and its ``named`` folders. ``path`` is the PATH to find git. With
    ``own`` this process also tries to break out of its own confinement.

    Raises ``E_POLICY_DENY`` with the names of the holes.
    """
    if boundary.sandbox.tier is Tier.NONE:
        return
    scratch = boundary.scratch / "proof"
    scratch.mkdir(mode=0o700)
    boundary.hand_over(scratch)
    targets = _list_targets(checkout, private, home, named, path)
    confined = boundary.build_confinement(checkout.path, scratch)
    proof = prove(boundary.sandbox, confined.confinement, targets)
    if own:
        own_findings = try_own_access(own, boundary.sandbox.broker)
        proof = replace(proof, findings=(*proof.findings, *own_findings))
    strengths = judge_guarantees(boundary.sandbox.guarantees, proof.findings)
    emit(BoundaryProven(strengths, proof.rows))
    if proof.failure:
        raise NightshiftError(
            Code.POLICY_DENY, f"the boundary could not be set up here: {proof.failure}"
        )
    refuse_weaker(boundary.sandbox.tier, strengths, boundary.accepted)


def _list_targets(
    checkout: Checkout, private: Path, home: Path, named: Sequence[Path], path: str
) -> ProbeTargets:
    secrets = (
        *checkout.secrets,
        checkout.path.with_name(f"{checkout.path.name}.tmp"),
        *(home / name for name in HOME_FILES),
        private / "results",
        private / "logs",
    )
    machine_git = with_machine_config(private / "proof-git", path, home)
    return ProbeTargets(
        secrets=tuple(path for path in secrets if path.exists()),
        outside=(private / "logs",),
        written=tuple(dict.fromkeys((checkout.path, *named))),
        list_setting_files=functools.partial(list_setting_files, machine_git),
    )
