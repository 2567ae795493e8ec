"""``nightshift execute``: applies all blocks exactly, or none."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

from gitlab_nightshift.agents.model import checkout_files
from gitlab_nightshift.agents.model.answers import MalformedError, parse_blocks
from gitlab_nightshift.agents.model.edits import Edit, NotApplicableError, plan_edits
from gitlab_nightshift.agents.model.texts import NO_BLOCKS
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.repository import changed_files
from gitlab_nightshift.repository.git import build_isolated_git, find_repository_paths
from gitlab_nightshift.run_folder import Invocation, find_checkout_top
from gitlab_nightshift.system.environment import build_search_path


def execute(call: Invocation, text: str, *, dry_run: bool, allow_dirty: bool) -> tuple[Edit, ...]:
    """Apply blocks to the checkout around ``call.folder``; returns the edits.

    Raises NightshiftError: ``E_PARSE_ERROR``, ``E_APPLY_FAILED``, ``E_WORKSPACE_DIRTY`` if a
    file has uncommitted changes.
    """
    top = find_checkout_top(call.folder)
    try:
        blocks = parse_blocks(text)
        if not blocks:
            raise MalformedError(NO_BLOCKS)
        edits = plan_edits(blocks, checkout_files.make_reader(top))
        if not allow_dirty:
            _refuse_dirty(call, top, edits)
        if not dry_run:
            checkout_files.apply(top, edits)
    except (MalformedError, NotApplicableError) as error:
        raise to_nightshift_error(error) from None
    return edits


def _refuse_dirty(call: Invocation, top: Path, edits: Iterable[Edit]) -> None:
    with tempfile.TemporaryDirectory(prefix="nightshift-") as home:
        git = build_isolated_git(Path(home), build_search_path(call.env, top))
        find_repository_paths(git, top)  # raises outside a checkout
        dirty = set(changed_files.list_changed_files(git, top)) & {edit.path for edit in edits}
    if dirty:
        names = ", ".join(sorted(dirty))
        raise NightshiftError(
            Code.WORKSPACE_DIRTY,
            f"{names}: changed and not committed; commit first, or say --allow-dirty",
        )


def to_nightshift_error(error: MalformedError | NotApplicableError) -> NightshiftError:
    """The error of blocks that cannot be used, a line for each problem."""
    code = Code.PARSE_ERROR if isinstance(error, MalformedError) else Code.APPLY_FAILED
    return NightshiftError(code, str(error))
