"""GitLab's JSON (API v4), with the fields that the stand-in's clients read."""

import re
from typing import Any

from gitlab_nightshift.demo.standin_repository import read_heads
from gitlab_nightshift.demo.standin_state import (
    DEVELOPER,
    MAINTAINER,
    NOBODY,
    StandinLabel,
    StandinMergeRequest,
    StandinProject,
    StandinToken,
    User,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily

Json = dict[str, Any]

VARIABLE_ROLES = {30: "developer", 40: "maintainer", 50: "owner", NOBODY: "no_one_allowed"}
# As Gitlab::Regex.merge_request_draft (lib/gitlab/regex/merge_requests.rb).
DRAFT = compile_lazily(r"^\s*(\[draft\]|\(draft\)|draft:)", re.IGNORECASE)


def build_user_json(user: User, url: str) -> Json:
    """An account as others see it."""
    return {
        "id": user.id,
        "username": user.username,
        "name": user.name,
        "state": "active",
        "locked": False,
        "avatar_url": None,
        "web_url": f"{url}/{user.username}",
    }


def build_own_user_json(user: User, url: str) -> Json:
    """An account as its owner sees it."""
    email = f"{user.username}@noreply.gitlab.invalid"
    return {**build_user_json(user, url), "bot": user.bot, "email": email, "commit_email": email}


def build_token_json(token: StandinToken) -> Json:
    """A token as ``personal_access_tokens/self`` shows it."""
    return {
        "id": token.id,
        "name": "nightshift",
        "scopes": sorted(token.scopes),
        "granular": token.fine_grained,
        "user_id": token.user.id,
        "active": True,
        "revoked": False,
        "expires_at": token.expires_at,
    }


def build_project_json(project: StandinProject, token: StandinToken | None) -> Json:
    """A project; without a token, it has no ``permissions``."""
    namespace, _, name = project.path.rpartition("/")
    data = {
        "id": project.id,
        "name": name,
        "path": name,
        "path_with_namespace": project.path,
        "namespace": {"path": namespace, "full_path": namespace, "kind": "group"},
        "description": None,
        "default_branch": project.default_branch,
        "visibility": project.visibility,
        "web_url": project.web_url,
        "http_url_to_repo": project.http_url,
        "archived": project.archived,
        "empty_repo": not read_heads(project.bare_repository),
        "merge_requests_enabled": project.merge_requests_enabled,
    }
    if token is None:
        return data
    access = {"access_level": token.access_level} if token.access_level else None
    if token.access_level >= MAINTAINER:
        role = VARIABLE_ROLES[project.variables_role]
        data["restrict_user_defined_variables"] = True
        data["ci_pipeline_variables_minimum_override_role"] = role
    return {**data, "permissions": {"project_access": access, "group_access": None}}


def build_label_json(label: StandinLabel) -> Json:
    """A project's label."""
    return {
        "id": label.id,
        "name": label.name,
        "color": label.color,
        "description": label.description,
        "is_project_label": True,
    }


def build_protected_branch_json(name: str, number: int) -> Json:
    """A protected branch or wildcard, to which Maintainers may push, GitLab's default."""
    maintainers = [{"access_level": MAINTAINER, "access_level_description": "Maintainers"}]
    return {
        "id": number,
        "name": name,
        "push_access_levels": maintainers,
        "merge_access_levels": maintainers,
        "allow_force_push": False,
    }


def build_branch_json(project: StandinProject, name: str, commit: Json, access_level: int) -> Json:
    """A branch and its commit."""
    protected = project.is_protected(name)
    return {
        "name": name,
        "commit": commit,
        "protected": protected,
        "default": name == project.default_branch,
        "can_push": access_level >= (MAINTAINER if protected else DEVELOPER),
        "web_url": f"{project.web_url}/-/tree/{name}",
    }


def build_merge_request_json(
    request: StandinMergeRequest, project: StandinProject, url: str
) -> Json:
    """A merge request."""
    assignees = [build_user_json(user, url) for user in request.assignees]
    draft = bool(DRAFT.match(request.title))
    short = f"!{request.iid}"
    return {
        "id": request.id,
        "iid": request.iid,
        "project_id": project.id,
        "source_project_id": request.source_project_id or project.id,
        "target_project_id": project.id,
        "title": request.title,
        "description": request.description,
        "state": request.state,
        "draft": draft,
        "work_in_progress": draft,
        "source_branch": request.source_branch,
        "target_branch": request.target_branch,
        "sha": request.sha,
        "labels": sorted(request.labels),
        "author": build_user_json(request.author, url),
        "assignee": assignees[0] if assignees else None,
        "assignees": assignees,
        "reviewers": [build_user_json(user, url) for user in request.reviewers],
        "force_remove_source_branch": request.remove_source_branch,
        "should_remove_source_branch": None,
        "squash": request.squash,
        "user_notes_count": len([note for note in request.notes if not note.system]),
        "merge_when_pipeline_succeeds": request.auto_merge,
        "blocking_discussions_resolved": True,  # as in a project that does not require it
        "references": {"short": short, "relative": short, "full": f"{project.path}{short}"},
        "web_url": request.web_url,
        "created_at": request.created_at,
        "updated_at": request.updated_at,
        "merged_at": request.merged_at,
        "closed_at": request.closed_at,
    }
