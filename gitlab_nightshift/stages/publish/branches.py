"""A night's branch: its name, safe for git and GitLab whatever an agent suggested, and the push to
it, never by force and never to someone else's branch.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.project import find_matching_pattern
from gitlab_nightshift.gitlab.resources import MergeRequest
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.repository.remote import Transfer, TransferStatus, push, retry_transfer
from gitlab_nightshift.stages.publish.publish_context import PublishContext, build_git_server
from gitlab_nightshift.system.retry import RetryPolicy

LONGEST_SLUG = 60
"""Characters of a branch's name after ``branch_prefix``."""
MOST_SUFFIXES = 20
"""Names to try if the branch exists already: the slug, then with ``-2`` to ``-20``."""
EXTREME_SLUGS = ("a", f"{'improve-it-' * LONGEST_SLUG}"[: LONGEST_SLUG - 1] + f"t-{MOST_SUFFIXES}")
"""What can follow ``branch_prefix``: the shortest name, and one of the greatest length."""


def build_slug(*suggestions: str) -> str:
    """The first suggestion with a character of ``[a-z0-9]``, reduced to ``[a-z0-9-]`` and at most
    60 characters; "change" if none has one."""
    for text in suggestions:
        # NFKD separates a letter from its accent, which ASCII then drops: "é" becomes "e".
        letters = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
        words = re.sub(r"[^a-z0-9]+", "-", letters).strip("-")
        if len(words) > LONGEST_SLUG:
            head, dash, _ = words[: LONGEST_SLUG + 1].rpartition("-")
            words = head if dash else words[:LONGEST_SLUG]
        if words:
            return words
    return "change"


def list_branch_names(prefix: str, slug: str) -> Iterator[str]:
    """``<prefix><slug>``, then with ``-2``, ``-3`` …"""
    yield f"{prefix}{slug}"
    for number in range(2, MOST_SUFFIXES + 1):
        yield f"{prefix}{slug}-{number}"


PATIENCE_S = 60.0
"""Seconds for which a push or fetch without an answer is retried."""
_PROTECTION_UNKNOWN = (
    "the token may not read the protected branches, so a wildcard may match the new branch"
)


@dataclass(frozen=True)
class PushResult:
    """The branch with the commit, and its merge request, if there is one."""

    branch: str
    merge_request: MergeRequest | None = None
    warnings: tuple[str, ...] = ()


def push_commit(
    repository: Repository, commit: str, slug: str, context: PublishContext
) -> PushResult:
    """Push to the first branch name that is free, or already has this commit. Raises
    ``E_PUBLISH``."""
    patterns = context.project.list_protected_patterns()
    warnings = () if patterns is not None else (_PROTECTION_UNKNOWN,)
    prefix = context.session.settings.branch_prefix
    for name in list_branch_names(prefix, slug):
        head = context.project.find_branch_head(name)
        if head == commit:
            existing = context.project.merge_requests.find_from_branch(name, commit)
            return PushResult(name, existing, warnings)
        if head is None:
            _refuse_protected(name, patterns or ())
            if _push(repository, commit, name, context):
                return PushResult(name, None, warnings)
    raise NightshiftError(
        Code.PUBLISH,
        f"{prefix}{slug} and {MOST_SUFFIXES - 1} names after it exist already: delete old branches",
    )


def push_fast_forward(
    repository: Repository, commit: str, branch: str, context: PublishContext
) -> bool:
    """Push a commit as a fast-forward of the branch; False if it no longer is one.

    Raises ``E_PUBLISH`` for a protected branch, or if GitLab refuses.
    """
    _refuse_protected(branch, context.project.list_protected_patterns() or ())
    return _push(repository, commit, branch, context)


def _refuse_protected(name: str, patterns: tuple[str, ...]) -> None:
    """Raise ``E_PUBLISH`` for a protected name: its pipeline would get protected variables."""
    if pattern := find_matching_pattern(name, patterns):
        raise NightshiftError(
            Code.PUBLISH,
            f"branch {name} would be protected by {pattern}, and its pipeline would get protected "
            "variables: set another branch_prefix, or narrow the protection",
        )


def _push(repository: Repository, commit: str, name: str, context: PublishContext) -> bool:
    """True if the branch now has the commit, False if someone else took the name."""
    server = build_git_server(context.session)
    result = transfer_with_retries(lambda: push(repository, server, commit, name), context)
    if result.ok:
        return True
    # The push may have arrived although its answer was lost.
    if context.project.find_branch_head(name) == commit:
        return True
    if result.status is TransferStatus.NOT_FAST_FORWARD:
        return False
    raise ApiError(f"the push was refused: {result.message}", reason=result.message, lasting=True)


def transfer_with_retries(transfer: Callable[[], Transfer], context: PublishContext) -> Transfer:
    """The result of a push or fetch, retried for ``PATIENCE_S`` if the network fails."""
    clock = context.clock
    policy = RetryPolicy(clock.now() + PATIENCE_S, clock, tell=context.session.tell)
    return retry_transfer(transfer, policy)
