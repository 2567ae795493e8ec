"""How GitLab writes its things as JSON (API v4), as far as a client of the stand-in reads them."""

import re
from typing import Any

from gitlab_nightshift.demo.standin_comments import Commented, Issue, Note
from gitlab_nightshift.demo.standin_state import (
    DEVELOPER,
    MAINTAINER,
    Label,
    MergeRequest,
    PipelineJob,
    Project,
    Token,
    User,
)

Json = dict[str, Any]

DRAFT = re.compile(r"^\s*(\[draft\]|\(draft\)|draft:)", re.IGNORECASE)


def user_json(user: User, url: str) -> Json:
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


def own_user_json(user: User, url: str) -> Json:
    """An account as its owner sees it."""
    email = f"{user.username}@noreply.gitlab.invalid"
    return {**user_json(user, url), "bot": user.bot, "email": email, "commit_email": email}


def job_json(job: PipelineJob, url: str) -> Json:
    """A job as the API shows it."""
    return {
        "id": job.id,
        "name": job.name,
        "status": job.status,
        "pipeline": {"id": job.pipeline},
        "user": user_json(job.user, url) if job.user else None,
    }


def token_json(token: Token) -> Json:
    """A token as ``personal_access_tokens/self`` shows it."""
    return {
        "id": token.id,
        "name": "nightshift",
        "scopes": sorted(token.scopes),
        "user_id": token.user.id,
        "active": True,
        "revoked": False,
        "expires_at": None,
    }


def project_json(project: Project, token: Token | None) -> Json:
    """A project; ``permissions`` only for a token."""
    namespace, _, name = project.path.rpartition("/")
    shown = {
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
        "archived": False,
        "merge_requests_enabled": True,
    }
    if token is None:
        return shown
    access = {"access_level": token.access_level} if token.access_level else None
    return {**shown, "permissions": {"project_access": access, "group_access": None}}


def label_json(label: Label) -> Json:
    """A project's label."""
    return {
        "id": label.id,
        "name": label.name,
        "color": label.color,
        "description": label.description,
        "is_project_label": True,
    }


def protected_branch_json(name: str, number: int) -> Json:
    """A protected branch or wildcard, open to Maintainers as GitLab protects by default."""
    maintainers = [{"access_level": MAINTAINER, "access_level_description": "Maintainers"}]
    return {
        "id": number,
        "name": name,
        "push_access_levels": maintainers,
        "merge_access_levels": maintainers,
        "allow_force_push": False,
    }


def branch_json(project: Project, name: str, commit: Json, access_level: int) -> Json:
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


def note_json(note: Note, on: Commented, url: str) -> Json:
    """A comment on an issue or a merge request."""
    return {
        "id": note.id,
        "type": None,
        "body": note.body,
        "author": user_json(note.author, url),
        "created_at": note.created_at,
        "updated_at": note.created_at,
        "system": note.system,
        "noteable_id": on.id,
        "noteable_type": "Issue" if isinstance(on, Issue) else "MergeRequest",
        "noteable_iid": on.iid,
        "resolvable": False,
        "confidential": note.internal,
        "internal": note.internal,
    }


def issue_json(issue: Issue, project: Project, url: str) -> Json:
    """An issue."""
    return {
        "id": issue.id,
        "iid": issue.iid,
        "project_id": project.id,
        "title": issue.title,
        "description": issue.description,
        "state": "opened",
        "confidential": issue.confidential,
        "author": user_json(issue.author, url),
        "labels": [],
        "user_notes_count": len(issue.notes),
        "web_url": issue.web_url,
    }


def merge_request_json(request: MergeRequest, project: Project, url: str) -> Json:
    """A merge request; source and target are the same project."""
    assignees = [user_json(user, url) for user in request.assignees]
    draft = bool(DRAFT.match(request.title))
    short = f"!{request.iid}"
    return {
        "id": request.id,
        "iid": request.iid,
        "project_id": project.id,
        "source_project_id": project.id,
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
        "author": user_json(request.author, url),
        "assignee": assignees[0] if assignees else None,
        "assignees": assignees,
        "reviewers": [user_json(user, url) for user in request.reviewers],
        "force_remove_source_branch": request.remove_source_branch,
        "should_remove_source_branch": None,
        "squash": request.squash,
        "user_notes_count": len(request.notes),
        "references": {"short": short, "relative": short, "full": f"{project.path}{short}"},
        "web_url": request.web_url,
        "created_at": request.created_at,
        "updated_at": request.updated_at,
        "merged_at": request.merged_at,
        "closed_at": request.closed_at,
    }
