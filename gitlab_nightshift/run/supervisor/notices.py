"""Notifies people of a run, even of one that ended before its settings were read.

A failed notification is only a warning in the job log.
"""

import contextlib
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.job.job_facts import read_job
from gitlab_nightshift.records.events import Note
from gitlab_nightshift.run.supervisor.failure_records import (
    build_own_result,
    ensure_result,
    write_failed,
)
from gitlab_nightshift.run.supervisor.output_pipes import Pipes, read_secret_values
from gitlab_nightshift.run_folder import Invocation
from gitlab_nightshift.sandbox.process_table import ADDRESSES, NOTIFY
from gitlab_nightshift.sandbox.supervised_process import StageProcess
from gitlab_nightshift.stages.report.result_texts import Notification
from gitlab_nightshift.wire.channel import OutputChannel

_VARIABLE = r"\$(?:\{(\w+)\}|(\w+))"
SENDER, PREFIX = "notify", "nightshift-notice-"
"""The name as a sender to the redactor, and the prefix of temporary folders."""
Forward = Callable[[StageProcess], AbstractContextManager[None]]
"""Passes signals on to a process during a block."""


def notify(
    request: Mapping[str, Any],
    results: Path,
    env: Mapping[str, str],
    own_env: Mapping[str, str],
    forward: Forward = lambda _: contextlib.nullcontext(),
) -> tuple[str, ...]:
    """Notify of the result in the folder ``results``. Returns warnings about what was not sent.

    ``request`` has ``addresses`` (the setting ``notify``), ``on`` (``notify_on``), ``before``, the
    outcome of the night before, and ``page``, a Confluence page. ``env`` has the variables in
    addresses; ``own_env`` is the environment of the notifying process.
    """
    addresses, warnings = expand_addresses(request.get("addresses", ()), env)
    access, missing = find_confluence(request.get("page", ""), env)
    warnings += missing
    if not (addresses or access) or not (results / "result.json").exists():
        return warnings
    resolved = {"addresses": addresses, "confluence": access, "results": str(results)}
    return (*warnings, *_run_process({**request, **resolved}, own_env, forward))


def notify_of_message(
    message: Notification, texts: Sequence[str], env: Mapping[str, str], own_env: Mapping[str, str]
) -> tuple[str, ...]:
    """Send people a message that is not about a run. Returns warnings about what was not sent.

    ``texts`` are addresses with variables of ``env``; ``own_env`` is the environment of the
    notifying process.
    """
    addresses, warnings = expand_addresses(texts, env)
    if not addresses:
        return warnings
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        task = {"message": asdict(message), "addresses": addresses, "results": folder}
        return (*warnings, *_run_process(task, own_env, lambda _: contextlib.nullcontext()))


def _run_process(
    task: Mapping[str, Any], own_env: Mapping[str, str], forward: Forward
) -> tuple[str, ...]:
    places = {"results": task["results"], "named": find_named_files(task["addresses"])}
    process = StageProcess(NOTIFY, own_env, quiet=True, places=places)
    with contextlib.closing(process), forward(process):
        process.send_task(dict(task))
        answer = process.read_answer()
    return tuple(answer.get("warnings", ("notify: its process ended before it was done",)))


def expand_addresses(
    texts: Sequence[str], env: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The addresses with their variables expanded, and a warning for each variable without a value.
    A variable may hold several addresses, separated by spaces."""
    addresses: list[str] = []
    warnings: list[str] = []
    for text in texts:
        missing = [name for name in find_names(text) if not env.get(name, "").strip()]
        warnings += [f"notify: the variable {name} is not set in this job" for name in missing]
        if not missing:
            addresses += re.sub(_VARIABLE, lambda match: env[match[1] or match[2]], text).split()
    return tuple(addresses), tuple(warnings)


def find_named_files(addresses: Sequence[str]) -> tuple[str, ...]:
    """The absolute paths of files in the queries of addresses, such as Firebase's ``?keyfile=``."""
    queries = (address.partition("?")[2] for address in addresses)
    values = [value for query in queries for _, value in parse_qsl(query)]
    return tuple(value for value in values if value.startswith("/"))


def find_names(address: str) -> list[str]:
    """The names of the variables in an address."""
    return [braced or plain for braced, plain in re.findall(_VARIABLE, address)]


def find_confluence(page: str, env: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Confluence's page, URL and credentials, {} without; and warnings about missing variables."""
    if not page:
        return {}, ()
    names = {"url": "CONFLUENCE_URL", "token": "CONFLUENCE_TOKEN", "user": "CONFLUENCE_USER"}
    access = {key: env.get(name, "").strip() for key, name in names.items()}
    warnings = tuple(
        f"confluence_page_id: the variable {names[key]} is not set in this job"
        for key in ("url", "token")
        if not access[key]
    )
    return ({} if warnings else {"page": page, **access}), warnings


class Notices:
    """Notifies people of a run; ``own_env`` is the environment of the notifying processes."""

    def __init__(self, call: Invocation, own_env: Mapping[str, str], pipes: Pipes) -> None:
        self._call, self._own_env, self._pipes = call, own_env, pipes

    def notify_of_mistake(self, mistake: Mapping[str, str] | None) -> None:
        """Notify of plan's error that left no result; None if nobody is to be notified."""
        if mistake:
            error = NightshiftError(Code(mistake["code"]), mistake["message"])
            self._warn(notify_of_error(self._call, error, self._own_env))

    def notify_of_result(self, answer: Mapping[str, Any], results: Path, forward: Forward) -> None:
        """Notify of the result in the folder ``results``. ``answer`` is plan's, {} if plan died."""
        if not answer:
            answer = {"notify": find_notify_request(self._call, self._own_env)}
        request = answer.get("notify", {})
        self._warn(notify(request, results, self._call.env, self._own_env, forward))

    def _warn(self, lines: Iterable[str]) -> None:
        channel = OutputChannel(self._pipes.take(SENDER))
        for line in lines:
            try:
                channel(Note(line, warning=True))
            except NightshiftError:  # the redactor has ended
                sys.stderr.write(f"nightshift: warning: {line}\n")
        channel.close()


def find_notify_request(call: Invocation, own_env: Mapping[str, str]) -> dict[str, Any]:
    """The notification settings, which another process reads; ``own_env`` is its environment. {}
    outside a job, where a person is watching, and for a comment's run, which gets a reply in its
    thread."""
    job = read_job(call.env)
    if not job.in_ci or job.trigger_payload:
        return {}
    setting_names = (name for name in call.env if name.startswith("NIGHTSHIFT_"))
    visible = {name: call.env[name] for name in ("PATH", *setting_names) if name in call.env}
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX, dir=call.env.get("TMPDIR") or None) as folder,
        contextlib.closing(
            StageProcess(ADDRESSES, own_env, quiet=True, places={"own": folder})
        ) as process,
    ):
        process.send_task(
            {
                "private": folder,
                "env": {**visible, "GITLAB_CI": "true"},  # so that an uncommitted file is refused
                "folder": str(call.folder),
                "config": call.config,
                "overrides": dict(call.overrides),
            }
        )
        return process.read_answer()


def notify_of_error(
    call: Invocation, error: NightshiftError, own_env: Mapping[str, str]
) -> tuple[str, ...]:
    """Notify of an error that left no result. Returns warnings about what was not sent."""
    if not (request := find_notify_request(call, own_env)):
        return ()
    job, values = read_job(call.env), read_secret_values(call.env)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=call.env.get("TMPDIR") or None) as folder:
        results = Path(folder)
        write_failed(results, error, {"run_id": job.run_id})
        result = build_own_result(results, None, job.project_path, job.pipeline_url)
        ensure_result(results, result, values)
        return notify(request, results, call.env, own_env)
