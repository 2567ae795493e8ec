"""Stop all nights of groups at once, and start them again.

The group's variable is written first: every night checks it before it spends a token, even one that
waits for a runner now. Then jobs that wait or run are looked for, and variables that override the
group's.
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
SPENDING = (NIGHT_JOB, f"{NIGHT_JOB}:work")
"""The jobs that spend tokens."""


@dataclass(frozen=True)
class SwitchLine:
    """A line about what was done or found: ``word`` is its kind, ``failed`` is true if something
    was not reached."""

    word: str
    text: str
    failed: bool = False


def find_top_groups(paths: Sequence[str]) -> tuple[str, ...]:
    """The top-level groups of groups' and projects' paths, each once."""
    return tuple(dict.fromkeys(path.partition("/")[0] for path in paths))


def stop_nights(api: FleetApi, groups: Sequence[str], *, running: bool) -> Iterator[SwitchLine]:
    """Stop nights below these groups: cancel waiting jobs, with ``running`` also running ones. A
    failure becomes a line, and does not stop the rest."""
    yield from (_try_act(each, partial(_stop_group, api, each)) for each in groups)
    for group in groups:
        projects, lines = _list_projects(api, group)
        yield from lines
        yield from _cancel_below(api, projects, running=running)
        yield from _list_differing(api, group, projects, off=True)


def start_nights(api: FleetApi, groups: Sequence[str]) -> Iterator[SwitchLine]:
    """Delete the variable, and list the settings that still keep nights off."""
    yield from (_try_act(each, partial(_start_group, api, each)) for each in groups)
    for group in groups:
        projects, lines = _list_projects(api, group)
        yield from lines
        yield from _list_differing(api, group, projects, off=False)


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


def _try_act(place: str, act: Callable[[], SwitchLine]) -> SwitchLine:
    try:
        return act()
    except NightshiftError as error:
        return _build_failure(place, error)


def _build_failure(place: str, error: NightshiftError) -> SwitchLine:
    help_text = error.remedy.text if isinstance(error, ApiError) and error.remedy else ""
    return SwitchLine(
        "not reached", f"{place}: {error.message}{help_text and f' ({help_text})'}", True
    )


# --- the projects below a group -------------------------------------------------------------------


def _list_projects(
    api: FleetApi, group: str
) -> tuple[Sequence[SwitchedProject], Sequence[SwitchLine]]:
    try:
        found = list_switched_projects(api, group)
        if found is None:
            text = f"{group}: GitLab has no such group, or this token does not see it"
            return (), (SwitchLine("not reached", text, True),)
        return list(found), ()
    except ApiError as error:
        return (), (_build_failure(f"what is below {group}", error),)


def _list_differing(
    api: FleetApi, group: str, projects: Sequence[SwitchedProject], *, off: bool
) -> Iterator[SwitchLine]:
    """Lines about the settings that override the stopped group's variable; without ``off``, about
    those that still keep nights off after a start. Then what could not be read, and the counts."""
    all_settings = [setting for each in projects for setting in each.settings]
    try:
        all_settings += list_subgroup_settings(api, group)
    except ApiError as error:
        yield _build_failure(f"the groups below {group}", error)
    scheduled = [each.path for each in projects if each.has_nights]
    for answer in _ask_each(api, partial(read_schedule_settings, api), scheduled):
        if isinstance(answer, SwitchLine):
            yield answer
        else:
            all_settings += answer[1]
    differing = [each for each in all_settings if is_off(each.value) is not off]
    yield from (_describe_setting(each, off=off) for each in differing)
    if hidden := [each.path for each in projects if each.hidden]:
        count = count_words(len(hidden), "project")
        text = f"the variables of {count} of {group}, {hidden[0]} first"
        yield SwitchLine("not reached", f"{text}: this token does not see them", True)
    count = count_words(len(projects), "project")
    yield SwitchLine("below", f"{group}: {count}, {count_words(len(differing), 'setting')} differ")


def _describe_setting(setting: SwitchSetting, *, off: bool) -> SwitchLine:
    value = "a hidden value" if setting.value is None else setting.value
    word = "overrides" if off else "still off"
    return SwitchLine(
        word, f"{setting.place}: {setting.level} variable {ENABLED_VARIABLE}={value}", off
    )


def _cancel_below(
    api: FleetApi, projects: Sequence[SwitchedProject], *, running: bool
) -> Iterator[SwitchLine]:
    busy = [each.path for each in projects if each.busy]
    # api.client is asked for in the thread that uses it: each thread has its own.
    for answer in _ask_each(api, lambda path: list_night_jobs(api.client, path), busy):
        if isinstance(answer, SwitchLine):
            yield answer
        else:
            yield from _cancel_jobs(api, *answer, running=running)


def _cancel_jobs(
    api: FleetApi, path: str, jobs: Sequence[NightJob], *, running: bool
) -> Iterator[SwitchLine]:
    for pipeline in dict.fromkeys(each.pipeline for each in jobs):
        of_night = [each for each in jobs if each.pipeline == pipeline]
        settings = list_pipeline_settings(path, of_night[0])
        yield from (_describe_setting(s, off=True) for s in settings if not is_off(s.value))
        runs = any(each.running for each in of_night)
        spends = any(each.name in SPENDING for each in of_night)
        # Of a night in three jobs, the waiting ones follow a running one, and are spared with it.
        if running or (spends and not runs):
            yield from (_try_act(path, partial(_cancel, api, path, each)) for each in of_night)
        elif spends:
            yield SwitchLine("runs on", f"{path}: pipeline {pipeline} (--running cancels it)")
        else:
            text = f"{path}: pipeline {pipeline} only publishes finished work"
            yield SwitchLine("runs on", text)


def _cancel(api: FleetApi, path: str, job: NightJob) -> SwitchLine:
    cancel_job(api.client, path, job.id)
    state = "ran" if job.running else "waited"
    return SwitchLine("cancelled", f"{path}: {job.name} of pipeline {job.pipeline}, which {state}")


def _ask_each(
    api: FleetApi, ask: Callable[[str], Answer], paths: Sequence[str]
) -> Iterator[tuple[str, Answer] | SwitchLine]:
    """Ask about each project, several at a time; yields its path with the answer, or the line with
    its error."""

    def ask_one(path: str) -> tuple[str, Answer] | SwitchLine:
        try:
            return path, ask(path)
        except ApiError as error:
            return _build_failure(path, error)

    return api.map_concurrently(ask_one, paths)
