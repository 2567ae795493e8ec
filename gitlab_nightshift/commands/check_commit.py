"""``nightshift check --run``: judges a commit by its red flags and by running its tests."""

import dataclasses
import tempfile
from pathlib import Path

from gitlab_nightshift.commands.change_check import CheckRequest, Judgement, check
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gateway.gateway_config import build_gateway_config
from gitlab_nightshift.gateway.gateway_start import open_gateway
from gitlab_nightshift.job.job_facts import read_job
from gitlab_nightshift.job.job_secrets import read_secrets
from gitlab_nightshift.proof.implied_commands import RepositoryFiles, find_test_commands
from gitlab_nightshift.records.events import Emit
from gitlab_nightshift.records.storage import map_texts
from gitlab_nightshift.records.usage import SpendingLimit
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.repository.git import (
    Git,
    build_isolated_git,
    list_tracked_files,
    read_committed_file,
    read_head,
)
from gitlab_nightshift.sandbox.credential_files import read_machine_secrets
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.work.commit_trial import try_commit
from gitlab_nightshift.stages.work.sandboxed_checkout import SandboxContext
from gitlab_nightshift.stages.work.tool_access import JobFolders, add_job_tools
from gitlab_nightshift.stages.work.work_context import VerifyCommands, WorkContext
from gitlab_nightshift.system.environment import build_allowed_env, build_search_path
from gitlab_nightshift.system.raw_logs import build_logs


def check_and_run(request: CheckRequest, emit: Emit) -> Judgement:
    """Judge the checked-out commit, then run its tests in the sandbox of a night.

    Raises NightshiftError as ``check``; ``E_WORKSPACE_DIRTY`` if the judged commit is not checked
    out, or files differ from it.
    """
    judgement = check(request)
    with tempfile.TemporaryDirectory(prefix="nightshift-") as folder:
        private = Path(folder, "private")
        private.mkdir(mode=0o700)
        git = build_isolated_git(private / "git", build_search_path(request.env, judgement.top))
        commit = _require_checked_out(git, judgement)
        context = _build_work_context(request, judgement, git, private, emit)
        # No model and no budget: the gateway only opens the hosts that the settings name.
        config = build_gateway_config(context.settings, (), request.env, SpendingLimit(0.0, 0))
        with open_gateway(config, request.env, emit) as gateway:
            trial = try_commit(
                SandboxContext(context, gateway, "check", (), lambda: context.time_limit_s),
                judgement.base,
                commit,
                judgement.context,
                judgement.findings,
            )
        return dataclasses.replace(
            judgement,
            findings=map_texts(trial.findings, context.redact),
            ran=True,
            commands=map_texts(trial.commands, context.redact),
            checks=map_texts(trial.checks, context.redact),
            incomplete=context.redact(trial.incomplete),
        )


def _require_checked_out(git: Git, judgement: Judgement) -> str:
    """The checked-out commit. Raises ``E_WORKSPACE_DIRTY`` if another state was judged."""
    commit = read_head(git, judgement.top)
    tree = git.run("rev-parse", "--verify", "HEAD^{tree}", cwd=judgement.top).decode().strip()
    if judgement.commit not in (None, commit) or tree != judgement.tree:
        text = "--run runs the commit that is checked out: commit the change, or check it out"
        raise NightshiftError(Code.WORKSPACE_DIRTY, text)
    return commit


def _build_work_context(
    request: CheckRequest, judgement: Judgement, git: Git, private: Path, emit: Emit
) -> WorkContext:
    """The context of a night's work stage, for a checkout outside a night."""
    redact = Redactor((*read_secrets(request.env).values, *read_machine_secrets(request.env)))
    home = Path(request.env.get("HOME", "/"))
    folders = JobFolders(home, judgement.top, private)
    settings, env, program_folders = add_job_tools(
        judgement.context.settings, request.env, git, folders, emit
    )
    return WorkContext(
        settings=settings,
        job=read_job(request.env, settings.repo_url),
        env=build_allowed_env(env, settings.agent_env),
        checkout=judgement.top,
        config_folder=judgement.top,
        home=home,
        private=private,
        logs=build_logs(private, redact),
        verify=_choose_commands(settings, git, judgement),
        time_limit_s=settings.run_timeout,
        redact=redact,
        emit=emit,
        programs=program_folders,
    )


def _choose_commands(settings: Settings, git: Git, judgement: Judgement) -> VerifyCommands:
    if settings.verify_commands:
        return VerifyCommands(tuple(settings.verify_commands), implied=False)
    files = RepositoryFiles(
        paths=list_tracked_files(git, judgement.top),
        read=lambda name: read_committed_file(git, judgement.top, judgement.tree, name),
        is_installed=lambda path: (judgement.top / path).exists(),
    )
    return VerifyCommands(find_test_commands(files), implied=True)
