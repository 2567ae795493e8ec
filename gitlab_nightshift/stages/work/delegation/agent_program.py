"""The agent of a delegation; in development its program may be another."""

import dataclasses

from gitlab_nightshift.agents.agent import BeadTask
from gitlab_nightshift.agents.codex import Codex
from gitlab_nightshift.records.delegation_records import Payload
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.stages.work.work_preparation import Tools, prepare


class CustomCodex(Codex):
    """Codex, started as another program: ``debug.codex_command``, whose first word the settings
    name already."""

    def __init__(self, settings: Settings, words: tuple[str, ...]) -> None:
        super().__init__(settings)
        self._words = words[1:]

    def build_bead_args(self, task: BeadTask, path: str) -> list[str]:
        """The program, its own first arguments, then codex's."""
        program, *args = super().build_bead_args(task, path)
        return [program, *self._words, *args]


def prepare_tools(work_context: WorkContext, payload: Payload) -> Tools:
    """The agent and the templates, checked. Raises what ``work_stage.prepare`` raises."""
    words = payload.debug.codex_command
    if not words or work_context.settings.agent != "codex":
        return prepare(work_context)
    return dataclasses.replace(
        prepare(work_context), provider=CustomCodex(work_context.settings, words)
    )
