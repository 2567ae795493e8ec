"""The baseline: the commands that prove a change run on the untouched checkout first. Also here:
the input and result of the proofs, so that ``proofs.py`` is imported only once there is a change.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.proof.proof_commands import (
    CommandRun,
    Runner,
    describe_missing,
    format_failure,
    run_and_collect,
)
from gitlab_nightshift.proof.reports.report_readers import CollectedTests
from gitlab_nightshift.proof.reports.report_request import build_text_reader
from gitlab_nightshift.proof.running.base_canaries import BaseCanaries
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.events import Note, StepEnded, StepStarted
from gitlab_nightshift.records.products import KnownMergeRequest
from gitlab_nightshift.records.verdicts import Check, CheckOutcome, Finding, GatedFile
from gitlab_nightshift.registry.pipeline_files import NO_INCLUDES, CiFiles
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.sandbox.process import NOT_FOUND
from gitlab_nightshift.stages.work.work_context import NOTHING_TO_RUN, VerifyCommands, WorkContext

# Shell commands that succeed if the program "$name" exists, and if the file can be read.
_EXISTS, _IS_READABLE = 'command -v -- "$name" >/dev/null', '[ -r "$name" ]'


def find_missing_programs(
    runner: Runner, commands: Sequence[str], log: str = "lookup"
) -> tuple[str, ...]:
    """Programs of these commands that are missing inside the sandbox, each once; none if no shell
    runs there. ``log`` is the name of a new log."""
    programs = tuple(dict.fromkeys(shlex.split(command)[0] for command in commands))
    return _find_failing(runner, _EXISTS, programs, log)


def find_unreadable_paths(runner: Runner, paths: Sequence[Path]) -> tuple[Path, ...]:
    """Files and folders that cannot be read inside the sandbox."""
    names = tuple(map(str, paths))
    return tuple(map(Path, _find_failing(runner, _IS_READABLE, names, "lookup-places")))


def _find_failing(runner: Runner, test: str, names: tuple[str, ...], log: str) -> tuple[str, ...]:
    """The names for which a shell command fails; one shell in the sandbox tests them all."""
    # The names are arguments, so that none can become part of the script.
    script = f'for name; do {test} || printf "%s\\n" "$name"; done'
    if not names or not runner.run(("sh", "-c", script, "sh", *names), log).ok:
        return ()
    # UTF-8 has at most 4 bytes for a character.
    output = runner.logs.read_tail(f"{log}.out", sum(len(name) * 4 + 1 for name in names))
    lines = output.decode("utf-8", "replace").splitlines()
    return tuple(name for name in names if name in lines)


_TITLE = "The untouched checkout"
_NO_TEST_RAN = "the program ran no test: "


@dataclass(frozen=True)
class Baseline:
    """What the baseline shows.

    ``skip`` is why the night is skipped, "" if it is not; ``incomplete`` why requested commands
    could not run. ``commands`` will run on a change; if ``red``, they already fail and prove
    nothing. ``checks`` go into the merge request. ``results`` are those of the commands that ran,
    ``collections`` the tests that each of them ran. ``no_test_requested``: the caller delegated a
    task without a test.
    """

    skip: str = ""
    incomplete: str = ""
    commands: tuple[str, ...] = ()
    red: bool = False
    checks: tuple[Check, ...] = ()
    results: tuple[CommandResult, ...] = ()
    collections: tuple[CollectedTests, ...] = ()
    no_test_requested: bool = False


@dataclass(frozen=True)
class _BaselineRun:
    """The runs of commands that could run here. ``failed`` is the first line of the last one's
    failure, ``missing`` what this job lacks for it; both are "" if all passed. ``left_out`` has a
    check for each other command: why it could not run."""

    runs: tuple[CommandRun, ...]
    failed: str = ""
    missing: str = ""
    left_out: tuple[Check, ...] = ()

    @property
    def results(self) -> tuple[CommandResult, ...]:
        return tuple(run.result for run in self.runs)

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(result.command for result in self.results)


def run_baseline(
    work: WorkContext,
    checkout: Checkout,
    runner: Runner,
    mode: Literal["required", "report"] | None = None,
) -> Baseline:
    """Run the commands on the untouched checkout, before a token is spent. ``mode`` overrides the
    setting ``baseline``.

    A missing program or dependency is not a failing test: a command implied by the build files is
    then left out. For a command named in the settings, a missing program is an error
    (``E_CONFIG``), and a missing dependency makes the night incomplete.
    """
    verify, emit = work.verify, work.emit
    if not verify.commands:
        return Baseline(checks=(_build_not_checked(_NO_TEST_RAN + NOTHING_TO_RUN),))
    source = "the build files' tests" if verify.implied else "verify_commands"
    emit(StepStarted("baseline", f"Baseline: {source} on the untouched checkout"))
    run_commands = _run_implied if verify.implied else _run_requested
    run = run_commands(verify, checkout, runner)
    # No agent has run yet, so ignored files that were not copied stay as the commands left them.
    checkout.restore(keep_watched=True)
    baseline = _judge_baseline(verify, mode or work.settings.baseline, run)
    passed = sum(result.ok for result in run.results)
    text = f"{passed} of {len(verify.commands)} commands passed"
    emit(StepEnded("baseline", passed == len(verify.commands), text))
    for check in baseline.checks:
        if check.outcome is not CheckOutcome.PASSED:
            emit(Note(f"{check.title}: {check.detail}", warning=True))
    return baseline


def _run_requested(verify: VerifyCommands, checkout: Checkout, runner: Runner) -> _BaselineRun:
    """Run the commands of the settings, up to the first that fails. Raises NightshiftError
    ``E_CONFIG`` for a missing program."""
    # A single command reports its missing program itself.
    if len(verify.commands) > 1 and (missing := find_missing_programs(runner, verify.commands)):
        raise _build_unusable_error(f"not found in the commands' environment: {', '.join(missing)}")
    read = build_text_reader(checkout.repository, checkout.base_sha)
    runs = run_and_collect(runner, verify.commands, "baseline", checkout.restore, read)
    results = tuple(run.result for run in runs)
    last = results[-1]
    if last.exit_status == NOT_FOUND and last.error:
        raise _build_unusable_error(f"{shlex.split(last.command)[0]} {last.error}")
    failed = format_failure(runner, results, "baseline").partition("\n")[0]
    tail = runner.read_tail(f"baseline-{len(results)}")
    return _BaselineRun(runs, failed, describe_missing(last, tail) if failed else "")


def _run_implied(verify: VerifyCommands, checkout: Checkout, runner: Runner) -> _BaselineRun:
    """Run the commands that the build files imply, up to the first that fails. Those that cannot
    run here are left out, as nobody asked for them."""
    read = build_text_reader(checkout.repository, checkout.base_sha)
    runs: list[CommandRun] = []
    left_out: list[Check] = []
    for number, command in enumerate(verify.commands, 1):
        name = f"baseline-{number}"
        (run,) = run_and_collect(runner, [command], name, checkout.restore, read)
        result = run.result
        if missing := describe_missing(result, runner.read_tail(f"{name}-1")):
            left_out.append(_build_not_checked(f"`{command}` cannot run in this job: {missing}"))
            continue
        if result.ok and run.ran_nothing:
            left_out.append(_build_not_checked(f"`{command}` found none"))
            continue
        runs.append(run)
        if not result.ok:
            failed = format_failure(runner, [result], name).partition("\n")[0]
            return _BaselineRun(tuple(runs), failed, left_out=tuple(left_out))
    return _BaselineRun(tuple(runs), left_out=tuple(left_out))


def _judge_baseline(verify: VerifyCommands, mode: str, run: _BaselineRun) -> Baseline:
    if not run.results:
        checks = (replace(each, detail=_NO_TEST_RAN + each.detail) for each in run.left_out)
        return Baseline(checks=tuple(checks))
    green = Baseline(
        commands=run.commands,
        checks=(_build_passed_check(run.results), *run.left_out),
        results=run.results,
        collections=tuple(each.collection for each in run.runs),
    )
    if not run.failed:
        no_test_ran = all(each.ran_nothing for each in run.runs)
        text = f"{', '.join(run.commands)} passed without running a test"
        return replace(green, incomplete=text if no_test_ran else "")
    what = "the project's tests" if verify.implied else "verify_commands"
    if run.missing:
        command = run.results[-1].command
        text = f"{what}: `{command}` cannot run in this job, so no test has failed: {run.missing}."
        fix = "Install it in before_script"
    else:
        text, fix = f"{what} fail on the untouched checkout: {run.failed}", "Fix that first"
    if mode == "required":
        skip = f"{text} {fix}, or set baseline: report."
        return Baseline(skip=skip, incomplete=skip if run.missing else "")
    check = Check(_TITLE, CheckOutcome.FAILED, f"{text} They therefore prove nothing here.")
    return replace(
        green,
        incomplete=text.rstrip(".") if run.missing else "",
        commands=verify.commands,
        red=True,
        checks=(check, *run.left_out),
    )


def _build_unusable_error(why: str) -> NightshiftError:
    return build_config_error(
        f"verify_commands: {why}. Correct the name, or install it in before_script; a tool outside "
        "the system's folders needs agent_paths"
    )


def _build_passed_check(results: tuple[CommandResult, ...]) -> Check:
    flaky = ", ".join(f"`{result.command}`" for result in results if result.flaky)
    if flaky:
        text = f"passed, but {flaky} failed at first and passed when run again (flaky)"
        return Check(_TITLE, CheckOutcome.UNDECIDED, text)
    return Check(_TITLE, CheckOutcome.PASSED, "the same commands passed before the change")


def _build_not_checked(why: str) -> Check:
    return Check("Tests", CheckOutcome.NOT_CHECKED, f"{why}.")


@dataclass(frozen=True)
class ProofContext:
    """What the proofs of all changes of a run share.

    ``recent_files`` were changed so recently that no change may touch them. ``ci_files`` are those
    that the project's pipeline includes. No change may repeat one of the ``known_ideas``.
    ``canaries`` remembers which planted faults the tests of the base noticed.
    """

    work: WorkContext
    recent_files: frozenset[str]
    runner: Runner
    baseline: Baseline
    ci_files: CiFiles = NO_INCLUDES
    known_ideas: tuple[KnownMergeRequest, ...] = ()
    canaries: BaseCanaries = field(default_factory=BaseCanaries)


@dataclass(frozen=True)
class ProofResult:
    """What reading or running a change shows. ``why`` it is refused, for the next attempt; "" if it
    is not. Running may refute the findings ``undecided``; ``evidence`` is a text for Verify."""

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
