"""Merge requests: find and open those from a project's own branches; what blocks open ones, their
failed jobs and diffs, and GitLab's own rebase."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.gitlab.api_error import ApiError, call_or_none, transient
from gitlab_nightshift.gitlab.resources import (
    PAGE_SIZE,
    MergeRequest,
    NewMergeRequest,
    build_project_path,
    read_merge_request,
)
from gitlab_nightshift.system.retry import Clock, RetryPolicy
from gitlab_nightshift.text.lazy_patterns import compile_lazily

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

BRANCH_DELAY_S = 75.0
"""How long GitLab may take to know a pushed branch: 37 s were reported."""
MOST_MERGE_REQUESTS = 1000


class MergeRequests:
    """The merge requests of the project with this id, without those from forks. Every method may
    raise :class:`ApiError`."""

    def __init__(self, client: "Client", project: int, retry_policy: RetryPolicy) -> None:
        self._remote = client.projects.get(project, lazy=True)
        self._project, self._retry_policy = project, retry_policy

    def find_by_run(self, run_id: str) -> MergeRequest | None:
        """The newest merge request that a run has opened, in any state."""
        for request in self._list(search=run_id, state="all"):
            if request.marker and request.marker.run_id == run_id:
                return request
        return None

    def find_from_branch(self, branch: str, sha: str) -> MergeRequest | None:
        """An open merge request from ``branch``, to any target, else one at the commit ``sha``."""
        requests = [
            each
            for each in self._list(source_branch=branch, state="all")
            if each.sha == sha or each.state == "opened"
        ]
        return min(requests, key=lambda each: each.state != "opened", default=None)

    def find_open(self, branch: str) -> MergeRequest | None:
        """The open merge request from a branch."""
        return next(self._list(source_branch=branch, state="opened"), None)

    def find_closed(self, branch: str) -> MergeRequest | None:
        """The last merge request from a branch that was closed unmerged; None if the branch no
        longer exists."""
        request = next(self._list(source_branch=branch, state="closed"), None)
        exists = request and call_or_none(lambda: self._remote.branches.get(branch), 404)
        return request if exists else None

    def find(self, iid: int) -> MergeRequest | None:
        """A merge request by its number; None if it is from a fork."""
        request = call_or_none(lambda: self._remote.mergerequests.get(iid), 404)
        if request is None or request.attributes.get("source_project_id") != self._project:
            return None
        return read_merge_request(request.attributes)

    def create(self, new: NewMergeRequest, sha: str) -> MergeRequest:
        """Open a merge request from a branch at ``sha``, or return the existing one.

        It waits until GitLab knows the branch. Before a retry it looks for the merge request, as a
        request whose answer was lost may have been performed.
        """
        clock = self._retry_policy.clock
        branch_deadline = clock.now() + BRANCH_DELAY_S
        first_try = True

        def find_or_create() -> MergeRequest:
            nonlocal first_try
            existing = None if first_try else self.find_from_branch(new.source_branch, sha)
            first_try = False
            return existing or self._create_once(new, sha)

        def should_retry(error: ApiError) -> bool:
            # "400 source branch does not exist", in any of GitLab's forms.
            text = error.reason.lower()
            if error.status == 400 and "source" in text and "branch" in text and "exist" in text:
                return clock.now() < branch_deadline
            return transient(error)

        return self._retry_policy.call_with_retries(find_or_create, should_retry)

    def _create_once(self, new: NewMergeRequest, sha: str) -> MergeRequest:
        data: dict[str, Any] = {
            "title": new.title,
            "description": new.body,
            "source_branch": new.source_branch,
            "target_branch": new.target_branch,
            "target_project_id": self._project,
            "labels": list(new.labels),
            "remove_source_branch": True,
        }
        if new.reviewer_ids:
            data |= {"reviewer_ids": list(new.reviewer_ids), "assignee_ids": list(new.reviewer_ids)}
        try:
            return read_merge_request(self._remote.mergerequests.create(data).attributes)
        except ApiError as error:
            # 409: there is an open one from this source branch, to some target.
            if error.status == 409 and (existing := self.find_from_branch(new.source_branch, sha)):
                return existing
            raise

    def _list(self, **filters: str) -> Iterator[MergeRequest]:
        """At most ``MOST_MERGE_REQUESTS`` merge requests without those from forks, newest first."""
        requests = self._remote.mergerequests.list(iterator=True, per_page=PAGE_SIZE, **filters)
        for each in itertools.islice(requests, MOST_MERGE_REQUESTS):
            if each.attributes.get("source_project_id") == self._project:
                yield read_merge_request(each.attributes)


# --- the state of merge requests ------------------------------------------------------------------


MOST_JOBS, MOST_FILES = 3, 30
"""Failed jobs of a pipeline, and files of a diff, that are read."""
TAIL_BYTES, LARGEST_LOG = 3_000, 20_000_000
"""Bytes of a job's log: its end, and the most that is downloaded to find it."""
CHECK_PAUSES_S = (0.5, 1.0, 2.0, *[4.0] * 6)
"""Pauses between requests for the state of GitLab's background jobs: merge checks, rebases."""
_UNCHECKED = frozenset({"unchecked", "checking", "preparing"})
"""Values of ``detailed_merge_status`` before the merge check; until then, ``has_conflicts`` is
always false."""
_HUNK = compile_lazily(r"(?m)^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")
CODE_FAILURES = frozenset({"script_failure", "unknown_failure", "", None})
"""Failure reasons that a commit may have caused, unlike a lost runner."""


@dataclass(frozen=True)
class ReviewState:
    """The state of a merge request. ``conflict`` is None before GitLab's merge check;
    ``failed_pipeline`` is the failed pipeline of its head, 0 for none; ``auto_merge`` is true if it
    is set to auto-merge, ``commented`` if it has any comment."""

    iid: int
    title: str
    description: str
    web_url: str
    branch: str
    head: str
    author_id: int
    opened: bool
    conflict: bool | None = False
    auto_merge: bool = False
    commented: bool = False
    failed_pipeline: int = 0


@dataclass(frozen=True)
class FailedJob:
    """A failed job and the end of its log."""

    name: str
    tail: str


class Reviews:
    """The state of a project's merge requests, those from forks included, and GitLab's rebase of
    one. Every method may raise :class:`ApiError`."""

    def __init__(self, client: "Client", project: str, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._path = build_project_path(project)

    def read_state(self, iid: int) -> ReviewState:
        """The state of one merge request; GitLab's list lacks some of it."""
        return _read_state(self._get(f"/merge_requests/{iid}"))

    def read_checked_states(self, iids: Iterable[int]) -> tuple[ReviewState, ...]:
        """The states of these merge requests, after GitLab's merge check. If it takes longer than
        half a minute for all together, ``conflict`` stays None."""
        # The first request only queues the check (lib/api/entities/merge_request_basic.rb:
        # check_mergeability(async: true)), so all are requested once before the first pause.
        states = {iid: self.read_state(iid) for iid in iids}
        for pause_s in CHECK_PAUSES_S:
            unchecked = [iid for iid, state in states.items() if state.conflict is None]
            if not unchecked:
                break
            self._clock.sleep(pause_s)
            states |= {iid: self.read_state(iid) for iid in unchecked}
        return tuple(states.values())

    def is_approved(self, iid: int) -> bool:
        """True if anybody has approved it."""
        return bool(self._get(f"/merge_requests/{iid}/approvals").get("approved_by"))

    def read_failed_jobs(self, pipeline: int) -> tuple[FailedJob, ...]:
        """The first failed jobs of a pipeline that a commit may fix."""
        path = f"{self._path}/pipelines/{pipeline}/jobs"
        failed = filter(_is_code_failure, self._client.read_page(path))
        return tuple(
            FailedJob(str(row.get("name")), self._read_log_tail(row["id"]))
            for row in sorted(failed, key=lambda row: int(row["id"]))[:MOST_JOBS]
        )

    def read_diff(self, iid: int) -> str:
        """The first page of the diff."""
        pairs = ((row.get("new_path"), row.get("diff")) for row in self._list_diffs(iid))
        return "\n".join(f"--- {path}\n{str(diff or '').rstrip()}" for path, diff in pairs)

    def find_hunk_lines(self, iid: int, path: str, line: int) -> tuple[int, int] | None:
        """The first and last line of the diff's hunk that contains this line; None if none does."""
        diffs = (
            str(row.get("diff")) for row in self._list_diffs(iid) if row.get("new_path") == path
        )
        for hunk in itertools.chain.from_iterable(map(_HUNK.finditer, diffs)):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            if first <= line < first + count:
                return first, first + count - 1
        return None

    def _list_diffs(self, iid: int) -> list[dict[str, Any]]:
        path = f"{self._path}/merge_requests/{iid}/diffs"
        return self._client.read_page(path, per_page=MOST_FILES)

    def rebase(self, iid: int) -> str:
        """Have GitLab rebase the branch onto its target; returns why it failed, "" on success."""
        path = f"{self._path}/merge_requests/{iid}"
        try:
            self._client.http_put(f"{path}/rebase")
        except ApiError as error:
            # 403: the branch is missing, or protected from pushes or force pushes
            # (app/services/merge_requests/rebase_service.rb). 409: GitLab is rebasing it now.
            if error.status in (403, 409):
                return error.reason
            raise
        for pause_s in (0.0, *CHECK_PAUSES_S):
            self._clock.sleep(pause_s)
            request = self._get(f"/merge_requests/{iid}", include_rebase_in_progress="true")
            if not request.get("rebase_in_progress"):
                return str(request.get("merge_error") or "")
        raise ApiError(f"the rebase of !{iid} has not ended yet")

    def _read_log_tail(self, job: int) -> str:
        """The end of a job's log; "" if it was erased, or the token may not see it."""
        path = f"{self._path}/jobs/{job}/trace"
        read = partial(self._client.read_tail, path, TAIL_BYTES, LARGEST_LOG)
        tail: bytes = call_or_none(read, 403, 404) or b""
        # A cut first line may contain half a secret, which redaction would not recognize.
        if len(tail) == TAIL_BYTES:
            tail = tail.partition(b"\n")[2]
        return tail.decode(errors="replace")

    def _get(self, path: str, **query: str) -> Mapping[str, Any]:
        return self._client.read_object(f"{self._path}{path}", **query)


def _read_state(data: Mapping[str, Any]) -> ReviewState:
    pipeline = data.get("head_pipeline") or {}
    return ReviewState(
        iid=int(data["iid"]),
        title=str(data.get("title") or ""),
        description=str(data.get("description") or ""),
        web_url=str(data.get("web_url") or ""),
        branch=str(data.get("source_branch") or ""),
        head=str(data.get("sha") or ""),
        author_id=int((data.get("author") or {}).get("id") or 0),
        opened=data.get("state") == "opened",
        conflict=_read_conflict(data),
        # The API's name for auto-merge (doc/api/merge_requests.md).
        auto_merge=data.get("merge_when_pipeline_succeeds") is True,
        # GitLab shows unresolved threads only if the project requires them to be resolved.
        commented=bool(data.get("user_notes_count")),
        failed_pipeline=int(pipeline["id"]) if pipeline.get("status") == "failed" else 0,
    )


def _read_conflict(data: Mapping[str, Any]) -> bool | None:
    status = data.get("detailed_merge_status")
    if data.get("has_conflicts") is True or status in ("conflict", "need_rebase"):
        return True
    return None if status in _UNCHECKED and data.get("state") == "opened" else False


def _is_code_failure(job: Mapping[str, Any]) -> bool:
    failed = job.get("status") == "failed" and not job.get("allow_failure")
    return failed and job.get("failure_reason") in CODE_FAILURES
