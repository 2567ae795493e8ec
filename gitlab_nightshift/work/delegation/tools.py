"""The agent of a delegation; in development its program may be another."""

import dataclasses

from gitlab_nightshift.records.delegation import Payload
from gitlab_nightshift.settings import Settings
from gitlab_nightshift.work.agents.base import BeadTask
from gitlab_nightshift.work.agents.codex import Codex
from gitlab_nightshift.work.stage import Tools, WorkPlace, prepare


class Adapted(Codex):
    """Codex, started as another program: ``debug.codex_command``, whose first word the settings
    name already."""

    def __init__(self, settings: Settings, words: tuple[str, ...]) -> None:
        super().__init__(settings)
        self._words = words[1:]

    def build_bead_args(self, task: BeadTask, path: str) -> list[str]:
        """The program, its own first arguments, then codex's."""
        program, *args = super().build_bead_args(task, path)
        return [program, *self._words, *args]


def tools_of(place: WorkPlace, payload: Payload) -> Tools:
    """The agent and the templates, checked. Raises as ``stage.prepare``."""
    words = payload.debug.codex_command
    if not words or place.settings.agent != "codex":
        return prepare(place)
    return dataclasses.replace(prepare(place), provider=Adapted(place.settings, words))
