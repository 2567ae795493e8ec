"""The files and folders that a run's settings name: the only ones in HOME that work sees."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from gitlab_nightshift.agents import build_provider
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.policy.prompts import BEADS
from gitlab_nightshift.stages.work.tool_access import JobFolders, find_tool_folders
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.system.environment import build_search_path


def list_needed_paths(work_context: WorkContext) -> list[str]:
    """The agent's CLI, ``agent_paths`` and the templates. Invalid ones are skipped: work reports
    them."""
    path, settings = (
        build_search_path(work_context.env, work_context.checkout),
        work_context.settings,
    )
    named = [settings.agent_executable, *(getattr(settings.prompts, bead) for bead in BEADS)]
    files = [work_context.config_folder / name for name in named if name]
    agent = build_provider(settings).list_readable_paths(path)
    return list(map(str, (*files, *agent, *_list_tools(work_context))))


def _list_tools(work_context: WorkContext) -> Iterator[Path]:
    folders = JobFolders(work_context.home, work_context.checkout.resolve(), work_context.private)
    for text in work_context.settings.agent_paths:
        one = work_context.settings.with_values(agent_paths=[text])
        with contextlib.suppress(NightshiftError):
            yield from find_tool_folders(one, work_context.env, folders)
