"""What the fleet's operators ask GraphQL for: variables, schedules, jobs that go on."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gitlab_nightshift.demo.standin_api import StandinCall
from gitlab_nightshift.demo.standin_state import DEVELOPER, MAINTAINER
from tests.support.standin_records import FullProject, PipelineJob, StandinSchedule

LARGEST_PAGE = 100
OWNER = 50
MORE = """
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
Node = dict[str, Any]


def show_group(call: StandinCall, path: str) -> Node:
    """A group; those below it are made of the paths of projects."""

    def list_below(_info: Any, first: int = LARGEST_PAGE, after: str | None = None) -> Node:
        parts = (p.path.split("/")[:-1] for p in call.state.projects)
        paths = {"/".join(each[:n]) for each in parts for n in range(1, len(each) + 1)}
        found = sorted(each for each in paths if each.startswith(f"{path}/"))
        return _build_page([show_group(call, each) for each in found], first, after)

    rows = vars(call.state).get("group_variables", {}).get(path, ())
    seen = call.caller.access_level >= OWNER
    return {
        "fullPath": path,
        "descendantGroups": list_below,
        "ciVariables": lambda _info, first=LARGEST_PAGE: _show_variables(rows) if seen else None,
    }


def show_operations(call: StandinCall, project: FullProject) -> Node:
    """What is added to a project."""
    seen = call.caller.access_level >= MAINTAINER

    def list_schedules(info: Any, first: int = LARGEST_PAGE) -> Node | None:
        _count_call(info, "pipelineSchedules")
        if call.caller.access_level < DEVELOPER:
            return None
        return {"nodes": [_show_schedule(call, each) for each in project.schedules[:first]]}

    def list_jobs(
        info: Any, statuses: Sequence[str], first: int = LARGEST_PAGE, after: str | None = None
    ) -> Node:
        _count_call(info, "jobs")
        found = [job for job in project.jobs[::-1] if job.status.upper() in statuses]
        return _build_page([_show_job(project, job) for job in found], first, after)

    return {
        "jobs": list_jobs,
        "pipelineSchedules": list_schedules,
        "ciVariables": lambda _info, first=LARGEST_PAGE: (
            _show_variables(project.variables) if seen else None
        ),
    }


def _count_call(info: Any, name: str) -> None:
    """Of one project in a request (Gitlab::Graphql::Limit::FieldCallCount)."""
    if name in info.context:
        text = f'"{name}" field can be requested only for 1 Project(s) at a time.'
        raise ValueError(text)
    info.context.add(name)


def _build_page(nodes: Sequence[Node], first: int, after: str | None) -> Node:
    """A cursor is the number of those that were shown."""
    start, size = int(after or 0), min(first, LARGEST_PAGE)
    end = min(len(nodes), start + size)
    info = {"endCursor": str(end), "hasNextPage": end < len(nodes)}
    return {"nodes": nodes[start:end], "pageInfo": info}


def _show_variables(rows: Iterable[Mapping[str, Any]]) -> Node:
    nodes = [
        {
            "key": row["key"],
            "value": None if row.get("hidden") else row.get("value"),
            "environmentScope": row.get("environment_scope", "*"),
        }
        for row in rows
    ]
    return {"nodes": nodes}


def _show_schedule(call: StandinCall, schedule: StandinSchedule) -> Node:
    seen = call.caller.access_level >= MAINTAINER or call.caller.user == schedule.owner
    shown = _show_pairs(schedule.variables) if seen else None
    return {
        "id": f"gid://gitlab/Ci::PipelineSchedule/{schedule.id}",
        "description": schedule.description,
        "active": schedule.active,
        "variables": lambda _info, first=LARGEST_PAGE: shown,
    }


def _show_job(project: FullProject, job: PipelineJob) -> Node:
    started = next((each for each in project.pipelines if each.id == job.pipeline), None)
    shown = _show_pairs(started.variables if started else {})
    return {
        "id": f"gid://gitlab/Ci::Build/{job.id}",
        "name": job.name,
        "status": job.status.upper(),
        "pipeline": {
            "id": f"gid://gitlab/Ci::Pipeline/{job.pipeline}",
            "manualVariables": lambda _info, first=LARGEST_PAGE: shown,
        },
    }


def _show_pairs(pairs: Mapping[str, str]) -> Node:
    return {"nodes": [{"key": key, "value": value} for key, value in pairs.items()]}
