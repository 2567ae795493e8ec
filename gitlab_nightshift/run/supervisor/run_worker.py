"""A process that runs agents, or commands on their change, with its folders and the state folder of
the checkout."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitlab_nightshift.repository.prepared_folders import PreparedFolders, prepare
from gitlab_nightshift.repository.state_folder import OWN, LockedStateFolder, hold
from gitlab_nightshift.run.supervisor.confined_stage import IsolationSettings, open_confined_stage
from gitlab_nightshift.run.supervisor.stage_calls import Stages, Worker
from gitlab_nightshift.run.supervisor.work_paths import find_confinement_paths
from gitlab_nightshift.run_folder import RunFolder
from gitlab_nightshift.sandbox.confinement import ConfinementPaths
from gitlab_nightshift.sandbox.process_table import ProcessRow

ChooseSettings = Callable[[ConfinementPaths], IsolationSettings]


@dataclass(frozen=True)
class RunWorker:
    """A started worker, the folders made for it, and the checkout's locked state folder."""

    sender: str
    worker: Worker
    prepared: PreparedFolders
    state_folder: LockedStateFolder


@contextlib.contextmanager
def open_run_worker(
    sender: str,
    row: ProcessRow,
    stages: Stages,
    env: Mapping[str, str],
    run_folder: RunFolder,
    choose: ChooseSettings,
    *,
    likely: bool,
    data: Mapping[str, Any] | None = None,
) -> Iterator[RunWorker]:
    """Start a worker, confined by the settings that ``choose`` returns. ``likely``: its gateway
    will be used; ``data`` is its start data. Raises NightshiftError, OSError."""
    with (
        prepare(run_folder.checkout, run_folder.private, sender) as prepared,
        contextlib.closing(hold(run_folder.checkout, run_folder.private.parent)) as state_folder,
        find_confinement_paths(
            env,
            run_folder,
            (run_folder.checkout.resolve(), state_folder.folder / OWN, *prepared.places),
            state_folder.folder / "git",
        ) as places,
    ):
        confine = functools.partial(open_confined_stage, places, choose(places))
        lock = {"lock": state_folder.lock}
        begun = stages.open_worker(sender, row, confine, lock, likely=likely, data=data)
        with begun as worker:
            yield RunWorker(sender, worker, prepared, state_folder)
