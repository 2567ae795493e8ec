"""``nightshift execute``: blocks are applied exactly or not at all, and nobody is asked."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.host import git as git_verbs
from gitlab_nightshift.host.environment import search_path
from gitlab_nightshift.patching import tree
from gitlab_nightshift.patching.blocks import Malformed, parse
from gitlab_nightshift.patching.edits import Edit, NotApplicable, planned
from gitlab_nightshift.patching.wording import NO_BLOCKS
from gitlab_nightshift.session import Call, top_of


def execute(call: Call, text: str, *, dry_run: bool, allow_dirty: bool) -> tuple[Edit, ...]:
    """Apply blocks to the checkout around ``call.folder``; what it has changed, or would.

    Raises NightshiftError: ``E_PARSE_ERROR``, ``E_APPLY_FAILED``, ``E_WORKSPACE_DIRTY`` where a
    file has changes that are not committed.
    """
    top = top_of(call.folder)
    try:
        blocks = parse(text)
        if not blocks:
            raise Malformed(NO_BLOCKS)
        edits = planned(blocks, tree.reader(top))
        if not allow_dirty:
            _refuse_dirty(call, top, edits)
        if not dry_run:
            tree.apply(top, edits)
    except (Malformed, NotApplicable) as error:
        raise told(error) from None
    return edits


def _refuse_dirty(call: Call, top: Path, edits: Iterable[Edit]) -> None:
    with tempfile.TemporaryDirectory(prefix="nightshift-") as home:
        git = git_verbs.pristine(Path(home), search_path(call.env, top))
        dirty = set(git_verbs.changed_files(git, top)) & {edit.path for edit in edits}
    if dirty:
        names = ", ".join(sorted(dirty))
        raise NightshiftError(
            Code.WORKSPACE_DIRTY,
            f"{names}: changed and not committed; commit first, or say --allow-dirty",
        )


def told(error: Malformed | NotApplicable) -> NightshiftError:
    """The error of blocks that cannot be used, a line for each problem."""
    code = Code.PARSE_ERROR if isinstance(error, Malformed) else Code.APPLY_FAILED
    return NightshiftError(code, str(error))
