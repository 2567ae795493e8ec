"""Merge requests from branches of one project: find an earlier one, open a new one."""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.gitlab.api_error import ApiError, call_or_none, transient
from gitlab_nightshift.gitlab.resources import MergeRequest, NewMergeRequest, read_merge_request
from gitlab_nightshift.system.retry import RetryPolicy

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

BRANCH_APPEARS_S = 75.0
"""How long GitLab may need to see a branch that was pushed (37 s were seen by others)."""
MOST_MERGE_REQUESTS = 1000
PAGE = 100


class MergeRequests:
    """Those of the project with this id, and of none of its forks. Every method may raise
    :class:`ApiError`."""

    def __init__(self, client: "Client", project: int, patience: RetryPolicy) -> None:
        self._remote = client.projects.get(project, lazy=True)
        self._project, self._patience = project, patience

    def find_of_run(self, run_id: str) -> MergeRequest | None:
        """The merge request that a run has opened, whatever its state; the newest of several."""
        found = self._list(search=run_id, state="all")
        return next((each for each in found if each.marker and each.marker.run_id == run_id), None)

    def find_from(self, branch: str, sha: str) -> MergeRequest | None:
        """The merge request from ``branch`` at this commit, an open one first, whatever target."""
        found = [
            each
            for each in self._list(source_branch=branch, state="all")
            if each.sha == sha or each.state == "opened"
        ]
        return min(found, key=lambda each: each.state != "opened", default=None)

    def find_open(self, branch: str) -> MergeRequest | None:
        """The open merge request from a branch of this very project."""
        return next(self._list(source_branch=branch, state="opened"), None)

    def find_closed(self, branch: str) -> MergeRequest | None:
        """The last one from a branch that was closed unmerged, while that branch is there."""
        found = next(self._list(source_branch=branch, state="closed"), None)
        there = found and call_or_none(lambda: self._remote.branches.get(branch), 404)
        return found if there else None

    def find(self, iid: int) -> MergeRequest | None:
        """A merge request by its number, if its source branch is in this very project."""
        found = call_or_none(lambda: self._remote.mergerequests.get(iid), 404)
        if found is None or found.attributes.get("source_project_id") != self._project:
            return None
        return read_merge_request(found.attributes)

    def create(self, new: NewMergeRequest, sha: str) -> MergeRequest:
        """Open a merge request from a branch at ``sha``, or return the one that is open already.

        A request without an answer may have been performed: before it is repeated GitLab is asked
        for the merge request. A pushed branch that GitLab does not see yet is waited for.
        """
        clock = self._patience.clock
        appears = clock.now() + BRANCH_APPEARS_S
        first = True

        def find_or_create() -> MergeRequest:
            nonlocal first
            looked, first = None if first else self.find_from(new.source_branch, sha), False
            return looked or self._create_once(new, sha)

        def again(error: ApiError) -> bool:
            if _branch_unseen(error):
                return clock.now() < appears
            return transient(error)

        return self._patience.call_with_retries(find_or_create, again)

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
            there = self.find_from(new.source_branch, sha) if error.status == 409 else None
            if there is None:
                raise
            return there

    def _list(self, **filters: str) -> Iterator[MergeRequest]:
        """Merge requests with a source branch in this very project, newest first, bounded."""
        found = self._remote.mergerequests.list(iterator=True, per_page=PAGE, **filters)
        for each in itertools.islice(found, MOST_MERGE_REQUESTS):
            if each.attributes.get("source_project_id") == self._project:
                yield read_merge_request(each.attributes)


def _branch_unseen(error: ApiError) -> bool:
    """``400 source branch does not exist``, also as ``{"source_branch": ["does not exist"]}``."""
    text = error.reason.lower()
    return error.status == 400 and "source" in text and "branch" in text and "exist" in text
