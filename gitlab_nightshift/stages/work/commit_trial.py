"""Tries a checked-out commit without a night or an agent, for what only running can show."""

import functools
from dataclasses import dataclass

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.proof.evidence.workbench import (
    Evidence,
    EvidenceSubject,
    Workbench,
    compute_deadline,
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
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.events import StepEnded, StepStarted
from gitlab_nightshift.records.verdicts import Check, Finding
from gitlab_nightshift.repository.private_repository import resolve_tree
from gitlab_nightshift.stages.work.proof_choice import NOTHING_TO_RUN
from gitlab_nightshift.stages.work.sandboxed_checkout import (
    SandboxContext,
    SandboxedCheckout,
    open_sandboxed_checkout,
)


@dataclass(frozen=True)
class TrialResult:
    """The commands run on the commit, the findings, and the boundary that they ran in.

    ``incomplete`` is why nothing could be run, "" if something was.
    """

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
    """Run the commands that prove a change on the commit, then gather evidence against ``base``, in
    the checkout of ``sandbox_context``, which is restored. The change runs inside the boundary, as
    in a night. ``undecided`` are findings from reading, which running may refute.

    Raises NightshiftError E_CONFIG if another commit is checked out, E_WORKSPACE_DIRTY.
    """
    commands = sandbox_context.work.verify.commands
    with open_sandboxed_checkout(sandbox_context) as sandboxed:
        if sandboxed.checkout.base_sha != commit:
            raise NightshiftError(Code.CONFIG, f"--run: check out {commit[:12]} first")
        with sandboxed.open_runner() as (boundary, _egress, runner):
            runs, failing = _run_commands(sandboxed, runner, base, context, commands)
            results = tuple(run.result for run in runs)
            evidence = (
                Evidence(findings=undecided)
                if failing
                else _gather_evidence(sandboxed, runner, base, context, runs, undecided)
            )
            findings = (*failing, *find_flaky_commands(results, context), *evidence.findings)
            why = _describe_no_run(runner, runs)
            return TrialResult(results, evidence.checks, findings, str(boundary), why)


def _run_commands(
    sandboxed: SandboxedCheckout,
    runner: Runner,
    base: str,
    context: Context,
    commands: tuple[str, ...],
) -> tuple[tuple[CommandRun, ...], tuple[Finding, ...]]:
    """Run the commands on the commit. One that fails also runs on the base: it may have failed
    before."""
    if not commands:
        return (), ()
    sandboxed.sandbox_context.work.emit(StepStarted("checks", "The project's own tests"))
    read = build_text_reader(sandboxed.checkout.repository, base)
    runs = run_and_collect(runner, commands, "checks", sandboxed.checkout.restore, read)
    results = tuple(run.result for run in runs)
    failed = format_failure(runner, results, "checks").partition("\n")[0]
    sandboxed.sandbox_context.work.emit(
        StepEnded("checks", not failed, failed or f"{len(results)} passed")
    )
    if not failed:
        return runs, ()
    sandboxed.checkout.apply_tree(resolve_tree(sandboxed.checkout.repository, base))
    (before,) = run_and_collect(runner, [results[-1].command], "before", lambda: None, read)
    if before.result.ok:
        return runs, raise_flag("tests-fail", context, "", failed)
    text = f"{failed} It fails without the change as well."
    return runs, raise_flag("tests-fail", context, "", text, "warn")


def _describe_no_run(runner: Runner, runs: tuple[CommandRun, ...]) -> str:
    """Why no test could run, "" if one did: a missing program is not a failing test."""
    if not runs:
        return NOTHING_TO_RUN
    if all(run.result.ok and run.ran_nothing for run in runs):
        return f"{', '.join(run.result.command for run in runs)} passed without running a test"
    if any(run.result.ok for run in runs):
        return ""
    return describe_missing(runs[0].result, runner.read_tail("checks-1"))


def _gather_evidence(
    sandboxed: SandboxedCheckout,
    runner: Runner,
    base: str,
    context: Context,
    runs: tuple[CommandRun, ...],
    undecided: tuple[Finding, ...],
) -> Evidence:
    repository = sandboxed.checkout.repository
    old, new = resolve_tree(repository, base), resolve_tree(repository, sandboxed.checkout.base_sha)
    subject = EvidenceSubject(old, new, read_change(repository, old, new), context)
    before = _run_on_base(sandboxed, runner, subject, runs)
    usual_s = sum(run.result.duration_s for run in runs)
    left_s = sandboxed.sandbox_context.left_s()
    end = compute_deadline(context.settings.proof_time, usual_s, left_s)
    commands = tuple(run.result.command for run in runs)
    workbench = Workbench(sandboxed.checkout, runner, commands, "evidence", end)
    red = any(not run.result.ok for run in before)
    canaries = BaseCanaries(unable="the commands fail on the base" if red else "")
    collections = [run.collection for run in before]
    return gather_evidence(subject, workbench, collections, runs, canaries, undecided)


def _run_on_base(
    sandboxed: SandboxedCheckout,
    runner: Runner,
    subject: EvidenceSubject,
    runs: tuple[CommandRun, ...],
) -> tuple[CommandRun, ...]:
    """Run the same commands on the base, to compare which tests run; none without changed code."""
    if not runs or not changes_code(subject.change):
        return ()
    apply_base = functools.partial(sandboxed.checkout.apply_tree, subject.base)
    apply_base()
    read = build_text_reader(sandboxed.checkout.repository, subject.base)
    commands = [run.result.command for run in runs]
    return run_and_collect(runner, commands, "before", apply_base, read)
