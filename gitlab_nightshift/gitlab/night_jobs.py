"""Jobs of nights that have not ended, of one project: seen by GraphQL, cancelled by REST."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gitlab_nightshift.gitlab.api_error import ApiError, call_or_none, transient
from gitlab_nightshift.gitlab.resources import read_global_id

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

NIGHT_JOB = "nightshift"
"""The template's job, and before a colon those of the shape of three."""
RUNNING = "RUNNING"
MOST_PAGES = 20
_VARIABLES = "manualVariables(first: 100) { nodes { key value } }"  # GitLab 17.2 and newer
# GitLab resolves Project.jobs for one project in a request (project_jobs_resolver.rb).
_QUERY = f"""
query($project: ID!, $after: String) {{ project(fullPath: $project) {{
  jobs(statuses: [CREATED, WAITING_FOR_RESOURCE, PREPARING, PENDING, RUNNING], first: 100,
       after: $after) {{
    pageInfo {{ endCursor hasNextPage }}
    nodes {{ id name status pipeline {{ id {_VARIABLES} }} }}
}} }} }}
"""


@dataclass(frozen=True)
class NightJob:
    """A job of a night; ``status`` is GitLab's word in capitals, ``variables`` are those that its
    pipeline was started with by hand or by the API."""

    id: int
    name: str
    status: str
    pipeline: int
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def running(self) -> bool:
        """Whether a runner works on it; the others wait."""
        return self.status == RUNNING


def list_night_jobs(client: "Client", project: str) -> tuple[NightJob, ...]:
    """The unfinished jobs of nights in the project with this path. Raises ApiError."""
    return tuple(_walk_jobs(client, project))


def _walk_jobs(client: "Client", project: str) -> Iterator[NightJob]:
    after = None
    for _ in range(MOST_PAGES):
        answer = _ask(client, {"project": project, "after": after})
        try:
            jobs = answer["project"]["jobs"]
            rows = [(row, row["pipeline"] or {}) for row in jobs["nodes"]]
            for row, pipeline in rows:
                if row["name"] == NIGHT_JOB or str(row["name"]).startswith(f"{NIGHT_JOB}:"):
                    given = (pipeline.get("manualVariables") or {}).get("nodes") or ()
                    yield NightJob(
                        read_global_id(row["id"]),
                        str(row["name"]),
                        str(row["status"]),
                        read_global_id(pipeline.get("id")),
                        tuple((str(each["key"]), str(each["value"])) for each in given),
                    )
            after = jobs["pageInfo"]["endCursor"]
            if not jobs["pageInfo"]["hasNextPage"]:
                return
        except (TypeError, KeyError):
            text = f"the jobs of {project} are not visible to this token"
            raise ApiError(text, lasting=True) from None
    raise ApiError(f"{project} has more than {MOST_PAGES * 100} unfinished jobs", lasting=True)


def _ask(client: "Client", values: Mapping[str, Any]) -> Any:
    """Without the variables where this GitLab does not know them."""
    try:
        return client.send_query(_QUERY, values)
    except ApiError as error:
        if "'manualVariables' doesn't exist" not in error.message:
            raise
        return client.send_query(_QUERY.replace(_VARIABLES, ""), values)


def cancel_job(client: "Client", project: str, job: int) -> bool:
    """Cancel a job, which changes nothing where it has ended, so a lost answer is asked for again;
    False where there is none any more. Raises ApiError."""
    path = f"/projects/{quote(project, safe='')}/jobs/{job}/cancel"
    send = partial(client.patience.call_with_retries, partial(client.http_post, path), transient)
    return call_or_none(send, 404) is not None
