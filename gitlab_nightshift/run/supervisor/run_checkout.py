"""Prepares the checkout of a run for agents, and restores it afterwards."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.records.codec import to_fields
from gitlab_nightshift.repository.checkout_restore import RestoreReport, repair
from gitlab_nightshift.repository.commit_switch import check_out_temporarily
from gitlab_nightshift.repository.git import build_isolated_git, with_machine_config
from gitlab_nightshift.repository.prepared_checkout import (
    PreparedCheckout,
    prepare_again,
    prepare_checkout,
)
from gitlab_nightshift.repository.state_folder import LockedStateFolder
from gitlab_nightshift.run_folder import RunFolder
from gitlab_nightshift.system.environment import build_search_path


@contextlib.contextmanager
def check_out_target(
    target: Mapping[str, str] | None, env: Mapping[str, str], run_folder: RunFolder
) -> Iterator[None]:
    """Check out the task's commit for the block; None: the job's own."""
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
    """The checkout of a run, prepared for one process after the other, and restored after each."""

    env: Mapping[str, str]
    run_folder: RunFolder
    _prepared: PreparedCheckout | None = None

    def prepare(
        self, state_folder: LockedStateFolder, place: Mapping[str, Any], run_id: str
    ) -> dict[str, Any]:
        """Prepare it for a process that runs agents' code. The JSON for that process; ``place`` is
        the input of work. Raises OSError, NightshiftError."""
        earlier = self._prepared
        self._prepared = (
            earlier and prepare_again(state_folder, earlier, run_id)
        ) or self._prepare_anew(state_folder, place, run_id)
        return to_fields(self._prepared)

    def _prepare_anew(
        self, state_folder: LockedStateFolder, place: Mapping[str, Any], run_id: str
    ) -> PreparedCheckout:
        folder = self.run_folder
        path = build_search_path(self.env, folder.checkout)
        return prepare_checkout(
            state_folder,
            folder.checkout.resolve(),
            git=build_isolated_git(folder.private / "checkout-git", path),
            machine_git=with_machine_config(
                folder.private / "machine-git", path, Path(place["home"])
            ),
            output_dir=place["settings"]["values"]["output_dir"],
            run_id=run_id,
        )

    def restore(self, state_folder: LockedStateFolder) -> RestoreReport:
        """Restore it from ``state_folder``, however the process ended."""
        folder, prepared = self.run_folder, self._prepared
        reports = [RestoreReport()]
        try:
            repair(
                folder.checkout,
                private=folder.private,
                search_path=build_search_path(self.env, folder.checkout),
                just_now=True,
                tell=reports.append,
                held=state_folder,
                saved=prepared.saved if prepared else None,
            )
        except (NightshiftError, OSError) as error:
            reports.append(RestoreReport(trouble=[f"the checkout is not put back: {error}"]))
        report = reports[-1]
        self._prepared = (
            replace(prepared, saved=report.saved) if prepared and report.saved else None
        )
        return report
