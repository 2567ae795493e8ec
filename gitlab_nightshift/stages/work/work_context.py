"""The input of the work stage: the part of a job that agents and commands may see. It is built from
the job and sent to the work process as JSON. Only its variables of ``agent_env`` may be secret.
"""

import contextlib
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.agents import build_provider
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.policy.prompts import BEADS
from gitlab_nightshift.proof.implied_commands import (
    RepositoryFiles,
    list_build_commands,
    list_default_allowed_commands,
)
from gitlab_nightshift.records.codec import LOCAL, make_record, to_data, to_fields
from gitlab_nightshift.records.events import Emit, read_clock
from gitlab_nightshift.records.products import Plan
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.repository.git import Git
from gitlab_nightshift.repository.prepared_checkout import PreparedFolders
from gitlab_nightshift.run_context import RunContext
from gitlab_nightshift.sandbox.proof import list_named_folders
from gitlab_nightshift.stages.work.gateway_access import MODEL_VARIABLES, configure_gateway
from gitlab_nightshift.stages.work.tool_access import JobFolders, add_job_tools, find_tool_folders
from gitlab_nightshift.system.environment import build_allowed_env, build_search_path
from gitlab_nightshift.system.raw_logs import Logs, build_logs

if TYPE_CHECKING:  # plan builds a context, too, but starts no sandbox
    from gitlab_nightshift.sandbox.self_confinement import OwnConfinement
    from gitlab_nightshift.sandbox.visible_system import SystemWalk

NOTHING_TO_RUN = "found no command that tests this project: set verify_commands"


@dataclass(frozen=True)
class VerifyCommands:
    """The commands that prove a change. ``implied``: the build files imply them; else the settings
    name them."""

    commands: tuple[str, ...]
    implied: bool


@dataclass(frozen=True, kw_only=True)
class WorkContext(RunContext):
    """The input of the work stage, without any GitLab credential.

    ``env`` is the part of the job's environment that agents may get, ``model_env`` what model
    access needs, including the key. ``home`` is this machine's real home (git settings). ``logs``
    are in ``private``. ``verify`` are the commands that prove a change, ``build_commands`` those of
    ``allowed_commands`` that the build files imply. ``secrets`` are files, besides the checkout's,
    that no agent may read, ``named_folders`` folders of the checkout that the job's variables name,
    ``programs`` folders on the PATH of the sandbox alone (``tool_access.py``). ``system_walk`` is a
    finished search of this machine (None: not done yet), ``prepared`` are existing folders,
    ``own_confinement`` is that of this process (None: unknown).
    """

    home: Path
    logs: Logs = field(metadata=LOCAL)
    verify: VerifyCommands
    time_limit_s: float | None = field(metadata=LOCAL)
    model_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    allowed_commands: tuple[str, ...] = ()
    build_commands: tuple[str, ...] = ()
    secrets: tuple[Path, ...] = ()
    named_folders: tuple[Path, ...] = ()
    programs: tuple[Path, ...] = ()
    system_walk: "SystemWalk | None" = field(default=None, metadata=LOCAL)
    prepared: PreparedFolders | None = field(default=None, metadata=LOCAL)
    own_confinement: "OwnConfinement | None" = field(default=None, metadata=LOCAL)

    @property
    def search_path(self) -> str:
        """The job's PATH for trusted programs: without folders of the checkout."""
        return build_search_path(self.env, self.checkout)

    @property
    def job_folders(self) -> JobFolders:
        """The job's folders, with links resolved in the checkout's."""
        return JobFolders(self.home, self.checkout.resolve(), self.private)


def build_job_context(
    run: RunContext,
    git: Git,
    network_env: Mapping[str, str],
    files: RepositoryFiles,
    verify: VerifyCommands,
    time_limit_s: float | None,
    *,
    separate_checkout: bool = False,
) -> WorkContext:
    """The input of the work stage for a job. ``network_env`` are the variables for this program's
    own connections. ``separate_checkout``: work runs in another checkout than the job's."""
    home = Path(run.env.get("HOME", "/"))
    folders = JobFolders(home, run.checkout, run.private)
    settings, env, program_folders = add_job_tools(
        run.settings, run.env, git, folders, run.emit, separate_checkout=separate_checkout
    )
    implied = list_build_commands(files.paths, files.read)
    default = list_default_allowed_commands(files.paths, files.read)
    commands = default if settings.allowed_commands is None else settings.allowed_commands
    model_names = (*build_provider(settings).keys, *MODEL_VARIABLES, *settings.agent_env)
    return WorkContext(
        settings=settings,
        job=run.job,
        env=build_allowed_env(env, settings.agent_env),
        model_env={name: env[name] for name in model_names if env.get(name)} | {**network_env},
        checkout=run.checkout,
        config_folder=run.config_folder,
        home=home,
        private=run.private,
        logs=build_logs(run.private, run.redact),
        allowed_commands=tuple(commands),
        build_commands=tuple(command for command in commands if command in implied),
        verify=verify,
        time_limit_s=time_limit_s,
        redact=run.redact,
        emit=run.emit,
        named_folders=() if separate_checkout else list_named_folders(env, run.checkout),
        programs=program_folders,
    )


def pack_work(work_context: WorkContext, plan: Plan) -> dict[str, Any]:
    """The JSON of work's ``context``, and of the configuration of its ``gateway`` with the plan's
    spending limit (None if the agent needs no gateway). Raises NightshiftError ``E_CONFIG``."""
    settings = work_context.settings
    provider = build_provider(settings)
    gateway = configure_gateway(settings, provider, work_context.model_env, plan.limit)
    # Work checks which model variables are set; their values go to the gateway alone.
    sent = dataclasses.replace(
        work_context,
        settings=settings.with_values(notify=[]),  # its addresses may be secret
        model_env=dict.fromkeys(work_context.model_env, "set"),
    )
    # A point in time, as the input may wait. All processes share the clock (CLOCK_MONOTONIC,
    # clock_gettime(2)).
    limit_s = work_context.time_limit_s
    until_s = None if limit_s is None else read_clock() + limit_s
    needed = _list_needed_paths(work_context)
    return {
        "context": {**to_fields(sent), "until_s": until_s, "needed": needed},
        "gateway": to_data(gateway),
    }


def read_work_context(
    data: Mapping[str, Any], logs: Logs, emit: Emit, prepared: PreparedFolders
) -> WorkContext:
    """The work context from the JSON of ``pack_work``. Its redactor knows no secret values, only
    the patterns of tokens."""
    fields = {name: value for name, value in data.items() if name not in ("until_s", "needed")}
    until_s = data["until_s"]
    return make_record(
        WorkContext,
        fields,
        time_limit_s=None if until_s is None else max(until_s - read_clock(), 1.0),
        logs=logs,
        redact=Redactor(()),
        emit=emit,
        private=prepared.private,
        prepared=prepared,
    )


def _list_needed_paths(work_context: WorkContext) -> list[str]:
    """The agent's CLI, ``agent_paths`` and the templates, which work's own sandbox must show."""
    settings = work_context.settings
    named = [settings.agent_executable, *(getattr(settings.prompts, bead) for bead in BEADS)]
    files = [work_context.config_folder / name for name in named if name]
    needed = [*files, *build_provider(settings).list_readable_paths(work_context.search_path)]
    for text in settings.agent_paths:
        # One by one, so that an invalid one is skipped; work will report it.
        with contextlib.suppress(NightshiftError):
            single = settings.with_values(agent_paths=[text])
            needed += find_tool_folders(single, work_context.env, work_context.job_folders)
    return list(map(str, needed))
