"""Runs the processes that run agents, or commands on their change: each is confined, ended at its
deadline, and followed by the restoration of what it can change outside its folders.

A night's workers work in the job's checkout, which is prepared and restored here; a delegation's in
a private one or in the caller's.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.records.codec import to_fields
from gitlab_nightshift.records.events import read_clock
from gitlab_nightshift.repository.checkout_restore import RestoreReport, repair
from gitlab_nightshift.repository.commit_switch import check_out_temporarily
from gitlab_nightshift.repository.git import build_isolated_git, with_machine_config
from gitlab_nightshift.repository.prepared_checkout import (
    PreparedCheckout,
    PreparedFolders,
    prepare_checkout,
    prepare_folders,
    prepare_restored,
)
from gitlab_nightshift.repository.state_folder import (
    WRITABLE,
    LockedStateFolder,
    hold_state_folder,
    mark_alive,
)
from gitlab_nightshift.run.supervisor.confined_stage import IsolationSettings, open_confined_stage
from gitlab_nightshift.run.supervisor.output_pipes import Pipes
from gitlab_nightshift.run.supervisor.stage_calls import Stages, UsedByBeads, Worker
from gitlab_nightshift.run.supervisor.stop_signals import GRACE_S, Signals
from gitlab_nightshift.run.supervisor.work_paths import find_confinement_paths
from gitlab_nightshift.run_folder import RunFolder
from gitlab_nightshift.sandbox.confinement import ConfinementPaths
from gitlab_nightshift.sandbox.process_table import ProcessRow
from gitlab_nightshift.system.environment import build_search_path
from gitlab_nightshift.system.outside_changes import keep_modes, look_at_shared_memory


@contextlib.contextmanager
def check_out_target(
    target: Mapping[str, str] | None, env: Mapping[str, str], run_folder: RunFolder
) -> Iterator[None]:
    """Check out the commit of ``target`` for the block, None: the job's own."""
    if target is None:
        yield
        return
    path = build_search_path(env, run_folder.checkout)
    git = build_isolated_git(run_folder.private / "target-git", path)
    pack = Path(target["pack"]).read_bytes()
    with check_out_temporarily(git, run_folder.checkout, target["commit"], pack):
        yield


@dataclass
class RunCheckout:
    """The job's checkout, prepared for one process after the other, and restored after each."""

    env: Mapping[str, str]
    run_folder: RunFolder
    _prepared: PreparedCheckout | None = None

    def prepare(
        self, state_folder: LockedStateFolder, context: Mapping[str, Any], run_id: str
    ) -> dict[str, Any]:
        """Prepare the checkout for a process that runs agents' code. Returns, as JSON for that
        process, what was prepared. ``context`` is work's. Raises OSError, NightshiftError."""
        prepared = None
        if earlier := self._prepared:  # of use only if nothing has changed since it was restored
            prepared = prepare_restored(state_folder, earlier, run_id)
        self._prepared = prepared or self._prepare_anew(state_folder, context, run_id)
        return to_fields(self._prepared)

    def _prepare_anew(
        self, state_folder: LockedStateFolder, context: Mapping[str, Any], run_id: str
    ) -> PreparedCheckout:
        folder = self.run_folder
        path = build_search_path(self.env, folder.checkout)
        return prepare_checkout(
            state_folder,
            folder.checkout.resolve(),
            git=build_isolated_git(folder.private / "checkout-git", path),
            machine_git=with_machine_config(
                folder.private / "machine-git", path, Path(context["home"])
            ),
            output_dir=context["settings"]["values"]["output_dir"],
            run_id=run_id,
        )

    def restore(self, state_folder: LockedStateFolder) -> RestoreReport:
        """Restore the checkout from ``state_folder``, however the process ended. Never raises: the
        report says what is not as it was."""
        folder, prepared = self.run_folder, self._prepared
        reports = [RestoreReport()]  # stays if there was nothing to restore
        try:
            repair(
                folder.checkout,
                private=folder.private,
                search_path=build_search_path(self.env, folder.checkout),
                unused_since_run=True,
                receive_report=reports.append,
                held=state_folder,
                saved=prepared.saved if prepared else None,
            )
        except (NightshiftError, OSError) as error:
            reports.append(RestoreReport(problems=[f"the checkout is not put back: {error}"]))
        report = reports[-1]
        self._prepared = (
            replace(prepared, saved=report.saved) if prepared and report.saved else None
        )
        return report


# --- workers --------------------------------------------------------------------------------------


ChooseSettings = Callable[[ConfinementPaths], IsolationSettings]


@dataclass(frozen=True)
class WorkerCheckout:
    """The checkout of one worker. ``paths`` confine the worker, None: it is not confined.
    ``prepare`` gets work's context and the run's id, and returns further input; ``restore`` is
    called once the worker has ended. ``state_folder`` is locked if this is the job's checkout."""

    paths: ConfinementPaths | None
    prepare: Callable[[Mapping[str, Any], str], dict[str, Any]]
    restore: Callable[[], RestoreReport]
    state_folder: LockedStateFolder | None = None


OpenCheckout = Callable[[PreparedFolders], AbstractContextManager[WorkerCheckout]]
"""Opens the checkout for a worker with these folders."""


@contextlib.contextmanager
def lock_job_checkout(checkout: RunCheckout, folders: PreparedFolders) -> Iterator[WorkerCheckout]:
    """Open the job's own checkout, which no other run may use during the block."""
    run_folder = checkout.run_folder
    with (
        contextlib.closing(
            hold_state_folder(run_folder.checkout, run_folder.private.parent)
        ) as state_folder,
        find_confinement_paths(
            checkout.env,
            run_folder,
            (run_folder.checkout.resolve(), state_folder.folder / WRITABLE, *folders.writable),
            state_folder.folder / "git",
        ) as paths,
    ):

        def prepare_checkout(context: Mapping[str, Any], run_id: str) -> dict[str, Any]:
            return {"prepared_checkout": checkout.prepare(state_folder, context, run_id)}

        restore = functools.partial(checkout.restore, state_folder)
        yield WorkerCheckout(paths, prepare_checkout, restore, state_folder)


@dataclass(frozen=True)
class WorkerAnswer:
    """What a worker answered, {} if it was killed; what the gateway counted; what could not be
    restored after the worker; and the seconds from its start to the restored checkout."""

    answer: dict[str, Any]
    used: UsedByBeads
    restored: RestoreReport
    duration_s: float


@dataclass(frozen=True)
class Workers:
    """Starts the workers of a run; ``env`` is the job's environment, with the model key."""

    env: Mapping[str, str]
    run_folder: RunFolder
    stages: Stages
    pipes: Pipes
    signals: Signals
    open_checkout: OpenCheckout

    @contextlib.contextmanager
    def open(
        self,
        sender: str,
        row: ProcessRow,
        choose: ChooseSettings,
        *,
        likely: bool,
        data: Mapping[str, Any] | None = None,
    ) -> Iterator["StartedWorker"]:
        """Start a worker, confined by the settings that ``choose`` returns, and its gateway, which
        loads at once if it is ``likely`` to be used. ``data`` is the worker's start data. Raises
        NightshiftError, OSError."""
        with (
            prepare_folders(self.run_folder.checkout, self.run_folder.private, sender) as folders,
            self.open_checkout(folders) as checkout,
        ):
            confine = lock = None
            if paths := checkout.paths:
                confine = functools.partial(open_confined_stage, paths, choose(paths))
            if state_folder := checkout.state_folder:
                lock = {"lock": state_folder.lock}
            started = self.stages.open_worker(sender, row, confine, lock, likely=likely, data=data)
            with started as worker:
                yield StartedWorker(self, sender, worker, folders, checkout)


@dataclass(frozen=True)
class StartedWorker:
    """A worker that waits for its input."""

    workers: Workers
    sender: str
    worker: Worker
    folders: PreparedFolders
    checkout: WorkerCheckout

    def run(
        self, inputs: Mapping[str, Any], gateway: dict[str, Any] | None, run_id: str, too_late: str
    ) -> WorkerAnswer:
        """Run the worker to its end. At its deadline, ``until_s`` in the context, the whole run is
        stopped, for the reason ``too_late``. ``gateway`` is the configuration of its gateway.
        Raises NightshiftError if one of its processes survives."""
        run, context = self.workers, inputs["context"]
        inputs = {**inputs, "prepared": self.folders, **self.checkout.prepare(context, run_id)}
        began, until_s = read_clock(), context["until_s"]
        with contextlib.ExitStack() as stack:
            left_s = None if until_s is None else until_s - began + GRACE_S
            stack.enter_context(run.signals.stop_after(left_s, too_late))
            if state_folder := self.checkout.state_folder:
                stack.enter_context(mark_alive(state_folder.folder))
            # Innermost: undone while the mark still says that the run is alive.
            stack.enter_context(_undo_outside_changes(run.run_folder))
            answer, used = self.worker.run(inputs, gateway, run.env)
        run.pipes.wait(self.sender)  # before that its records may not be written yet
        restored = self.checkout.restore()
        return WorkerAnswer(answer, used, restored, read_clock() - began)

    def release(self) -> None:
        """Let the next worker have the checkout."""
        if self.checkout.state_folder:
            self.checkout.state_folder.close()


@contextlib.contextmanager
def _undo_outside_changes(run_folder: RunFolder) -> Iterator[None]:
    """At the end of the block, when every agent has ended, restore the modes of the folders that
    the supervisor must enter, and remove new shared memory."""
    # Landlock cannot restrict chmod(2) (landlock(7), CAVEATS), and agents may use /dev/shm.
    modes = keep_modes((run_folder.checkout.resolve(), run_folder.results))
    shared_memory = look_at_shared_memory()
    try:
        yield
    finally:
        modes.restore()
        shared_memory.remove_new()
