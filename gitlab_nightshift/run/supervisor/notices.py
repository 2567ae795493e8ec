"""Notifies people of a run, even of one that ended before its settings were read; what could not
be sent becomes a warning in the job log."""

import contextlib
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.job.job_facts import read_job
from gitlab_nightshift.records.events import Note
from gitlab_nightshift.run.supervisor.failure_records import (
    build_own_result,
    ensure_result,
    write_failed,
)
from gitlab_nightshift.run.supervisor.notifying import Forward, notify
from gitlab_nightshift.run.supervisor.output_pipes import Pipes, read_secret_values
from gitlab_nightshift.run_folder import Invocation
from gitlab_nightshift.sandbox.process_table import ADDRESSES
from gitlab_nightshift.sandbox.supervised_process import StageProcess
from gitlab_nightshift.wire.channel import OutputChannel

SENDER, PREFIX = "notify", "nightshift-notice-"


class Notices:
    """Notifies people of a run; ``own`` is the environment of the processes that do so."""

    def __init__(self, call: Invocation, own: Mapping[str, str], pipes: Pipes) -> None:
        self._call, self._own, self._pipes = call, own, pipes

    def tell_mistake(self, mistake: Mapping[str, str] | None) -> None:
        """Notify of a mistake that left no result; None if nobody needs to know."""
        if mistake:
            error = NightshiftError(Code(mistake["code"]), mistake["message"])
            self._warn(tell_mistake(self._call, error, self._own))

    def tell_ended(self, answer: Mapping[str, Any], results: Path, forward: Forward) -> None:
        """Notify of the result in this folder. ``answer`` is plan's, {} if plan died."""
        request = answer or {"notify": find_notify_request(self._call, self._own)}
        self._warn(notify(request.get("notify", {}), results, self._call.env, self._own, forward))

    def _warn(self, lines: Iterable[str]) -> None:
        channel = OutputChannel(self._pipes.take(SENDER))
        for line in lines:
            try:
                channel(Note(line, warning=True))
            except NightshiftError:  # the redactor has ended
                sys.stderr.write(f"nightshift: warning: {line}\n")
        channel.close()


def find_notify_request(call: Invocation, own: Mapping[str, str]) -> dict[str, Any]:
    """Read from the settings who is to be notified. {} outside a job, where a person is watching,
    and for a comment's run, which is answered in its thread. ``own`` is the environment of the
    process."""
    job = read_job(call.env)
    if not job.in_ci or job.trigger_payload:
        return {}
    own_names = (name for name in call.env if name.startswith("NIGHTSHIFT_"))
    visible = {name: call.env[name] for name in ("PATH", *own_names) if name in call.env}
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX, dir=call.env.get("TMPDIR") or None) as folder,
        contextlib.closing(
            StageProcess(ADDRESSES, own, quiet=True, places={"own": folder})
        ) as process,
    ):
        process.send_task(
            {
                "own": folder,
                "env": {**visible, "GITLAB_CI": "true"},
                "folder": str(call.folder),
                "config": call.config,
                "overrides": dict(call.overrides),
            }
        )
        return process.read_answer()


def tell_mistake(
    call: Invocation, error: NightshiftError, own: Mapping[str, str]
) -> tuple[str, ...]:
    """Notify of an error that left no result. Returns warnings about what was not sent."""
    if not (request := find_notify_request(call, own)):
        return ()
    job, values = read_job(call.env), read_secret_values(call.env)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=call.env.get("TMPDIR") or None) as folder:
        results = Path(folder)
        write_failed(results, error, {"run_id": job.run_id})
        result = build_own_result(results, None, job.project_path, job.pipeline_url)
        ensure_result(results, result, values)
        return notify(request, results, call.env, own)
