"""Prepare: checks and decides all that is possible before an agent runs."""

import dataclasses
import functools
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.policy.gates import (
    build_test_command,
    find_test_refusal,
    list_gates,
    restrict_settings,
)
from gitlab_nightshift.proof.implied_commands import RepositoryFiles
from gitlab_nightshift.records.delegation_records import Execution, Payload
from gitlab_nightshift.records.events import Emit, GateApproved, GateDenied, GateRequired
from gitlab_nightshift.records.products import Plan
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.registry.categories import TASK
from gitlab_nightshift.repository.delegated_repository import DelegationSource
from gitlab_nightshift.repository.git import (
    CommitIdentity,
    list_revision_files,
    read_committed_file,
)
from gitlab_nightshift.run_context import RunContext
from gitlab_nightshift.settings.config_file import FILE_NAME, ConfigFile
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.work.delegation.agent_choice import (
    FALLBACK,
    choose_agent,
    choose_fallback,
    may_fall_back,
)
from gitlab_nightshift.stages.work.delegation.delegation_context import (
    DelegationContext,
    build_fallback_note,
    describe_no_fallback,
)
from gitlab_nightshift.stages.work.delegation.delegation_source import (
    check_clean,
    check_subdir,
    choose_branch,
    find_base,
    find_commit,
)
from gitlab_nightshift.stages.work.delegation.delivery import find_author
from gitlab_nightshift.stages.work.work_context import (
    VerifyCommands,
    WorkContext,
    build_job_context,
)
from gitlab_nightshift.system.environment import build_search_path
from gitlab_nightshift.system.network_settings import build_network_env

_POLICY_PREFIXES = ("NIGHTSHIFT_POLICY", "NIGHTSHIFT_PROFILE")
"""Prefixes of the variables that set the policy and its profile."""
_ORCHESTRATOR = "NIGHTSHIFT_ORCHESTRATOR"
"""The variable by which an orchestrator names itself."""


@dataclass
class PreparationState:
    """What preparation has found out so far, for the result if it fails. ``output_dir`` is set as
    soon as results may be kept; ``chosen`` are the settings with the chosen agent."""

    output_dir: str | None = None
    base: str | None = None
    chosen: Settings | None = None


@dataclass(frozen=True)
class PreparedDelegation:
    """What is decided before the workspace is created. ``chosen`` are the settings with the agent,
    ``fallback`` those with the agent that takes over if it cannot be used; or why there is none, as
    text, or None if none was requested. Without a commit ``author`` is None and ``branch`` ""."""

    source: DelegationSource
    base: str
    branch: str
    author: CommitIdentity | None
    plan: Plan
    chosen: Settings
    fallback: Settings | str | None


def prepare(
    context: DelegationContext, state: PreparationState, source: DelegationSource
) -> PreparedDelegation:
    """Read the settings, pass the gates, resolve the refs, choose the agent. Raises NightshiftError
    for the first problem."""
    payload = context.payload
    search_path = build_search_path(context.env, source.top)
    context = dataclasses.replace(context, env={**context.env, "PATH": search_path})
    settings = _read_settings(source, context.env, context.job)
    state.output_dir = settings.output_dir
    _pass_gates(payload, settings, _find_approver(settings, context.job, context.env), context.emit)
    base = state.base = find_base(source, payload)
    subdir = check_subdir(source, base, payload.workspace.workspace_subdir)
    settings = narrow_settings(settings, payload, subdir)
    check_clean(source, payload, settings.output_dir)
    applies = payload.execution.apply_changes and not payload.execution.dry_run
    in_place = payload.workspace.checkout_mode == "in_place"
    makes_commit = applies and not in_place and not source.fetched
    branch = choose_branch(source, payload, context.job.run_id) if makes_commit else ""
    author = find_author(source, context.job) if makes_commit else None
    chosen = state.chosen = _choose_agent_or_fallback(context, settings)
    plan = _build_plan(context, settings, base, branch)
    fallback: Settings | str | None = None
    if may_fall_back(payload, Code.PROVIDER_UNAVAILABLE) and chosen.agent != FALLBACK:
        fallback = _try_fallback(context, settings)
    return PreparedDelegation(source, base, branch, author, plan, chosen, fallback)


def _choose_agent_or_fallback(context: DelegationContext, settings: Settings) -> Settings:
    try:
        return choose_agent(context.payload, settings, context.env, context.emit)
    except NightshiftError as error:
        if not may_fall_back(context.payload, error.code):
            raise
        chosen = _try_fallback(context, settings)
        if isinstance(chosen, str):
            text = describe_no_fallback(error.message, chosen)
            raise NightshiftError(error.code, text) from None
        context.emit(build_fallback_note(error.message))
        return chosen


def _try_fallback(context: DelegationContext, settings: Settings) -> Settings | str:
    """The settings with the fallback's agent, or why it cannot be used."""
    try:
        return choose_fallback(context.payload, settings, context.env)
    except NightshiftError as error:
        return error.message


def _build_plan(context: DelegationContext, settings: Settings, base: str, branch: str) -> Plan:
    """A night's plan for the task. Files of recent commits may change: somebody asked for it."""
    return Plan(
        run_id=context.job.run_id,
        date=f"{datetime.now(UTC):%A %Y-%m-%d}",
        base_sha=base,
        target_branch=context.job.default_branch or branch,
        scheduled=TASK,
        categories=(TASK,),
        task=settings.task or "",
        recent_files_enforced=False,
        max_diff_lines=settings.max_diff_lines,
        max_budget_usd=settings.max_budget_usd,
        max_tokens=settings.max_tokens,
        verify_commands=tuple(settings.verify_commands),
    )


def _read_settings(source: DelegationSource, env: Mapping[str, str], job: JobFacts) -> Settings:
    """The settings, with the policy restricted for a delegation.

    ``nightshift.yaml`` is read from the default branch, but not if the repository was fetched from
    a URL: it is a stranger's. Raises NightshiftError ``E_CONFIG``.
    """
    if job.in_ci:
        names = [name for name in env if name.startswith(_POLICY_PREFIXES) and env[name].strip()]
        if names:
            text = "a delegation's policy and profile come from the default branch only"
            raise build_config_error(f"{', '.join(sorted(names))}: {text}")
    return restrict_settings(load_settings(env, _read_config_file(source, job)))


def _read_config_file(source: DelegationSource, job: JobFacts) -> ConfigFile | None:
    if source.fetched:
        return None
    commit = _find_default_commit(source, job)
    data = read_committed_file(source.git, source.top, commit, FILE_NAME)
    if data is None:
        return None
    try:
        return ConfigFile(FILE_NAME, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise build_config_error(f"{FILE_NAME}: not UTF-8: {error}") from None


def _find_default_commit(source: DelegationSource, job: JobFacts) -> str:
    """The default branch's commit, as far as this repository knows it, else the checked-out one.
    Raises NightshiftError ``E_CONFIG`` if that is another branch's."""
    name = job.default_branch
    refs = [f"refs/remotes/origin/{name}", f"refs/heads/{name}"] if name else []
    commits = (find_commit(source, ref) for ref in (*refs, "refs/remotes/origin/HEAD"))
    if commit := next(filter(None, commits), None):
        return commit
    # Whoever can push another branch could write its settings.
    if name and job.ref_name != name:
        text = f"the policy is read from {name}, which is not in {source.top}: fetch it first"
        raise build_config_error(text)
    return source.head


def narrow_settings(settings: Settings, payload: Payload, subdir: str) -> Settings:
    """The settings with what the payload requests: it may restrict them, never extend them."""
    execution, policy = payload.execution, settings.policy
    hosts = policy.egress_hosts if execution.network == "on" else []
    # Whatever the team's flags: manifests, lock files and settings of tools may change only with
    # allow_install, and files outside workspace_subdir never.
    level = "off" if execution.dependency_policy == "allow_install" else "fail"
    flags = {**policy.flags, "dependency-file": level, "tool-settings": level}
    if subdir:
        flags["outside-paths"] = "fail"
    words = build_test_command(payload, policy.test_commands)
    narrowed: dict[str, object] = {
        "policy": policy.with_values(egress_hosts=hosts, flags=flags),
        "verify_commands": [shlex.join(words)] if words else [],
        "task": payload.task_prompt.strip(),
    }
    if subdir:
        narrowed |= _restrict_paths(settings, subdir)
    return settings.with_values(**narrowed)


def _restrict_paths(settings: Settings, subdir: str) -> dict[str, object]:
    """The settings that allow changes only in this folder, and there only where they already do."""
    if not settings.paths:
        return {"paths": [f"/{subdir}/"]}
    # gitignore(5) rules: a file cannot be re-included if its parent is excluded, so each level is
    # excluded and the next folder on the path re-included.
    parts = subdir.split("/")
    outside = ["/*"]
    for depth in range(1, len(parts) + 1):
        folder = "/".join(parts[:depth])
        outside += [f"!/{folder}/", f"/{folder}/*"]
    return {"exclude_paths": [*outside[:-1], *settings.exclude_paths]}


def _find_approver(settings: Settings, job: JobFacts, env: Mapping[str, str]) -> str:
    """Who approved the delegation, "" for nobody.

    In a GitLab job: the person who ran the pipeline, or a user whom ``policy.orchestrators`` names.
    Elsewhere: the orchestrator that names itself, if the policy names it too.
    """
    orchestrators = settings.policy.orchestrators
    if not job.in_ci:
        name = env.get(_ORCHESTRATOR, "")
        return f"{name} (policy.orchestrators)" if name in orchestrators else ""
    if job.user_login and job.pipeline_source == "web":
        return f"{job.user_login}, who ran the pipeline"
    return f"{job.user_login} (policy.orchestrators)" if job.user_login in orchestrators else ""


def _pass_gates(payload: Payload, settings: Settings, approver: str, emit: Emit) -> None:
    """Decide the gates exec, network and in_place; ``approver`` is who approved the delegation, ""
    for nobody.

    Raises NightshiftError ``E_POLICY_DENY``, ``E_APPROVAL_REQUIRED``, and ``E_CONFIG`` for a
    network without hosts.
    """
    if payload.execution.network == "on" and not settings.policy.egress_hosts:
        raise build_config_error(
            "network: on: policy.egress_hosts lists no host that may be reached"
        )
    required = list_gates(payload, settings)
    denied = [(each.gate, each.why) for each in required if each.decision == "deny"]
    if why := find_test_refusal(payload, settings):
        denied.append(("exec", why))
    for gate, why in denied:
        emit(GateDenied(gate, why))
    if denied:
        gates = "; ".join(f"{gate}: {why}" for gate, why in denied)
        raise NightshiftError(Code.POLICY_DENY, f"the policy denies it: {gates}")
    for each in required:
        if each.decision == "auto_allow":
            emit(GateApproved(each.gate, f"policy.gates.{each.gate}"))
            continue
        emit(GateRequired(each.gate, each.why))
        if not approver:
            names = ", ".join(settings.policy.orchestrators) or "nobody"
            text = f"{each.why}: nobody has approved it; policy.orchestrators of the default branch"
            text += f" lists who may ({names}), and an orchestrator names itself in {_ORCHESTRATOR}"
            raise NightshiftError(Code.APPROVAL_REQUIRED, text)
        emit(GateApproved(each.gate, approver))


# As each package manager documents the installation from a lock file in CI.
_LOCKED_INSTALLS = {
    "package-lock.json": "npm ci",
    "npm-shrinkwrap.json": "npm ci",
    "yarn.lock": "yarn install --immutable",
    "pnpm-lock.yaml": "pnpm install --frozen-lockfile",
    "bun.lock": "bun install --frozen-lockfile",
    "uv.lock": "uv sync --frozen",
    "poetry.lock": "poetry sync",
    "pdm.lock": "pdm sync",
    "Pipfile.lock": "pipenv sync",
    "Gemfile.lock": "bundle install --frozen",
    "composer.lock": "composer install",
    "Cargo.lock": "cargo fetch --locked",
    "go.sum": "go mod download",
    "mix.lock": "mix deps.get --check-locked",
    "packages.lock.json": "dotnet restore --locked-mode",
}
"""Lock file at the root → the command that installs exactly what it names."""
_INSTALLERS = frozenset(
    """npm yarn pnpm bun pip pip3 uv poetry pdm pipenv bundle gem composer cargo go mix dotnet
    apt-get apk""".split()
)
"""Programs that install packages: deny_install forbids them."""


def build_delegated_context(
    context: DelegationContext, source: DelegationSource, base: str, chosen: Settings
) -> WorkContext:
    """The input of work for the caller's checkout, which a workspace replaces later."""
    in_place = context.payload.workspace.checkout_mode == "in_place"
    files = list_revision_files(source.git, source.top, base)
    read = functools.partial(read_committed_file, source.git, source.top, base)
    run = RunContext(
        settings=chosen,
        job=context.job,
        env=context.env,
        checkout=source.top,
        config_folder=source.top,
        private=context.private,
        redact=Redactor(()),
        emit=context.emit,
    )
    work_context = build_job_context(
        run,
        source.git,
        build_network_env(context.env, context.folder, context.private),
        RepositoryFiles(files, read),
        VerifyCommands(tuple(chosen.verify_commands), implied=False),
        context.compute_left_s(),
        separate_checkout=not in_place,
    )
    commands = with_installs(work_context.allowed_commands, context.payload.execution, files)
    return dataclasses.replace(
        work_context,
        allowed_commands=commands,
        build_commands=tuple(name for name in commands if name in work_context.build_commands),
        secrets=() if in_place else source.secrets,
    )


def with_installs(
    commands: Collection[str], execution: Execution, files: Collection[str]
) -> tuple[str, ...]:
    """The allowed commands, with installations added or removed by the dependency policy."""
    policy = execution.dependency_policy
    if policy == "deny_install":
        denied = {*_INSTALLERS, *_LOCKED_INSTALLS.values()}
        return tuple(command for command in commands if command not in denied)
    if execution.network == "off":
        return tuple(commands)
    installs = [command for lock, command in _LOCKED_INSTALLS.items() if lock in files]
    if policy == "allow_install":
        installs = [command.split()[0] for command in installs]
    return tuple(dict.fromkeys((*commands, *installs)))
