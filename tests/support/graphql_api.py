"""GitLab's GraphQL for the stand-in, as far as this program asks it: the types and fields below are
GitLab's, and graphql-core refuses a query that they do not allow."""

from functools import cache
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.demo.standin_api import Endpoint, StandinCall, find_project
from gitlab_nightshift.demo.standin_requests import StandinAnswer
from gitlab_nightshift.demo.standin_state import MAINTAINER, StandinMergeRequest, StandinNote, User
from tests.support.standin_merge_requests import read_merge_request_diffs
from tests.support.standin_records import FullProject, PipelineJob, as_full

if TYPE_CHECKING:
    from graphql import GraphQLSchema

LARGEST_PAGE = 100
SCHEMA = """
type Query { project(fullPath: ID!): Project }
type Project {
  inheritedCiVariables(first: Int): InheritedCiVariableConnection
  mergeRequests(iids: [String!], first: Int, last: Int): MergeRequestConnection
  jobs(statuses: [CiJobStatus!], first: Int, after: String): CiJobConnection
}
enum CiJobStatus {
  CANCELED CREATED FAILED MANUAL PENDING PREPARING RUNNING SCHEDULED SKIPPED SUCCESS
  WAITING_FOR_RESOURCE
}
type PageInfo { endCursor: String hasNextPage: Boolean! }
type CiJobConnection { pageInfo: PageInfo! nodes: [CiJob] }
type CiJob { id: ID name: String status: CiJobStatus pipeline: Pipeline }
type Pipeline { id: ID! manualVariables(first: Int): PipelineManualVariableConnection }
type PipelineManualVariableConnection { nodes: [PipelineManualVariable] }
type PipelineManualVariable { key: String value: String }
type InheritedCiVariableConnection { nodes: [InheritedCiVariable] }
type InheritedCiVariable {
  key: String protected: Boolean masked: Boolean environmentScope: String groupName: String
}
type MergeRequestConnection { nodes: [MergeRequest] }
type MergeRequest {
  iid: String!
  diffStats(path: String): [DiffStats!]
  awardEmoji(first: Int, last: Int): AwardEmojiConnection
  notes(first: Int, last: Int): NoteConnection!
}
type DiffStats { path: String! additions: Int! deletions: Int! }
type AwardEmojiConnection { nodes: [AwardEmoji] }
type AwardEmoji { name: String! user: UserCore! }
type NoteConnection { nodes: [Note] }
type Note { id: ID! body: String! system: Boolean! internal: Boolean author: UserCore }
type UserCore { id: ID! username: String! bot: Boolean! }
"""


@cache
def _build_schema() -> "GraphQLSchema":
    from graphql import build_schema

    return build_schema(SCHEMA)


def answer_query(call: StandinCall) -> StandinAnswer:
    """POST /api/graphql; errors come with the status 200."""
    from graphql import graphql_sync

    body = call.request.body

    def project(_info: Any, fullPath: str) -> dict[str, Any]:  # noqa: N803
        found = as_full(find_project(call.state, fullPath))

        def list_nodes(_info: Any, iids: list[str], first: int = LARGEST_PAGE) -> dict[str, Any]:
            listed = [each for each in found.merge_requests[::-1] if str(each.iid) in iids]
            size = min(first, LARGEST_PAGE)
            return {"nodes": [_show_merge_request(found, each) for each in listed[:size]]}

        def list_inherited(_info: Any, first: int = LARGEST_PAGE) -> dict[str, Any] | None:
            seen = call.caller.access_level >= MAINTAINER
            return {"nodes": found.inherited_variables[:first]} if seen else None

        return {
            "mergeRequests": list_nodes,
            "inheritedCiVariables": list_inherited,
            "jobs": lambda _info, **asked: _list_jobs(found, **asked),
        }

    result = graphql_sync(
        _build_schema(),
        body["query"],
        root_value={"project": project},
        variable_values=body["variables"],
    )
    return StandinAnswer(200, result.formatted)


def _list_jobs(
    project: FullProject, statuses: list[str], first: int = LARGEST_PAGE, after: str | None = None
) -> dict[str, Any]:
    """The newest first; a cursor is the number of jobs that were shown."""
    found = [job for job in project.jobs[::-1] if job.status.upper() in statuses]
    start, size = int(after or 0), min(first, LARGEST_PAGE)
    shown = found[start : start + size]
    end = start + len(shown)
    return {
        "pageInfo": {"endCursor": str(end), "hasNextPage": end < len(found)},
        "nodes": [_show_job(project, job) for job in shown],
    }


def _show_job(project: FullProject, job: PipelineJob) -> dict[str, Any]:
    started = next((each for each in project.pipelines if each.id == job.pipeline), None)
    given = started.variables.items() if started else ()
    nodes = [{"key": key, "value": value} for key, value in given]
    return {
        "id": f"gid://gitlab/Ci::Build/{job.id}",
        "name": job.name,
        "status": job.status.upper(),
        "pipeline": {
            "id": f"gid://gitlab/Ci::Pipeline/{job.pipeline}",
            "manualVariables": lambda _info, first=LARGEST_PAGE: {"nodes": nodes[:first]},
        },
    }


def _show_merge_request(project: FullProject, request: StandinMergeRequest) -> dict[str, Any]:
    diffs = read_merge_request_diffs(project, request)
    notes = [_show_note(note) for note in request.notes]
    thumbs = [{"name": "thumbsdown", "user": _show_user(user)} for user in request.thumbs_down]
    return {
        "iid": str(request.iid),
        "diffStats": [{"path": diff["new_path"], "additions": 1, "deletions": 0} for diff in diffs],
        "awardEmoji": lambda _info, first=LARGEST_PAGE: {"nodes": thumbs[:first]},
        "notes": lambda _info, last=LARGEST_PAGE: {"nodes": notes[-last:]},
    }


def _show_note(note: StandinNote) -> dict[str, Any]:
    return {
        "id": f"gid://gitlab/Note/{note.id}",
        "body": note.body,
        "system": note.system,
        "internal": note.internal,
        "author": _show_user(note.author),
    }


def _show_user(user: User) -> dict[str, Any]:
    return {"id": f"gid://gitlab/User/{user.id}", "username": user.username, "bot": user.bot}


GRAPHQL = Endpoint("POST", "/api/graphql", answer_query)
