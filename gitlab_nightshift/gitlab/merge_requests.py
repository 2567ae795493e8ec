"""Merge requests from a project's own branches: find them, open one."""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.gitlab.api_error import ApiError, call_or_none, transient
from gitlab_nightshift.gitlab.resources import MergeRequest, NewMergeRequest, read_merge_request
from gitlab_nightshift.system.retry import RetryPolicy

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

BRANCH_APPEARS_S = 75.0
"""How long GitLab may not know a branch after its push: others reported 37 s."""
MOST_MERGE_REQUESTS = 1000
PAGE = 100


class MergeRequests:
    """The merge requests of the project with this id, without those from forks. Every method may
    raise :class:`ApiError`."""

    def __init__(self, client: "Client", project: int, patience: RetryPolicy) -> None:
        self._remote = client.projects.get(project, lazy=True)
        self._project, self._patience = project, patience

    def find_by_run(self, run_id: str) -> MergeRequest | None:
        """The newest merge request that a run has opened, in any state."""
        found = self._list(search=run_id, state="all")
        return next((each for each in found if each.marker and each.marker.run_id == run_id), None)

    def find_from(self, branch: str, sha: str) -> MergeRequest | None:
        """The merge request from ``branch``, to any target: an open one, else one at this
        commit."""
        found = [
            each
            for each in self._list(source_branch=branch, state="all")
            if each.sha == sha or each.state == "opened"
        ]
        return min(found, key=lambda each: each.state != "opened", default=None)

    def find_open(self, branch: str) -> MergeRequest | None:
        """The open merge request from a branch."""
        return next(self._list(source_branch=branch, state="opened"), None)

    def find_closed(self, branch: str) -> MergeRequest | None:
        """The last merge request from a branch that was closed unmerged; None if the branch is
        gone."""
        found = next(self._list(source_branch=branch, state="closed"), None)
        exists = found and call_or_none(lambda: self._remote.branches.get(branch), 404)
        return found if exists else None

    def find(self, iid: int) -> MergeRequest | None:
        """A merge request by its number; None if it is from a fork."""
        found = call_or_none(lambda: self._remote.mergerequests.get(iid), 404)
        if found is None or found.attributes.get("source_project_id") != self._project:
            return None
        return read_merge_request(found.attributes)

    def create(self, new: NewMergeRequest, sha: str) -> MergeRequest:
        """Open a merge request from a branch at ``sha``, or return the one that exists.

        It waits for GitLab to know the branch. Before a retry it looks for the merge request, as a
        request whose answer was lost may have been performed.
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
            # 409: there is an open one for this source branch, to whatever target.
            existing = self.find_from(new.source_branch, sha) if error.status == 409 else None
            if existing is None:
                raise
            return existing

    def _list(self, **filters: str) -> Iterator[MergeRequest]:
        """At most ``MOST_MERGE_REQUESTS`` merge requests without those from forks, newest first."""
        # The list has forks' merge requests too.
        found = self._remote.mergerequests.list(iterator=True, per_page=PAGE, **filters)
        for each in itertools.islice(found, MOST_MERGE_REQUESTS):
            if each.attributes.get("source_project_id") == self._project:
                yield read_merge_request(each.attributes)


def _branch_unseen(error: ApiError) -> bool:
    """True for ``400 source branch does not exist``, in any of GitLab's forms."""
    text = error.reason.lower()
    return error.status == 400 and "source" in text and "branch" in text and "exist" in text
