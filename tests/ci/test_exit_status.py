"""Exit statuses arrive: each job's script in each shell, in the text that GitLab Runner makes of it

(``shells/bash.go`` and ``helpers/shell_escape.go``, 18.6). The local runner of the other tests
writes another text, under which a status is never lost.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.errors import Code
from tests.ci.conftest import APPROVE, CHECK, INCLUDE, THREE_JOBS, expanded, program
from tests.support.programs import need_program

NEW_EVAL, EXIT_CHECK, POSIX = (
    "FF_USE_NEW_BASH_EVAL_STRATEGY",
    "FF_ENABLE_BASH_EXIT_CODE_CHECK",
    "FF_POSIXLY_CORRECT_ESCAPES",
)
SHELLS = {"bash": ["bash"], "login": ["bash", "-l"], "dash": ["dash"], "busybox": ["busybox", "sh"]}
APPROVAL, INCOMPLETE, INTERNAL = Code.APPROVAL_REQUIRED.exit_status, 13, 70
OWN = """\
own-night:
  extends: .nightshift
  before_script:
    - !reference [".nightshift:install", script]
    - cd . && echo prepared
    - |
      if true; then
        echo "a step of several lines"
      fi
  after_script: [exit 41]
night-of-a-job:
  extends: nightshift
  variables: {LEVEL: "3"}
  script: [echo before the night, nightshift run --category docs]
"""
SHAPES = {
    INCLUDE + OWN: ("nightshift", "own-night", "night-of-a-job", APPROVE),
    THREE_JOBS: ("nightshift:plan", "nightshift:work", "nightshift:publish", APPROVE),
    CHECK: ("nightshift:check",),
}
JOBS = [(text, name) for text, names in SHAPES.items() for name in names]
WARNS: dict[str, set[int]] = {
    **{name: {APPROVAL, INCOMPLETE} for name in ("nightshift", "own-night", "night-of-a-job")},
    **{name: {APPROVAL, INCOMPLETE} for name in ("nightshift:work", "nightshift:publish")},
    **{name: set() for name in ("nightshift:plan", "nightshift:check")},
    APPROVE: {APPROVAL, INCOMPLETE, INTERNAL},
}
"""The exit statuses that GitLab shows as a warning; of a failed approval every one."""


@dataclass(frozen=True)
class Way:
    """A shell, and the runner's feature flags that are on."""

    shell: str
    flags: frozenset[str]

    def __str__(self) -> str:
        return f"{self.shell} with {', '.join(sorted(self.flags)) or 'no flag'}"


def ways() -> list[Way]:
    """Those that are here. dash knows no ``$'…'``: under a runner it needs the flag for that."""
    flags = (frozenset[str](), frozenset({NEW_EVAL}), frozenset({EXIT_CHECK}))
    known = [
        *(Way(shell, each) for shell in ("bash", "busybox") for each in flags),
        *(Way("dash", each | {POSIX}) for each in flags),
        Way("login", frozenset()),
    ]
    return [way for way in known if shutil.which(SHELLS[way.shell][0])]


def escaped(text: str, way: Way) -> str:
    if POSIX in way.flags:
        return '"' + "".join(f"\\{c}" if c in '`"\\$' else c for c in text) + '"'
    named = {"\t": r"\t", "\n": r"\n", "\r": r"\r", "'": r"\'", "\\": r"\\"}
    return f"$'{''.join(named.get(c) or _coded(c) for c in text)}'"


def _coded(character: str) -> str:
    if character.isascii() and character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode())


def runner_text(commands: list[str], variables: dict[str, str], way: Way) -> str:
    """What the runner gives to the shell for ``before_script`` and ``script``, which are one."""
    lines = [f"export {name}={escaped(value, way)}" for name, value in variables.items()]
    for command in (each.strip() for each in commands):
        first, newline, _ = command.partition("\n")
        shown = f"$ {first} # collapsed multi-line command" if newline else f"$ {command}"
        lines += ["echo " + escaped(f"\x1b[32;1m{shown}\x1b[0;m", way), command]
        if EXIT_CHECK in way.flags:
            lines.append(
                "_runner_exit_code=$?; if [ $_runner_exit_code -ne 0 ]; "
                "then exit $_runner_exit_code; fi"
            )
    body = escaped("\n".join(lines) + "\n", way)
    evaluated = f"(eval {body})" if NEW_EVAL in way.flags else f"eval {body}"
    return (
        "trap exit 1 TERM\n\n"
        "if set -o | grep pipefail > /dev/null; then set -o pipefail; fi; set -o errexit\n"
        f"set +o noclobber\n: | {evaluated}\nexit 0\n"
    )


@cache
def jobs_of(text: str) -> dict[str, Any]:
    return expanded(text)


STAND_IN = "#!/bin/sh\necho $* >>called\nexit $ENDS_WITH\n"


def arrived(job: dict[str, Any], status: int, way: Way, folder: Path, *, flag: bool = False) -> int:
    """The status of a job whose ``nightshift`` ends with ``status``.

    ``flag``: the job's own variables decide about the runner's flags, too.
    """
    programs = folder / "programs"
    for name in ("nightshift", "claude"):
        program(programs, name, STAND_IN)
    if flag and job["variables"].get(NEW_EVAL) == "true":
        way = Way(way.shell, way.flags | {NEW_EVAL})
    variables = {
        "ENDS_WITH": str(status),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",  # a login shell sets it anew
        "NIGHTSHIFT_TOOLS": str(folder / "tools"),
        **({"GITLAB_TOKEN": "a-token"} if job.get("environment") else {}),
    }
    done = subprocess.run(
        SHELLS[way.shell],
        input=runner_text([*job.get("before_script", []), *job["script"]], variables, way),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (folder / "called").exists(), done.stdout + done.stderr
    (folder / "called").unlink()
    return done.returncode


def warned(job: dict[str, Any], status: int) -> bool:
    """Whether GitLab shows this exit status as a warning."""
    allowed = job.get("allow_failure", False)
    return allowed if isinstance(allowed, bool) else status in allowed["exit_codes"]


def test_every_shell_is_tried() -> None:
    need_program(*(argv[0] for argv in SHELLS.values()))


@pytest.mark.parametrize(("text", "name"), JOBS, ids=[name for _, name in JOBS])
def test_a_status_arrives_in_every_job_and_shell(
    text: str, name: str, runner: Path, tmp_path: Path
) -> None:
    job = jobs_of(text)[name]
    own_script = name == "night-of-a-job"  # its command is the team's: the flag alone holds
    for way in ways():
        got = arrived(job, APPROVAL, way, tmp_path, flag=own_script)
        assert got == APPROVAL, f"it arrives as {got}: {way}"
    assert arrived(job, 0, ways()[0], tmp_path) == 0
    warns = {status for status in (APPROVAL, INCOMPLETE, INTERNAL) if warned(job, status)}
    assert warns == WARNS[name]


def test_the_flag_is_set_in_every_job_for_scripts_of_a_teams_own(runner: Path) -> None:
    for text, name in JOBS:
        assert jobs_of(text)[name]["variables"][NEW_EVAL] == "true", name


def test_without_both_a_status_is_lost_under_bash(runner: Path, tmp_path: Path) -> None:
    """The control: the runner's default, and the command alone."""
    job = dict(jobs_of(INCLUDE + OWN)["nightshift"])
    job["script"] = [each.removesuffix(" || exit $?") for each in job["script"]]
    assert arrived(job, APPROVAL, Way("bash", frozenset()), tmp_path) == 1
