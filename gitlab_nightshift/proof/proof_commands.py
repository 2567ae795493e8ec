"""Runs commands that build and test, such as ``verify_commands``, without a shell and within
limits; collects the tests that ran; and tells a command that lacks a program, a dependency or the
network from one whose tests fail."""

import dataclasses
import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.proof.reports.report_readers import (
    LARGEST_REPORT,
    CaseOutcome,
    CollectedTests,
)
from gitlab_nightshift.proof.reports.report_request import (
    ReadText,
    ReportRequest,
    collect_reports,
    prepare_request,
)
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.events import CommandEnded, Emit, ProgramEnded, ProgramStarted
from gitlab_nightshift.repository.disk_space import Disks, DiskWatch
from gitlab_nightshift.sandbox.launch import ProcessBoundary
from gitlab_nightshift.sandbox.process import NOT_FOUND, EndReason, ProcessLimits, stream
from gitlab_nightshift.system.environment import TRUSTED_CHECKOUTS
from gitlab_nightshift.system.openat import open_folder, remove
from gitlab_nightshift.system.raw_logs import Logs

TAIL_BYTES = 4_000
DISK_FULL = "the disk was full"


@dataclass(frozen=True)
class Runner:
    """Where and how commands run.

    HOME and TMPDIR are the folders ``home`` and ``tmp`` in ``scratch``. ``limits`` is called before
    each command, as the time that is left shrinks.
    """

    folder: Path
    env: Mapping[str, str]
    scratch: Path
    logs: Logs
    limits: Callable[[], ProcessLimits]
    emit: Emit
    boundary: ProcessBoundary | None = None

    def run(
        self, argv: Sequence[str], log: str, *, at_most_s: float | None = None
    ) -> CommandResult:
        """Run a program in ``folder``, with its output in the logs ``<log>.out`` and ``<log>.err``.

        A program that cannot be started or exceeds a limit is a failed result with an ``error``.
        ``at_most_s`` (seconds) tightens the limits.
        """
        command = " ".join(argv)
        self.emit(ProgramStarted(command))
        result = self._run(argv, log, at_most_s)
        self.emit(ProgramEnded(command, result.exit_status, result.duration_s))
        return result

    def _run(self, argv: Sequence[str], log: str, at_most_s: float | None) -> CommandResult:
        disks, limits = Disks((self.scratch, self.folder)), self.limits()
        watch = DiskWatch(disks)
        if at_most_s is not None:
            timeout_s = at_most_s if limits.timeout_s is None else min(limits.timeout_s, at_most_s)
            limits = dataclasses.replace(limits, timeout_s=timeout_s)
        try:
            with self.logs.open_logs(f"{log}.out", f"{log}.err") as (out, err):
                ended = stream(
                    argv,
                    cwd=self.folder,
                    env=self.env,
                    stdin=b"",
                    stdout=out,
                    stderr=err,
                    limits=limits,
                    on_line=lambda _line: False,
                    on_tick=lambda: watch.find_full() is not None,
                    boundary=self.boundary,
                )
        except OSError as error:
            why = f"cannot be started: {error.strerror}"
            return CommandResult(shlex.join(argv), NOT_FOUND, 0.0, why)
        status, why = None, f"ended by this program: {ended.end}"
        # A full disk makes commands fail in any way: it is the cause, whatever their exit status.
        if ended.end is EndReason.STOPPED or (ended.exit_status and disks.find_full()):
            self.renew()  # its files fill the disk
            why = DISK_FULL
        elif ended.end is EndReason.EXITED:
            status, why = ended.exit_status, ""
        return CommandResult(shlex.join(argv), status, round(ended.duration_s, 3), why)

    def renew(self) -> None:
        """Replace HOME and TMPDIR by empty folders, owned by the owner of ``scratch``.

        Call it after commands ran an agent's code: files it left there (user site-packages, a
        build cache) could otherwise change what the next attempt's commands run.
        """
        with open_folder(self.scratch) as fd:
            owner = os.fstat(fd)
            for name in os.listdir(fd):  # noqa: PTH208 - an open folder, not a path
                remove(name, fd)
            for name in ("home", "tmp"):
                os.mkdir(name, 0o700, dir_fd=fd)
            (self.scratch / "home/.gitconfig").write_text(TRUSTED_CHECKOUTS)
            for name in ("home/.gitconfig", "home", "tmp"):
                os.chown(name, owner.st_uid, owner.st_gid, dir_fd=fd, follow_symlinks=False)

    def read_tail(self, log: str) -> str:
        """The end of a program's output."""
        ends = [self.logs.read_tail(f"{log}.{kind}", TAIL_BYTES) for kind in ("out", "err")]
        texts = (_unwrap_json(end.decode("utf-8", "replace")).strip() for end in ends)
        return "\n".join(filter(None, texts))

    def read_output(self, log: str) -> bytes | None:
        """A program's whole stdout; None if it is larger than a report may be."""
        output = self.logs.read_tail(f"{log}.out", LARGEST_REPORT + 1)
        return output if len(output) <= LARGEST_REPORT else None


@dataclass(frozen=True)
class CommandRun:
    """The result of a command, and the tests that its runners reported."""

    result: CommandResult
    collection: CollectedTests

    @property
    def ran_nothing(self) -> bool:
        """True if there is a report, and no test in it ran."""
        ran = self.collection.count_cases(CaseOutcome.PASSED, CaseOutcome.FAILED)
        return not self.collection.unknown and not ran


def run_and_collect(
    runner: Runner,
    commands: Sequence[str],
    name: str,
    restore: Callable[[], object],
    read: ReadText,
) -> tuple[CommandRun, ...]:
    """Run each command until one fails, and collect the tests that ran. ``name`` is the prefix of
    the logs; ``read`` reads files at the base's root, which show what test runners a command
    starts.

    A failed command is run once more, after ``restore`` has reset the tree: if it passes then, it
    is flaky.
    """
    runs: list[CommandRun] = []
    for number, command in enumerate(commands, 1):
        log = f"{name}-{number}"
        run = run_once(runner, command, log, read)
        flaky = False
        if not run.result.ok and not run.result.error:
            runner.logs.rename(log, f"{log}-first")
            restore()
            run = run_once(runner, command, log, read)
            flaky = run.result.ok
        result = dataclasses.replace(run.result, flaky=flaky, output=runner.read_tail(log))
        runner.emit(CommandEnded(result))
        runs.append(CommandRun(result, run.collection))
        if not result.ok:
            break
    return tuple(runs)


def run_once(
    runner: Runner, command: str, log: str, read: ReadText, at_most_s: float | None = None
) -> CommandRun:
    """Run a command once, and collect the tests that ran; ``read`` is as in ``run_and_collect``."""
    request = prepare_request(command, runner.env, runner.scratch, runner.folder, read)
    result = dataclasses.replace(runner, env=request.env).run(
        request.argv, log, at_most_s=at_most_s
    )
    return CommandRun(
        dataclasses.replace(result, command=command), _collect_tests(runner, request, result, log)
    )


def _collect_tests(
    runner: Runner, request: ReportRequest, result: CommandResult, log: str
) -> CollectedTests:
    printed = [runner.read_output(log)] if request.output_format or request.listings else []
    if result.ok:
        for number, argv in enumerate(request.listings, 1):
            listed = runner.run(argv, f"{log}-list-{number}")
            printed.append(runner.read_output(f"{log}-list-{number}") if listed.ok else None)
    return collect_reports(request, printed)


def format_failure(runner: Runner, results: Sequence[CommandResult], name: str) -> str:
    """A text for the next attempt: the first failed command, and the end of its output."""
    for number, result in enumerate(results, 1):
        if not result.ok:
            how = result.error or f"exit status {result.exit_status}"
            sentence = f"`{result.command}` failed: {how}."
            return "\n".join(filter(None, (sentence, runner.read_tail(f"{name}-{number}"))))
    return ""


def _unwrap_json(text: str) -> str:
    """The output of ``go test -json`` as it is without ``-json``."""
    if '"Action":"' not in text:
        return text
    lines = text.split("\n")  # the first one may be cut off
    return "".join(map(_unwrap_line, lines if lines[0][:1] == "{" else lines[1:]))


def _unwrap_line(line: str) -> str:
    try:
        event = json.loads(line) if line[:1] == "{" else {"Output": f"{line}\n"}
        return str(event.get("Output", ""))
    except ValueError:
        return f"{line}\n"


# --- what a failed command lacks ------------------------------------------------------------------


CANNOT_RUN = 126  # POSIX, sh, "Exit Status": the utility was found, but is not executable
_MISSING = RuleTable(__file__).entries["missing"]


def describe_missing(result: CommandResult, output: str) -> str:
    """What a failed command lacks on this machine, as a sentence; "" if it failed otherwise.

    ``output`` is the end of its output.
    """
    if not result.exit_status:  # it passed, or this program ended it
        return ""
    program = result.command.split(maxsplit=1)[0]
    if result.exit_status == NOT_FOUND and result.error:
        return f"{program} {result.error}"
    for rule in _MISSING:
        if match := re.search("|".join(rule["patterns"]), output, re.MULTILINE):
            name = next(filter(None, (*match.groups(), match[0])))
            return str(rule["message"]).format(name[:100].strip())
    if result.exit_status in (NOT_FOUND, CANNOT_RUN):
        return f"{program} cannot be run here (exit status {result.exit_status})"
    return ""
