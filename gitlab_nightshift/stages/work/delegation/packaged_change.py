"""Package: a proven change becomes a commit on a branch of its own, or files in the checkout."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.repository import changed_files
from gitlab_nightshift.repository.apply_change import apply_captured_change
from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.repository.delegated_repository import DelegationSource, claim_source
from gitlab_nightshift.repository.git import CommitIdentity, GitError, read_identity
from gitlab_nightshift.repository.private_repository import (
    Repository,
    commit_tree,
    list_diff_files,
)
from gitlab_nightshift.repository.tree_objects import resolve_tree
from gitlab_nightshift.repository.tree_snapshot import Snapshot, scan


@dataclass(frozen=True)
class RebasedChange:
    """The change on the real base, applied from its patch; this is what gets committed."""

    repository: Repository
    base: str
    captured: CapturedChange


# --- a commit -----------------------------------------------------------------------------------


def find_author(source: DelegationSource, job: JobFacts) -> CommitIdentity:
    """The commit's author: this machine's git identity, else the pipeline's user.

    Raises NightshiftError ``E_CONFIG`` if there is neither.
    """
    configured = read_identity(source.machine_git, source.top)
    person = configured or CommitIdentity(job.user_name, job.user_email)
    if not person.name or not person.email:
        raise build_config_error(
            "no name and e-mail for the commit: set git's user.name and user.email on this machine"
        )
    return person


def commit(
    source: DelegationSource,
    rebased: RebasedChange,
    branch: str,
    run_id: str,
    person: CommitIdentity,
) -> str:
    """One commit on a new branch of the caller's repository; no hook is run, nothing is pushed.

    Raises NightshiftError ``E_PUBLISH`` if the repository rejects it.
    """
    commit_id = commit_tree(
        rebased.repository,
        rebased.captured.tree_id,
        parent=rebased.base,
        message=f"nightshift: {run_id}\n".encode(),
        author=person,
        committer=person,
        date=f"{datetime.now(UTC).timestamp():.0f} +0000",
    )
    wanted = f"{commit_id}\n^{rebased.base}\n".encode()
    # The objects go through a pack, as the caller's repository does not know this one.
    pack = rebased.repository.run("pack-objects", "--revs", "--stdout", "-q", stdin=wanted)
    who = {"GIT_COMMITTER_NAME": person.name, "GIT_COMMITTER_EMAIL": person.email}
    # An old value of zeros makes update-ref fail if the branch exists (git-update-ref(1)).
    create = ("update-ref", f"refs/heads/{branch}", commit_id, "0" * len(commit_id))
    try:
        source.git.run("unpack-objects", "-q", cwd=source.top, stdin=pack)
        source.git.run(*create, cwd=source.top, env=who)
    except GitError as error:
        text = f"branch {branch} cannot be created in {source.top}: {error}; the bundle is kept"
        raise NightshiftError(Code.PUBLISH, text) from None
    return commit_id


# --- files --------------------------------------------------------------------------------------


def apply_in_place(source: DelegationSource, run_id: str, rebased: RebasedChange) -> None:
    """Write the change into the caller's checkout; it stays uncommitted.

    Raises NightshiftError: ``E_WORKSPACE_DIRTY`` if somebody changed it in the meantime;
    ``E_APPLY_FAILED``, after the files were restored.
    """
    with claim_source(source, run_id):
        if changed_files.list_changed_files(source.machine_git, source.top):
            text = f"{source.top} was changed in the meantime: the change is only in the bundle"
            raise NightshiftError(Code.WORKSPACE_DIRTY, text)
        before = scan(source.top)
        with _undo_on_error(source.top, rebased, before):
            apply_captured_change(source.top, before, rebased.repository, rebased.captured)


def apply_change(top: Path, rebased: RebasedChange) -> None:
    """Write the change into a checkout that nobody else uses. Raises OSError, GitError."""
    apply_captured_change(top, scan(top), rebased.repository, rebased.captured)


@contextlib.contextmanager
def _undo_on_error(top: Path, rebased: RebasedChange, before: Snapshot) -> Iterator[None]:
    try:
        yield
    except (OSError, GitError) as error:
        repository, tree = rebased.repository, rebased.captured.tree_id
        old = resolve_tree(repository, rebased.base)
        apply_captured_change(
            top,
            before,
            repository,
            CapturedChange(old, list_diff_files(repository, tree, old), b""),
        )
        text = f"the change cannot be written into {top}: {error}"
        raise NightshiftError(Code.APPLY_FAILED, text) from None
