"""GitLab's GraphQL for the stand-in, as far as this program asks it: the types and fields below are
GitLab's, and graphql-core refuses a query that they do not allow."""

from functools import cache
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.demo.standin_api import Endpoint, StandinCall, find_project
from gitlab_nightshift.demo.standin_state import StandinAnswer
from tests.support.graphql_complexity import MOST, measure_complexity
from tests.support.graphql_nodes import build_lists, show_project
from tests.support.standin_records import as_full

if TYPE_CHECKING:
    from graphql import GraphQLSchema

SCHEMA = """
scalar Time
type Query {
  project(fullPath: ID!): Project
  group(fullPath: ID!): Group
  projects(fullPaths: [String!], first: Int, after: String): ProjectConnection
}
type Group {
  projects(includeSubgroups: Boolean, first: Int, after: String): ProjectConnection!
}
type PageInfo { hasNextPage: Boolean! endCursor: String }
type ProjectConnection { nodes: [Project] pageInfo: PageInfo! }
type Project {
  id: ID! fullPath: ID! archived: Boolean topics: [String!] lastActivityAt: Time
  isForked: Boolean markedForDeletionOn: Time ciConfigPathOrDefault: String!
  repository: Repository
  pipelines(
    source: String, scope: PipelineScopeEnum, first: Int, after: String
  ): PipelineConnection
  inheritedCiVariables(first: Int): InheritedCiVariableConnection
  mergeRequests(
    iids: [String!], labels: [String!], sourceBranches: [String!], createdAfter: Time,
    sort: MergeRequestSort, first: Int, last: Int, after: String
  ): MergeRequestConnection
}
enum PipelineScopeEnum { BRANCHES FINISHED PENDING RUNNING TAGS }
enum MergeRequestSort { CREATED_ASC CREATED_DESC }
type Repository {
  empty: Boolean! rootRef: String
  blobs(paths: [String!]!, first: Int): RepositoryBlobConnection
}
type RepositoryBlobConnection { nodes: [RepositoryBlob] }
type RepositoryBlob { path: String! rawTextBlob: String }
type PipelineConnection { nodes: [Pipeline] pageInfo: PageInfo! }
type Pipeline {
  id: ID! status: String! createdAt: Time! startedAt: Time finishedAt: Time user: UserCore
  job(name: String): CiJob
}
type CiJob { id: ID name: String status: String }
type InheritedCiVariableConnection { nodes: [InheritedCiVariable] }
type InheritedCiVariable {
  key: String protected: Boolean masked: Boolean environmentScope: String groupName: String
}
type MergeRequestConnection { nodes: [MergeRequest] pageInfo: PageInfo! }
type MergeRequest {
  iid: String! title: String! state: String! webUrl: String sourceProjectId: Int
  project: Project!
  createdAt: Time! updatedAt: Time! mergedAt: Time
  reviewers(first: Int): UserCoreConnection
  diffStats(path: String): [DiffStats!]
  awardEmoji(first: Int, last: Int): AwardEmojiConnection
  notes(first: Int, last: Int): NoteConnection!
}
type DiffStats { path: String! additions: Int! deletions: Int! }
type AwardEmojiConnection { nodes: [AwardEmoji] }
type AwardEmoji { name: String! user: UserCore! }
type NoteConnection { nodes: [Note] }
type Note { id: ID! body: String! system: Boolean! internal: Boolean author: UserCore }
type UserCoreConnection { nodes: [UserCore] }
type UserCore { id: ID! username: String! bot: Boolean! }
extend type Group {
  mergeRequests(
    includeSubgroups: Boolean, labels: [String!], createdAfter: Time, sort: MergeRequestSort,
    first: Int, after: String
  ): MergeRequestConnection
  ciVariables(first: Int): CiGroupVariableConnection
  descendantGroups(first: Int, after: String): GroupConnection
  fullPath: ID!
}
extend type Project {
  ciVariables(first: Int): CiProjectVariableConnection
  jobs(statuses: [CiJobStatus!], first: Int, after: String): CiJobConnection
  pipelineSchedules(first: Int): PipelineScheduleConnection
}
extend type Pipeline { manualVariables(first: Int): PipelineManualVariableConnection }
extend type CiJob { pipeline: Pipeline }
enum CiJobStatus {
  CANCELED CREATED FAILED MANUAL PENDING PREPARING RUNNING SCHEDULED SKIPPED SUCCESS
  WAITING_FOR_RESOURCE
}
type GroupConnection { nodes: [Group] pageInfo: PageInfo! }
type CiGroupVariableConnection { nodes: [CiVariable] }
type CiProjectVariableConnection { nodes: [CiVariable] }
type CiVariable { key: String value: String environmentScope: String }
type CiJobConnection { nodes: [CiJob] pageInfo: PageInfo! }
type PipelineScheduleConnection { nodes: [PipelineSchedule] }
type PipelineSchedule {
  id: ID! description: String active: Boolean!
  variables(first: Int): PipelineScheduleVariableConnection
}
type PipelineScheduleVariableConnection { nodes: [PlainVariable] }
type PipelineManualVariableConnection { nodes: [PlainVariable] }
type PlainVariable { key: String value: String }
"""


@cache
def _build_schema() -> "GraphQLSchema":
    from graphql import build_schema

    return build_schema(SCHEMA)


def answer_query(call: StandinCall) -> StandinAnswer:
    """POST /api/graphql; errors come with the status 200."""
    from graphql import graphql_sync

    body = call.request.body
    complexity = measure_complexity(body["query"], body["variables"])
    if complexity > MOST:
        why = f"Query has complexity of {complexity}, which exceeds max complexity of {MOST}"
        return StandinAnswer(200, {"errors": [{"message": why}]})

    def project(_info: Any, fullPath: str) -> dict[str, Any]:  # noqa: N803
        return show_project(call, as_full(find_project(call.state, fullPath)))

    result = graphql_sync(
        _build_schema(),
        body["query"],
        root_value={"project": project, **build_lists(call)},
        variable_values=body["variables"],
        context_value=set(),
        field_resolver=_resolve_field,
    )
    return StandinAnswer(200, result.formatted)


def _resolve_field(source: Any, info: Any, /, **given: Any) -> Any:
    """graphql-core's own cannot pass on an argument that is called source."""
    value = source.get(info.field_name)
    return value(info, **given) if callable(value) else value


GRAPHQL = Endpoint("POST", "/api/graphql", answer_query)
