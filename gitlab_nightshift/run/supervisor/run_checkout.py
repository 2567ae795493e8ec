"""Prepares the checkout of a run for agents, and restores it afterwards."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.records.codec import to_fields
from gitlab_nightshift.repository import git as git_verbs
from gitlab_nightshift.repository.checkout_restore import RestoreReport
from gitlab_nightshift.repository.commit_switch import check_out_temporarily
from gitlab_nightshift.repository.prepared_checkout import prepare_checkout
from gitlab_nightshift.repository.repair import repair
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
    git = git_verbs.build_isolated_git(run_folder.private / "target-git", path)
    pack = Path(target["pack"]).read_bytes()
    with check_out_temporarily(git, run_folder.checkout, target["commit"], pack):
        yield


def prepare_run_checkout(
    state_folder: LockedStateFolder,
    place: Mapping[str, Any],
    run_id: str,
    env: Mapping[str, str],
    run_folder: RunFolder,
) -> dict[str, Any]:
    """Prepare the checkout for a process that runs agents' code. The JSON for that process;
    ``place`` is the input of work."""
    path = build_search_path(env, run_folder.checkout)
    prepared = prepare_checkout(
        state_folder,
        run_folder.checkout.resolve(),
        git=git_verbs.build_isolated_git(run_folder.private / "checkout-git", path),
        machine=git_verbs.with_machine_config(
            run_folder.private / "machine-git", path, Path(place["home"])
        ),
        output_dir=place["settings"]["values"]["output_dir"],
        run_id=run_id,
    )
    return to_fields(prepared)


def restore_run_checkout(
    state_folder: LockedStateFolder, env: Mapping[str, str], run_folder: RunFolder
) -> RestoreReport:
    """Restore the checkout from ``state_folder``, however work ended."""
    path, private = build_search_path(env, run_folder.checkout), run_folder.private
    reports: list[RestoreReport] = []
    try:
        repair(
            run_folder.checkout,
            private=private,
            search_path=path,
            just_now=True,
            tell=reports.append,
            held=state_folder,
        )
    except (NightshiftError, OSError) as error:
        return RestoreReport(trouble=[f"the checkout is not put back: {error}"])
    return reports[0] if reports else RestoreReport()
