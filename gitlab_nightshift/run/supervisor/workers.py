"""Runs the processes that run agents, or commands on their change: each is confined, and stopped at
its deadline. Then what it can change outside its folders is restored.

A night's workers use the job's checkout, which is prepared and restored here; a delegation's use a
private checkout or the caller's.
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
from gitlab_nightshift.run.supervisor.stage_calls import BeadUsages, Stages, Worker
from gitlab_nightshift.run.supervisor.stop_signals import GRACE_S, Signals
from gitlab_nightshift.run.supervisor.work_paths import find_confinement_paths
from gitlab_nightshift.run_folder import RunFolder
from gitlab_nightshift.sandbox.confinement import ConfinementPaths
from gitlab_nightshift.sandbox.process_table import ProcessRow
from gitlab_nightshift.system.environment import build_search_path
from gitlab_nightshift.system.outside_changes import record_modes, record_shared_memory


@contextlib.contextmanager
def check_out_target(
    target: Mapping[str, str] | None, env: Mapping[str, str], run_folder: RunFolder
) -> Iterator[None]:
    """Check out the commit of ``target`` during the block; None stands for the job's own commit."""
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
    """The job's checkout. It is prepared for one worker at a time, and restored after each."""

    env: Mapping[str, str]
    run_folder: RunFolder
    _prepared: PreparedCheckout | None = None

    def prepare(
        self, state_folder: LockedStateFolder, context: Mapping[str, Any], run_id: str
    ) -> dict[str, Any]:
        """Prepare the checkout for a worker. Returns the worker's ``PreparedCheckout`` as JSON
        data. ``context`` is work's. Raises OSError, NightshiftError."""
        prepared = None
        if earlier := self._prepared:
            # Returns None if something has changed since the checkout was restored.
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
        """Restore the checkout from ``state_folder`` after a worker. Never raises: the report says
        what could not be restored."""
        folder, prepared = self.run_folder, self._prepared
        reports = [RestoreReport()]  # the only one if there is nothing to restore
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
        report, self._prepared = reports[-1], None
        if prepared and report.saved:
            self._prepared = replace(prepared, saved=report.saved)
        return report


# --- workers --------------------------------------------------------------------------------------


ChooseSettings = Callable[[ConfinementPaths], IsolationSettings]


@dataclass(frozen=True)
class WorkerCheckout:
    """The checkout of one worker. ``paths`` confine the worker; None leaves it unconfined.
    ``prepare`` takes work's context and the run's id, and returns more input for the worker;
    ``restore`` is called after the worker. ``state_folder`` is the locked one of the job's
    checkout, None for another checkout."""

    paths: ConfinementPaths | None
    prepare: Callable[[Mapping[str, Any], str], dict[str, Any]]
    restore: Callable[[], RestoreReport]
    state_folder: LockedStateFolder | None = None


OpenCheckout = Callable[[PreparedFolders], AbstractContextManager[WorkerCheckout]]
"""Opens the checkout of a worker that has these folders."""


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
    """A worker's ``answer``, {} if it was killed, and its beads' ``usages``; the report of
    restoring the checkout; and the seconds from the start to the restored checkout."""

    answer: dict[str, Any]
    usages: BeadUsages | None
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
        preload_gateway: bool,
        data: Mapping[str, Any] | None = None,
    ) -> Iterator["StartedWorker"]:
        """Start a worker, confined by the settings that ``choose`` returns, and its gateway (see
        ``Stages.open_worker``), with start ``data``. Raises NightshiftError, OSError."""
        with (
            prepare_folders(self.run_folder.checkout, self.run_folder.private, sender) as folders,
            self.open_checkout(folders) as checkout,
        ):
            confine = descriptors = None
            if paths := checkout.paths:
                confine = functools.partial(open_confined_stage, paths, choose(paths))
            if state_folder := checkout.state_folder:
                descriptors = {"lock": state_folder.lock}
            with self.stages.open_worker(
                sender, row, confine, descriptors, preload_gateway=preload_gateway, data=data
            ) as worker:
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
        """Run the worker to its end, and restore the checkout. If the worker has not ended some
        time after ``until_s`` of its context, the run is stopped with the reason ``too_late``.
        ``gateway`` is the gateway's configuration. Raises NightshiftError if a process of the
        worker survives."""
        workers, context = self.workers, inputs["context"]
        inputs = {**inputs, "prepared": self.folders, **self.checkout.prepare(context, run_id)}
        began_s, until_s = read_clock(), context["until_s"]
        with contextlib.ExitStack() as stack:
            timeout_s = None if until_s is None else until_s - began_s + GRACE_S
            stack.enter_context(workers.signals.stop_after(timeout_s, too_late))
            if state_folder := self.checkout.state_folder:
                stack.enter_context(mark_alive(state_folder.folder))
            # Last, so that it is undone while the folder is still marked as that of a live run.
            stack.enter_context(_undo_outside_changes(workers.run_folder))
            answer, usages = self.worker.run(inputs, gateway, workers.env)
        workers.pipes.wait(self.sender)  # until its records are written
        restored = self.checkout.restore()
        return WorkerAnswer(answer, usages, restored, read_clock() - began_s)

    def release(self) -> None:
        """Unlock the checkout for the next worker."""
        if self.checkout.state_folder:
            self.checkout.state_folder.close()


@contextlib.contextmanager
def _undo_outside_changes(run_folder: RunFolder) -> Iterator[None]:
    """After the block, when every agent has ended, restore the modes of the folders that the
    supervisor must enter, and remove new shared memory."""
    # Landlock cannot restrict chmod(2) (landlock(7), CAVEATS), and agents may use /dev/shm.
    modes = record_modes((run_folder.checkout.resolve(), run_folder.results))
    shared_memory = record_shared_memory()
    try:
        yield
    finally:
        modes.restore()
        shared_memory.remove_new()
