"""A branch of its own for the commit: never forced, never on top of somebody else's."""

from collections.abc import Callable
from dataclasses import dataclass

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab import ApiError, MergeRequest, Patience, transient
from gitlab_nightshift.host.remote import Answer, Transfer, push
from gitlab_nightshift.host.repository import Repository
from gitlab_nightshift.publish.branch import MOST_SUFFIXES, names, protected_by
from gitlab_nightshift.publish.desk import Desk

PATIENCE_S = 60.0
"""Seconds in which a push or fetch without an answer is tried again."""


@dataclass(frozen=True)
class Pushed:
    """The branch that holds the commit, and the merge request from it where there is one."""

    branch: str
    merge_request: MergeRequest | None = None
    warnings: tuple[str, ...] = ()


def push_commit(repository: Repository, commit: str, slug: str, desk: Desk) -> Pushed:
    """Push to the first name that is free or holds this very commit. Raises ``E_PUBLISH``."""
    patterns = desk.project.protected_patterns()
    warnings = () if patterns is not None else (_UNKNOWN_PATTERNS,)
    prefix = desk.settings.branch_prefix
    for name in names(prefix, slug):
        head = desk.project.branch_head(name)
        if head == commit:
            return Pushed(name, desk.project.merge_request_from(name, commit), warnings)
        if head is None:
            _refuse_protected(name, patterns or ())
            if _push(repository, commit, name, desk):
                return Pushed(name, None, warnings)
    raise NightshiftError(
        Code.PUBLISH,
        f"{prefix}{slug} and {MOST_SUFFIXES - 1} names after it exist already: delete old branches",
    )


def push_on(repository: Repository, commit: str, branch: str, desk: Desk) -> bool:
    """Push a commit that follows the branch's head; False where it does not follow any more.

    Raises ``E_PUBLISH`` for a protected branch, and where GitLab refuses.
    """
    _refuse_protected(branch, desk.project.protected_patterns() or ())
    return _push(repository, commit, branch, desk)


_UNKNOWN_PATTERNS = (
    "the token may not read the protected branches: whether a wildcard matches the new branch is "
    "not known"
)


def _refuse_protected(name: str, patterns: tuple[str, ...]) -> None:
    """Protected variables would reach the pipeline of such a branch."""
    if pattern := protected_by(name, patterns):
        raise NightshiftError(
            Code.PUBLISH,
            f"branch {name} would be protected by {pattern}, and its pipeline would get protected "
            "variables: set another branch_prefix, or narrow the protection",
        )


def _push(repository: Repository, commit: str, name: str, desk: Desk) -> bool:
    """True where the branch holds the commit now, False where somebody took the name."""
    server = desk.server()
    done = transferred(lambda: push(repository, server, commit, name), desk)
    if done.ok:
        return True
    if desk.project.branch_head(name) == commit:  # the answer was lost, not the push
        return True
    if done.answer is Answer.NOT_FAST_FORWARD:
        return False
    advice = _ADVICE.get(done.answer, "")
    raise NightshiftError(Code.PUBLISH, f"the push was refused: {done.message}{advice}")


_ADVICE = {
    Answer.PROTECTED_BRANCH: " (set another branch_prefix, or narrow the branch protection)",
    Answer.AUTHENTICATION: (
        " (the token needs the role Developer and the scope write_repository or api)"
    ),
    Answer.REJECTED: " (for push rules see branch_prefix, commit_template and commit_author)",
}


def transferred(transfer: Callable[[], Transfer], desk: Desk) -> Transfer:
    """A push or fetch, repeated for a while where the network failed."""
    last = Transfer(Answer.NETWORK)

    def once() -> Transfer:
        nonlocal last
        last = transfer()
        if last.answer is Answer.NETWORK:
            raise ApiError(last.message)
        return last

    patience = Patience(desk.clock.now() + PATIENCE_S, desk.clock)
    try:
        return patience.tries(once, transient)
    except ApiError:
        return last
