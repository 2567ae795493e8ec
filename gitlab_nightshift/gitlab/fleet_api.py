"""A fleet's requests: pages of projects, by GraphQL; schedules and results, by REST.

A page has 100 projects with their files, nights and merge requests. GitLab limits the complexity of
a query to 250 (``app/graphql/gitlab_schema.rb``): each field costs 1, and a list 1% more for each
of its items. The query for projects costs 141.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from gitlab_nightshift.gitlab.api_error import ApiError, call_or_none
from gitlab_nightshift.gitlab.pipelines import list_schedule_pipelines
from gitlab_nightshift.gitlab.project import TIMEOUT_S, check_server
from gitlab_nightshift.gitlab.project_settings import CiSettings, Schedule
from gitlab_nightshift.gitlab.resources import PAGE_SIZE, build_project_path
from gitlab_nightshift.system.retry import Clock, IsTransient, RetryPolicy, write_notice

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

Node = Mapping[str, Any]
Item = TypeVar("Item")
Answer = TypeVar("Answer")
Result = TypeVar("Result")

LEAST_PAGE_SIZE = 10
"""Projects per page, if GitLab takes too long for more."""
MOST_PATHS = 50
"""Paths that GitLab accepts in one query (``app/graphql/resolvers/projects_resolver.rb``)."""
MOST_NIGHTS, MOST_MERGE_REQUESTS = 6, 10
"""Of each project, the newest ones; older nights are read only when needed."""
MOST_PIPELINES = 5
"""Earlier pipelines of the control project that are searched for the last plan."""
LARGEST_RESULT, LARGEST_PLAN = 4 * 1024 * 1024, 64 * 1024 * 1024
"""Bytes of a night's result, and of the last plan."""
FILES = ("nightshift.yaml", ".gitlab-ci.yml")
THREADS = 8
"""Requests at the same time."""
PATIENCE_S = 300.0
"""Seconds for one request with its retries: GitLab's rate limits are per minute."""
OPTIONAL_FIELDS = ("isForked", "markedForDeletionOn")
"""Fields that older versions of GitLab lack."""
_NIGHT = """
  id status createdAt startedAt finishedAt user { username }
  night: job(name: "nightshift") { id } publish: job(name: "nightshift:publish") { id }
"""
_NIGHTS = f"""
  pipelines(source: "schedule", first: $nights, after: $older) {{
    pageInfo {{ hasNextPage endCursor }} nodes {{ {_NIGHT} }}
  }}
"""
_PROJECT = f"""
  id fullPath archived topics lastActivityAt ciConfigPathOrDefault OPTIONAL
  repository {{
    empty rootRef blobs(paths: ["{FILES[0]}", "{FILES[1]}"], first: 2) {{
      nodes {{ path rawTextBlob }} }}
  }}
  mergeRequests(labels: $labels, sort: CREATED_DESC, first: {MOST_MERGE_REQUESTS}) {{ nodes {{
    iid title state createdAt mergedAt updatedAt reviewers {{ nodes {{ username }} }} }} }}
  {_NIGHTS}
"""
_VARIABLES = "$labels: [String!], $nights: Int, $older: String, $first: Int, $after: String"
GROUP_QUERY = f"""
query($group: ID!, {_VARIABLES}) {{
  group(fullPath: $group) {{
    projects(includeSubgroups: true, first: $first, after: $after) {{
      pageInfo {{ hasNextPage endCursor }} nodes {{ {_PROJECT} }}
  }} }}
}}
"""
_PATHS_QUERY = f"""
query($paths: [String!], {_VARIABLES}) {{
  projects(fullPaths: $paths, first: $first, after: $after) {{
    pageInfo {{ hasNextPage endCursor }} nodes {{ {_PROJECT} }}
  }}
}}
"""
_OLDER_NIGHTS_QUERY = f"""
query($project: ID!, $nights: Int, $older: String) {{ project(fullPath: $project) {{ {_NIGHTS} }} }}
"""
_UNKNOWN_FIELD = re.compile(r"Field '(\w+)' doesn't exist on type")


@dataclass(frozen=True)
class ControlJob:
    """The job that runs a fleet's command: its project, branch and pipeline."""

    project: str
    ref: str
    pipeline: str


@dataclass(frozen=True)
class PerRequestRetryPolicy(RetryPolicy):
    """Retries each request for ``patience_s`` seconds after its first try: unlike a night's stage,
    a fleet's command has no deadline."""

    patience_s: float = PATIENCE_S

    def call_with_retries(self, call: Callable[[], Result], again: IsTransient) -> Result:
        """Call, and retry while ``again`` accepts the error."""
        until = self.clock.now() + self.patience_s
        policy = RetryPolicy(until, self.clock, self.first_s, tell=self.tell)
        return policy.call_with_retries(call, again)


def open_fleet(
    server_url: str,
    token: str,
    *,
    timeout_s: float = TIMEOUT_S,
    patience_s: float = PATIENCE_S,
    clock: Clock | None = None,
    tell: Callable[[str], None] = write_notice,
) -> "FleetApi":
    """The connection of a fleet's command. Nothing is sent before a method is called.

    ``timeout_s`` limits each request, ``patience_s`` all its retries. Raises ``E_CONFIG`` for an
    invalid server address or token.
    """
    check_server(server_url, token)
    stopping = threading.Event()
    clock = clock or Clock(sleep=partial(_sleep_until, stopping))
    retry_policy = PerRequestRetryPolicy(0.0, clock, tell=tell, patience_s=patience_s)
    return FleetApi(server_url.rstrip("/"), token, timeout_s, retry_policy, stopping)


def _sleep_until(stopping: threading.Event, seconds: float) -> None:
    if stopping.wait(seconds):
        raise ApiError("this run was stopped", lasting=True)


class FleetApi:
    """Requests to one GitLab. Every method may raise :class:`ApiError`, and is thread-safe."""

    def __init__(
        self,
        server_url: str,
        token: str,
        timeout_s: float,
        retry_policy: PerRequestRetryPolicy,
        stopping: threading.Event,
    ) -> None:
        self.clock, self.server_url = retry_policy.clock, server_url
        self._stopping, self._token = stopping, token
        self._timeout_s, self._retry_policy = timeout_s, retry_policy
        self._thread_local = threading.local()
        self.unsupported_fields: tuple[str, ...] = ()

    @property
    def client(self) -> "Client":
        """This thread's connection: a session of requests is not thread-safe."""
        client: Client | None = getattr(self._thread_local, "client", None)
        if client is None:
            client = self._thread_local.client = self._connect(self._retry_policy)
        return client

    def _connect(self, retry_policy: RetryPolicy) -> "Client":
        from gitlab_nightshift.gitlab.client import Client

        timeout_s = self._timeout_s
        return Client(self.server_url, self._token, timeout_s=timeout_s, retry_policy=retry_policy)

    def map_concurrently(
        self, ask: Callable[[Item], Answer], items: Sequence[Item]
    ) -> Iterator[Answer]:
        """The answers in the order of the items, with several requests at the same time. An
        interruption cancels waiting requests and retries."""
        with ThreadPoolExecutor(THREADS) as pool:
            try:
                yield from pool.map(ask, items)
            except BaseException:
                self._stopping.set()
                pool.shutdown(cancel_futures=True)
                raise

    # --- projects -----------------------------------------------------------------------------

    def find_username(self) -> str:
        """The token's user name."""
        return str(self.client.own_user.get("username") or "")

    def list_group_projects(self, group: str, label: str) -> Iterator[Node] | None:
        """The projects of a group and its subgroups; None for an unknown group."""
        variables = {"group": group, "labels": [label], "nights": MOST_NIGHTS}
        return self.list_nodes(GROUP_QUERY, variables, ("group", "projects"))

    def list_projects(self, paths: Sequence[str], label: str) -> Iterator[Node]:
        """The projects with these paths, without unknown ones."""
        return self.list_by_paths(_PATHS_QUERY, paths, {"labels": [label], "nights": MOST_NIGHTS})

    def list_by_paths(
        self, query: str, paths: Sequence[str], variables: Mapping[str, Any]
    ) -> Iterator[Node]:
        """The nodes of a query for projects by ``$paths``, in batches that GitLab accepts."""
        for start in range(0, len(paths), MOST_PATHS):
            batch = {"paths": list(paths[start : start + MOST_PATHS]), **variables}
            yield from self.list_nodes(query, batch, ("projects",)) or ()

    def list_older_nights(self, project: str, cursor: str) -> Iterator[Node]:
        """The scheduled pipelines of a project from this cursor on, newest first."""
        while cursor:
            variables = {"project": project, "nights": PAGE_SIZE, "older": cursor}
            answer = self.client.send_query(_OLDER_NIGHTS_QUERY, variables)
            page = _find_node(answer, ("project", "pipelines"))
            if page is None:
                return
            yield from _list_visible(page)
            cursor = read_next_cursor(page)

    # --- schedules ----------------------------------------------------------------------------

    def list_schedules(self, project: int) -> tuple[Schedule, ...]:
        """The schedules of a project; ``has_night_variable`` is None for inactive ones."""
        rows = self.client.read_all_pages(f"/projects/{project}/pipeline_schedules")
        settings = CiSettings(self.client, str(project))
        return tuple(settings.read_schedule(row) for row in rows)

    def list_pipelines_since(self, project: int, schedule: int, since: str) -> tuple[int, ...]:
        """The ids of a schedule's pipelines since a moment (ISO 8601), newest first."""
        path = f"/projects/{project}/pipeline_schedules/{schedule}"
        return tuple(int(row["id"]) for row in list_schedule_pipelines(self.client, path, since))

    def play(self, project: int, schedule: int) -> None:
        """Ask GitLab to start a schedule's pipeline. This is never retried: after a lost answer,
        the caller looks for the pipeline first."""
        self._connect(replace(self._retry_policy, patience_s=0.0)).http_post(
            f"/projects/{project}/pipeline_schedules/{schedule}/play"
        )

    # --- results ------------------------------------------------------------------------------

    def download_artifact(self, project: int, job: int, path: str) -> bytes:
        """A small file from a job's artifacts."""
        return self.client.download(
            f"/projects/{project}/jobs/{job}/artifacts/{path}", LARGEST_RESULT
        )

    def read_json_artifact(self, project: int, job: int, path: str) -> object:
        """The content of a JSON file from a job's artifacts; None if it is missing or invalid."""
        try:
            return json.loads(self.download_artifact(project, job, path))
        except ApiError as error:
            if error.status != 404:
                raise
        except (ValueError, RecursionError):
            pass
        return None

    def find_last_artifact(
        self, control: ControlJob, job: str, path: str, most: int = MOST_PIPELINES
    ) -> bytes | None:
        """A file from the artifacts of the last job with this name in an earlier pipeline of the
        control project; None if the newest ``most`` pipelines have none, or this token does not see
        them. The pipeline may still run, and the job may have ended with a warning."""
        project_path = build_project_path(control.project)
        query = {"ref": control.ref, "order_by": "id", "sort": "desc", "per_page": most + 1}
        pipelines_path = f"{project_path}/pipelines"
        rows = call_or_none(lambda: self.client.read_page(pipelines_path, **query)) or []
        earlier = [row["id"] for row in rows if str(row["id"]) != control.pipeline]
        for pipeline in earlier[:most]:
            jobs = call_or_none(partial(self.client.read_page, f"{pipelines_path}/{pipeline}/jobs"))
            # A job that ended with a warning (allow_failure) is "failed", and has its artifacts.
            ended = [each for each in jobs or () if each["status"] in ("success", "failed")]
            if job_ids := [each["id"] for each in ended if each["name"] == job]:
                artifact_path = f"{project_path}/jobs/{max(job_ids)}/artifacts/{path}"
                if data := call_or_none(partial(self.client.download, artifact_path, LARGEST_PLAN)):
                    return data
        return None

    # --- pages --------------------------------------------------------------------------------

    def list_nodes(
        self, query: str, variables: Mapping[str, Any], path: tuple[str, ...]
    ) -> Iterator[Node] | None:
        """The nodes of the list at ``path`` in the answer, read in pages; None if the answer has no
        such list. The query uses ``$first`` and ``$after``. If GitLab takes too long for a page,
        smaller ones are requested."""
        first = self._ask_page(query, {**variables, "after": None}, path, PAGE_SIZE)
        return None if first is None else self._continue(query, variables, path, *first)

    def _continue(
        self, query: str, variables: Mapping[str, Any], path: tuple[str, ...], page: Node, size: int
    ) -> Iterator[Node]:
        while True:
            yield from _list_visible(page)
            if not (after := read_next_cursor(page)):
                return
            next_page = self._ask_page(query, {**variables, "after": after}, path, size)
            if next_page is None:  # deleted in the meantime
                return
            page, size = next_page

    def _ask_page(
        self, query: str, variables: Mapping[str, Any], path: tuple[str, ...], size: int
    ) -> tuple[Node, int] | None:
        """A page, and the page size with which GitLab answered."""
        while True:
            fields = (field for field in OPTIONAL_FIELDS if field not in self.unsupported_fields)
            complete_query = query.replace("OPTIONAL", " ".join(fields))
            try:
                page = self._ask_once(complete_query, {**variables, "first": size}, path)
                return None if page is None else (page, size)
            except ApiError as error:
                unknown = _UNKNOWN_FIELD.search(error.message)
                # An unknown field fails the whole query, so it is left out from here on.
                if unknown and unknown[1] in OPTIONAL_FIELDS:
                    self.unsupported_fields += (unknown[1],)
                # GitLab, or a proxy before it, gives up on a query that takes too long.
                elif size > LEAST_PAGE_SIZE and (
                    error.status in (502, 503, 504) or "Timeout on" in error.message
                ):
                    size = max(LEAST_PAGE_SIZE, size // 2)
                else:
                    raise

    def _ask_once(
        self, query: str, variables: Mapping[str, Any], path: tuple[str, ...]
    ) -> Node | None:
        """A page. An error in a single node becomes that node's ``problem``; others are raised."""
        partial_errors: list[tuple[tuple[Any, ...], str]] = []
        page = _find_node(self.client.send_query(query, variables, partial_errors), path)
        nodes, depth = list((page or {}).get("nodes") or ()), len(path)
        for error_path, message in partial_errors:
            in_node = error_path[: depth + 1] == (*path, "nodes")
            index = error_path[depth + 1] if in_node else len(nodes)
            # GitLab reports a timeout at one field, but all later fields are missing too.
            if index >= len(nodes) or not nodes[index] or "Timeout on" in message:
                raise ApiError(f"GitLab's GraphQL refused the query: {message}", lasting=True)
            nodes[index] = {**nodes[index], "problem": message}
        return page and {**page, "nodes": nodes}


def _find_node(answer: Any, path: tuple[str, ...]) -> Node | None:
    """The object at a path of keys; None if there is none."""
    for name in path:
        answer = answer.get(name) if isinstance(answer, Mapping) else None
    return answer if isinstance(answer, Mapping) else None


def _list_visible(page: Node) -> Iterator[Node]:
    """The nodes of a page. For those that the token may not see, GitLab has null."""
    yield from (node for node in page.get("nodes") or () if isinstance(node, Mapping))


def read_next_cursor(page: Node) -> str:
    """The cursor of the next page, "" on the last one."""
    info = page.get("pageInfo") or {}
    return str(info.get("endCursor") or "") if info.get("hasNextPage") else ""
