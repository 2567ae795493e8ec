"""Run commands that prove something: by this program itself, without a shell, with a deadline."""

import dataclasses
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.events import CommandEnded, Emit
from gitlab_nightshift.host.environment import TRUSTING
from gitlab_nightshift.host.logs import Logs
from gitlab_nightshift.host.openat import opened, remove
from gitlab_nightshift.host.process import NOT_FOUND, End, Limits, stream
from gitlab_nightshift.host.sandbox.launch import Confined
from gitlab_nightshift.host.space import Disks
from gitlab_nightshift.records import CommandResult

TAIL_BYTES = 4_000


@dataclass(frozen=True)
class Runner:
    """Where and how commands run.

    ``scratch`` holds HOME and TMPDIR (``home`` and ``tmp``), see ``renew``. ``limits`` is asked
    before each command.
    """

    folder: Path
    env: Mapping[str, str]
    scratch: Path
    logs: Logs
    limits: Callable[[], Limits]
    emit: Emit
    confined: Confined | None = None

    def run(
        self, argv: Sequence[str], log: str, *, at_most_s: float | None = None
    ) -> CommandResult:
        """Run a program in the folder; output goes to ``<log>.out`` and ``.err`` below ``logs``.

        A limit that is reached, or a program that is not there, is a failed result with an
        ``error``. ``at_most_s`` (seconds) tightens the limits.
        """
        disks = Disks((self.scratch, self.folder))
        try:
            with self.logs.opened(f"{log}.out", f"{log}.err") as (out, err):
                ended = stream(
                    argv,
                    cwd=self.folder,
                    env=self.env,
                    stdin=b"",
                    stdout=out,
                    stderr=err,
                    limits=_tightened(self.limits(), at_most_s),
                    on_line=lambda _line: False,
                    on_tick=lambda: disks.full() is not None,
                    confined=self.confined,
                )
        except OSError as error:
            why = f"cannot be started: {error.strerror}"
            return CommandResult(shlex.join(argv), NOT_FOUND, 0.0, why)
        if ended.end is End.STOPPED or (ended.exit_status and disks.full()):
            self.renew()
            why = "the disk was full"
            return CommandResult(shlex.join(argv), None, round(ended.duration_s, 3), why)
        if ended.end is End.EXITED:
            return CommandResult(shlex.join(argv), ended.exit_status, round(ended.duration_s, 3))
        why = f"ended by this program: {ended.end}"
        return CommandResult(shlex.join(argv), None, round(ended.duration_s, 3), why)

    def renew(self) -> None:
        """Make HOME and TMPDIR new folders of the user that ``scratch`` belongs to.

        To be called after commands ran an agent's code: what it left there (a user's
        site-packages, a build cache) would decide what the next attempt's commands run.
        """
        with opened(self.scratch) as fd:
            owner = os.fstat(fd)
            for name in os.listdir(fd):  # noqa: PTH208 - an open folder, not a path
                remove(name, fd)
            for name in ("home", "tmp"):
                os.mkdir(name, 0o700, dir_fd=fd)
            (self.scratch / "home/.gitconfig").write_text(TRUSTING)
            for name in ("home/.gitconfig", "home", "tmp"):
                os.chown(name, owner.st_uid, owner.st_gid, dir_fd=fd, follow_symlinks=False)

    def tail(self, log: str) -> str:
        """The end of what a program printed."""
        ends = [self.logs.tail(f"{log}.{kind}", TAIL_BYTES) for kind in ("out", "err")]
        return "\n".join(filter(None, (end.decode("utf-8", "replace").strip() for end in ends)))


def run_commands(
    runner: Runner, commands: Sequence[str], name: str, put_right: Callable[[], object]
) -> tuple[CommandResult, ...]:
    """Run each command until one fails; ``name`` is the log files' prefix.

    A command that fails is run once more, after ``put_right`` has made the tree what it was: one
    that passes then is flaky.
    """
    results: list[CommandResult] = []
    for number, command in enumerate(commands, 1):
        result = _run_twice(runner, command, f"{name}-{number}", put_right)
        runner.emit(CommandEnded(result))
        results.append(result)
        if not result.ok:
            break
    return tuple(results)


def failure_text(runner: Runner, results: Sequence[CommandResult], name: str) -> str:
    """What the next attempt should know of the first failure: the end of its output."""
    for number, result in enumerate(results, 1):
        if not result.ok:
            how = result.error or f"exit status {result.exit_status}"
            first = f"`{result.command}` failed: {how}."
            return "\n".join(filter(None, (first, runner.tail(f"{name}-{number}"))))
    return ""


def _run_twice(
    runner: Runner, command: str, log: str, put_right: Callable[[], object]
) -> CommandResult:
    argv = shlex.split(command)
    first = dataclasses.replace(runner.run(argv, log), command=command)
    if first.ok or first.error:
        return first
    runner.logs.rename(log, f"{log}-first")
    put_right()
    again = dataclasses.replace(runner.run(argv, log), command=command)
    return dataclasses.replace(again, flaky=again.ok)


def _tightened(limits: Limits, at_most_s: float | None) -> Limits:
    if at_most_s is None:
        return limits
    left = at_most_s if limits.timeout_s is None else min(limits.timeout_s, at_most_s)
    return dataclasses.replace(limits, timeout_s=left)
