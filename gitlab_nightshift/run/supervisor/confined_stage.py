"""The stage that reads agents' work, confined as well as this machine allows. It loads before the
plan says what to do."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gitlab_nightshift.repository.git_mask import move_git
from gitlab_nightshift.run.supervisor.stage_calls import Begin, RunnableStage
from gitlab_nightshift.sandbox import confinement
from gitlab_nightshift.sandbox.confinement import ConfinementMode, ConfinementPaths
from gitlab_nightshift.sandbox.launched_process import STARTS

LONGEST_WHY = 200


@dataclass(frozen=True)
class IsolationSettings:
    """The settings that decide how work is confined. ``opened`` is what they need of HOME that work
    does not see anyway."""

    isolation: str
    record_dir: str | None
    opened: tuple[str, ...] = ()


def predict_isolation(env: Mapping[str, str], overrides: Mapping[str, str]) -> IsolationSettings:
    """The settings that the plan will probably have, as far as variables show."""
    found = {
        name: overrides.get(name) or env.get(f"NIGHTSHIFT_{name.upper()}")
        for name in ("isolation", "record_dir")
    }
    return IsolationSettings(found["isolation"] or "auto", found["record_dir"])


def read_isolation(place: Mapping[str, Any], places: ConfinementPaths) -> IsolationSettings:
    """The settings that the plan has: those of the input of work."""
    values, closed = place["settings"]["values"], places.find_hidden(place["needed"])
    return IsolationSettings(values["isolation"], values["record_dir"], closed)


@dataclass
class ConfinedStage:
    """A stage that is started again where it needs another confinement than it was started in. Its
    own request for that counts only while it is ``untouched`` by any agent."""

    places: ConfinementPaths
    wanted: IsolationSettings
    begin: Begin
    untouched: Callable[[], bool]
    _running: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Have it do its work, and wait for its end and answer."""
        wanted = read_isolation(inputs["place"], self.places)
        if wanted != self.wanted:
            self.wanted = wanted
            self.start()
        answer = self._run_started(inputs)
        namespaces = self._chosen.mode is ConfinementMode.NAMESPACES
        if (why := answer.get("unfit")) and namespaces and self.untouched():
            self.start(str(why)[:LONGEST_WHY])
            answer = self._run(inputs)
        return answer

    def start(self, namespace_failure: str = "") -> None:
        """Start the stage, in place of a running one. ``namespace_failure`` is why agents get no
        namespaces."""
        self.close()
        places = self.places.with_opened(*self.wanted.opened)
        if folder := self.wanted.record_dir:
            with contextlib.suppress(OSError):  # work says what is wrong with it
                if not Path(folder).resolve().is_relative_to(Path(places.git).parent):
                    Path(folder).mkdir(parents=True, exist_ok=True)
                    places = places.with_writable(os.path.realpath(folder))
        self._confinable = places
        self._chosen = confinement.choose(
            self.wanted.isolation, places, namespace_failure=namespace_failure
        )
        self._stage = self._running.enter_context(self.begin(self._chosen.prefix))

    def close(self) -> None:
        """End the stage."""
        self._running.close()

    def _run_started(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run it; one that could not start, as something to be hidden was gone by then, anew."""
        for _ in range(STARTS - 1):
            answer = self._run(inputs)
            if answer or not (self._chosen.has_lost_hidden_path() and self.untouched()):
                return answer
            self.start()
        return self._run(inputs)

    def _run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        landlock = self._chosen.mode is ConfinementMode.LANDLOCK
        # Without a mount over it .git is moved, and not by the process that must not read it.
        if moved := landlock and bool(self.places.state_folder):
            move_git(Path(self.places.git).parent, Path(self.places.state_folder).parent)
        confined = self._chosen.to_data(self._confinable)
        return self._stage.run({**inputs, "confined": confined, "moved": moved})


@contextlib.contextmanager
def open_confined_stage(
    places: ConfinementPaths, wanted: IsolationSettings, begin: Begin, untouched: Callable[[], bool]
) -> Iterator[RunnableStage]:
    """A confined stage, until the end of the block."""
    with contextlib.closing(ConfinedStage(places, wanted, begin, untouched)) as stage:
        stage.start()
        yield stage
