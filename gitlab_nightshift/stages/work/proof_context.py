"""What a change is proven with, and what was found: the proofs themselves are loaded for the first
change."""

from collections.abc import Callable
from dataclasses import dataclass, field

from gitlab_nightshift.proof.proof_commands import Runner
from gitlab_nightshift.proof.running.base_canaries import BaseCanaries
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.products import KnownMergeRequest
from gitlab_nightshift.records.verdicts import Check, Finding, GatedFile
from gitlab_nightshift.registry.pipeline_files import NO_INCLUDES, CiFiles
from gitlab_nightshift.stages.work.baseline import Baseline
from gitlab_nightshift.stages.work.work_context import WorkContext


@dataclass(frozen=True)
class ProofContext:
    """What a change is checked against, besides the Verify bead.

    Where the baseline was red already, failing commands are reported and prove nothing. ``known``
    are merge requests whose ideas are not to be repeated. ``began`` is called with the
    attempt's number before anything runs. ``canaries`` keeps what the base's tests noticed for all
    attempts.
    """

    work: WorkContext
    recent_files: frozenset[str]
    runner: Runner
    baseline: Baseline
    ci_files: CiFiles = NO_INCLUDES
    known: tuple[KnownMergeRequest, ...] = ()
    began: Callable[[int], None] = lambda _attempt: None
    canaries: BaseCanaries = field(default_factory=BaseCanaries)


@dataclass(frozen=True)
class ProofResult:
    """What was found about a change; with ``why`` it is refused, and the next attempt is told.
    ``evidence`` is what Verify is told of it; ``held`` was read of tests, and running decides."""

    why: str = ""
    commands: tuple[CommandResult, ...] = ()
    notes: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    findings: tuple[Finding, ...] = ()
    held: tuple[Finding, ...] = ()
    gates: tuple[GatedFile, ...] = ()
    symbols: tuple[str, ...] = ()
    digest: str = ""
    evidence: str = ""
