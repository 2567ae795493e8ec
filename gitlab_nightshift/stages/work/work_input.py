"""The input of work, as JSON. None of it is secret except what ``agent_env`` names."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from gitlab_nightshift.records.codec import make_record, to_fields
from gitlab_nightshift.records.events import Emit, read_clock
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.repository.prepared_folders import PreparedFolders
from gitlab_nightshift.stages.work.needed_paths import list_needed_paths
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.system.raw_logs import Logs


def build_work_input(work_context: WorkContext) -> dict[str, Any]:
    """A work context as JSON. Model variables are replaced by "set"."""
    handed = dataclasses.replace(
        work_context,
        settings=work_context.settings.with_values(notify=[]),
        model_env=dict.fromkeys(work_context.model_env, "set"),
    )
    until = None if work_context.seconds is None else read_clock() + work_context.seconds
    return {**to_fields(handed), "until_s": until, "needed": list_needed_paths(work_context)}


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
