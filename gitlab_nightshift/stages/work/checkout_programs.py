"""Programs that the job has installed into its checkout: an activated virtual environment,
``node_modules/.bin``, ``vendor/bin``. Commands and agents find them by name, but only in the
sandbox.

Agents may write there. So only ignored folders count, which are never part of a change and are
restored before anything is proven; and no trusted process looks for programs there.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.records.events import Emit, Note
from gitlab_nightshift.repository.git import Git, list_ignored
from gitlab_nightshift.sandbox.system_paths import FOLDERS
from gitlab_nightshift.sandbox.visible_home import MOST_LINKS, find_installation
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.work.tool_access import (
    JobFolders,
    find_exposed_place,
    open_tool_caches,
)
from gitlab_nightshift.system.environment import build_search_path
from gitlab_nightshift.system.file_names import list_parents, within

VIRTUAL_ENV = "VIRTUAL_ENV"
"""The activated environment's folder, by which uv and poetry find it."""


@dataclass(frozen=True)
class JobTools:
    """The settings and the environment that open the job's tools to the sandbox; ``programs`` are
    folders of the checkout, on the PATH of the sandbox alone."""

    settings: Settings
    env: Mapping[str, str]
    programs: tuple[Path, ...]


def open_job_tools(
    settings: Settings,
    env: Mapping[str, str],
    git: Git,
    job_folders: JobFolders,
    emit: Emit,
    *,
    elsewhere: bool = False,
) -> JobTools:
    """Open tool caches and programs installed in the checkout, as if ``agent_paths`` and
    ``agent_env`` named them. ``elsewhere``: work runs in another checkout, so these folders are
    opened for reading, and kept off the PATH of trusted processes."""
    top = job_folders.checkout
    settings, env = open_tool_caches(settings, env, job_folders.home, top)
    programs = find_checkout_programs(env, git, top, settings.output_dir)
    settings = open_linked_tools(settings, programs, job_folders, emit)
    if env.get(VIRTUAL_ENV) and Path(env[VIRTUAL_ENV], "bin").resolve() in programs:
        settings = settings.with_values(agent_env=[*settings.agent_env, VIRTUAL_ENV])
    if elsewhere:
        env = {**env, "PATH": build_search_path(env, top)}
        places = [str(_find_ignored_root(git, top.resolve(), folder)) for folder in programs]
        opened = dict.fromkeys((*settings.agent_paths, *places))
        settings = settings.with_values(agent_paths=list(opened))
    return JobTools(settings, env, programs)


def _find_ignored_root(git: Git, top: Path, folder: Path) -> Path:
    """The outermost ignored folder around this one: the whole environment with its libraries."""
    name = str(folder.relative_to(top))
    return top / min(list_ignored(git, top, (*list_parents(name), name)), key=len)


def find_checkout_programs(
    env: Mapping[str, str], git: Git, checkout: Path, output_dir: str
) -> tuple[Path, ...]:
    """The ignored folders of the checkout on the PATH, links resolved."""
    top = checkout.resolve()
    parts = [part for part in env.get("PATH", "").split(os.pathsep) if part.startswith("/")]
    real = dict.fromkeys(Path(part).resolve() for part in parts)
    inside = {str(f.relative_to(top)): f for f in real if f.is_relative_to(top) and f.is_dir()}
    names = [name for name in inside if not any(within(name, own) for own in (".git", output_dir))]
    return tuple(inside[name] for name in list_ignored(git, checkout, names)) if names else ()


def open_linked_tools(
    settings: Settings, programs: tuple[Path, ...], job_folders: JobFolders, emit: Emit
) -> Settings:
    """Open the installations that links in these folders lead to, as if ``agent_paths`` named
    them. Warn of those that must stay hidden."""
    opened = list(settings.agent_paths)
    for place in dict.fromkeys(_list_installations(programs, job_folders)):
        if exposed := find_exposed_place(place, job_folders):
            text = f"PATH leads to {place}, which stays hidden, as it would expose {exposed}"
            emit(Note(f"{text}; install it in a folder that holds only tools", warning=True))
        elif str(place) not in opened:
            opened.append(str(place))
    return settings.with_values(agent_paths=opened)


def _list_installations(programs: tuple[Path, ...], job_folders: JobFolders) -> Iterator[Path]:
    """The installations outside checkout and system that links lead to, at the first and last
    hop."""
    # A virtual environment's python links to a name such as /opt/bin/python3, which may itself be a
    # link to the installation with the libraries.
    for folder in programs:
        links = [Path(entry.path) for entry in os.scandir(folder) if entry.is_symlink()]
        for link in sorted(links)[:MOST_LINKS]:
            for target in (Path(os.path.normpath(folder / link.readlink())), link.resolve()):
                inside = target.is_relative_to(job_folders.checkout)
                system = any(within(str(target), each) for each in FOLDERS)
                if not inside and not system and target.exists():
                    yield find_installation(target, job_folders.home)
