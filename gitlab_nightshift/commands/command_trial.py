"""Test commands, tried as a night would run them: in the sandbox, on the untouched checkout."""

import dataclasses
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.onboarding.build_stacks import TrialPlace
from gitlab_nightshift.onboarding.settings_file import LACKS, TriedCommand
from gitlab_nightshift.proof.diagnosis import describe_missing
from gitlab_nightshift.proof.proof_commands import (
    CommandRun,
    Runner,
    format_failure,
    run_and_collect,
)
from gitlab_nightshift.proof.reports.command_expansion import build_text_reader
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.run.work_setup import build_work_context
from gitlab_nightshift.session import Session
from gitlab_nightshift.settings.load import override_settings
from gitlab_nightshift.stages.work.proof_choice import Commands
from gitlab_nightshift.stages.work.sandboxed_checkout import SandboxContext, open_sandboxed_checkout
from gitlab_nightshift.text.printable_text import make_printable

TOOL_DEPTH = 3
"""Of a tool's folder below HOME: what is higher, as ~/.local, holds more than one tool."""
LAST_LINES = 8
"""Of what a command printed that proves nothing."""
LONGEST_S = 1800.0
"""Seconds for all of them, where the settings name none."""


def try_commands(
    session: Session, commands: tuple[str, ...], place: TrialPlace
) -> tuple[TriedCommand, ...]:
    """Each command by itself, and how it ended; why none could be run where there is no sandbox."""
    tools = find_tools([place.move(each) for each in commands], session.checkout, session.env)
    here = _open_place(session, dataclasses.replace(place, folders=(*place.folders, *tools)))
    work = dataclasses.replace(build_work_context(here), verify=Commands((), implied=True))
    seconds = work.seconds or LONGEST_S
    context = SandboxContext(work, None, session.job.run_id, (), lambda: seconds)
    try:
        with open_sandboxed_checkout(context) as opened, opened.open_runner() as (_, _, runner):
            return tuple(
                dataclasses.replace(
                    _try_command(runner, opened.checkout, place.move(command), number),
                    command=command,
                )
                for number, command in enumerate(commands, 1)
            )
    except NightshiftError as error:
        return tuple(TriedCommand(each, why=f"not tried: {error.message}") for each in commands)


def _open_place(session: Session, place: TrialPlace) -> Session:
    """The session with what this machine has of dependencies."""
    settings = session.settings
    values = {
        "agent_env": [*settings.agent_env, *place.variables],
        "agent_paths": [*settings.agent_paths, *place.folders],
    }
    env = {**session.env, **place.variables}
    return dataclasses.replace(
        session, env=env, settings=override_settings(settings, values, "init")
    )


def find_tools(commands: Sequence[str], checkout: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Folders below HOME that a version manager has put the commands' programs into, such as
    ~/.nvm/versions/node/v24. A job's image has them elsewhere."""
    home, search = Path(env.get("HOME", "/")), env.get("PATH", os.defpath)
    for word in dict.fromkeys(command.split()[0] for command in commands):
        named = checkout / word if "/" in word else shutil.which(word, path=search)
        for program in (Path(named), Path(named).resolve()) if named else ():
            top = program.parent.parent
            below = top.relative_to(home).parts if top.is_relative_to(home) else ()
            if program.parent.name == "bin" and len(below) >= TOOL_DEPTH:
                yield str(top)


def _try_command(runner: Runner, checkout: Checkout, command: str, number: int) -> TriedCommand:
    name = f"try-{number}"
    read = build_text_reader(checkout.repository, checkout.base_sha)
    (run,) = run_and_collect(runner, [command], name, checkout.restore, read)
    why = _find_failure(runner, run, name)
    end = runner.read_tail(f"{name}-1").splitlines()[-LAST_LINES:] if why else []
    return TriedCommand(command, run.result.duration_s, why, tuple(map(make_printable, end)))


def _find_failure(runner: Runner, run: CommandRun, name: str) -> str:
    """Why the command proves nothing here, "" where it does."""
    if lacks := describe_missing(run.result, runner.read_tail(f"{name}-1")):
        return f"{LACKS}{lacks}"
    if not run.result.ok:
        return format_failure(runner, [run.result], name).partition("\n")[0]
    return "found no test" if run.ran_nothing else ""
