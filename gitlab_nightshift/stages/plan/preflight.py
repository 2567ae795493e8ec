"""Checks with GitLab for mistakes that would fail the night later, before anything is spent."""

import itertools
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.gitlab.accounts import Access
from gitlab_nightshift.gitlab.project import Project, find_matching_pattern
from gitlab_nightshift.gitlab.project_settings import PushRule
from gitlab_nightshift.repository.git import CommitIdentity, Git, RepositoryPaths
from gitlab_nightshift.repository.private_repository import create_private_repository
from gitlab_nightshift.repository.remote import GitServer, TransferStatus, push, retry_transfer
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.system.retry import Clock, RetryPolicy

ANY_SLUG = "change"
"""Placeholder for the part of a branch's name that an agent chooses later."""
EXPIRY_NOTICE = timedelta(days=7)
"""How long before the token expires the plan begins to say so."""


def check_with_gitlab(settings: Settings, project: Project, night_end: datetime) -> tuple[str, ...]:
    """Notes for the plan. ``night_end`` is when the night ends at the latest.

    Raises ``E_CONFIG`` for an archived project or one without merge requests, a branch that would
    be protected or that git cannot create, a reviewer whom GitLab does not know, and a token that
    expires before the night ends.
    """
    check_project_usable(project)
    check_reviewers(settings, project)
    _check_branch_folder(settings, project)
    protection = check_protection(settings, project.list_protected_patterns())
    return (*protection, *check_expiry(project, night_end))


def check_project_usable(project: Project) -> None:
    """Raise ``E_CONFIG`` for a project in which merge requests cannot be opened."""
    if project.facts.archived:
        raise build_config_error(f"{project.facts.path} is archived: nothing can be pushed there")
    if project.facts.merge_requests is False:
        raise build_config_error(
            f"merge requests are switched off in {project.facts.path}: switch them on in Settings >"
            " General > Visibility, project features, permissions"
        )


def check_protection(settings: Settings, patterns: tuple[str, ...] | None) -> tuple[str, ...]:
    """Raise ``E_CONFIG`` if the night's branches would be protected; a note if that is unknown.
    ``patterns`` are the project's protected branches, None if unknown."""
    if patterns is None:
        return (
            "not known: whether a protected branch matches branch_prefix, because the token may not"
            " read protected branches",
        )
    branch = f"{settings.branch_prefix}{ANY_SLUG}"
    if pattern := find_matching_pattern(branch, patterns):
        raise build_config_error(
            f"branch_prefix: branches {settings.branch_prefix}… would be protected by {pattern} "
            "(Settings > Repository > Protected branches), and their pipelines would get protected "
            "variables: set another branch_prefix, or narrow the protection"
        )
    return ()


def _check_branch_folder(settings: Settings, project: Project) -> None:
    """Raise ``E_CONFIG`` if a branch has the name of a folder of the night's branches: git cannot
    have both ``a`` and ``a/b``."""
    parts = settings.branch_prefix.split("/")[:-1]
    for parent in itertools.accumulate(parts, "{}/{}".format):
        if project.find_branch_head(parent):
            raise build_config_error(
                f"branch_prefix: there is a branch {parent}, so git allows none below {parent}/: "
                "set another branch_prefix, or delete that branch"
            )


def check_reviewers(settings: Settings, project: Project) -> None:
    """Raise ``E_CONFIG`` for a reviewer unknown to GitLab."""
    has_user = project.people.has_user  # None if GitLab does not say: no reason to end the night
    unknown = [name for name in settings.named_reviewers if has_user(name) is False]
    if unknown:
        raise build_config_error(
            f"reviewer: GitLab knows no user {', '.join(unknown)}: correct the user name (not "
            "the display name), or remove it"
        )


def check_expiry(project: Project, night_end: datetime) -> tuple[str, ...]:
    """A note if the token expires soon. Raises ``E_CONFIG`` if it expires before ``night_end``."""
    day = project.check_access().expires_on
    if day is None:
        return ()
    # At midnight UTC of that day (docs.gitlab.com/user/project/settings/project_access_tokens).
    expiry = datetime.combine(day, time(), UTC)
    if expiry <= night_end:
        raise build_config_error(
            f"GITLAB_TOKEN expires on {day} at 00:00 UTC, before the night can end: rotate it "
            "(Settings > Access tokens), and store the new one"
        )
    if expiry <= night_end + EXPIRY_NOTICE:
        return (f"GITLAB_TOKEN expires on {day}: rotate it",)
    return ()


# --- push rules ---------------------------------------------------------------------------------


# docs.gitlab.com/user/project/repository/push_rules. GitLab would name a broken rule only at the
# push, after the night is paid for.

ANY_TITLE = "Improve the tests"
"""Placeholder for the part of a commit message that an agent writes later."""


def list_refusals(
    rule: PushRule,
    settings: Settings,
    author: CommitIdentity,
    access: Access,
    message: str,
    user_email: str = "",
    extreme_slugs: Sequence[str] = (),
) -> Iterator[str]:
    """Why the rule would refuse the night's branch or commit, each with a remedy.

    ``message`` is a night's commit message, as far as the settings decide it; ``user_email`` is the
    e-mail address of the pipeline's user, ``extreme_slugs`` the shortest and the longest name that
    can follow ``branch_prefix``. Raises ``re.error`` for a pattern that only RE2 accepts.
    """
    yield from _list_branch_refusals(rule, settings.branch_prefix, extreme_slugs)
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


def _list_branch_refusals(
    rule: PushRule, prefix: str, extreme_slugs: Sequence[str]
) -> Iterator[str]:
    pattern = rule.branch_name_regex
    if not _matches(pattern, f"{prefix}{ANY_SLUG}"):
        yield f"branch names must match {pattern}: set branch_prefix to one that does"
        return
    extremes = [f"{prefix}{slug}" for slug in extreme_slugs]
    if refused := [name for name in extremes if not _matches(pattern, name)]:
        names = " and ".join(f"{name} ({len(name)} characters)" for name in refused)
        yield f"branch names must match {pattern}, and a night's can be {names}: widen the rule"


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


# --- a trial push -------------------------------------------------------------------------------


PATIENCE_S = 20.0
"""Seconds for which a push is retried if the server does not answer."""


def try_push(
    git: Git,
    source: RepositoryPaths,
    server: GitServer,
    commit: str,
    branch: str,
    tell: Callable[[str], None],
) -> None:
    """Dry-run a push of the branch, which sends nothing. Only this shows what git lacks on this
    machine (its https helper, a certificate, a proxy), or that the server refuses git.

    Raises NightshiftError: ``E_CONFIG`` if git cannot push from here, ``E_PUBLISH`` if the server
    does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="push-", dir=git.env["HOME"]) as folder:
        repository = create_private_repository(git, Path(folder) / "repository.git", source)
        clock = Clock()
        result = retry_transfer(
            lambda: push(repository, server, commit, branch, dry_run=True),
            RetryPolicy(clock.now() + PATIENCE_S, clock, tell=tell),
        )
    # A branch with the placeholder's name may exist; then, too, git has reached the server.
    if result.ok or result.status is TransferStatus.NOT_FAST_FORWARD:
        return
    text = f"git cannot push to {server.url} from here, as publishing will: {result.message}"
    if result.status is TransferStatus.NETWORK:
        raise NightshiftError(Code.PUBLISH, text)
    if result.status is TransferStatus.AUTHENTICATION:
        text += ": GITLAB_TOKEN needs the role Developer and the scope write_repository or api"
    raise build_config_error(text)
