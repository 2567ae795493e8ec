"""Bodies of GitLab's webhook for comments, and pipelines that they trigger."""

import json
from collections.abc import Mapping
from typing import Any

from gitlab_nightshift.demo.standin_state import DEVELOPER, StandinNote, User
from tests.support.standin_records import Issue, StandinNoteable
from tests.support.standin_threads import add_comment, add_issue
from tests.support.world import Done, World

TASK = "Test the discount of total(), please."
TRIGGER = {"CI_PIPELINE_SOURCE": "trigger"}


def body(shop: World, on: StandinNoteable, note: StandinNote) -> dict[str, Any]:
    """The body as GitLab sends it, and what the trigger's address adds to it."""
    project, issue = shop.project, isinstance(on, Issue)
    kind = "issue" if issue else "merge_request"
    page = f"{project.web_url}/-/{kind}s/{on.iid}"
    person = {
        "id": note.author.id,
        "name": note.author.name,
        "username": note.author.username,
        "avatar_url": "https://www.gravatar.com/avatar/e64c7d89f26bd1972efa854d13d7dd61?s=80",
        "email": "[REDACTED]",
    }
    return {
        "object_kind": "note",
        "event_type": "confidential_note" if note.internal else "note",
        "user": person,
        "project_id": project.id,
        "project": {
            "id": project.id,
            "name": "shop",
            "web_url": project.web_url,
            "git_http_url": project.http_url,
            "path_with_namespace": project.path,
            "default_branch": "main",
        },
        "object_attributes": {
            "id": note.id,
            "internal": note.internal,
            "note": note.body,
            "noteable_type": "Issue" if issue else "MergeRequest",
            "author_id": note.author.id,
            "created_at": "2026-11-16 00:59:30 UTC",
            "updated_at": "2026-11-16 00:59:30 UTC",
            "project_id": project.id,
            "attachment": None,
            "line_code": None,
            "commit_id": None,
            "noteable_id": on.id,
            "system": note.system,
            "st_diff": None,
            "discussion_id": note.thread,
            "action": "create",
            "url": f"{page}#note_{note.id}",
        },
        "repository": {"name": "shop", "url": project.http_url, "homepage": project.web_url},
        kind: {"id": on.id, "iid": on.iid, "title": "as it was", "state": "opened"},
        "id": str(project.id),
        "ref": "main",
        "variables": {"NIGHTSHIFT": "true"},
    }


def member(shop: World, login: str = "ada", level: int = DEVELOPER) -> User:
    """Somebody with a role on the project; 0 for none."""
    user = shop.gitlab.add_user(login, login.title())
    if level:
        shop.project.members[user.id] = level
    return user


def issue_of(shop: World, author: User, **more: Any) -> Issue:
    """An issue of the sample project."""
    title, text = "Discounts are wrong", "Half of the customers complain.\nSee total()."
    return add_issue(shop.gitlab, shop.project, author, title, text, **more)


def written(
    shop: World, on: StandinNoteable, author: User, text: str, **more: Any
) -> dict[str, Any]:
    """A new comment, and the webhook's body for it."""
    return body(shop, on, add_comment(shop.gitlab, on, author, text, **more))


def triggered(shop: World, sent: Mapping[str, Any] | bytes, *args: str, **env: str) -> Done:
    """The command in a pipeline that the webhook triggered: the body comes as a file."""
    return shop.nightshift(*(args or ("run",)), **payload(shop, sent), **env)


def payload(shop: World, sent: Mapping[str, Any] | bytes) -> dict[str, str]:
    """The variables of such a pipeline."""
    file = shop.checkout.with_name("shop.tmp") / "TRIGGER_PAYLOAD"
    file.write_bytes(sent if isinstance(sent, bytes) else json.dumps(sent).encode())
    return {**TRIGGER, "CI_PROJECT_DIR": str(shop.checkout), "TRIGGER_PAYLOAD": str(file)}


def replies(shop: World, on: StandinNoteable) -> list[str]:
    """What this program has answered, without the hidden marker."""
    own = [n for n in on.notes if n.author.username == "night-bot" and not n.system]
    return [note.body.partition("\n\n<!--")[0] for note in own]


def posted(shop: World) -> list[str]:
    """Every comment as it was when it was posted."""
    posts = (each for each in shop.gitlab.requests if each.path.endswith("/notes"))
    return [each.body["body"] for each in posts if each.method == "POST"]
