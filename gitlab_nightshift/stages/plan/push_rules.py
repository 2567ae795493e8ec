"""Predicts whether a project's push rule would refuse what a night pushes."""

import re
from collections.abc import Iterator, Sequence

from gitlab_nightshift.gitlab.access import Access
from gitlab_nightshift.gitlab.project_settings import PushRule
from gitlab_nightshift.repository.git import CommitIdentity
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.plan.preflight import ANY_SLUG

ANY_TITLE = "Improve the tests"
"""Placeholder for the part of a commit message that is not known yet."""


def list_refusals(
    rule: PushRule,
    settings: Settings,
    author: CommitIdentity,
    access: Access,
    message: str,
    user_email: str = "",
    extremes: Sequence[str] = (),
) -> Iterator[str]:
    """Why the rule would refuse the night's branch or commit, each with what to do.

    ``message`` is what a commit of a night says, as far as the settings decide it; ``user_email``
    the address of the pipeline's user, ``extremes`` the shortest and the longest name that can
    follow ``branch_prefix``. Raises ``re.error`` for a pattern that only RE2 reads.
    """
    branch, *names = (f"{settings.branch_prefix}{slug}" for slug in (ANY_SLUG, *extremes))
    if not _matches(rule.branch_name_regex, branch):
        yield (
            f"branch names must match {rule.branch_name_regex}: set branch_prefix to one that does"
        )
    elif refused := [n for n in names if not _matches(rule.branch_name_regex, n)]:
        lengths = " and ".join(f"{name} ({len(name)} characters)" for name in refused)
        yield (
            f"branch names must match {rule.branch_name_regex}, and a night's can be {lengths}:"
            " widen the rule"
        )
    if not _matches(rule.commit_message_regex, message):
        yield (
            f"commit messages must match {rule.commit_message_regex}: set commit_template to one"
            " that does"
        )
    if (banned := rule.commit_message_negative_regex) and _matches(banned, message):
        yield f"commit messages must not match {banned}: set commit_template to one that does not"
    if not _matches(rule.author_email_regex, author.email):
        yield (
            f"the author's address must match {rule.author_email_regex}, which {author.email} does"
            " not: set commit_author"
        )
    if rule.member_check and author.email not in (access.email, user_email):
        yield (
            f"the author must be a user of this GitLab, and whether {author.email} is one's address"
            " is unknown: set commit_author: token"
        )
    yield from _list_committer_refusals(rule, author, access, message)


def _list_committer_refusals(
    rule: PushRule, author: CommitIdentity, access: Access, message: str
) -> Iterator[str]:
    if rule.reject_unsigned_commits:
        yield "commits must be signed, which a night's are not: lift that rule for this user"
    if rule.reject_non_dco_commits and "Signed-off-by:" not in message:
        yield (
            "commits must be signed off: set commit_template to one that ends with a line"
            " Signed-off-by: NAME <ADDRESS>"
        )
    if rule.commit_committer_check and author.email != access.email:
        yield (
            f"the committer must be the token's user, and {author.email} is not its address: set"
            " commit_author: token"
        )
    if rule.commit_committer_name_check and author.name != access.name:
        yield (
            f"the committer's name must be that of the token's user, {access.name}: set"
            " commit_author: token"
        )


def _matches(pattern: str, text: str) -> bool:
    """Search anywhere in the text, as GitLab does."""
    # Push rules are RE2 patterns, of which Python's re rejects some (re.error).
    return not pattern or re.search(pattern, text) is not None
