"""``nightshift init``: examines the project, tries its tests and writes the files; yields each
line of output as soon as it is known."""

import dataclasses
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gitlab_nightshift import __version__
from gitlab_nightshift.commands.init_records import (
    InitRequest,
    NewFile,
    ProjectExamination,
    format_line,
)
from gitlab_nightshift.commands.project_onboarding import open_for_setup, set_up_gitlab
from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.gitlab.accounts import OWNER_FILES
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.onboarding.build_stacks import (
    Stack,
    TrialEnvironment,
    complete_command,
    find_stacks,
    find_trial_environment,
    list_installs,
)
from gitlab_nightshift.onboarding.found_project import find_environment, list_subprojects
from gitlab_nightshift.onboarding.gitlab_steps import choose_schedule_name
from gitlab_nightshift.onboarding.onboarding_request import describe_rehearsal
from gitlab_nightshift.onboarding.pipeline_rules import (
    PipelineJobs,
    find_merge_request_jobs,
    find_scheduled_jobs,
)
from gitlab_nightshift.onboarding.project_files import (
    DASHBOARD,
    LACKS,
    THREE_JOBS,
    TemplateInclude,
    TriedCommand,
    add_include,
    enable_commands,
    find_default_source,
    find_schedule_description,
    find_shape,
    find_version,
    has_rehearsal,
    is_external,
    lacks_commands,
    parse_config,
    render_settings,
)
from gitlab_nightshift.proof.implied_commands import RepositoryFiles, find_test_commands
from gitlab_nightshift.proof.proof_commands import (
    CommandRun,
    Runner,
    describe_missing,
    format_failure,
    run_and_collect,
)
from gitlab_nightshift.proof.reports.report_request import build_text_reader
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.repository.git import list_tracked_files, read_committed_file, read_head
from gitlab_nightshift.run.process_inputs import build_work_context
from gitlab_nightshift.run.session_opening import locate_project, open_without_results
from gitlab_nightshift.run_folder import Invocation
from gitlab_nightshift.session import Session
from gitlab_nightshift.settings.config_file import FILE_NAME
from gitlab_nightshift.settings.load import override_settings
from gitlab_nightshift.stages.work.sandboxed_checkout import SandboxContext, open_sandboxed_checkout
from gitlab_nightshift.stages.work.work_context import VerifyCommands
from gitlab_nightshift.text.printable_text import make_printable

MOST_NAMES = 8
"""Jobs or folders that a line names."""
REASONS = {
    "shape": "the job that runs the agent never gets GITLAB_TOKEN",
    "schedule_description": "pipeline variables are forbidden: a schedule of this name is a night",
    "rehearse": "adds a job to merge requests that change the settings: would a night start?",
}
"""Input of the include → the comment beside it, if it is always the same."""
ONE_JOB_NOTE = (
    "one job runs the agents and has GITLAB_TOKEN; safer are three, which keep these apart: the"
    f" input `shape: {THREE_JOBS}` of the include"
)
_LEAST_TOOL_DEPTH = 3
"""Levels below HOME: a folder above, such as ~/.local, contains several tools."""
_LAST_LINES = 8
"""Lines of output shown for a command that proves nothing."""
_DEFAULT_TIMEOUT_S = 1800.0
"""Seconds for all commands together, if the settings set no limit."""


def set_up_project(call: Invocation, request: InitRequest) -> Iterator[str]:
    """Do what the request asks for, and yield the lines of output. Raises NightshiftError."""
    with open_without_results(call) as opened:
        sets_up_gitlab = request.gitlab or request.merge_request
        if request.model_key and not sets_up_gitlab:
            text = "--model-key stores the key in GitLab: add --gitlab or --merge-request"
            raise build_config_error(text)
        session = locate_project(opened)
        examination = _examine_project(session, request)
        project = open_for_setup(session, request.model_key) if sets_up_gitlab else None
        yield from _plan_pipeline_file(examination, project)
        yield from _plan_settings_file(examination)
        # GitLab first: if it refuses something, the same command can be repeated.
        if project:
            yield from set_up_gitlab(examination, project)
        if not request.merge_request:
            for file in examination.files:
                yield from _write_file(session.checkout, file, dry_run=request.dry_run)
        yield from _suggest_next(examination)


def _examine_project(session: Session, request: InitRequest) -> ProjectExamination:
    """For a merge request the files are those of the commit, else those of the checkout."""

    def read(name: str) -> bytes | None:
        if request.merge_request:
            return read_committed_file(session.git, session.checkout, "HEAD", name)
        path = session.checkout / name
        return path.read_bytes() if path.is_file() and not path.is_symlink() else None

    if request.merge_request:
        read_head(session.git, session.checkout)  # an empty project has nothing to merge
    files = list_tracked_files(session.git, session.checkout)
    repository = RepositoryFiles(files, read, lambda path: (session.checkout / path).exists())
    return ProjectExamination(session, request, repository)


def _read_text(examination: ProjectExamination, name: str) -> str | None:
    """A file's text with its line endings; None for no file. Raises ``E_CONFIG`` for a link, which
    writing would follow."""
    path = examination.session.checkout / name
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise build_config_error(f"{name} is a link or a folder: replace it with a file first")
    data = examination.repository.read(name)
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        raise build_config_error(f"{name} is not UTF-8: convert it first") from None


def _plan_settings_file(examination: ProjectExamination) -> Iterator[str]:
    """Try the test commands and plan the settings file, unless the project has one with a
    command."""
    before = _read_text(examination, FILE_NAME)
    if before is not None and not lacks_commands(before):
        yield format_line("settings", f"{FILE_NAME} exists: left as it is")
        return
    if before is not None:
        yield format_line("settings", f"{FILE_NAME} has no active test command yet: trying again")
    stacks = find_stacks(examination.repository)
    yield from _try_tests(examination, stacks)
    if before is not None:
        text = enable_commands(before, examination.tried)
    else:
        has_owners = any(name in examination.repository.paths for name in OWNER_FILES)
        reviewer = "code_owners" if has_owners else ""
        agent_env = [name for stack in stacks for name in stack.agent_env]
        dashboard = examination.request.dashboard
        if dashboard is None:
            dashboard = examination.request.ask(f"{DASHBOARD} Keep such an issue (log_issue)?")
        text = render_settings(examination.tried, reviewer, agent_env, dashboard=dashboard)
        if not dashboard:
            line = f"off (log_issue). {DASHBOARD} To switch it on: --dashboard"
            yield format_line("dashboard", line)
    examination.files.insert(0, NewFile(FILE_NAME, text, before))


def _try_tests(examination: ProjectExamination, stacks: Sequence[Stack]) -> Iterator[str]:
    session, by_fleet = examination.session, examination.request.by_fleet
    repository = examination.repository
    commands = tuple(complete_command(c, stacks) for c in find_test_commands(repository))
    if not commands:
        yield format_line("tests", "found no command that tests this project")
        if folders := list_subprojects(repository):
            yield format_line(
                "look at",
                f"{_list_names(folders)} have builds of their own: name a test command for each in"
                " verify_commands, and install their dependencies in extra_before",
            )
    elif not by_fleet:
        text = f"trying {', '.join(commands)}, found in the build files, as a night would"
        yield format_line("tests", text)
    if by_fleet:
        examination.tried = tuple(map(TriedCommand, commands))
        return
    environment = find_trial_environment(stacks, session.env, session.checkout, repository)
    examination.tried = _try_commands(session, commands, environment) if commands else ()
    for tried in examination.tried:
        local = environment.use_local_paths(tried.command)
        note = "" if local == tried.command else f" (run here as {local})"
        yield format_line("tried", f"{tried.command}{note}: {tried.result}")
        yield from (format_line("", session.redact(line)) for line in tried.output)
    installs = " && ".join(list_installs(stacks))
    if installs and any(tried.lacks_something for tried in examination.tried):
        step = f"what the tests need (`{installs}`), then run this command again"
        examination.to_do = f"install {step}"
        yield format_line("install", step)
    if all(tried.why for tried in examination.tried):  # also if there are none
        text = "no command proves a change yet, so nights would change only comments and documents"
        yield format_line("look at", f"{text} (verify_commands)")


def _plan_pipeline_file(examination: ProjectExamination, project: Project | None) -> Iterator[str]:
    """Plan the pipeline file with the include, and report what it will do."""
    name = examination.session.job.ci_config_path
    if is_external(name):
        raise build_config_error(
            f"the pipeline file {name} is not in this project: add the include to it there"
        )
    before = _read_text(examination, name)
    config = parse_config(before or "", name)
    examination.source = _choose_source(examination)
    text = add_include(before or "", _build_include(examination, config, project), name)
    examination.files.append(NewFile(name, text, before))
    yield from _describe_version(examination, before or "", text)
    night_description = find_schedule_description(text, name)
    jobs = find_scheduled_jobs(config, examination.branch, night_description)
    yield from _describe_jobs(jobs, name, night_description)
    if find_shape(text, name) != THREE_JOBS:
        yield format_line("shape", ONE_JOB_NOTE)
    if has_rehearsal(text, name):
        merge_request_jobs = find_merge_request_jobs(config, "", examination.branch)
        yield format_line("rehearsal", describe_rehearsal(merge_request_jobs, name))
    if "include" in config:
        note = f"which jobs the includes of {name} bring: this command does not read them"
        yield format_line("not known", note)


def _choose_source(examination: ProjectExamination) -> str:
    """The project to include the template from. Raises ``E_CONFIG``."""
    source = examination.request.source or find_default_source(examination.session.job.project_path)
    if not source:
        text = "where in your GitLab is gitlab-nightshift? Name its project: --source GROUP/PROJECT"
        raise build_config_error(text)
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)+", source):
        raise build_config_error(f"--source: {source} is not a project's path, GROUP/PROJECT")
    return source


def _build_include(
    examination: ProjectExamination, config: dict[str, Any], project: Project | None
) -> TemplateInclude:
    """The include, with inputs where the template's defaults do not fit this project."""
    request, source, repository = examination.request, examination.source, examination.repository
    environment = find_environment(config, repository, find_test_commands(repository))
    default_source = find_default_source(examination.session.job.project_path)
    inputs = {
        "shape": THREE_JOBS if request.gitlab or request.merge_request else "",
        "image": environment.image,
        "stage": environment.stage,
        "source": source if source != default_source else "",
        "extra_before": environment.fetch,
    }
    # None means unknown: then the variable NIGHTSHIFT marks a night, as usual.
    if project and project.can_set_variables() is False:
        inputs["schedule_description"] = choose_schedule_name(by_fleet=request.by_fleet)
    return TemplateInclude(
        project=source,
        ref=f"v{__version__}",
        inputs={**{key: value for key, value in inputs.items() if value}, "rehearse": True},
        reasons={**dict(environment.reasons), **REASONS},
        prepare=environment.prepare,
        variables=dict(environment.variables),
    )


def _describe_version(examination: ProjectExamination, before: str, text: str) -> Iterator[str]:
    """Report an include that is upgraded, or that pins another version."""
    name = examination.session.job.ci_config_path
    (old, _), (new, pinned) = find_version(before, name), find_version(text, name)
    if old and old != new:
        examination.versions = (old, new)
        yield format_line("version", f"{name}: raising the include from {old} to {new}")
    if pinned and pinned.partition("@")[0] != __version__:
        note = f"{name}: the include's input version pins {pinned}: set it to {__version__}"
        yield format_line("look at", note)


def _describe_jobs(jobs: PipelineJobs, name: str, night_description: str) -> Iterator[str]:
    """Report which other jobs a night's pipeline would run. ``night_description`` is the
    description of a night's schedule, "" if the variable NIGHTSHIFT marks nights."""
    if jobs.excluded:
        raise build_config_error(
            f"{name}: its workflow rules keep scheduled pipelines from starting: add the rule"
            ' - if: $CI_PIPELINE_SOURCE == "schedule"'
        )
    if jobs.excluded is None:
        text = f"whether the workflow rules of {name} let a scheduled pipeline start"
        yield format_line("not known", text)
    if jobs.sure:
        condition = '$NIGHTSHIFT == "true"'
        if night_description:
            condition = f'$CI_PIPELINE_SCHEDULE_DESCRIPTION == "{night_description}"'
        rule = f"- {{if: '{condition}', when: never}}"
        yield format_line(
            "look at",
            f"these jobs run at night too: {_list_names(jobs.sure)}; to keep one out, start its"
            f" rules with {rule}",
        )
    if jobs.perhaps:
        text = f"whether these jobs run at night too: {_list_names(jobs.perhaps)}"
        yield format_line("not known", text)


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"


def _write_file(checkout: Path, file: NewFile, *, dry_run: bool) -> Iterator[str]:
    if not file.is_changed:
        yield format_line("unchanged", file.name)
        return
    verb = "write" if file.before is None else "change"
    if dry_run:
        yield format_line(f"would {verb}", f"{file.name}:\n\n{file.text}")
        return
    (checkout / file.name).write_text(file.text, encoding="utf-8", newline="")
    yield format_line("wrote" if file.before is None else "changed", file.name)


def _suggest_next(examination: ProjectExamination) -> Iterator[str]:
    request = examination.request
    if request.merge_request or request.dry_run or not any(f.is_changed for f in examination.files):
        return
    text = "review both files and commit them; `nightshift init --gitlab` then sets up GitLab"
    if request.gitlab:
        text = (
            "review both files, commit and push them: nights start once they are on the default"
            " branch"
        )
    yield format_line("next", text)


def _try_commands(
    session: Session, commands: tuple[str, ...], environment: TrialEnvironment
) -> tuple[TriedCommand, ...]:
    """Run each command alone in the sandbox. If there is no sandbox, the reason is the result of
    each."""
    local_commands = [environment.use_local_paths(each) for each in commands]
    tools = find_tool_folders(local_commands, session.checkout, session.env)
    trial_session = _prepare_session(
        session, dataclasses.replace(environment, folders=(*environment.folders, *tools))
    )
    verify = VerifyCommands((), implied=True)
    work = dataclasses.replace(build_work_context(trial_session), verify=verify)
    seconds = work.time_limit_s or _DEFAULT_TIMEOUT_S
    context = SandboxContext(work, None, session.job.run_id, (), lambda: seconds)
    try:
        with open_sandboxed_checkout(context) as opened, opened.open_runner() as (_, _, runner):
            results = [
                _try_command(runner, opened.checkout, command, number)
                for number, command in enumerate(local_commands, 1)
            ]
    except NightshiftError as error:
        return tuple(TriedCommand(each, why=f"not tried: {error.message}") for each in commands)
    return tuple(
        dataclasses.replace(result, command=command)
        for result, command in zip(results, commands, strict=True)
    )


def _prepare_session(session: Session, environment: TrialEnvironment) -> Session:
    """The session for the trial, in which commands reach this machine's installed dependencies."""
    settings = session.settings
    values = {
        "agent_env": [*settings.agent_env, *environment.variables],
        "agent_paths": [*settings.agent_paths, *environment.folders],
    }
    env = {**session.env, **environment.variables}
    return dataclasses.replace(
        session, env=env, settings=override_settings(settings, values, "init")
    )


def find_tool_folders(
    commands: Sequence[str], checkout: Path, env: Mapping[str, str]
) -> Iterator[str]:
    """Folders below HOME into which a version manager installed the commands' programs, such as
    ~/.nvm/versions/node/v24. In a job's image they are elsewhere."""
    home, search_path = Path(env.get("HOME", "/")), env.get("PATH", os.defpath)
    for word in dict.fromkeys(command.split()[0] for command in commands):
        found = checkout / word if "/" in word else shutil.which(word, path=search_path)
        if not found:
            continue
        # A version manager often has links: the tool is where they lead.
        for program in (Path(found), Path(found).resolve()):
            folder = program.parent.parent
            depth = len(folder.relative_to(home).parts) if folder.is_relative_to(home) else 0
            if program.parent.name == "bin" and depth >= _LEAST_TOOL_DEPTH:
                yield str(folder)


def _try_command(runner: Runner, checkout: Checkout, command: str, number: int) -> TriedCommand:
    name = f"try-{number}"
    read = build_text_reader(checkout.repository, checkout.base_sha)
    (run,) = run_and_collect(runner, [command], name, checkout.restore, read)
    why = _find_failure(runner, run, name)
    tail = runner.read_tail(f"{name}-1").splitlines()[-_LAST_LINES:] if why else []
    return TriedCommand(command, run.result.duration_s, why, tuple(map(make_printable, tail)))


def _find_failure(runner: Runner, run: CommandRun, name: str) -> str:
    """Why the command proves nothing here, "" if it does."""
    if missing := describe_missing(run.result, runner.read_tail(f"{name}-1")):
        return f"{LACKS}{missing}"
    if not run.result.ok:
        return format_failure(runner, [run.result], name).partition("\n")[0]
    return "found no test" if run.ran_nothing else ""
