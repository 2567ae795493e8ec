"""The work of a delegation: an agent tries the task, then perhaps a fallback agent."""

import contextlib
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.records.events import read_clock
from gitlab_nightshift.repository.delegated_repository import DelegationSource
from gitlab_nightshift.repository.prepared_folders import PreparedFolders, prepare
from gitlab_nightshift.repository.repair import repair
from gitlab_nightshift.run.supervisor.confined_stage import open_confined_stage, read_isolation
from gitlab_nightshift.run.supervisor.failure_records import build_killed_error
from gitlab_nightshift.run.supervisor.kept_machine import undo_outside_changes
from gitlab_nightshift.run.supervisor.notary_run import remove_model, stop_late
from gitlab_nightshift.run.supervisor.output_pipes import Pipes
from gitlab_nightshift.run.supervisor.stage_calls import (
    Stages,
    UsedByBeads,
    Worker,
    append_used,
    limit_budget,
)
from gitlab_nightshift.run.supervisor.stop_signals import GRACE_S, Signals
from gitlab_nightshift.run.supervisor.work_paths import find_confinement_paths
from gitlab_nightshift.run_folder import RunFolder
from gitlab_nightshift.sandbox.process_table import NOTARY, TASK, ProcessRow
from gitlab_nightshift.sandbox.visible_home import GIT_SETTINGS
from gitlab_nightshift.system.private_folders import open_scratch_folder


@dataclass
class WorkResult:
    """The outcome of the work: ``inputs`` for finish is its answer, {} if it was killed, None if it
    never began. ``failure`` is the error that ended it, ``no_second`` why no fallback was tried."""

    inputs: dict[str, Any] | None = None
    failure: NightshiftError | None = None
    agent: Mapping[str, Any] = field(default_factory=dict)
    no_second: str = ""
    used: UsedByBeads = None


@dataclass
class DelegatedWork:
    """Runs the work; ``there`` is the repository with the private folder, ``stack`` keeps the
    workspaces."""

    env: Mapping[str, str]
    run_folder: RunFolder
    stages: Stages
    pipes: Pipes
    signals: Signals
    stack: contextlib.ExitStack

    def run(self, work: dict[str, Any], source: DelegationSource) -> WorkResult:
        """The result of the agent, or of the fallback that took over."""
        first = self._run_agent(work, work["first"], source, "")
        why = first.inputs.get("reason") if first.inputs else None
        if first.failure or not first.inputs or first.inputs.get("fall_back") is not True:
            return first
        if not work["second"]:
            first.no_second = work["no_second"]
            return first
        second = {**work["second"]}
        second["gateway"] = limit_budget(second["gateway"], first.used)
        result = self._run_agent(work, second, source, str(why))
        result.used = append_used(first.used, result.used)
        return result

    def _run_agent(
        self,
        work: Mapping[str, Any],
        agent: dict[str, Any],
        source: DelegationSource,
        instead_of: str,
    ) -> WorkResult:
        """The result of one agent. When this returns, its processes are dead, and the caller's
        checkout is restored."""
        opened = open_scratch_folder(self.run_folder.private.parent, source.top)
        scratch = self.stack.enter_context(opened)
        private = None if work["in_place"] else scratch
        result = WorkResult(agent=agent)
        if stopped := self.signals.stopped:
            result.failure = stopped
            return result
        inputs = {name: work[name] for name in ("payload", "source", "plan")}
        inputs |= {"context": agent["context"], "scratch": str(scratch), "instead_of": instead_of}
        sender = "fallback" if instead_of else "work"
        late = agent["context"]["until_s"] - read_clock() + GRACE_S
        started = self._open_worker(sender, TASK, agent, source, private)
        with (
            started as (worker, prepared),
            self.signals.stop_after(late, "work did not end at its deadline"),
            undo_outside_changes(self.run_folder),
        ):
            inputs["prepared"] = prepared
            result.inputs, result.used = worker.run(inputs, agent["gateway"], self.env)
        self.pipes.wait(sender)
        if not result.inputs:
            result.failure = self.signals.stopped or build_killed_error("work")
        elif not result.inputs.get("error_code"):
            result.failure = self.signals.stopped
        if work["in_place"]:  # a private checkout is thrown away
            path = source.git.env["PATH"]
            repair(source.top, private=self.run_folder.private, search_path=path, just_now=True)
        return result

    def ask_notary(
        self,
        work: Mapping[str, Any],
        place: Mapping[str, Any],
        gateway: Mapping[str, Any] | None,
        source: DelegationSource,
        task: Mapping[str, Any],
    ) -> Mapping[str, Any]:
        """A notary's answer to a task, in a checkout like that of work. Raises NightshiftError,
        OSError."""
        config = remove_model(gateway)
        agent = {"context": place, "gateway": config}
        opened = open_scratch_folder(self.run_folder.private.parent, source.top)
        scratch = self.stack.enter_context(opened)
        private = None if work["in_place"] else scratch
        inputs = {name: work[name] for name in ("payload", "source")}
        inputs |= {"context": place, "task": task, "name": "notary", "scratch": str(scratch)}
        started = self._open_worker("notary", NOTARY, agent, source, private, {"ahead": False})
        with (
            started as (worker, prepared),
            stop_late(self.signals, place),
            undo_outside_changes(self.run_folder),
        ):
            inputs["prepared"] = prepared
            answer, _ = worker.run(inputs, config, {})
        self.pipes.wait("notary")
        if work["in_place"]:
            path = source.git.env["PATH"]
            repair(source.top, private=self.run_folder.private, search_path=path, just_now=True)
        return answer

    @contextlib.contextmanager
    def _open_worker(
        self,
        sender: str,
        row: ProcessRow,
        agent: Mapping[str, Any],
        source: DelegationSource,
        scratch: Path | None,
        data: Mapping[str, Any] | None = None,
    ) -> Iterator[tuple[Worker, PreparedFolders]]:
        """The process that does the work. In the caller's own checkout it is not confined."""
        with contextlib.ExitStack() as stack:
            prepared = stack.enter_context(prepare(source.top, self.run_folder.private, sender))
            confine = None
            if scratch:
                writable = (scratch, *prepared.places)
                readable = (source.top,) if source.fetched else ()
                settings = [Path(self.env.get("HOME", "/"), name) for name in GIT_SETTINGS]
                found = find_confinement_paths(
                    self.env, self.run_folder, writable, readable=readable, opened=settings
                )
                places = stack.enter_context(found)
                wanted = read_isolation(agent["context"], places)
                confine = functools.partial(open_confined_stage, places, wanted)
            likely = bool(agent["gateway"])
            worker = self.stages.open_worker(sender, row, confine, likely=likely, data=data)
            yield stack.enter_context(worker), prepared
