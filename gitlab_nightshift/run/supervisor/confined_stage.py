"""A stage that reads agents' work, confined as well as this machine allows. It is started before
the plan is known, and restarted if the plan requires another confinement.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gitlab_nightshift.repository.git_mask import move_git
from gitlab_nightshift.run.supervisor.stage_calls import RunnableStage, StartStage
from gitlab_nightshift.sandbox import confinement
from gitlab_nightshift.sandbox.confinement import ConfinementMode, ConfinementPaths
from gitlab_nightshift.sandbox.launched_process import MOST_STARTS

MAX_REASON_CHARS = 200
"""Limit of work's reason why namespaces failed."""


@dataclass(frozen=True)
class IsolationSettings:
    """The settings that decide how work is confined. ``opened`` are paths in the hidden HOME that
    work needs because of these settings."""

    isolation: str
    record_dir: str | None
    opened: tuple[str, ...] = ()


def predict_isolation(env: Mapping[str, str], overrides: Mapping[str, str]) -> IsolationSettings:
    """Guess the plan's settings from variables and command line, to start work before the plan."""
    values = {
        name: overrides.get(name) or env.get(f"NIGHTSHIFT_{name.upper()}")
        for name in ("isolation", "record_dir")
    }
    return IsolationSettings(values["isolation"] or "auto", values["record_dir"])


def read_isolation(context: Mapping[str, Any], paths: ConfinementPaths) -> IsolationSettings:
    """The plan's settings, from work's context."""
    values, opened = context["settings"]["values"], paths.find_unmounted(context["needed"])
    return IsolationSettings(values["isolation"], values["record_dir"], opened)


@dataclass
class ConfinedStage:
    """A stage that is restarted when it needs a different confinement. If the stage itself asks for
    that, it is restarted only while ``untouched`` returns True: no agent can have influenced it."""

    paths: ConfinementPaths
    settings: IsolationSettings
    start_stage: StartStage
    untouched: Callable[[], bool]
    _running: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run the stage to its end, and return its answer."""
        settings = read_isolation(inputs["context"], self.paths)
        if settings != self.settings:
            self.settings = settings
            self.start()
        answer = self._run_with_restarts(inputs)
        in_namespaces = self._chosen.mode is ConfinementMode.NAMESPACES
        # "unfit": the agents' sandbox does not start within these namespaces.
        if (why := answer.get("unfit")) and in_namespaces and self.untouched():
            self.start(str(why)[:MAX_REASON_CHARS])
            answer = self._run(inputs)
        return answer

    def start(self, namespace_failure: str = "") -> None:
        """Start or restart the stage. ``namespace_failure``: why namespaces failed, if they did."""
        self.close()
        paths = self.paths.with_opened(*self.settings.opened)
        if folder := self.settings.record_dir:
            # Created now: only existing paths can be made writable. The work stage reports errors.
            with contextlib.suppress(OSError):
                if not Path(folder).resolve().is_relative_to(Path(paths.git).parent):
                    Path(folder).mkdir(parents=True, exist_ok=True)
                    paths = paths.with_writable(os.path.realpath(folder))
        self._confined_paths = paths
        self._chosen = confinement.choose(
            self.settings.isolation, paths, namespace_failure=namespace_failure
        )
        self._stage = self._running.enter_context(self.start_stage(self._chosen.prefix))

    def close(self) -> None:
        """End the stage."""
        self._running.close()

    def _run_with_restarts(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run the stage. Restart it if a path that must be hidden from it vanished before the
        start: ``bwrap`` cannot mount over a missing path."""
        for _ in range(MOST_STARTS - 1):
            answer = self._run(inputs)
            if answer or not (self._chosen.has_lost_hidden_path() and self.untouched()):
                return answer
            self.start()
        return self._run(inputs)

    def _run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        # Landlock cannot hide a path below a readable one, so .git is moved away; by the
        # supervisor, because the stage itself must never read it.
        is_moved = self._chosen.mode is ConfinementMode.LANDLOCK and bool(self.paths.moved_git)
        if is_moved:
            move_git(Path(self.paths.git).parent, Path(self.paths.moved_git).parent)
        confined = self._chosen.describe(self._confined_paths)
        return self._stage.run({**inputs, "confined": confined, "moved": is_moved})


@contextlib.contextmanager
def open_confined_stage(
    paths: ConfinementPaths,
    settings: IsolationSettings,
    start_stage: StartStage,
    untouched: Callable[[], bool],
) -> Iterator[RunnableStage]:
    """A confined stage, which ends with the block."""
    with contextlib.closing(ConfinedStage(paths, settings, start_stage, untouched)) as stage:
        stage.start()
        yield stage
