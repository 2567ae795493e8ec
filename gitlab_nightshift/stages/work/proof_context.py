"""The input and the result of the proofs. Apart from ``proofs.py``, which is imported only for the
first change."""

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

    On a red baseline, failing commands are reported but prove nothing. ``known`` are merge requests
    whose ideas must not be repeated. ``canaries`` caches what the base's tests noticed, for all
    attempts.
    """

    work: WorkContext
    recent_files: frozenset[str]
    runner: Runner
    baseline: Baseline
    ci_files: CiFiles = NO_INCLUDES
    known: tuple[KnownMergeRequest, ...] = ()
    canaries: BaseCanaries = field(default_factory=BaseCanaries)


@dataclass(frozen=True)
class ProofResult:
    """The findings about a change. ``why``: the reason of a refusal, for the next attempt.
    ``evidence`` is the text for Verify; ``undecided`` are findings that running may refute."""

    why: str = ""
    commands: tuple[CommandResult, ...] = ()
    notes: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    findings: tuple[Finding, ...] = ()
    undecided: tuple[Finding, ...] = ()
    gates: tuple[GatedFile, ...] = ()
    symbols: tuple[str, ...] = ()
    digest: str = ""
    evidence: str = ""
