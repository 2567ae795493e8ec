"""The process of the notary (``notarization.py``): it runs commands in the sandbox, holds no
secret, and has read nothing from an agent except the change that it runs them on."""

import base64
import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.records.codec import make_record
from gitlab_nightshift.records.delegation_records import Payload
from gitlab_nightshift.records.events import read_clock
from gitlab_nightshift.repository.delegated_repository import open_source_record
from gitlab_nightshift.repository.git import read_conversion_config
from gitlab_nightshift.sandbox.supervised_process import serve_stage
from gitlab_nightshift.sandbox.visible_system import SystemWalk, walk_system
from gitlab_nightshift.stages.work.delegation.delegation_workspace import make_workspace
from gitlab_nightshift.stages.work.notarization import NotaryTask, notarize
from gitlab_nightshift.stages.work.opened_work import open_work
from gitlab_nightshift.stages.work.own_confinement import run_confined_step
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.wire.exit_status import run_guarded
from gitlab_nightshift.wire.sent_logs import pass_logs


def main(data: Mapping[str, Any]) -> int:
    """Run as a process (``sandbox/supervised_process.py``). With ``data["ahead"]`` it examines the
    machine before it gets its input, while the checkout is prepared."""
    walked = walk_system() if data["ahead"] else None
    return serve_stage(functools.partial(_notarize, walked), forwarding=False)


def _notarize(walked: SystemWalk | None, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The notary's results, or ``why`` the commands could not run."""

    def run_step() -> dict[str, Any]:
        answer: dict[str, Any] = {}
        run_guarded(lambda: _run_commands(walked, inputs, answer), {})
        return answer

    return run_confined_step(run_step)


def _run_commands(
    walked: SystemWalk | None, inputs: Mapping[str, Any], answer: dict[str, Any]
) -> int:
    opened = open_work(inputs, pass_logs, f"{inputs['name']}-", walked)
    until = inputs["place"]["until_s"]
    try:
        work_context, config = _find_checkout(inputs, opened.work_context)
        task = _read_task(inputs["task"], config)
        left_s = lambda: None if until is None else until - read_clock()  # noqa: E731
        answer |= dataclasses.asdict(notarize(task, work_context, opened.gateway, left_s))
    except NightshiftError as error:
        answer["why"] = error.message
    return 0


def _find_checkout(
    inputs: Mapping[str, Any], work_context: WorkContext
) -> tuple[WorkContext, Mapping[str, str]]:
    """The context with the checkout to run in, and the repository's configuration: the prepared
    checkout of a run, or a new workspace like that of a delegation's work."""
    assert work_context.prepared
    if work_context.prepared.checkout:
        return work_context, work_context.prepared.checkout.config
    source = open_source_record(inputs["source"], work_context.private)
    path = Path(inputs["scratch"], "notary", source.top.name or "checkout")
    path.parent.mkdir()
    payload, base = make_record(Payload, inputs["payload"]), inputs["task"]["base"]
    workspace = make_workspace(source, payload, base, path, work_context.settings.output_dir)
    config = read_conversion_config(source.git, source.top)
    return dataclasses.replace(work_context, checkout=workspace.path), config


def _read_task(data: Mapping[str, Any], config: Mapping[str, str]) -> NotaryTask:
    return NotaryTask(
        base=data["base"],
        tree=data["tree"],
        patch=base64.b64decode(data["patch"]),
        config=config,
        commands=tuple(data["commands"]),
        may_be_red=frozenset(data["may_be_red"]),
        usual=data["usual"],
        flaky=frozenset(data["flaky"]),
    )
