"""Package: a proven change becomes a commit on a branch of its own, or files in the checkout."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError, config_error
from gitlab_nightshift.host import git as git_verbs
from gitlab_nightshift.host.changes import Captured
from gitlab_nightshift.host.git import GitError, Identity
from gitlab_nightshift.host.lay import lay_files
from gitlab_nightshift.host.repository import (
    Repository,
    apply_patch,
    commit_tree,
    diff_files,
    diff_patch,
    private_repository,
    tree_of,
)
from gitlab_nightshift.host.saved import Saved
from gitlab_nightshift.settings import Job
from gitlab_nightshift.work.delegation.source import Source, claimed


@dataclass(frozen=True)
class Rebuilt:
    """The change on the real base, made again from its patch: what is committed."""

    repository: Repository
    base: str
    captured: Captured


def rebuild(source: Source, private: Path, base: str, captured: Captured, *, same: bool) -> Rebuilt:
    """The change as a tree on ``base``; ``same``: it must be the very tree that was proven.

    Raises NightshiftError ``E_APPLY_FAILED``.
    """
    config = git_verbs.conversion_config(source.git, source.top)
    number = sum(1 for _ in private.glob("package-*"))
    folder = private / f"package-{number}"
    repository = private_repository(source.git, folder, source.place, config)
    try:
        tree = apply_patch(repository, base, captured.patch)
    except GitError as error:
        why = "it rests on changes that are not committed" if not same else str(error)
        text = f"the change does not apply to {base[:12]}: {why}"
        raise NightshiftError(Code.APPLY_FAILED, text) from None
    if same and tree != captured.tree_id:
        raise NightshiftError(Code.APPLY_FAILED, "the change, made again, is another one")
    files = diff_files(repository, base, tree)
    return Rebuilt(repository, base, Captured(tree, files, diff_patch(repository, base, tree)))


# --- a commit -----------------------------------------------------------------------------------


def author(source: Source, job: Job) -> Identity:
    """Who is named in the commit: this machine's git identity, else the pipeline's user.

    Raises NightshiftError ``E_CONFIG`` where nobody is.
    """
    known = git_verbs.identity(source.machine, source.top)
    person = known or Identity(job.user_name, job.user_email)
    if not person.name or not person.email:
        raise config_error(
            "no name and e-mail for the commit: set git's user.name and user.email on this machine"
        )
    return person


def commit(source: Source, rebuilt: Rebuilt, branch: str, run_id: str, person: Identity) -> str:
    """One commit on a new branch of the caller's repository; no hook is run, nothing is pushed.

    Raises NightshiftError ``E_PUBLISH`` where the repository does not take it.
    """
    made = commit_tree(
        rebuilt.repository,
        rebuilt.captured.tree_id,
        parent=rebuilt.base,
        message=f"nightshift: {run_id}\n".encode(),
        author=person,
        committer=person,
        date=f"{datetime.now(UTC).timestamp():.0f} +0000",
    )
    wanted = f"{made}\n^{rebuilt.base}\n".encode()
    pack = rebuilt.repository.run("pack-objects", "--revs", "--stdout", "-q", stdin=wanted)
    who = {"GIT_COMMITTER_NAME": person.name, "GIT_COMMITTER_EMAIL": person.email}
    create = ("update-ref", f"refs/heads/{branch}", made, "0" * len(made))
    try:
        source.git.run("unpack-objects", "-q", cwd=source.top, stdin=pack)
        source.git.run(*create, cwd=source.top, env=who)
    except GitError as error:
        text = f"branch {branch} cannot be made in {source.top}: {error}; the bundle is kept"
        raise NightshiftError(Code.PUBLISH, text) from None
    return made


# --- files --------------------------------------------------------------------------------------


def lay_in_place(source: Source, run_id: str, rebuilt: Rebuilt, saved: Saved) -> None:
    """Write the change into the caller's checkout; it stays uncommitted.

    Raises NightshiftError: ``E_WORKSPACE_DIRTY`` where somebody else has changed it meanwhile,
    ``E_APPLY_FAILED``, with the files put back.
    """
    with claimed(source, run_id):
        if git_verbs.changed_files(source.machine, source.top):
            text = f"{source.top} was changed meanwhile: the change is in the bundle only"
            raise NightshiftError(Code.WORKSPACE_DIRTY, text)
        with _undone_on_error(source.top, rebuilt, saved):
            lay_files(source.top, saved, rebuilt.repository, rebuilt.captured)


def lay(top: Path, rebuilt: Rebuilt, saved: Saved) -> None:
    """Write the change into a checkout that nobody else uses. Raises OSError, GitError."""
    lay_files(top, saved, rebuilt.repository, rebuilt.captured)


@contextlib.contextmanager
def _undone_on_error(top: Path, rebuilt: Rebuilt, saved: Saved) -> Iterator[None]:
    try:
        yield
    except (OSError, GitError) as error:
        repository, tree = rebuilt.repository, rebuilt.captured.tree_id
        before = tree_of(repository, rebuilt.base)
        back = Captured(before, diff_files(repository, tree, before), b"")
        lay_files(top, saved, repository, back)
        text = f"the change cannot be written into {top}: {error}"
        raise NightshiftError(Code.APPLY_FAILED, text) from None
