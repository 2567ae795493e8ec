"""Has people told of a run, of one too that ended before it could say who they are; and says in the
job log what they were not told."""

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
    """Tells people of a run; ``own`` are the variables of the processes that do so."""

    def __init__(self, call: Invocation, own: Mapping[str, str], pipes: Pipes) -> None:
        self._call, self._own, self._pipes = call, own, pipes

    def tell_mistake(self, mistake: Mapping[str, str] | None) -> None:
        """Of a mistake that left nothing to report; None where people need not be told."""
        if mistake:
            error = NightshiftError(Code(mistake["code"]), mistake["message"])
            self._warn(tell_mistake(self._call, error, self._own))

    def tell_ended(self, answer: Mapping[str, Any], results: Path, forward: Forward) -> None:
        """Of the result in this folder. Whom is in plan's answer; {} from a plan that has died."""
        known = answer or {"notify": find_notify_request(self._call, self._own)}
        self._warn(notify(known.get("notify", {}), results, self._call.env, self._own, forward))

    def _warn(self, lines: Iterable[str]) -> None:
        channel = OutputChannel(self._pipes.take(SENDER))
        for line in lines:
            try:
                channel(Note(line, warning=True))
            except NightshiftError:  # the redactor has ended
                sys.stderr.write(f"nightshift: warning: {line}\n")
        channel.close()


def find_notify_request(call: Invocation, own: Mapping[str, str]) -> dict[str, Any]:
    """Who is told, read from the settings once more; {} outside a job, where a person sees the end,
    and where a comment asked for the run. ``own`` are the variables of the process."""
    job = read_job(call.env)
    if not job.in_ci or job.trigger_payload:
        return {}
    own_names = (name for name in call.env if name.startswith("NIGHTSHIFT_"))
    seen = {name: call.env[name] for name in ("PATH", *own_names) if name in call.env}
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX, dir=call.env.get("TMPDIR") or None) as folder,
        contextlib.closing(
            StageProcess(ADDRESSES, own, quiet=True, places={"own": folder})
        ) as process,
    ):
        process.send_task(
            {
                "own": folder,
                "env": {**seen, "GITLAB_CI": "true"},
                "folder": str(call.folder),
                "config": call.config,
                "overrides": dict(call.overrides),
            }
        )
        return process.read_answer()


def tell_mistake(
    call: Invocation, error: NightshiftError, own: Mapping[str, str]
) -> tuple[str, ...]:
    """Tell people of an error that left no result; warnings about what they were not told."""
    if not (request := find_notify_request(call, own)):
        return ()
    job, values = read_job(call.env), read_secret_values(call.env)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=call.env.get("TMPDIR") or None) as folder:
        results = Path(folder)
        write_failed(results, error, {"run_id": job.run_id})
        result = build_own_result(results, None, job.project_path, job.pipeline_url)
        ensure_result(results, result, values)
        return notify(request, results, call.env, own)
