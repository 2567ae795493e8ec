"""The checkout that a delegation works in: a private one, or the caller's own."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.host import git as git_verbs
from gitlab_nightshift.host.checkout import refuse_changed, refuse_tracked
from gitlab_nightshift.host.paths import short_parent
from gitlab_nightshift.host.private import SCRATCH, own_folder
from gitlab_nightshift.host.private_checkout import check_out, commit_changed, copy_out
from gitlab_nightshift.records.delegation import Payload
from gitlab_nightshift.work.delegation.source import Source


@dataclass(frozen=True)
class Workspace:
    """Where the work is done. ``base`` is the commit checked out there; ``local``: it holds changes
    of the caller that are not committed."""

    path: Path
    base: str
    local: bool = False


def check_clean(source: Source, payload: Payload, output_dir: str) -> None:
    """Raise ``E_WORKSPACE_DIRTY`` where the caller's changes would be worked on unasked."""
    workspace = payload.workspace
    if workspace.checkout_mode != "worktree" and workspace.clean_before:
        refuse_changed(source.machine, source.top)
        refuse_tracked(source.git, source.top, output_dir)


@contextlib.contextmanager
def open_workspace(
    source: Source, payload: Payload, base: str, private: Path, output_dir: str
) -> Iterator[Workspace]:
    """The workspace for as long as the block lasts. Raises NightshiftError ``E_CONFIG``."""
    mode = payload.workspace.checkout_mode
    if mode == "in_place":
        yield Workspace(source.top, base)
        return
    parent = short_parent(private.parent)
    with own_folder(parent, source.top, SCRATCH) as folder:
        folder.chmod(0o711)  # another user has to pass through
        path = folder / (source.top.name or "checkout")
        config = git_verbs.conversion_config(source.git, source.top)
        if mode == "worktree":
            check_out(source.git, path, source.place, base, config)
            yield Workspace(path, base)
            return
        files = (source.top, output_dir)
        copy_out(source.git, path, source.place, base, config, *files)
        yield _with_local_changes(source, path, base)


def _with_local_changes(source: Source, path: Path, base: str) -> Workspace:
    """Changed tracked files become a commit of the private checkout: the snapshot to start from."""
    changed = git_verbs.changed_files(source.machine, path)
    if not changed:
        return Workspace(path, base)
    try:
        made = commit_changed(source.machine, path, changed)
    except git_verbs.GitError as error:
        text = f"the local changes cannot be taken along: {error}"
        raise NightshiftError(Code.WORKSPACE_DIRTY, text) from None
    return Workspace(path, made, local=True)
