"""``nightshift init``: examines the project, tries its tests and writes the files; each line that
it prints is yielded as soon as it is known."""

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
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.onboarding.build_stacks import (
    Stack,
    TrialPlace,
    complete_command,
    find_stacks,
    find_trial_place,
    list_installs,
)
from gitlab_nightshift.onboarding.found_project import find_environment, list_parts
from gitlab_nightshift.onboarding.gitlab_steps import choose_schedule_name
from gitlab_nightshift.onboarding.onboarding_request import describe_rehearsal
from gitlab_nightshift.onboarding.pipeline_rules import (
    PipelineJobs,
    find_request_jobs,
    find_scheduled_jobs,
)
from gitlab_nightshift.onboarding.project_files import (
    DASHBOARD,
    LACKS,
    TemplateInclude,
    TriedCommand,
    add_include,
    enable_commands,
    find_rehearsal,
    find_schedule_description,
    find_shape,
    find_usual_source,
    find_version,
    lacks_commands,
    parse_config,
    write_settings,
)
from gitlab_nightshift.proof.implied_commands import BuildFiles, find_test_commands
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
"""Input of the include → the comment beside it, if its value is fixed."""
THREE_JOBS = "three-jobs"
ONE_JOB = (
    "one job runs the agents and has GITLAB_TOKEN; safer are three, which keep these apart: the"
    f" input `shape: {THREE_JOBS}` of the include"
)
# The places where GitLab looks (docs.gitlab.com/user/project/codeowners).
OWNER_FILES = ("CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
_TOOL_DEPTH = 3
"""Depth of a tool's folder below HOME: a higher one, such as ~/.local, contains several tools."""
_LAST_LINES = 8
"""Lines of output shown for a command that proves nothing."""
_LONGEST_S = 1800.0
"""Seconds for all commands, if the settings set no limit."""


def set_up_project(call: Invocation, request: InitRequest) -> Iterator[str]:
    """The lines of the command. Raises NightshiftError."""
    with open_without_results(call) as opened:
        sets_up_gitlab = request.gitlab or request.merge_request
        if request.model_key and not sets_up_gitlab:
            text = "--model-key stores the key in GitLab: add --gitlab or --merge-request"
            raise build_config_error(text)
        session = locate_project(opened)
        examined = _examine_project(session, request)
        project = open_for_setup(session, request.model_key) if sets_up_gitlab else None
        yield from _plan_pipeline_file(examined, project)
        yield from _plan_settings_file(examined)
        # GitLab first: if it refuses something, the same command can be repeated.
        yield from set_up_gitlab(examined, project) if project else ()
        if not request.merge_request:
            for file in examined.files:
                yield from _write_file(opened.checkout, file, dry_run=request.dry_run)
        yield from _suggest_next(examined)


def _examine_project(session: Session, request: InitRequest) -> ProjectExamination:
    """Files for a merge request are compared with the commit, others with the checkout's files."""

    def read(name: str) -> bytes | None:
        if request.merge_request:
            return read_committed_file(session.git, session.checkout, "HEAD", name)
        path = session.checkout / name
        return path.read_bytes() if path.is_file() and not path.is_symlink() else None

    if request.merge_request:
        read_head(session.git, session.checkout)  # an empty project has nothing to merge
    files = list_tracked_files(session.git, session.checkout)
    build = BuildFiles(files, read, lambda path: (session.checkout / path).exists())
    return ProjectExamination(session, request, build)


def _read_text(examined: ProjectExamination, name: str) -> str | None:
    """A file's text with its line ends; None for no file. Raises ``E_CONFIG`` for a link, as
    writing would follow it."""
    path = examined.session.checkout / name
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise build_config_error(f"{name} is a link or a folder: replace it with a file first")
    data = examined.build.read(name)
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        raise build_config_error(f"{name} is not UTF-8: convert it first") from None


def _plan_settings_file(examined: ProjectExamination) -> Iterator[str]:
    """Try the test commands, and add the settings file to the new files, unless the project has one
    with a command."""
    before = _read_text(examined, FILE_NAME)
    if before is not None and not lacks_commands(before):
        yield format_line("settings", f"{FILE_NAME} exists: left as it is")
        return
    if before is not None:
        yield format_line("settings", f"{FILE_NAME} has no active test command yet: trying again")
    stacks = find_stacks(examined.build)
    yield from _try_tests(examined, stacks)
    owned = any(name in examined.build.files for name in OWNER_FILES)
    agent_env = [name for stack in stacks for name in stack.agent_env]
    reviewer = "code_owners" if owned else ""
    dashboard = before is None and _choose_dashboard(examined.request)
    first = write_settings(examined.tried, reviewer, agent_env, dashboard=dashboard)
    if before is None and not dashboard:
        yield format_line("dashboard", f"off (log_issue). {DASHBOARD} To switch it on: --dashboard")
    text = first if before is None else enable_commands(before, examined.tried)
    examined.files.insert(0, NewFile(FILE_NAME, text, before))


def _choose_dashboard(request: InitRequest) -> bool:
    if request.dashboard is None:
        return request.ask(f"{DASHBOARD} Keep such an issue (log_issue)?")
    return request.dashboard


def _try_tests(examined: ProjectExamination, stacks: Sequence[Stack]) -> Iterator[str]:
    session = examined.session
    commands = tuple(complete_command(c, stacks) for c in find_test_commands(examined.build))
    if not commands:
        yield format_line("tests", "found no command that tests this project")
        if parts := list_parts(examined.build):
            yield format_line(
                "look at",
                f"{_list_names(parts)} have builds of their own: name a test command for each in"
                " verify_commands, and install their dependencies in extra_before",
            )
    elif not examined.request.by_fleet:
        yield format_line(
            "tests", f"trying {', '.join(commands)}, found in the build files, as a night would"
        )
    if examined.request.by_fleet:
        examined.tried = tuple(map(TriedCommand, commands))
        return
    place = find_trial_place(stacks, session.env, session.checkout, examined.build)
    examined.tried = _try_commands(session, commands, place) if commands else ()
    for each in examined.tried:
        moved = place.move(each.command)
        shown = each.command if moved == each.command else f"{each.command} (run here as {moved})"
        yield format_line("tried", f"{shown}: {each.result}")
        yield from (format_line("", session.redact(line)) for line in each.output)
    installs = " && ".join(list_installs(stacks))
    if installs and any(each.lacks_something for each in examined.tried):
        examined.to_do = f"install what the tests need (`{installs}`), then run this command again"
        yield format_line("install", f"{examined.to_do.removeprefix('install ')}")
    if all(each.why for each in examined.tried):  # also if there is none
        text = "no command proves a change yet, so nights would change only comments and documents"
        yield format_line("look at", f"{text} (verify_commands)")


def _plan_pipeline_file(examined: ProjectExamination, project: Project | None) -> Iterator[str]:
    """Add the pipeline file with the include to the new files, and report what it will do."""
    session = examined.session
    name = session.job.ci_config_path
    # group/project's file, or a URL (docs.gitlab.com/ci/pipelines/settings).
    if "@" in name or "://" in name:
        raise build_config_error(
            f"the pipeline file {name} is not in this project: add the include to it there"
        )
    before = _read_text(examined, name)
    config = parse_config(before or "", name)
    examined.source = _choose_source(examined)
    text = add_include(before or "", _build_include(examined, config, project), name)
    examined.files.append(NewFile(name, text, before))
    yield from _describe_version(examined, before or "", text)
    night_description = find_schedule_description(text, name)
    jobs = find_scheduled_jobs(config, examined.branch, night_description)
    yield from _describe_jobs(jobs, name, night_description)
    if find_shape(text, name) != THREE_JOBS:
        yield format_line("shape", ONE_JOB)
    if find_rehearsal(text, name):
        requested = find_request_jobs(config, "", examined.branch)
        yield format_line("rehearsal", describe_rehearsal(requested, name))
    if "include" in config:
        yield format_line(
            "not known", f"which jobs the includes of {name} bring: this command does not read them"
        )


def _choose_source(examined: ProjectExamination) -> str:
    """The project to include the template from. Raises ``E_CONFIG``."""
    source = examined.request.source or find_usual_source(examined.session.job.project_path)
    if not source:
        text = "where in your GitLab is gitlab-nightshift? Name its project: --source GROUP/PROJECT"
        raise build_config_error(text)
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)+", source):
        raise build_config_error(f"--source: {source} is not a project's path, GROUP/PROJECT")
    return source


def _build_include(
    examined: ProjectExamination, config: dict[str, Any], project: Project | None
) -> TemplateInclude:
    """The include, with inputs where the template's defaults do not fit this project."""
    request, source = examined.request, examined.source
    environment = find_environment(config, examined.build, find_test_commands(examined.build))
    # None: unknown. Only a clear no makes the schedule's description the mark of a night.
    variables_forbidden = project is not None and project.can_set_variables() is False
    usual = find_usual_source(examined.session.job.project_path)
    inputs = {
        "shape": THREE_JOBS if request.gitlab or request.merge_request else "",
        "image": environment.image,
        "stage": environment.stage,
        "source": source if source != usual else "",
        "extra_before": environment.fetch,
        "schedule_description": choose_schedule_name(by_fleet=request.by_fleet)
        if variables_forbidden
        else "",
    }
    return TemplateInclude(
        project=source,
        ref=f"v{__version__}",
        inputs={**{key: value for key, value in inputs.items() if value}, "rehearse": True},
        reasons={**dict(environment.reasons), **REASONS},
        prepare=environment.prepare,
        variables=dict(environment.variables),
    )


def _describe_version(examined: ProjectExamination, before: str, text: str) -> Iterator[str]:
    """Report an include that is upgraded, or that pins another version."""
    name = examined.session.job.ci_config_path
    (old, _), (new, pinned) = find_version(before, name), find_version(text, name)
    if old and old != new:
        examined.versions = (old, new)
        yield format_line("version", f"{name}: raising the include from {old} to {new}")
    if pinned and pinned.partition("@")[0] != __version__:
        text = f"{name}: the include's input version pins {pinned}: set it to {__version__}"
        yield format_line("look at", text)


def _describe_jobs(jobs: PipelineJobs, name: str, night_description: str) -> Iterator[str]:
    """Report what else a schedule's pipeline would run; ``night_description`` is the schedule's
    description if that marks a night, "" if the variable NIGHTSHIFT does."""
    if jobs.excluded:
        raise build_config_error(
            f"{name}: its workflow rules keep scheduled pipelines from starting: add the rule"
            ' - if: $CI_PIPELINE_SOURCE == "schedule"'
        )
    if jobs.excluded is None:
        yield format_line(
            "not known", f"whether the workflow rules of {name} let a scheduled pipeline start"
        )
    if jobs.sure:
        condition = (
            f'$CI_PIPELINE_SCHEDULE_DESCRIPTION == "{night_description}"'
            if night_description
            else '$NIGHTSHIFT == "true"'
        )
        rule = f"- {{if: '{condition}', when: never}}"
        yield format_line(
            "look at",
            f"these jobs run at night too: {_list_names(jobs.sure)}; to keep one out, start its"
            f" rules with {rule}",
        )
    if jobs.perhaps:
        yield format_line(
            "not known", f"whether these jobs run at night too: {_list_names(jobs.perhaps)}"
        )


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


def _suggest_next(examined: ProjectExamination) -> Iterator[str]:
    request = examined.request
    if request.merge_request or request.dry_run or not any(f.is_changed for f in examined.files):
        return
    text = "review both files and commit them; `nightshift init --gitlab` then sets up GitLab"
    if request.gitlab:
        text = (
            "review both files, commit and push them: nights start once they are on the default"
            " branch"
        )
    yield format_line("next", text)


def _try_commands(
    session: Session, commands: tuple[str, ...], place: TrialPlace
) -> tuple[TriedCommand, ...]:
    """Run each command alone in the sandbox; without a sandbox, the reason is the result of
    each."""
    tools = find_tools([place.move(each) for each in commands], session.checkout, session.env)
    opened_session = _open_trial_place(
        session, dataclasses.replace(place, folders=(*place.folders, *tools))
    )
    work = dataclasses.replace(
        build_work_context(opened_session), verify=VerifyCommands((), implied=True)
    )
    seconds = work.time_limit_s or _LONGEST_S
    context = SandboxContext(work, None, session.job.run_id, (), lambda: seconds)
    try:
        with open_sandboxed_checkout(context) as opened, opened.open_runner() as (_, _, runner):
            return tuple(
                dataclasses.replace(
                    _try_command(runner, opened.checkout, place.move(command), number),
                    command=command,
                )
                for number, command in enumerate(commands, 1)
            )
    except NightshiftError as error:
        return tuple(TriedCommand(each, why=f"not tried: {error.message}") for each in commands)


def _open_trial_place(session: Session, place: TrialPlace) -> Session:
    """The session for the trial, in which commands reach this machine's installed dependencies."""
    settings = session.settings
    values = {
        "agent_env": [*settings.agent_env, *place.variables],
        "agent_paths": [*settings.agent_paths, *place.folders],
    }
    env = {**session.env, **place.variables}
    return dataclasses.replace(
        session, env=env, settings=override_settings(settings, values, "init")
    )


def find_tools(commands: Sequence[str], checkout: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Folders below HOME into which a version manager installed the commands' programs, such as
    ~/.nvm/versions/node/v24. In a job's image they are elsewhere."""
    home, search = Path(env.get("HOME", "/")), env.get("PATH", os.defpath)
    for word in dict.fromkeys(command.split()[0] for command in commands):
        named = checkout / word if "/" in word else shutil.which(word, path=search)
        # A version manager often has links: the tool is where they lead.
        for program in (Path(named), Path(named).resolve()) if named else ():
            top = program.parent.parent
            below = top.relative_to(home).parts if top.is_relative_to(home) else ()
            if program.parent.name == "bin" and len(below) >= _TOOL_DEPTH:
                yield str(top)


def _try_command(runner: Runner, checkout: Checkout, command: str, number: int) -> TriedCommand:
    name = f"try-{number}"
    read = build_text_reader(checkout.repository, checkout.base_sha)
    (run,) = run_and_collect(runner, [command], name, checkout.restore, read)
    why = _find_failure(runner, run, name)
    tail = runner.read_tail(f"{name}-1").splitlines()[-_LAST_LINES:] if why else []
    return TriedCommand(command, run.result.duration_s, why, tuple(map(make_printable, tail)))


def _find_failure(runner: Runner, run: CommandRun, name: str) -> str:
    """Why the command proves nothing here, "" if it does."""
    if lacks := describe_missing(run.result, runner.read_tail(f"{name}-1")):
        return f"{LACKS}{lacks}"
    if not run.result.ok:
        return format_failure(runner, [run.result], name).partition("\n")[0]
    return "found no test" if run.ran_nothing else ""
