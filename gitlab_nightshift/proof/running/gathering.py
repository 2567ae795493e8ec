"""Gathers all evidence from running a change, and settles the findings from reading it."""

from collections.abc import Callable, Sequence

from gitlab_nightshift.proof.evidence.benchmark import run_benchmark
from gitlab_nightshift.proof.evidence.collected_runs import compare_collections
from gitlab_nightshift.proof.evidence.complexity import compare_complexity
from gitlab_nightshift.proof.evidence.lab import Evidence, EvidenceSubject, Lab
from gitlab_nightshift.proof.proof_commands import CommandRun
from gitlab_nightshift.proof.reports.command_expansion import build_text_reader
from gitlab_nightshift.proof.reports.reported_cases import Collection
from gitlab_nightshift.proof.running.base_canaries import BaseCanaries
from gitlab_nightshift.proof.running.canaries import try_canaries
from gitlab_nightshift.proof.running.new_tests import evaluate_new_tests
from gitlab_nightshift.proof.running.old_tests import run_old_tests
from gitlab_nightshift.proof.running.settlement import list_excused, settle_findings
from gitlab_nightshift.proof.running.trial import Trial
from gitlab_nightshift.records.verdicts import Finding

Gather = Callable[[EvidenceSubject, Lab], Evidence]


def _compare_complexity(subject: EvidenceSubject, _lab: Lab) -> Evidence:
    return compare_complexity(subject)


BY_CATEGORY: dict[str, tuple[Gather, ...]] = {
    "refactoring": (_compare_complexity,),
    "performance": (run_benchmark,),
}
"""Additional checks by category."""


def gather_evidence(
    subject: EvidenceSubject,
    lab: Lab,
    before: Sequence[Collection],
    runs: Sequence[CommandRun],
    base: BaseCanaries,
    read: Sequence[Finding],
) -> Evidence:
    """Everything that running shows of a change within the lab's time. ``read`` are the findings
    from reading; the result has those that were not refuted, and those from running. Does not
    restore the checkout. Raises GitError, OSError."""
    seen = try_canaries(subject, lab, before, runs, base)
    found = compare_collections(subject, before, runs, list_excused(subject, runs, seen)) + seen
    text = build_text_reader(lab.checkout.repository, subject.base)
    found += evaluate_new_tests(subject, Trial(lab, text, "new"), seen.noticed)
    found += run_old_tests(subject, Trial(lab, text, "old"))
    for each in BY_CATEGORY.get(subject.context.category, ()):
        found += each(subject, lab)
    kept, refuted = settle_findings(subject, read, found)
    return Evidence((*found.checks, *refuted), (*kept, *found.findings))
