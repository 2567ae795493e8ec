"""Checks with GitLab, before anything is spent, for mistakes that would fail the night later."""

from datetime import UTC, datetime, time, timedelta

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.gitlab.project import Project, find_protecting_pattern
from gitlab_nightshift.settings.model import Settings

ANY_SLUG = "change"
"""Placeholder for the part of a branch's name that is not known yet."""
SOON = timedelta(days=7)


def check_with_gitlab(settings: Settings, project: Project, until: datetime) -> tuple[str, ...]:
    """Notes for the plan. ``until`` is when the night ends at the latest.

    Raises ``E_CONFIG`` for an archived project or one without merge requests, a branch that would
    be protected or that git cannot make, a reviewer whom GitLab does not know, and a token that
    ends before the night.
    """
    check_usable(project)
    check_reviewers(settings, project)
    _check_branch_folder(settings, project)
    protection = check_protection(settings, project.list_protected_patterns())
    return (*protection, *check_expiry(project, until))


def check_usable(project: Project) -> None:
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
    if pattern := find_protecting_pattern(branch, patterns):
        raise build_config_error(
            f"branch_prefix: branches {settings.branch_prefix}… would be protected by {pattern} "
            "(Settings > Repository > Protected branches), and their pipelines would get protected "
            "variables: set another branch_prefix, or narrow the protection"
        )
    return ()


def _check_branch_folder(settings: Settings, project: Project) -> None:
    """Raise ``E_CONFIG`` if a branch has the name of the folder of the night's branches: git cannot
    keep both ``a`` and ``a/b``."""
    parts = settings.branch_prefix.split("/")[:-1]
    for depth in range(1, len(parts) + 1):
        if project.find_branch_head(parent := "/".join(parts[:depth])):
            raise build_config_error(
                f"branch_prefix: there is a branch {parent}, so git allows none below {parent}/: "
                "set another branch_prefix, or delete that branch"
            )


def check_reviewers(settings: Settings, project: Project) -> None:
    """Raise ``E_CONFIG`` for a reviewer unknown to GitLab."""
    people, named = project.people, settings.named_reviewers
    unknown = [name for name in named if people.has_user(name) is False]
    if unknown:
        raise build_config_error(
            f"reviewer: GitLab knows no user {', '.join(unknown)}: correct the user name (not "
            "the display name), or remove it"
        )


def check_expiry(project: Project, until: datetime) -> tuple[str, ...]:
    """A note if the token expires soon. Raises ``E_CONFIG`` if it does before ``until``."""
    day = project.check_access().expires_on
    if day is None:
        return ()
    ends = datetime.combine(day, time(), UTC)
    if ends <= until:
        raise build_config_error(
            f"GITLAB_TOKEN expires on {day} at 00:00 UTC, before the night can end: rotate it "
            "(Settings > Access tokens), and store the new one"
        )
    return (f"GITLAB_TOKEN expires on {day}: rotate it",) if ends <= until + SOON else ()
