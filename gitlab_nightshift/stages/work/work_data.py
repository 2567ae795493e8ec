"""The input of work, as JSON. None of it is secret except what ``agent_env`` names."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.events import Emit, read_clock
from gitlab_nightshift.records.strict_reading import make_record
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.repository.prepared_folders import PreparedFolders
from gitlab_nightshift.settings.settings_data import pack_settings, unpack_settings
from gitlab_nightshift.stages.work.needed_paths import list_needed_paths
from gitlab_nightshift.stages.work.proof_choice import Commands
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.system.raw_logs import Logs


def pack_work_context(work_context: WorkContext) -> dict[str, Any]:
    """Pack the input of work. Model variables are replaced by "set"."""
    return {
        "settings": pack_settings(work_context.settings.with_values(notify=[])),
        "job": dataclasses.asdict(work_context.job),
        "env": dict(work_context.env),
        "model_env": dict.fromkeys(work_context.model_env, "set"),
        "verify": dataclasses.asdict(work_context.verify),
        "until_s": None if work_context.seconds is None else read_clock() + work_context.seconds,
        "named": list(map(str, work_context.named)),
        "programs": list(map(str, work_context.programs)),
        "secrets": list(map(str, work_context.secrets)),
        "needed": list_needed_paths(work_context),
        "checkout": str(work_context.checkout),
        "config_folder": str(work_context.config_folder),
        "home": str(work_context.home),
        "allowed_commands": list(work_context.allowed_commands),
        "build_commands": list(work_context.build_commands),
    }


def unpack_work_context(
    data: Mapping[str, Any], logs: Logs, emit: Emit, prepared: PreparedFolders
) -> WorkContext:
    """Unpack the work context. Its redactor knows no secret values, only the patterns of tokens."""
    until = data["until_s"]
    return WorkContext(
        settings=unpack_settings(data["settings"]),
        job=JobFacts(**data["job"]),
        env=data["env"],
        model_env=data["model_env"],
        verify=make_record(Commands, data["verify"]),
        seconds=None if until is None else max(until - read_clock(), 1.0),
        named=tuple(map(Path, data["named"])),
        programs=tuple(map(Path, data["programs"])),
        secrets=tuple(map(Path, data["secrets"])),
        logs=logs,
        redact=Redactor(()),
        emit=emit,
        checkout=Path(data["checkout"]),
        config_folder=Path(data["config_folder"]),
        home=Path(data["home"]),
        private=prepared.private,
        allowed_commands=tuple(data["allowed_commands"]),
        build_commands=tuple(data["build_commands"]),
        prepared=prepared,
    )
