"""One project on one GitLab, as the halls ask about it and write to it."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.errors import config_error
from gitlab_nightshift.gitlab.access import Access, read_access
from gitlab_nightshift.gitlab.errors import ApiError
from gitlab_nightshift.gitlab.jobs import Started, read_started
from gitlab_nightshift.gitlab.marker import category_of
from gitlab_nightshift.gitlab.pipelines import Pipelines
from gitlab_nightshift.gitlab.retry import Clock, Patience, transient
from gitlab_nightshift.gitlab.things import (
    NIGHT_LABEL,
    Facts,
    Label,
    MergeRequest,
    NewMergeRequest,
    merge_request_of,
)
from gitlab_nightshift.gitlab.threads import Threads
from gitlab_nightshift.records import OpenMergeRequest

if TYPE_CHECKING:
    from gitlab.v4.objects import Project as Remote

    from gitlab_nightshift.gitlab.client import Client

TIMEOUT_S = 30.0
PATIENCE_S = 120.0
BRANCH_APPEARS_S = 75.0
"""How long GitLab may need to see a branch that was pushed (37 s were seen by others)."""
MOST_MERGE_REQUESTS = 1000
PAGE = 100


def open_project(
    server_url: str,
    project: str,
    token: str,
    *,
    timeout_s: float = TIMEOUT_S,
    patience_s: float = PATIENCE_S,
    clock: Clock | None = None,
) -> "Project":
    """The façade of a project (its id or path); nothing is asked before a method is called.

    ``timeout_s`` bounds each request, ``patience_s`` all repetitions together, from now on.
    Raises ``E_CONFIG`` for a server or a token that cannot be one.
    """
    if not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s@?#]*)?", server_url):
        raise config_error(f"the GitLab server's address {server_url!r} is no http(s) URL")
    if not project:
        raise config_error("the project is not known: set repo_url to its web address")
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise config_error("GITLAB_TOKEN is empty, or has a space or line break in it")
    time = clock or Clock()
    patience = Patience(time.now() + patience_s, time)
    return Project(server_url.rstrip("/"), project, token, timeout_s, patience)


class Project:
    """A project behind one token. Every method may raise :class:`ApiError` (``E_PUBLISH``)."""

    def __init__(
        self, server_url: str, name: str, token: str, timeout_s: float, patience: Patience
    ) -> None:
        self.name = name
        self._server_url, self._token, self._timeout_s = server_url, token, timeout_s
        self._patience = patience

    # --- reading ------------------------------------------------------------------------------

    def access(self) -> Access:
        """Who the token is. Raises ``E_CONFIG`` for a token that a night cannot work with."""
        return read_access(self._client, self.name)

    @cached_property
    def facts(self) -> Facts:
        """Id, path, visibility and default branch."""
        data = self._client.projects.get(self.name).attributes
        return Facts(
            id=data["id"],
            path=data["path_with_namespace"],
            visibility=data.get("visibility") or "",
            default_branch=data.get("default_branch") or "",
            http_url=data.get("http_url_to_repo") or "",
        )

    def branch_head(self, branch: str) -> str | None:
        """The full id of a branch's commit, None where there is no such branch."""
        found = _unless_missing(lambda: self._remote.branches.get(branch))
        return str(found.commit["id"]) if found else None

    def contains(self, branch: str, sha: str) -> bool | None:
        """Whether a branch has a commit in its history; None where GitLab lacks the commit."""
        found = _unless_missing(lambda: self._remote.repository_compare(branch, sha))
        return None if found is None else not found["commits"]

    def visibility(self) -> str:
        """``private``, ``internal`` or ``public``."""
        return self.facts.visibility

    def default_branch(self) -> str:
        """The default branch, "" in an empty project."""
        return self.facts.default_branch

    def open_merge_requests(
        self, branch_prefix: str, label: str = NIGHT_LABEL
    ) -> tuple[OpenMergeRequest, ...]:
        """The open merge requests of earlier nights, newest first.

        They are known by the marker, or by ``label`` and ``branch_prefix`` together, and by a
        source branch in this very project; never by author, which changes with the token.
        """
        found = self._merge_requests(state="opened")
        return tuple(
            OpenMergeRequest(
                iid=each.iid,
                title=each.title,
                web_url=each.web_url,
                category=category_of(each.title, each.marker),
                source_branch=each.source_branch,
            )
            for each in found
            if each.marker
            or (label in each.labels and each.source_branch.startswith(branch_prefix))
        )

    def merge_request_of_run(self, run_id: str) -> MergeRequest | None:
        """The merge request that a run has opened, whatever its state; the newest of several."""
        found = self._merge_requests(search=run_id, state="all")
        return next((each for each in found if each.marker and each.marker.run_id == run_id), None)

    def merge_request_from(self, branch: str, sha: str) -> MergeRequest | None:
        """The merge request from ``branch`` at this commit, an open one first, whatever target."""
        found = [
            each
            for each in self._merge_requests(source_branch=branch, state="all")
            if each.sha == sha or each.state == "opened"
        ]
        return min(found, key=lambda each: each.state != "opened", default=None)

    def merge_request(self, iid: int) -> MergeRequest | None:
        """A merge request by its number, if its source branch is in this very project."""
        found = _unless_missing(lambda: self._remote.mergerequests.get(iid))
        if found is None or found.attributes.get("source_project_id") != self.facts.id:
            return None
        return merge_request_of(found.attributes)

    def protected_patterns(self) -> tuple[str, ...] | None:
        """Names and wildcards of protected branches; None where the token may not know."""
        try:
            found = self._remote.protectedbranches.list(get_all=True, per_page=PAGE)
        except ApiError as error:
            if error.status in (403, 404):
                return None
            raise
        return tuple(str(each.name) for each in found)

    def user_ids(self, names: Iterable[str]) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The ids of users, and a warning for each that cannot be found."""
        ids: list[int] = []
        warnings: list[str] = []
        for name in names:
            try:
                found = self._client.users.list(username=name.lstrip("@"), get_all=False)
            except ApiError as error:
                warnings.append(f"reviewer {name} could not be looked up: {error}")
                continue
            ids += [int(user.id) for user in list(found)[:1]]
            if not found:
                warnings.append(f"reviewer {name} is not known to GitLab")
        return tuple(dict.fromkeys(ids)), tuple(warnings)

    def newest_job(self, pipeline: str, name: str) -> int | None:
        """The id of a pipeline's job of this name, the last try; None where there is none."""
        remote = self._remote.pipelines.get(pipeline, lazy=True)
        found = _unless_missing(lambda: remote.jobs.list(get_all=True, per_page=PAGE))
        return max((int(each.id) for each in found or () if each.name == name), default=None)

    def started(self, job: str) -> Started | None:
        """A job and who started it; None where there is no such job."""
        return read_started(self._client, self.name, job)

    def artifact(self, job: int, path: str, most: int) -> bytes:
        """One file out of a job's artifacts; more than ``most`` bytes are an error."""
        project = f"{self._remote.manager.path}/{self._remote.encoded_id}"
        return self._client.download(f"{project}/jobs/{job}/artifacts/{path}", most)

    @cached_property
    def threads(self) -> Threads:
        """Comments, and answers to them."""
        return Threads(self._client, self.name)

    @cached_property
    def pipelines(self) -> Pipelines:
        """Pipelines: started, looked at, let go on."""
        return Pipelines(self._client, self.name)

    # --- writing ------------------------------------------------------------------------------

    def ensure_labels(self, labels: Iterable[Label]) -> tuple[str, ...]:
        """Make the labels that are missing; a warning for each that could not be made."""
        warnings: list[str] = []
        for label in labels:
            try:
                self._patience.tries(partial(self._create_label, label), transient)
            except ApiError as error:
                if error.status != 409:  # 409: it is there already, here or in the group
                    warnings.append(f"label {label.name} could not be made: {error}")
        return tuple(warnings)

    def _create_label(self, label: Label) -> None:
        data = {"name": label.name, "color": label.color, "description": label.description}
        self._remote.labels.create(data)

    def create_merge_request(self, new: NewMergeRequest, sha: str) -> MergeRequest:
        """Open a merge request from a branch at ``sha``, or return the one that is open already.

        A request without an answer may have been performed: before it is repeated GitLab is asked
        for the merge request. A pushed branch that GitLab does not see yet is waited for.
        """
        clock = self._patience.clock
        appears = clock.now() + BRANCH_APPEARS_S
        first = True

        def attempt() -> MergeRequest:
            nonlocal first
            looked, first = None if first else self._there(new, sha), False
            return looked or self._create(new, sha)

        def again(error: ApiError) -> bool:
            if _branch_unseen(error):
                return clock.now() < appears
            return transient(error)

        return self._patience.tries(attempt, again)

    def _create(self, new: NewMergeRequest, sha: str) -> MergeRequest:
        data: dict[str, Any] = {
            "title": new.title,
            "description": new.body,
            "source_branch": new.source_branch,
            "target_branch": new.target_branch,
            "target_project_id": self.facts.id,
            "labels": list(new.labels),
            "remove_source_branch": True,
        }
        if new.reviewer_ids:
            data |= {"reviewer_ids": list(new.reviewer_ids), "assignee_ids": list(new.reviewer_ids)}
        try:
            return merge_request_of(self._remote.mergerequests.create(data).attributes)
        except ApiError as error:
            there = self._there(new, sha) if error.status == 409 else None
            if there is None:
                raise
            return there

    def _there(self, new: NewMergeRequest, sha: str) -> MergeRequest | None:
        return self.merge_request_from(new.source_branch, sha)

    # --- python-gitlab ------------------------------------------------------------------------

    @cached_property
    def _client(self) -> "Client":
        from gitlab_nightshift.gitlab.client import Client

        return Client(
            self._server_url, self._token, timeout_s=self._timeout_s, patience=self._patience
        )

    @cached_property
    def _remote(self) -> "Remote":
        return self._client.projects.get(self.name, lazy=True)

    def _merge_requests(self, **filters: str) -> Iterator[MergeRequest]:
        """Merge requests with a source branch in this very project, newest first, bounded."""
        found = self._remote.mergerequests.list(iterator=True, per_page=PAGE, **filters)
        for each in itertools.islice(found, MOST_MERGE_REQUESTS):
            if each.attributes.get("source_project_id") == self.facts.id:
                yield merge_request_of(each.attributes)


def _unless_missing(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except ApiError as error:
        if error.status == 404:
            return None
        raise


def _branch_unseen(error: ApiError) -> bool:
    """``400 source branch does not exist``, also as ``{"source_branch": ["does not exist"]}``."""
    text = error.reason.lower()
    return error.status == 400 and "source" in text and "branch" in text and "exist" in text
