"""Stop all nights of groups at once, and start them again.

The group's variable is written first: every night checks it before it spends a token, even if its
job now waits for a runner. Then waiting and running jobs are cancelled, and variables that override
the group's are listed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.fleet_api import FleetApi
from gitlab_nightshift.gitlab.fleet_switch import (
    ENABLED_VARIABLE,
    GroupSwitch,
    SwitchedProject,
    SwitchSetting,
    list_pipeline_settings,
    list_subgroup_settings,
    list_switched_projects,
    read_schedule_settings,
)
from gitlab_nightshift.gitlab.pipelines import NIGHT_JOB, NightJob, cancel_job, list_night_jobs
from gitlab_nightshift.text.printable_text import count_words

Answer = TypeVar("Answer")
OFF = frozenset("false f no n off 0".split())
"""Values that switch nights off, in lower case: what settings accept as false."""
SPENDING_JOBS = (NIGHT_JOB, f"{NIGHT_JOB}:work")
"""The jobs that spend tokens."""


@dataclass(frozen=True)
class SwitchLine:
    """A line about what was done or found: ``word`` is its kind; ``failed``: something could not be
    done or read."""

    word: str
    text: str
    failed: bool = False


def find_top_groups(paths: Sequence[str]) -> tuple[str, ...]:
    """The top-level groups of groups' and projects' paths, each once."""
    return tuple(dict.fromkeys(path.partition("/")[0] for path in paths))


def stop_nights(api: FleetApi, groups: Sequence[str], *, running: bool) -> Iterator[SwitchLine]:
    """Stop nights below these groups: cancel waiting jobs, with ``running`` also running ones. A
    failure becomes a line, and the rest is still done."""
    yield from (_run_or_explain(each, partial(_stop_group, api, each)) for each in groups)
    for group in groups:
        projects, lines = _list_projects(api, group)
        yield from lines
        yield from _cancel_below(api, projects, running=running)
        yield from _list_differences(api, group, projects, off=True)


def start_nights(api: FleetApi, groups: Sequence[str]) -> Iterator[SwitchLine]:
    """Delete the variable, and list the settings that still keep nights off."""
    yield from (_run_or_explain(each, partial(_start_group, api, each)) for each in groups)
    for group in groups:
        projects, lines = _list_projects(api, group)
        yield from lines
        yield from _list_differences(api, group, projects, off=False)


def _stop_group(api: FleetApi, group: str) -> SwitchLine:
    switch = GroupSwitch(api.client, group)
    before = switch.read()
    if is_off(before):
        return SwitchLine("stopped", f"{group}: {ENABLED_VARIABLE}=false was set before")
    switch.write("false", new=before is None)
    return SwitchLine("stopped", f"{group}: {ENABLED_VARIABLE}=false")


def _start_group(api: FleetApi, group: str) -> SwitchLine:
    """Delete the variable: the value true would override a project's own ``enabled: false``."""
    switch = GroupSwitch(api.client, group)
    before = switch.read()
    if before is None:
        return SwitchLine("started", f"{group}: it was not stopped")
    if not is_off(before):
        return SwitchLine("started", f"{group}: {ENABLED_VARIABLE}={before} is not ours, and stays")
    switch.delete()
    return SwitchLine("started", f"{group}: {ENABLED_VARIABLE} is gone")


def is_off(value: str | None) -> bool:
    """True if a night with this value is skipped; a hidden value (None) counts as on."""
    return value is not None and value.strip().lower() in OFF


def _run_or_explain(place: str, action: Callable[[], SwitchLine]) -> SwitchLine:
    """The action's line, or the line about its failure."""
    try:
        return action()
    except NightshiftError as error:
        return _build_failure(place, error)


def _build_failure(place: str, error: NightshiftError) -> SwitchLine:
    remedy = error.remedy if isinstance(error, ApiError) else None
    help_text = f" ({remedy.text})" if remedy else ""
    return SwitchLine("not reached", f"{place}: {error.message}{help_text}", failed=True)


# --- the projects below a group -------------------------------------------------------------------


def _list_projects(
    api: FleetApi, group: str
) -> tuple[Sequence[SwitchedProject], Sequence[SwitchLine]]:
    try:
        projects = list_switched_projects(api, group)
        if projects is None:
            text = f"{group}: GitLab has no such group, or this token does not see it"
            return (), (SwitchLine("not reached", text, failed=True),)
        return list(projects), ()
    except ApiError as error:
        return (), (_build_failure(f"what is below {group}", error),)


def _list_differences(
    api: FleetApi, group: str, projects: Sequence[SwitchedProject], *, off: bool
) -> Iterator[SwitchLine]:
    """Lines about the settings that differ from the group's switch: with ``off`` those that keep
    nights on, else those that keep nights off. Then what could not be read, and the counts."""
    all_settings = [setting for project in projects for setting in project.settings]
    try:
        all_settings += list_subgroup_settings(api, group)
    except ApiError as error:
        yield _build_failure(f"the groups below {group}", error)
    with_nights = [project.path for project in projects if project.has_nights]
    for answer in _ask_about_each(api, partial(read_schedule_settings, api), with_nights):
        if isinstance(answer, SwitchLine):
            yield answer
        else:
            all_settings += answer[1]
    differing = [setting for setting in all_settings if is_off(setting.value) is not off]
    yield from (_describe_setting(setting, off=off) for setting in differing)
    if hidden := [project.path for project in projects if project.hidden]:
        count = count_words(len(hidden), "project")
        text = f"the variables of {count} of {group}, {hidden[0]} first"
        yield SwitchLine("not reached", f"{text}: this token does not see them", failed=True)
    count = count_words(len(projects), "project")
    yield SwitchLine("below", f"{group}: {count}, {count_words(len(differing), 'setting')} differ")


def _describe_setting(setting: SwitchSetting, *, off: bool) -> SwitchLine:
    value = "a hidden value" if setting.value is None else setting.value
    text = f"{setting.place}: {setting.level} variable {ENABLED_VARIABLE}={value}"
    return SwitchLine("overrides" if off else "still off", text, failed=off)


def _cancel_below(
    api: FleetApi, projects: Sequence[SwitchedProject], *, running: bool
) -> Iterator[SwitchLine]:
    busy = [each.path for each in projects if each.busy]
    # api.client in the lambda: each thread has its own.
    for answer in _ask_about_each(api, lambda path: list_night_jobs(api.client, path), busy):
        if isinstance(answer, SwitchLine):
            yield answer
        else:
            yield from _cancel_jobs(api, *answer, running=running)


def _cancel_jobs(
    api: FleetApi, path: str, jobs: Sequence[NightJob], *, running: bool
) -> Iterator[SwitchLine]:
    for pipeline in dict.fromkeys(job.pipeline for job in jobs):
        night_jobs = [job for job in jobs if job.pipeline == pipeline]
        for setting in list_pipeline_settings(path, night_jobs[0]):
            if not is_off(setting.value):
                yield _describe_setting(setting, off=True)
        is_running = any(job.running for job in night_jobs)
        is_spending = any(job.name in SPENDING_JOBS for job in night_jobs)
        # Of a night in three jobs, the waiting ones follow a running one, and stay with it.
        if running or (is_spending and not is_running):
            for job in night_jobs:
                yield _run_or_explain(path, partial(_cancel, api, path, job))
        elif is_spending:
            yield SwitchLine("runs on", f"{path}: pipeline {pipeline} (--running cancels it)")
        else:
            text = f"{path}: pipeline {pipeline} only publishes finished work"
            yield SwitchLine("runs on", text)


def _cancel(api: FleetApi, path: str, job: NightJob) -> SwitchLine:
    cancel_job(api.client, path, job.id)
    state = "ran" if job.running else "waited"
    return SwitchLine("cancelled", f"{path}: {job.name} of pipeline {job.pipeline}, which {state}")


def _ask_about_each(
    api: FleetApi, ask: Callable[[str], Answer], paths: Sequence[str]
) -> Iterator[tuple[str, Answer] | SwitchLine]:
    """Ask about each project, several at the same time. Yields the path with the answer, or a line
    about the error."""

    def ask_one(path: str) -> tuple[str, Answer] | SwitchLine:
        try:
            return path, ask(path)
        except ApiError as error:
            return _build_failure(path, error)

    return api.map_concurrently(ask_one, paths)
