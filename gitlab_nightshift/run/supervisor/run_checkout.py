"""The checkout of a run: at the commit that its work is about, and prepared for agents."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.repository import git as git_verbs
from gitlab_nightshift.repository.checkout_restore import RestoreReport
from gitlab_nightshift.repository.commit_switch import check_out_temporarily
from gitlab_nightshift.repository.prepared_checkout import prepare_checkout
from gitlab_nightshift.repository.repair import repair
from gitlab_nightshift.repository.state_folder import LockedStateFolder
from gitlab_nightshift.run_folder import RunFolder
from gitlab_nightshift.system.environment import build_search_path


@contextlib.contextmanager
def check_out_for(
    stand: Mapping[str, str] | None, env: Mapping[str, str], there: RunFolder
) -> Iterator[None]:
    """Within the block the commit that a task is about is checked out; None: the job's own."""
    if stand is None:
        yield
        return
    path = build_search_path(env, there.checkout)
    git = git_verbs.build_isolated_git(there.private / "standing-git", path)
    pack = Path(stand["pack"]).read_bytes()
    with check_out_temporarily(git, there.checkout, stand["commit"], pack):
        yield


def prepare_run_checkout(
    held: LockedStateFolder,
    place: Mapping[str, Any],
    run_id: str,
    env: Mapping[str, str],
    there: RunFolder,
) -> dict[str, Any]:
    """Prepare the checkout for what runs agents' code, as JSON for its process; ``place`` is the
    input of work."""
    path = build_search_path(env, there.checkout)
    prepared = prepare_checkout(
        held,
        there.checkout.resolve(),
        git=git_verbs.build_isolated_git(there.private / "checkout-git", path),
        machine=git_verbs.with_machine_config(
            there.private / "machine-git", path, Path(place["home"])
        ),
        output_dir=place["settings"]["values"]["output_dir"],
        run_id=run_id,
    )
    return prepared.to_data()


def restore_run_checkout(
    held: LockedStateFolder, env: Mapping[str, str], there: RunFolder
) -> RestoreReport:
    """Put the checkout back, whatever has become of work, from the folder that is held."""
    path, private = build_search_path(env, there.checkout), there.private
    found: list[RestoreReport] = []
    try:
        repair(
            there.checkout,
            private=private,
            search_path=path,
            just_now=True,
            tell=found.append,
            held=held,
        )
    except (NightshiftError, OSError) as error:
        return RestoreReport(trouble=[f"the checkout is not put back: {error}"])
    return found[0] if found else RestoreReport()
