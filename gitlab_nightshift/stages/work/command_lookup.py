"""Looks up the programs of commands inside the sandbox, before anything is spent."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from gitlab_nightshift.proof.proof_commands import Runner

_FIND, _READ = 'command -v -- "$name" >/dev/null', '[ -r "$name" ]'


def find_missing_programs(
    runner: Runner, commands: Sequence[str], log: str = "lookup"
) -> tuple[str, ...]:
    """Programs of these commands that are missing inside the sandbox, each once. ``log`` is the
    name of a new log.

    Empty, too, if the sandbox has no shell to ask.
    """
    programs = tuple(dict.fromkeys(shlex.split(command)[0] for command in commands))
    return _filter_inside(runner, _FIND, programs, log)


def find_unreadable_paths(runner: Runner, paths: Sequence[Path]) -> tuple[Path, ...]:
    """Files and folders that cannot be read inside the sandbox."""
    return tuple(map(Path, _filter_inside(runner, _READ, tuple(map(str, paths)), "lookup-places")))


def _filter_inside(runner: Runner, test: str, names: tuple[str, ...], log: str) -> tuple[str, ...]:
    """The names for which the test fails, tried by one shell inside the sandbox."""
    script = f'for name; do {test} || printf "%s\\n" "$name"; done'
    if not names or not runner.run(("sh", "-c", script, "sh", *names), log).ok:
        return ()
    output = runner.logs.read_tail(f"{log}.out", sum(len(name) * 4 + 1 for name in names))
    lines = output.decode("utf-8", "replace").splitlines()
    return tuple(name for name in names if name in lines)
