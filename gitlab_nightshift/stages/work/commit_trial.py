"""Tries a checked-out commit without an agent, for what only running the tests can show."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.proof.evidence.evidence_records import (
    Evidence,
    EvidenceSubject,
    find_flaky_commands,
    raise_flag,
)
from gitlab_nightshift.proof.proof_commands import (
    CommandRun,
    Runner,
    describe_missing,
    format_failure,
    run_and_collect,
)
from gitlab_nightshift.proof.reports.report_request import build_text_reader
from gitlab_nightshift.proof.reviewed_change import Context, changes_code, read_change
from gitlab_nightshift.proof.running.base_canaries import BaseCanaries
from gitlab_nightshift.proof.running.gathering import gather_evidence
from gitlab_nightshift.proof.running.trial import TrialCheckout, compute_deadline
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.events import StepEnded, StepStarted
from gitlab_nightshift.records.verdicts import Check, Finding
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.repository.tree_objects import resolve_tree
from gitlab_nightshift.stages.work.sandboxed_checkout import SandboxContext, open_sandboxed_checkout
from gitlab_nightshift.stages.work.work_context import NOTHING_TO_RUN


@dataclass(frozen=True)
class TrialResult:
    """The commands that ran on the commit, what they showed, and the boundary in which they ran.
    ``incomplete`` is why no test ran, "" if one did."""

    commands: tuple[CommandResult, ...]
    checks: tuple[Check, ...]
    findings: tuple[Finding, ...]
    isolation: str
    incomplete: str = ""


def try_commit(
    sandbox_context: SandboxContext,
    base: str,
    commit: str,
    context: Context,
    undecided: tuple[Finding, ...],
) -> TrialResult:
    """Run the commands that prove a change on the commit, then compare it with ``base`` to gather
    evidence: inside the boundary, as in a night. The checkout of ``sandbox_context`` is restored.
    ``undecided`` are findings from reading that running may refute.

    Raises NightshiftError E_CONFIG if another commit is checked out, E_WORKSPACE_DIRTY.
    """
    with open_sandboxed_checkout(sandbox_context) as sandboxed:
        if sandboxed.checkout.base_sha != commit:
            raise NightshiftError(Code.CONFIG, f"--run: check out {commit[:12]} first")
        with sandboxed.open_runner() as (boundary, _egress, runner):
            trial = _CommitTrial(sandbox_context, sandboxed.checkout, runner, base, context)
            runs, failing = trial.run_commands()
            results = tuple(run.result for run in runs)
            # Commands that fail refute no finding, and give no evidence.
            evidence = Evidence(findings=undecided)
            if not failing:
                evidence = trial.gather_evidence(runs, undecided)
            findings = (*failing, *find_flaky_commands(results, context), *evidence.findings)
            why = _explain_no_test(runner, runs)
            return TrialResult(results, evidence.checks, findings, str(boundary), why)


@dataclass(frozen=True)
class _CommitTrial:
    """The checked-out commit in its open sandbox, and the commit to compare it with."""

    sandbox_context: SandboxContext
    checkout: Checkout
    runner: Runner
    base: str
    context: Context

    def run_commands(self) -> tuple[tuple[CommandRun, ...], tuple[Finding, ...]]:
        """Run the commands on the commit. One that fails also runs on the base: it may fail there
        as well."""
        work = self.sandbox_context.work
        if not work.verify.commands:
            return (), ()
        work.emit(StepStarted("checks", "The project's own tests"))
        runs = self._run(work.verify.commands, "checks", self.checkout.restore)
        results = tuple(run.result for run in runs)
        failed = format_failure(self.runner, results, "checks").partition("\n")[0]
        work.emit(StepEnded("checks", not failed, failed or f"{len(results)} passed"))
        if not failed:
            return runs, ()
        self.checkout.apply_tree(resolve_tree(self.checkout.repository, self.base))
        (before,) = self._run([results[-1].command], "before", lambda: None)
        if before.result.ok:
            return runs, raise_flag("tests-fail", self.context, "", failed)
        text = f"{failed} It fails without the change as well."
        return runs, raise_flag("tests-fail", self.context, "", text, "warn")

    def gather_evidence(
        self, runs: tuple[CommandRun, ...], undecided: tuple[Finding, ...]
    ) -> Evidence:
        """What running shows of the change between the base and the commit."""
        repository = self.checkout.repository
        old = resolve_tree(repository, self.base)
        new = resolve_tree(repository, self.checkout.base_sha)
        subject = EvidenceSubject(old, new, read_change(repository, old, new), self.context)
        commands = [run.result.command for run in runs]
        before: tuple[CommandRun, ...] = ()
        if runs and changes_code(subject.change):  # otherwise the same tests run as on the base
            apply_base = functools.partial(self.checkout.apply_tree, old)
            apply_base()
            before = self._run(commands, "before", apply_base)
        usual_s = sum(run.result.duration_s for run in runs)
        left_s = self.sandbox_context.left_s()
        deadline = compute_deadline(self.context.settings.proof_time, usual_s, left_s)
        trial = TrialCheckout(self.checkout, self.runner, tuple(commands), "evidence", deadline)
        red = any(not run.result.ok for run in before)
        canaries = BaseCanaries(unable="the commands fail on the base" if red else "")
        collections = [run.collection for run in before]
        return gather_evidence(subject, trial, collections, runs, canaries, undecided)

    def _run(
        self, commands: Sequence[str], log: str, restore: Callable[[], object]
    ) -> tuple[CommandRun, ...]:
        read = build_text_reader(self.checkout.repository, self.base)
        return run_and_collect(self.runner, commands, log, restore, read)


def _explain_no_test(runner: Runner, runs: tuple[CommandRun, ...]) -> str:
    """Why no test ran, "" if one did."""
    if not runs:
        return NOTHING_TO_RUN
    if all(run.result.ok and run.ran_nothing for run in runs):
        return f"{', '.join(run.result.command for run in runs)} passed without running a test"
    if any(run.result.ok for run in runs):
        return ""
    # A missing program is no failing test.
    return describe_missing(runs[0].result, runner.read_tail("checks-1"))
