"""Projects and lists of them as GitLab's GraphQL shows them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from gitlab_nightshift.demo.standin_api import StandinCall
from gitlab_nightshift.demo.standin_repository import read_heads
from gitlab_nightshift.demo.standin_state import (
    DEVELOPER,
    MAINTAINER,
    StandinMergeRequest,
    StandinNote,
    User,
)
from tests.support.standin_merge_requests import read_merge_request_diffs
from tests.support.standin_records import (
    FullProject,
    PipelineJob,
    StandinPipeline,
    StandinSchedule,
    as_full,
    find_status,
)
from tests.support.standin_repositories import read_blob

LARGEST_PAGE = 100
OWNER = 50
Node = dict[str, Any]


def build_lists(call: StandinCall) -> Mapping[str, Callable[..., Any]]:
    """The fields of ``Query`` that list projects."""
    everything = [as_full(each) for each in call.state.projects]

    def group(_info: Any, fullPath: str) -> Node | None:  # noqa: N803
        below = [each for each in everything if each.path.startswith(f"{fullPath}/")]
        if not below:
            return None

        def list_below(
            _info: Any,
            includeSubgroups: bool = False,  # noqa: N803
            first: int = LARGEST_PAGE,
            after: str | None = None,
        ) -> Node:
            depth = fullPath.count("/") + 1
            found = [p for p in below if includeSubgroups or p.path.count("/") == depth]
            return build_page(found, first, after, lambda each: show_project(call, each))

        def list_requests(
            _info: Any,
            includeSubgroups: bool = False,  # noqa: N803
            labels: Sequence[str] = (),
            createdAfter: str = "",  # noqa: N803
            sort: str = "",
            first: int = LARGEST_PAGE,
            after: str | None = None,
        ) -> Node:
            listed = [
                (project, each)
                for project in below
                for each in project.merge_requests
                if _is_wanted(each, labels, createdAfter)
            ]
            listed.sort(key=lambda pair: (pair[1].created_at, pair[1].id), reverse=True)
            return _build_counted_page(listed, first, after, _show_merge_request)

        lists = {"projects": list_below, "mergeRequests": list_requests}
        return {**lists, **_show_group(call, fullPath)}

    def projects(
        _info: Any,
        fullPaths: Sequence[str],  # noqa: N803
        first: int = LARGEST_PAGE,
        after: str | None = None,
    ) -> Node:
        if len(fullPaths) > 50:
            raise ValueError("You cannot provide more than 50 full paths")
        found = [each for each in everything if each.path in fullPaths]
        return build_page(found, first, after, lambda each: show_project(call, each))

    return {"group": group, "projects": projects}


def build_page(
    items: Sequence[Any], first: int, after: str | None, show: Callable[[Any], Node]
) -> Node:
    """A page of a list, the newest first, as keysets by id make them."""
    ranked = sorted(items, key=lambda each: -each.id)
    rest = [each for each in ranked if not after or each.id < int(after)]
    page = rest[: min(first, LARGEST_PAGE)]
    info = {
        "hasNextPage": len(rest) > len(page),
        "endCursor": str(page[-1].id) if page else None,
    }
    return {"nodes": [show(each) for each in page], "pageInfo": info}


def show_project(call: StandinCall, project: FullProject) -> Node:
    """A project; what a query does not ask for costs nothing."""

    def list_merge_requests(
        _info: Any,
        iids: Sequence[str] = (),
        labels: Sequence[str] = (),
        sourceBranches: Sequence[str] = (),  # noqa: N803
        createdAfter: str = "",  # noqa: N803
        sort: str = "",
        first: int = LARGEST_PAGE,
        after: str | None = None,
    ) -> Node:
        listed = [
            (project, each)
            for each in project.merge_requests[::-1]
            if (not iids or str(each.iid) in iids)
            and (not sourceBranches or each.source_branch in sourceBranches)
            and _is_wanted(each, labels, createdAfter)
        ]
        return _build_counted_page(listed, first, after, _show_merge_request)

    def list_inherited(_info: Any, first: int = LARGEST_PAGE) -> Node | None:
        seen = call.caller.access_level >= MAINTAINER
        return {"nodes": project.inherited_variables[:first]} if seen else None

    def list_pipelines(
        _info: Any,
        source: str = "",
        scope: str = "",
        first: int = LARGEST_PAGE,
        after: str | None = None,
    ) -> Node:
        found = [each for each in project.pipelines if source in ("", each.source)]
        if scope:
            found = [each for each in found if _find_status(project, each) == scope]
        return build_page(found, first, after, lambda each: _show_pipeline(project, each))

    return {
        "id": f"gid://gitlab/Project/{project.id}",
        "fullPath": project.path,
        "archived": project.archived,
        "topics": project.topics,
        "lastActivityAt": project.last_activity_at,
        "isForked": project.forked,
        "markedForDeletionOn": project.deleted_on,
        "ciConfigPathOrDefault": ".gitlab-ci.yml",
        "repository": lambda _info: show_repository(project),
        "mergeRequests": list_merge_requests,
        "inheritedCiVariables": list_inherited,
        "pipelines": list_pipelines,
        **_show_operations(call, project),
    }


def show_repository(project: FullProject) -> Node:
    """A repository, or the files that stand for one."""
    files = project.files
    if files is not None:
        empty, branch = not files, project.default_branch
    else:
        heads = read_heads(project.bare_repository)
        empty, branch = not heads, project.default_branch

    def read(path: str) -> str | None:
        if files is not None:
            return files.get(path)
        data = read_blob(project.git, project.bare_repository, "HEAD", path)
        return None if data is None else data.decode(errors="replace")

    def list_blobs(_info: Any, paths: Sequence[str], first: int = LARGEST_PAGE) -> Node:
        found = [{"path": path, "rawTextBlob": read(path)} for path in paths]
        return {"nodes": [each for each in found if each["rawTextBlob"] is not None][:first]}

    return {"empty": empty, "rootRef": None if empty else branch, "blobs": list_blobs}


def _find_status(project: FullProject, pipeline: StandinPipeline) -> str:
    return find_status([each for each in project.jobs if each.pipeline == pipeline.id]).upper()


def _show_pipeline(project: FullProject, pipeline: StandinPipeline) -> Node:
    jobs = [each for each in project.jobs if each.pipeline == pipeline.id]

    def find_job(_info: Any, name: str) -> Node | None:
        """The last try of this name."""
        found = [each for each in jobs if each.name == name]
        job = max(found, key=lambda each: each.id, default=None)
        return {"id": f"gid://gitlab/Ci::Build/{job.id}", "name": name} if job else None

    return {
        "id": f"gid://gitlab/Ci::Pipeline/{pipeline.id}",
        "status": find_status(jobs).upper(),
        "createdAt": pipeline.created_at,
        "startedAt": pipeline.created_at if any(each.started for each in jobs) else None,
        "finishedAt": pipeline.finished_at,
        "user": _show_user(pipeline.user),
        "job": find_job,
    }


def _is_wanted(request: StandinMergeRequest, labels: Sequence[str], since: str) -> bool:
    if not {*labels} <= {*request.labels}:
        return False
    return not since or datetime.fromisoformat(request.created_at) >= datetime.fromisoformat(since)


def _show_merge_request(pair: tuple[FullProject, StandinMergeRequest]) -> Node:
    project, request = pair

    def list_diffs(_info: Any, path: str | None = None) -> list[Node]:
        diffs = read_merge_request_diffs(project, request)
        return [{"path": diff["new_path"], "additions": 1, "deletions": 0} for diff in diffs]

    notes = [_show_note(note) for note in request.notes]
    thumbs = [{"name": "thumbsdown", "user": _show_user(user)} for user in request.thumbs_down]
    return {
        "iid": str(request.iid),
        "title": request.title,
        "state": request.state,
        "webUrl": request.web_url,
        "sourceProjectId": request.source_project_id or project.id,
        "project": {"id": f"gid://gitlab/Project/{project.id}", "fullPath": project.path},
        "createdAt": request.created_at,
        "updatedAt": request.updated_at,
        "mergedAt": request.merged_at,
        "reviewers": {"nodes": [_show_user(each) for each in request.reviewers]},
        "diffStats": list_diffs,
        "awardEmoji": lambda _info, first=LARGEST_PAGE: {"nodes": thumbs[:first]},
        "notes": lambda _info, last=LARGEST_PAGE: {"nodes": notes[-last:]},
    }


def _show_note(note: StandinNote) -> Node:
    return {
        "id": f"gid://gitlab/Note/{note.id}",
        "body": note.body,
        "system": note.system,
        "internal": note.internal,
        "author": _show_user(note.author),
    }


def _show_user(user: User) -> Node:
    return {"id": f"gid://gitlab/User/{user.id}", "username": user.username, "bot": user.bot}


# --- variables, schedules, unfinished jobs --------------------------------------------------------


def _show_group(call: StandinCall, path: str) -> Node:
    """A group; those below it are made of the paths of projects."""

    def list_below(_info: Any, first: int = LARGEST_PAGE, after: str | None = None) -> Node:
        parts = (p.path.split("/")[:-1] for p in call.state.projects)
        paths = {"/".join(each[:n]) for each in parts for n in range(1, len(each) + 1)}
        found = sorted(each for each in paths if each.startswith(f"{path}/"))
        return _build_counted_page([_show_group(call, each) for each in found], first, after)

    rows = vars(call.state).get("group_variables", {}).get(path, ())
    seen = call.caller.access_level >= OWNER
    return {
        "fullPath": path,
        "descendantGroups": list_below,
        "ciVariables": lambda _info, first=LARGEST_PAGE: _show_variables(rows) if seen else None,
    }


def _show_operations(call: StandinCall, project: FullProject) -> Node:
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
        return _build_counted_page([_show_job(project, job) for job in found], first, after)

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


def _build_counted_page(
    items: Sequence[Any],
    first: int,
    after: str | None,
    show: Callable[[Any], Node] = lambda node: node,
) -> Node:
    """A page whose cursor is the number of items shown so far."""
    start, size = int(after or 0), min(first, LARGEST_PAGE)
    end = min(len(items), start + size)
    info = {"endCursor": str(end), "hasNextPage": end < len(items)}
    return {"nodes": [show(each) for each in items[start:end]], "pageInfo": info}


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
