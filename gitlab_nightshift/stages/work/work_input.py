"""The input of work, as JSON. Only the variables of ``agent_env`` in it may be secret."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.agents import build_provider
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.policy.prompts import BEADS
from gitlab_nightshift.records.codec import make_record, to_data, to_fields
from gitlab_nightshift.records.events import Emit, read_clock
from gitlab_nightshift.records.products import Plan
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.repository.prepared_folders import PreparedFolders
from gitlab_nightshift.stages.work.model_access import configure_gateway
from gitlab_nightshift.stages.work.tool_access import JobFolders, find_tool_folders
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.system.environment import build_search_path
from gitlab_nightshift.system.raw_logs import Logs


def build_work_input(work_context: WorkContext) -> dict[str, Any]:
    """A work context as JSON. Model variables are replaced by "set"."""
    handed = dataclasses.replace(
        work_context,
        settings=work_context.settings.with_values(notify=[]),
        model_env=dict.fromkeys(work_context.model_env, "set"),
    )
    until = None if work_context.seconds is None else read_clock() + work_context.seconds
    return {**to_fields(handed), "until_s": until, "needed": _list_needed_paths(work_context)}


def pack_work(work_context: WorkContext, plan: Plan) -> dict[str, Any]:
    """The input of work and of its gateway, None if the agent needs none; what the job may spend
    is in the plan."""
    provider = build_provider(work_context.settings)
    gateway = configure_gateway(work_context.settings, provider, work_context.model_env, plan.limit)
    return {
        "place": build_work_input(work_context),
        "gateway": to_data(gateway),
    }


def open_work_input(
    data: Mapping[str, Any], logs: Logs, emit: Emit, prepared: PreparedFolders
) -> WorkContext:
    """The work context again. Its redactor knows no secret values, only the patterns of tokens."""
    handed = {name: value for name, value in data.items() if name not in ("until_s", "needed")}
    until = data["until_s"]
    return make_record(
        WorkContext,
        handed,
        seconds=None if until is None else max(until - read_clock(), 1.0),
        logs=logs,
        redact=Redactor(()),
        emit=emit,
        private=prepared.private,
        prepared=prepared,
    )


def _list_needed_paths(work_context: WorkContext) -> list[str]:
    """The agent's CLI, ``agent_paths`` and the templates. Invalid ones are skipped: work reports
    them."""
    settings = work_context.settings
    path = build_search_path(work_context.env, work_context.checkout)
    named = [settings.agent_executable, *(getattr(settings.prompts, bead) for bead in BEADS)]
    files = [work_context.config_folder / name for name in named if name]
    agent = build_provider(settings).list_readable_paths(path)
    return list(map(str, (*files, *agent, *_list_tools(work_context))))


def _list_tools(work_context: WorkContext) -> Iterator[Path]:
    folders = JobFolders(work_context.home, work_context.checkout.resolve(), work_context.private)
    for text in work_context.settings.agent_paths:
        one = work_context.settings.with_values(agent_paths=[text])
        with contextlib.suppress(NightshiftError):
            yield from find_tool_folders(one, work_context.env, folders)
