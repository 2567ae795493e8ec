"""The baseline: what proves a change has to pass on the untouched checkout first."""

from dataclasses import dataclass
from typing import Literal

from gitlab_nightshift.events import Emit, Note, StepEnded, StepStarted
from gitlab_nightshift.host.checkout import Checkout
from gitlab_nightshift.records import Check, CommandResult, Seen
from gitlab_nightshift.verdict.commands import Runner, failure_text, run_commands
from gitlab_nightshift.verdict.diagnosis import missing

NOTHING_TO_RUN = "no command is known that would test this project: set verify_commands"
_TITLE = "The untouched checkout"


@dataclass(frozen=True)
class Commands:
    """What is to be run. ``implied``: the build files say so, not the settings."""

    commands: tuple[str, ...]
    implied: bool


@dataclass(frozen=True)
class Baseline:
    """What came of it.

    ``skip`` is why there is no night, "" where there is one; ``commands`` are those that are run on
    a change; ``red``: they failed already, so that they prove nothing; ``checks`` are what the
    merge request says of it.
    """

    skip: str = ""
    commands: tuple[str, ...] = ()
    red: bool = False
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class _Ran:
    """The commands that could run here, and why others could not."""

    results: tuple[CommandResult, ...]
    failed: str
    lacks: str
    left_out: tuple[Check, ...] = ()

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(result.command for result in self.results)


def baseline(
    wanted: Commands,
    mode: Literal["required", "report"],
    checkout: Checkout,
    runner: Runner,
    emit: Emit,
) -> Baseline:
    """Run the commands on the untouched checkout, before a token is spent.

    A program or dependency that is missing here is told apart from a failing test: what only the
    build files imply is left out then, what the settings name ends the night.
    """
    if not wanted.commands:
        return Baseline(checks=(_not_checked(NOTHING_TO_RUN),))
    source = "the build files' tests" if wanted.implied else "verify_commands"
    emit(StepStarted("baseline", f"Baseline · {source} on the untouched checkout"))
    ran = _each(wanted, checkout, runner) if wanted.implied else _all(wanted, checkout, runner)
    checkout.put_back(keep_watched=True)
    judged = _judged(wanted, mode, ran)
    good = sum(result.ok for result in ran.results)
    text = f"{good} of {len(wanted.commands)} commands passed"
    emit(StepEnded("baseline", good == len(wanted.commands), text))
    for check in judged.checks:
        if check.seen is not Seen.PASSED:
            emit(Note(f"{check.title}: {check.detail}", warning=True))
    return judged


def _all(wanted: Commands, checkout: Checkout, runner: Runner) -> _Ran:
    results = run_commands(runner, wanted.commands, "baseline", checkout.put_back)
    failed = failure_text(runner, results, "baseline").partition("\n")[0]
    lacks = missing(results[-1], runner.tail(f"baseline-{len(results)}")) if failed else ""
    return _Ran(results, failed, lacks)


def _each(wanted: Commands, checkout: Checkout, runner: Runner) -> _Ran:
    """One by one: what cannot run here was never asked for, and is left out."""
    results: list[CommandResult] = []
    left_out: list[Check] = []
    for number, command in enumerate(wanted.commands, 1):
        name = f"baseline-{number}"
        (result,) = run_commands(runner, [command], name, checkout.put_back)
        if lacks := missing(result, runner.tail(f"{name}-1")):
            left_out.append(_not_checked(f"`{command}` cannot run in this job: {lacks}"))
            continue
        results.append(result)
        if not result.ok:
            first = failure_text(runner, [result], name).partition("\n")[0]
            return _Ran(tuple(results), first, "", tuple(left_out))
    return _Ran(tuple(results), "", "", tuple(left_out))


def _judged(wanted: Commands, mode: str, ran: _Ran) -> Baseline:
    if not ran.results:
        return Baseline(checks=ran.left_out)
    if not ran.failed:
        return Baseline(commands=ran.commands, checks=(_passed(ran.results), *ran.left_out))
    what = "the project's tests" if wanted.implied else "verify_commands"
    if ran.lacks:
        command = ran.results[-1].command
        told = f"{what}: `{command}` cannot run in this job, which is no failing test: {ran.lacks}."
        mend = "Install it in before_script"
    else:
        told, mend = f"{what} fail on the untouched checkout: {ran.failed}", "Mend that first"
    if mode == "required":
        return Baseline(skip=f"{told} {mend}, or set baseline: report.")
    check = Check(_TITLE, Seen.FAILED, f"{told} So they prove nothing here.")
    return Baseline(commands=wanted.commands, red=True, checks=(check, *ran.left_out))


def _passed(results: tuple[CommandResult, ...]) -> Check:
    flaky = ", ".join(f"`{result.command}`" for result in results if result.flaky)
    if flaky:
        text = f"passed, but {flaky} failed at first and passed when run again (flaky)"
        return Check(_TITLE, Seen.TOLD, text)
    return Check(_TITLE, Seen.PASSED, "the same commands passed before the change")


def _not_checked(why: str) -> Check:
    return Check("Tests", Seen.NOT_CHECKED, f"this program ran no test: {why}.")
