"""Who started a job, as GitLab itself knows it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gitlab_nightshift.gitlab.api_error import call_or_none

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client


@dataclass(frozen=True)
class JobStart:
    """A job's pipeline and state, and who started it (of a manual job: who pressed the button).

    ``level`` is GitLab's number of that user's role on the project (30 is Developer), 0 for none
    and for a blocked account.
    """

    pipeline: str
    status: str
    user_id: int
    login: str
    level: int


def read_job_start(client: "Client", project: str, job: str) -> JobStart | None:
    """Ask GitLab about a job of a project; None where it has no such job with a user."""
    place = f"/projects/{quote(project, safe='')}"
    found = _get(client, f"{place}/jobs/{quote(job, safe='')}")
    user = found.get("user") or {}
    if not isinstance(user.get("id"), int):
        return None
    member = _get(client, f"{place}/members/all/{user['id']}")
    active = user.get("state", "active") == "active" and member.get("state", "active") == "active"
    return JobStart(
        pipeline=str((found.get("pipeline") or {}).get("id", "")),
        status=str(found.get("status")),
        user_id=user["id"],
        login=str(user.get("username", "")),
        level=int(member.get("access_level") or 0) if active else 0,
    )


def _get(client: "Client", path: str) -> dict[str, Any]:
    return call_or_none(lambda: client.read_object(path), 404) or {}
