"""The files and folders that a run's settings name: work sees no others of HOME."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from gitlab_nightshift.agents import build_provider
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.policy.prompts import BEADS
from gitlab_nightshift.stages.work.tool_access import JobFolders, find_tool_folders
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.system.environment import build_search_path


def list_needed_paths(place: WorkContext) -> list[str]:
    """The agent's CLI, ``agent_paths`` and the templates. What is wrong with one of them work says:
    it is left out."""
    path, settings = build_search_path(place.env, place.checkout), place.settings
    named = [settings.agent_executable, *(getattr(settings.prompts, bead) for bead in BEADS)]
    files = [place.config_folder / name for name in named if name]
    agent = build_provider(settings).list_readable_paths(path)
    return list(map(str, (*files, *agent, *_list_tools(place))))


def _list_tools(place: WorkContext) -> Iterator[Path]:
    folders = JobFolders(place.home, place.checkout.resolve(), place.private)
    for text in place.settings.agent_paths:
        one = place.settings.with_values(agent_paths=[text])
        with contextlib.suppress(NightshiftError):
            yield from find_tool_folders(one, place.env, folders)
