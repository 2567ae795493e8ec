"""Judges a change as in a night: by reading, by running, and by planted faults."""

import functools
from dataclasses import dataclass

from gitlab_nightshift.proof.evidence.evidence_records import Evidence, EvidenceSubject
from gitlab_nightshift.proof.proof_commands import CommandRun, run_and_collect
from gitlab_nightshift.proof.reading import find_red_flags
from gitlab_nightshift.proof.reports.report_request import build_text_reader
from gitlab_nightshift.proof.running.base_canaries import BaseCanaries
from gitlab_nightshift.proof.running.gathering import gather_evidence
from gitlab_nightshift.proof.running.trial import TrialCheckout
from gitlab_nightshift.records.verdicts import CheckOutcome


@dataclass(frozen=True)
class Proof:
    """What reading and running found. ``runs`` are the commands on the change."""

    runs: tuple[CommandRun, ...]
    evidence: Evidence

    @property
    def flags(self) -> dict[str, str]:
        """The level of each flag."""
        return {finding.name: finding.level for finding in self.evidence.findings}

    @property
    def failing(self) -> set[str]:
        """Flags that refuse the change."""
        return {finding.name for finding in self.evidence.findings if finding.level == "fail"}

    def list_checks(self, title: str) -> list[tuple[CheckOutcome, str]]:
        """Outcomes and details of the checks of that title."""
        return [(c.outcome, c.detail) for c in self.evidence.checks if c.title == title]


def run_commands_on(
    subject: EvidenceSubject, trial_checkout: TrialCheckout, tree: str, name: str
) -> tuple[CommandRun, ...]:
    """The trial_checkout's commands on a tree, with the tests that ran."""
    back = functools.partial(trial_checkout.checkout.apply_tree, tree)
    back()
    read = build_text_reader(trial_checkout.checkout.repository, subject.base)
    return run_and_collect(trial_checkout.runner, trial_checkout.commands, name, back, read)


def prove(
    subject: EvidenceSubject,
    trial_checkout: TrialCheckout,
    base: BaseCanaries | None = None,
    *,
    reading: bool = True,
) -> Proof:
    """All that a night does, ``reading`` included; the commands have to pass on both sides."""
    before = run_commands_on(
        subject, trial_checkout, trial_checkout.build_variant(subject.base, {}), "before"
    )
    runs = run_commands_on(subject, trial_checkout, subject.tree, "after")
    assert all(run.result.ok for run in (*before, *runs)), (before, runs)
    read = find_red_flags(subject.change, subject.context) if reading else ()
    collections = [run.collection for run in before]
    base = base or BaseCanaries()
    evidence = gather_evidence(subject, trial_checkout, collections, runs, base, read)
    return Proof(runs, evidence)
