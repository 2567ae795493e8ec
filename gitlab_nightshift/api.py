"""Delegations, for other Python programs (``gitlab_nightshift.delegate``) and for the command.

Nothing here reads ``os.environ``: the caller passes the environment.
"""

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.delegation_records import DelegationResult, build_refused_result
from gitlab_nightshift.run.supervisor.delegation_run import (
    OUTPUT_DIR,
    DelegationCall,
    supervise_delegation,
)
from gitlab_nightshift.sandbox.stage_process import run_sealed
from gitlab_nightshift.stages.work.delegation.payload import LARGEST, build_schemas
from gitlab_nightshift.system.processes import forbid_inspection

LINUX_ONLY = "agents run on Linux only"

__all__ = ["as_json", "build_schemas", "delegate", "delegate_file", "exit_status"]


def delegate(payload: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    """Run the task of a payload and return the result; docs/delegation.md describes both.

    Never raises: a failure sets ``ok`` to false and ``diagnostics.error_code`` to a code of
    docs/errors.md. ``env`` is the whole environment: PATH, HOME, the model's key,
    ``NIGHTSHIFT_*``. Artifacts are put below the current folder. A child process does the work, so
    that an agent's files cannot get into the caller's import path or environment. After the call,
    other processes of the same user cannot read the caller's memory (Linux).
    """
    try:
        raw = json.dumps(payload).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return as_json(build_refused_result(Code.CONFIG, f"payload: not JSON: {error}"))
    if sys.platform != "linux":
        return as_json(build_refused_result(Code.CONFIG, LINUX_ONLY))
    forbid_inspection()  # the keys are in this process's memory, too
    try:
        output = run_sealed(["delegate"], env, raw)
    except OSError as error:  # the current folder is gone, no memory for a process
        return as_json(build_refused_result(Code.CONFIG, f"it cannot be started: {error}"))
    try:
        result: dict[str, Any] = json.loads(output.stdout)
    except ValueError:
        text = f"its process ended with exit status {output.exit_status} and without a result"
        return as_json(build_refused_result(Code.INTERNAL, text))
    return result


def delegate_file(
    name: str, stdin: BinaryIO, env: Mapping[str, str], log: TextIO
) -> DelegationResult:
    """Run the task of a payload file, ``-`` for ``stdin``; progress is written to ``log``."""
    try:
        if name == "-":
            raw = stdin.read(LARGEST + 1)  # one more byte than allowed, which is refused later
        else:
            with Path(name).open("rb") as file:
                raw = file.read(LARGEST + 1)
    except OSError as error:
        return build_refused_result(Code.CONFIG, f"--payload: {name}: {error.strerror}")
    if sys.platform != "linux":
        return build_refused_result(Code.CONFIG, LINUX_ONLY)
    colour = log.isatty() and not env.get("NO_COLOR")
    return supervise_delegation(DelegationCall(raw, env, Path.cwd(), log.fileno(), colour))


def show_delegation(name: str, env: Mapping[str, str], *, cancel: bool) -> dict[str, Any]:
    """The status of a delegation below the current folder. With ``cancel`` it is stopped first, and
    its result is returned. Raises NightshiftError ``E_CONFIG``."""
    if sys.platform != "linux":
        raise NightshiftError(Code.CONFIG, LINUX_ONLY)
    from gitlab_nightshift.run.supervisor.delegation_folder import cancel_delegation, read_status

    caller, output_dir = Path.cwd(), env.get(OUTPUT_DIR)
    if not cancel:
        return dataclasses.asdict(read_status(name, caller, output_dir))
    if result := cancel_delegation(name, caller, output_dir):
        return result
    why = "the run was killed, or stopped before there was anything to keep"
    return as_json(build_refused_result(Code.TERMINATED, why))


def as_json(result: DelegationResult) -> dict[str, Any]:
    """The result as JSON would be read back: dicts, lists, strings, numbers."""
    data: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(result)))
    return data


def exit_status(result: DelegationResult) -> int:
    """The exit status of the result's error code; 0 without one."""
    code = result.diagnostics.error_code
    return Code(code).exit_status if code else 0
