"""The package for other Python programs; ``gitlab_nightshift.delegate`` is this one's.

Nothing here reads ``os.environ``: the caller says which environment counts.
"""

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from gitlab_nightshift.errors import EXIT_STATUS, Code
from gitlab_nightshift.events import Emit
from gitlab_nightshift.host.sealed_child import run_sealed
from gitlab_nightshift.host.secrecy import close_to_others
from gitlab_nightshift.records.delegation import DelegationResult
from gitlab_nightshift.redaction import Redactor
from gitlab_nightshift.report.joblog import JobLog
from gitlab_nightshift.work.delegation.payload import LARGEST, schemas
from gitlab_nightshift.work.delegation.run import Call, refused, run_delegation

NOT_HERE = "agents run on Linux only"

__all__ = ["as_json", "delegate", "delegate_file", "exit_status", "schemas"]


def delegate(payload: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    """Do one task as the payload says and return the result (docs/delegation.md has both).

    Never raises for what is wrong: ``ok`` is false then, and ``diagnostics.error_code`` is one of
    docs/errors.md. ``env`` is all of the environment that counts: PATH, HOME, the model's key,
    ``NIGHTSHIFT_*``. Artifacts are put below the current folder. The work is done by a child, so
    that nothing of the caller's import path or environment is in reach of what an agent writes; the
    caller's process is closed to others of its user from then on (Linux).
    """
    try:
        raw = json.dumps(payload).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return as_json(refused(Code.CONFIG, f"payload: not JSON: {error}"))
    if sys.platform != "linux":
        return as_json(refused(Code.CONFIG, NOT_HERE))
    close_to_others()  # this process holds the keys, too
    done = run_sealed(["delegate"], env, raw)
    try:
        result: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        text = f"its process ended with exit status {done.exit_status} and without a result"
        return as_json(refused(Code.INTERNAL, text))
    return result


def delegate_file(
    name: str, stdin: BinaryIO, env: Mapping[str, str], log: TextIO
) -> DelegationResult:
    """The same for a payload in a file, ``-`` is ``stdin``; progress goes to ``log``. No more is
    read than a payload may hold."""
    try:
        if name == "-":
            raw = stdin.read(LARGEST + 1)
        else:
            with Path(name).open("rb") as file:
                raw = file.read(LARGEST + 1)
    except OSError as error:
        return refused(Code.CONFIG, f"--payload: {name}: {error.strerror}")
    colour = log.isatty() and not env.get("NO_COLOR")
    if sys.platform != "linux":
        return refused(Code.CONFIG, NOT_HERE)

    def open_log(redact: Redactor) -> Emit:
        return JobLog(False, colour, redact, stream=log)

    return run_delegation(Call(raw, env, Path.cwd(), open_log))


def as_json(result: DelegationResult) -> dict[str, Any]:
    """The result as JSON's own types."""
    made: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(result)))
    return made


def exit_status(result: DelegationResult) -> int:
    """The exit status of a result: that of its code, 0 for none."""
    code = result.diagnostics.error_code
    return EXIT_STATUS[Code(code)] if code else 0
