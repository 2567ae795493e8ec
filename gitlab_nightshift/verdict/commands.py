"""Run the team's ``verify_commands``: by this program itself, without a shell, with a deadline."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from gitlab_nightshift.events import CommandEnded, Emit
from gitlab_nightshift.host.process import NOT_FOUND, End, Limits, stream
from gitlab_nightshift.host.sandbox.launch import Confined
from gitlab_nightshift.records import CommandResult

TAIL_BYTES = 4_000


def run_commands(
    commands: Sequence[str],
    *,
    checkout: Path,
    env: Mapping[str, str],
    logs: Path,
    name: str,
    limits: Limits,
    emit: Emit,
    confined: Confined | None = None,
) -> tuple[CommandResult, ...]:
    """Run each command in the checkout until one fails; output goes to ``logs``.

    ``name`` is the log files' prefix. A limit that is reached, or a program that is not there, is
    a failed result with an ``error``.
    """
    results: list[CommandResult] = []
    for number, command in enumerate(commands, 1):
        result = _run(command, checkout, env, logs / f"{name}-{number}", limits, confined)
        emit(CommandEnded(result))
        results.append(result)
        if not result.ok:
            break
    return tuple(results)


def failure_text(results: Sequence[CommandResult], logs: Path, name: str) -> str:
    """What the next attempt should know of the first failure: the end of its output."""
    for number, result in enumerate(results, 1):
        if not result.ok:
            how = result.error or f"exit status {result.exit_status}"
            tails = [_tail(logs / f"{name}-{number}.{kind}").strip() for kind in ("out", "err")]
            return "\n".join([f"`{result.command}` failed: {how}.", *filter(None, tails)])
    return ""


def _run(
    command: str,
    checkout: Path,
    env: Mapping[str, str],
    log: Path,
    limits: Limits,
    confined: Confined | None,
) -> CommandResult:
    try:
        ended = stream(
            shlex.split(command),
            cwd=checkout,
            env=env,
            stdin=b"",
            stdout=log.with_name(f"{log.name}.out"),
            stderr=log.with_name(f"{log.name}.err"),
            limits=limits,
            on_line=lambda _line: False,
            confined=confined,
        )
    except OSError as error:
        return CommandResult(command, NOT_FOUND, 0.0, f"cannot be started: {error.strerror}")
    if ended.end is End.EXITED:
        return CommandResult(command, ended.exit_status, ended.duration_s)
    return CommandResult(command, None, ended.duration_s, f"ended by this program: {ended.end}")


def _tail(path: Path) -> str:
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - TAIL_BYTES, 0))
        return file.read().decode("utf-8", "replace")
