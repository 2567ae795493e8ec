"""A process that runs what agents have written, agents themselves or commands on their change: with
the folders that it gets, and the checkout's state folder."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitlab_nightshift.repository.prepared_folders import PreparedFolders, prepare
from gitlab_nightshift.repository.state_folder import OWN, LockedStateFolder, hold
from gitlab_nightshift.run.supervisor.confined_stage import IsolationSettings, open_confined_stage
from gitlab_nightshift.run.supervisor.stage_calls import Stages, Worker
from gitlab_nightshift.run.supervisor.work_paths import find_places
from gitlab_nightshift.run_folder import RunFolder
from gitlab_nightshift.sandbox.confinement import ConfinementPaths
from gitlab_nightshift.sandbox.process_table import ProcessRow

ChooseSettings = Callable[[ConfinementPaths], IsolationSettings]


@dataclass(frozen=True)
class RunWorker:
    """One that has started: its name, the process, its folders, and the checkout's."""

    sender: str
    worker: Worker
    prepared: PreparedFolders
    held: LockedStateFolder


@contextlib.contextmanager
def open_run_worker(
    sender: str,
    row: ProcessRow,
    stages: Stages,
    env: Mapping[str, str],
    there: RunFolder,
    choose: ChooseSettings,
    *,
    likely: bool,
    data: Mapping[str, Any] | None = None,
) -> Iterator[RunWorker]:
    """Start one, confined as ``choose`` says for its paths. ``likely``: its gateway will be used;
    ``data`` is what it starts with. Raises NightshiftError, OSError."""
    with (
        prepare(there.checkout, there.private, sender) as prepared,
        contextlib.closing(hold(there.checkout, there.private.parent)) as held,
        find_places(
            env,
            there,
            (there.checkout.resolve(), held.folder / OWN, *prepared.places),
            held.folder / "git",
        ) as places,
    ):
        confine = functools.partial(open_confined_stage, places, choose(places))
        lock = {"lock": held.lock}
        begun = stages.open_worker(sender, row, confine, lock, likely=likely, data=data)
        with begun as worker:
            yield RunWorker(sender, worker, prepared, held)
