"""The checkout that a delegation works in: a private one, or the caller's own."""

from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.delegation_records import Payload
from gitlab_nightshift.repository import git as git_verbs
from gitlab_nightshift.repository.changed_files import list_changed_files, refuse_changed
from gitlab_nightshift.repository.delegated_repository import DelegationSource
from gitlab_nightshift.repository.prepared_checkout import refuse_tracked
from gitlab_nightshift.repository.private_checkout import check_out, commit_changed, copy_out


@dataclass(frozen=True)
class DelegationWorkspace:
    """Where the work is done. ``base`` is the commit checked out there; ``local``: it has
    uncommitted changes of the caller."""

    path: Path
    base: str
    local: bool = False


def check_clean(source: DelegationSource, payload: Payload, output_dir: str) -> None:
    """Raise ``E_WORKSPACE_DIRTY`` if the caller's uncommitted changes would be used unasked."""
    workspace = payload.workspace
    if workspace.checkout_mode != "worktree" and workspace.clean_before:
        refuse_changed(source.machine, source.top)
        refuse_tracked(git_verbs.list_tracked_files(source.git, source.top), output_dir)


def make_workspace(
    source: DelegationSource, payload: Payload, base: str, path: Path, output_dir: str
) -> DelegationWorkspace:
    """The workspace; a private one is created at ``path`` (new). Raises NightshiftError."""
    mode = payload.workspace.checkout_mode
    if mode == "in_place":
        return DelegationWorkspace(source.top, base)
    config = git_verbs.read_conversion_config(source.git, source.top)
    if mode == "worktree":
        check_out(source.git, path, source.paths, base, config)
        return DelegationWorkspace(path, base)
    copy_out(source.git, path, source.paths, base, config, source.top, output_dir)
    return _with_local_changes(source, path, base)


def _with_local_changes(source: DelegationSource, path: Path, base: str) -> DelegationWorkspace:
    """Commit changed tracked files in the private checkout: the snapshot to start from."""
    changed = list_changed_files(source.machine, path)
    if not changed:
        return DelegationWorkspace(path, base)
    try:
        commit = commit_changed(source.machine, path, changed)
    except git_verbs.GitError as error:
        text = f"the local changes cannot be copied: {error}"
        raise NightshiftError(Code.WORKSPACE_DIRTY, text) from None
    return DelegationWorkspace(path, commit, local=True)
