"""The baseline: what proves a change has to pass on the untouched checkout first."""

import shlex
from dataclasses import dataclass
from typing import Literal

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.proof.diagnosis import describe_missing
from gitlab_nightshift.proof.proof_commands import (
    CommandRun,
    Runner,
    format_failure,
    run_and_collect,
)
from gitlab_nightshift.proof.reports.command_expansion import build_text_reader
from gitlab_nightshift.proof.reports.reported_cases import Collection
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.events import Emit, Note, StepEnded, StepStarted
from gitlab_nightshift.records.verdicts import Check, CheckOutcome
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.sandbox.process import NOT_FOUND
from gitlab_nightshift.stages.work.command_lookup import find_missing_programs
from gitlab_nightshift.stages.work.proof_choice import NOTHING_TO_RUN, Commands

_TITLE = "The untouched checkout"


@dataclass(frozen=True)
class Baseline:
    """The result of the baseline.

    ``skip`` is why there is no night, "" where there is one; ``incomplete`` why commands that were
    asked for could not run; ``commands`` are those that are run on a change; ``red``: they failed
    already, so they prove nothing; ``checks`` are what the merge request says of it; ``results``
    are the commands that ran, ``collections`` the tests that each of them ran. ``unasked``: whoever
    delegated the task asked for no test.
    """

    skip: str = ""
    incomplete: str = ""
    commands: tuple[str, ...] = ()
    red: bool = False
    checks: tuple[Check, ...] = ()
    results: tuple[CommandResult, ...] = ()
    collections: tuple[Collection, ...] = ()
    unasked: bool = False


@dataclass(frozen=True)
class _BaselineRun:
    """The commands that could run here, and why others could not."""

    runs: tuple[CommandRun, ...]
    failed: str
    lacks: str
    left_out: tuple[Check, ...] = ()

    @property
    def results(self) -> tuple[CommandResult, ...]:
        return tuple(run.result for run in self.runs)

    @property
    def collections(self) -> tuple[Collection, ...]:
        return tuple(run.collection for run in self.runs)

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(result.command for result in self.results)


def run_baseline(
    wanted: Commands,
    mode: Literal["required", "report"],
    checkout: Checkout,
    runner: Runner,
    emit: Emit,
) -> Baseline:
    """Run the commands on the untouched checkout, before a token is spent.

    A missing program or dependency is not a failing test: a command that only the build files imply
    is then left out. Of one that the settings name, a missing program is a mistake (``E_CONFIG``),
    and a missing dependency makes the night incomplete.
    """
    if not wanted.commands:
        return Baseline(checks=(_build_not_checked(NOTHING_TO_RUN),))
    source = "the build files' tests" if wanted.implied else "verify_commands"
    emit(StepStarted("baseline", f"Baseline: {source} on the untouched checkout"))
    ran = (
        _run_each(wanted, checkout, runner)
        if wanted.implied
        else _run_all(wanted, checkout, runner)
    )
    checkout.restore(keep_watched=True)
    judged = _judge_baseline(wanted, mode, ran)
    good = sum(result.ok for result in ran.results)
    text = f"{good} of {len(wanted.commands)} commands passed"
    emit(StepEnded("baseline", good == len(wanted.commands), text))
    for check in judged.checks:
        if check.outcome is not CheckOutcome.PASSED:
            emit(Note(f"{check.title}: {check.detail}", warning=True))
    return judged


def _run_all(wanted: Commands, checkout: Checkout, runner: Runner) -> _BaselineRun:
    # Of one command alone its run says the same.
    several = len(wanted.commands) > 1
    if missing := find_missing_programs(runner, wanted.commands) if several else ():
        raise _build_unusable_error(f"not found in the commands' environment: {', '.join(missing)}")
    read = build_text_reader(checkout.repository, checkout.base_sha)
    runs = run_and_collect(runner, wanted.commands, "baseline", checkout.restore, read)
    results = tuple(run.result for run in runs)
    last = results[-1]
    if last.exit_status == NOT_FOUND and last.error:
        raise _build_unusable_error(f"{shlex.split(last.command)[0]} {last.error}")
    failed = format_failure(runner, results, "baseline").partition("\n")[0]
    lacks = (
        describe_missing(results[-1], runner.read_tail(f"baseline-{len(results)}"))
        if failed
        else ""
    )
    return _BaselineRun(runs, failed, lacks)


def _run_each(wanted: Commands, checkout: Checkout, runner: Runner) -> _BaselineRun:
    """One by one: what cannot run here was never asked for, and is left out."""
    read = build_text_reader(checkout.repository, checkout.base_sha)
    runs: list[CommandRun] = []
    left_out: list[Check] = []
    for number, command in enumerate(wanted.commands, 1):
        name = f"baseline-{number}"
        (run,) = run_and_collect(runner, [command], name, checkout.restore, read)
        result = run.result
        if lacks := describe_missing(result, runner.read_tail(f"{name}-1")):
            left_out.append(_build_not_checked(f"`{command}` cannot run in this job: {lacks}"))
            continue
        if result.ok and run.ran_nothing:
            left_out.append(_build_not_checked(f"`{command}` found none"))
            continue
        runs.append(run)
        if not result.ok:
            first = format_failure(runner, [result], name).partition("\n")[0]
            return _BaselineRun(tuple(runs), first, "", tuple(left_out))
    return _BaselineRun(tuple(runs), "", "", tuple(left_out))


def _judge_baseline(wanted: Commands, mode: str, ran: _BaselineRun) -> Baseline:
    if not ran.results:
        return Baseline(checks=ran.left_out)
    if not ran.failed:
        empty = bool(ran.runs) and all(run.ran_nothing for run in ran.runs)
        return Baseline(
            incomplete=f"{', '.join(ran.commands)} passed without running a test" if empty else "",
            commands=ran.commands,
            checks=(_build_passed_check(ran.results), *ran.left_out),
            results=ran.results,
            collections=ran.collections,
        )
    what = "the project's tests" if wanted.implied else "verify_commands"
    if ran.lacks:
        command = ran.results[-1].command
        text = f"{what}: `{command}` cannot run in this job, so no test has failed: {ran.lacks}."
        fix = "Install it in before_script"
    else:
        text, fix = f"{what} fail on the untouched checkout: {ran.failed}", "Fix that first"
    if mode == "required":
        skip = f"{text} {fix}, or set baseline: report."
        return Baseline(skip=skip, incomplete=skip if ran.lacks else "")
    check = Check(_TITLE, CheckOutcome.FAILED, f"{text} They therefore prove nothing here.")
    return Baseline(
        incomplete=text.rstrip(".") if ran.lacks else "",
        commands=wanted.commands,
        red=True,
        checks=(check, *ran.left_out),
        results=ran.results,
        collections=ran.collections,
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
    return Check("Tests", CheckOutcome.NOT_CHECKED, f"the program ran no test: {why}.")
