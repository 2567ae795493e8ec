"""The process of the notary (``work/notary.py``): it runs commands in the sandbox, holds no secret,
and has read nothing of an agent's but the change that it runs them on."""

import base64
import dataclasses
import functools
import socket
import tempfile
from collections.abc import Mapping
from typing import Any

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.events import read_clock
from gitlab_nightshift.exit_status import run_guarded
from gitlab_nightshift.gateway.gateway_client import RemoteGateway
from gitlab_nightshift.output.channel import OutputChannel
from gitlab_nightshift.output.sent_logs import pass_logs
from gitlab_nightshift.processes.confine_self import confine_work, tell_unfit
from gitlab_nightshift.processes.work_data import unpack_work_place
from gitlab_nightshift.repository.prepared_checkout import PreparedCheckout
from gitlab_nightshift.sandbox.visible_system import SystemWalk, walk_system
from gitlab_nightshift.system.prepared_folders import PreparedFolders
from gitlab_nightshift.system.supervised_process import serve_stage
from gitlab_nightshift.work.notary import NotaryTask, notarize


def main(data: Mapping[str, Any]) -> int:
    """Run as a process (``system/supervised_process.py``). With ``data["ahead"]`` it examines the
    machine before it gets its input, while the checkout is prepared."""
    walked = walk_system() if data["ahead"] else None
    return serve_stage(functools.partial(_notarize, walked), forwarding=False)


def _notarize(walked: SystemWalk | None, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The answer: what was seen, or ``why`` the commands could not be run."""

    def run_step() -> dict[str, Any]:
        answer: dict[str, Any] = {}
        run_guarded(lambda: _run_commands(walked, inputs, answer), {})
        return answer

    return tell_unfit(run_step)


def _run_commands(
    walked: SystemWalk | None, inputs: Mapping[str, Any], answer: dict[str, Any]
) -> int:
    outlet = OutputChannel(inputs["outlet"])
    checkout = PreparedCheckout.from_data(inputs["prepared_checkout"], moved=inputs["moved"])
    prepared = PreparedFolders.from_data(inputs["prepared"], checkout)
    tempfile.tempdir = str(prepared.temporary)
    logs = pass_logs(prepared.private / "logs", outlet, f"{inputs['name']}-")
    place = unpack_work_place(inputs["place"], logs, outlet, prepared)
    place = confine_work(dataclasses.replace(place, walked=walked), inputs)
    control = socket.socket(fileno=inputs["control"])
    gateway = RemoteGateway(control, outlet) if inputs["gateway"] else None
    until = inputs["place"]["until_s"]
    try:
        seen = notarize(
            _read_task(inputs["task"]),
            place,
            checkout,
            gateway,
            lambda: None if until is None else until - read_clock(),
        )
        answer |= dataclasses.asdict(seen)
    except NightshiftError as error:
        answer["why"] = error.message
    return 0


def _read_task(data: Mapping[str, Any]) -> NotaryTask:
    return NotaryTask(
        base=data["base"],
        tree=data["tree"],
        patch=base64.b64decode(data["patch"]),
        commands=tuple(data["commands"]),
        may_be_red=data["may_be_red"],
        usual=data["usual"],
        flaky=frozenset(data["flaky"]),
    )
