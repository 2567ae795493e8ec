"""One project on one GitLab, as the stages read it and write to it."""

import itertools
import re
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.gitlab.access import Access, read_access
from gitlab_nightshift.gitlab.api_error import ApiError, call_or_none, transient
from gitlab_nightshift.gitlab.ci_settings import CiSettings
from gitlab_nightshift.gitlab.history import HistoryRequest, list_group_projects, read_history
from gitlab_nightshift.gitlab.issues import Issues
from gitlab_nightshift.gitlab.job_starter import JobStart, read_job_start
from gitlab_nightshift.gitlab.memory import Memory, read_memory
from gitlab_nightshift.gitlab.people import People
from gitlab_nightshift.gitlab.pipelines import Pipelines
from gitlab_nightshift.gitlab.project_setup import ProjectSetup
from gitlab_nightshift.gitlab.resources import (
    Label,
    MergeRequest,
    NewMergeRequest,
    ProjectFacts,
    read_merge_request,
)
from gitlab_nightshift.gitlab.reviews import Reviews
from gitlab_nightshift.gitlab.threads import Threads
from gitlab_nightshift.records.history_records import NightHistory
from gitlab_nightshift.retry import Clock, RetryPolicy

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
        raise build_config_error(f"the GitLab server's address {server_url!r} is no http(s) URL")
    if not project:
        raise build_config_error("the project is not known: set repo_url to its web address")
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise build_config_error("GITLAB_TOKEN is empty, or has a space or line break in it")
    time = clock or Clock()
    patience = RetryPolicy(time.now() + patience_s, time)
    return Project(server_url.rstrip("/"), project, token, timeout_s, patience)


class Project:
    """A project behind one token. Every method may raise :class:`ApiError` (``E_PUBLISH``)."""

    def __init__(
        self, server_url: str, name: str, token: str, timeout_s: float, patience: RetryPolicy
    ) -> None:
        self.name = name
        self._server_url, self._token, self._timeout_s = server_url, token, timeout_s
        self._patience = patience

    # --- reading ------------------------------------------------------------------------------

    def check_access(self) -> Access:
        """Who the token is. Raises ``E_CONFIG`` for a token that a night cannot work with."""
        return self._access

    @cached_property
    def _access(self) -> Access:
        return read_access(self._client, self.name, lambda: self._attributes)

    @cached_property
    def facts(self) -> ProjectFacts:
        """Id, path, visibility, default branch, and what is switched on."""
        data = self._attributes
        return ProjectFacts(
            id=data["id"],
            path=data["path_with_namespace"],
            visibility=data.get("visibility") or "",
            default_branch=data.get("default_branch") or "",
            http_url=data.get("http_url_to_repo") or "",
            archived=data.get("archived"),
            merge_requests=data.get("merge_requests_enabled"),
            job_token_pushes=data.get("ci_push_repository_for_job_token_allowed"),
        )

    @cached_property
    def _attributes(self) -> dict[str, Any]:
        return self._client.projects.get(self.name).attributes

    def find_branch_head(self, branch: str) -> str | None:
        """The full id of a branch's commit, None where there is no such branch."""
        found = call_or_none(lambda: self._remote.branches.get(branch), 404)
        return str(found.commit["id"]) if found else None

    def has_commit(self, branch: str, sha: str) -> bool | None:
        """Whether a branch has a commit in its history; None where GitLab lacks the commit."""
        found = call_or_none(lambda: self._remote.repository_compare(branch, sha), 404)
        return None if found is None else not found["commits"]

    def read_visibility(self) -> str:
        """``private``, ``internal`` or ``public``."""
        return self.facts.visibility

    def read_default_branch(self) -> str:
        """The default branch, "" in an empty project."""
        return self.facts.default_branch

    def read_memory(self, branch_prefix: str, label: str) -> Memory:
        """What became of earlier nights' merge requests, and what people work on."""
        return read_memory(self._client, self.facts, branch_prefix, label)

    def read_history(self, wanted: HistoryRequest) -> NightHistory:
        """Many nights, by merge requests and what is left of results."""
        return read_history(self._client, self.facts, wanted)

    def list_projects_below(self, most: int) -> tuple[str, ...]:
        """The ids of projects, where the name of this is a group's."""
        return list_group_projects(self._client, self.name, most)

    def find_merge_request_of_run(self, run_id: str) -> MergeRequest | None:
        """The merge request that a run has opened, whatever its state; the newest of several."""
        found = self._list_merge_requests(search=run_id, state="all")
        return next((each for each in found if each.marker and each.marker.run_id == run_id), None)

    def find_merge_request_from(self, branch: str, sha: str) -> MergeRequest | None:
        """The merge request from ``branch`` at this commit, an open one first, whatever target."""
        found = [
            each
            for each in self._list_merge_requests(source_branch=branch, state="all")
            if each.sha == sha or each.state == "opened"
        ]
        return min(found, key=lambda each: each.state != "opened", default=None)

    def find_open_merge_request(self, branch: str) -> MergeRequest | None:
        """The open merge request from a branch of this very project."""
        return next(self._list_merge_requests(source_branch=branch, state="opened"), None)

    def find_closed_merge_request(self, branch: str) -> MergeRequest | None:
        """The last one from a branch that was closed unmerged, while that branch is there."""
        found = next(self._list_merge_requests(source_branch=branch, state="closed"), None)
        return found if found and self.find_branch_head(branch) else None

    def has_other_commits(self, target: str, branch: str, title: str) -> bool:
        """Whether a branch has commits beside the target's that have another title than this."""
        found = call_or_none(lambda: self._remote.repository_compare(target, branch), 404)
        return any(each["title"] != title for each in (found or {}).get("commits", ()))

    def find_merge_request(self, iid: int) -> MergeRequest | None:
        """A merge request by its number, if its source branch is in this very project."""
        found = call_or_none(lambda: self._remote.mergerequests.get(iid), 404)
        if found is None or found.attributes.get("source_project_id") != self.facts.id:
            return None
        return read_merge_request(found.attributes)

    def list_protected_patterns(self) -> tuple[str, ...] | None:
        """Names and wildcards of protected branches; None where the token may not know."""
        branches = self._remote.protectedbranches
        found = call_or_none(lambda: branches.list(get_all=True, per_page=PAGE), 403, 404)
        return None if found is None else tuple(str(each.name) for each in found)

    def has_user(self, name: str) -> bool | None:
        """Whether GitLab knows a user of this name; None where it does not say."""
        try:
            return self.people.find_user(name) is not None
        except ApiError:
            return None

    def find_newest_job(self, pipeline: str, name: str) -> int | None:
        """The id of a pipeline's job of this name, the last try; None where there is none."""
        remote = self._remote.pipelines.get(pipeline, lazy=True)
        found = call_or_none(lambda: remote.jobs.list(get_all=True, per_page=PAGE), 404)
        return max((int(each.id) for each in found or () if each.name == name), default=None)

    def find_job_start(self, job: str) -> JobStart | None:
        """A job and who started it; None where there is no such job."""
        return read_job_start(self._client, self.name, job)

    def download_artifact(self, job: int, path: str, most: int) -> bytes:
        """One file out of a job's artifacts; more than ``most`` bytes are an error."""
        project = f"{self._remote.manager.path}/{self._remote.encoded_id}"
        return self._client.download(f"{project}/jobs/{job}/artifacts/{path}", most)

    @cached_property
    def people(self) -> People:
        """Who may review."""
        return People(self._client, self.name)

    @cached_property
    def threads(self) -> Threads:
        """Comments, and answers to them."""
        return Threads(self._client, self.name)

    @cached_property
    def reviews(self) -> Reviews:
        """Merge requests as they wait for people: conflicts, approvals, pipelines; rebases."""
        return Reviews(self._client, self.name, self._patience.clock)

    @cached_property
    def issues(self) -> Issues:
        """Issues that this program keeps."""
        return Issues(self._client, self.facts.id)

    @cached_property
    def pipelines(self) -> Pipelines:
        """Pipelines: start one, list its jobs, play a manual one."""
        return Pipelines(self._client, self.name)

    @cached_property
    def setup(self) -> ProjectSetup:
        """Changes that prepare a project's nights."""
        return ProjectSetup(self._client, self.name)

    @cached_property
    def ci_settings(self) -> CiSettings:
        """What the project's settings say of pipelines and pushes."""
        return CiSettings(self._client, self.name)

    # --- writing ------------------------------------------------------------------------------

    def ensure_labels(self, labels: Iterable[Label]) -> tuple[str, ...]:
        """Make the labels that are missing; a warning for each that could not be made."""
        warnings: list[str] = []
        for label in labels:
            try:
                self._patience.call_with_retries(partial(self._create_label, label), transient)
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

        def create_once() -> MergeRequest:
            nonlocal first
            looked, first = None if first else self._find_existing(new, sha), False
            return looked or self._create(new, sha)

        def again(error: ApiError) -> bool:
            if _branch_unseen(error):
                return clock.now() < appears
            return transient(error)

        return self._patience.call_with_retries(create_once, again)

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
            return read_merge_request(self._remote.mergerequests.create(data).attributes)
        except ApiError as error:
            there = self._find_existing(new, sha) if error.status == 409 else None
            if there is None:
                raise
            return there

    def _find_existing(self, new: NewMergeRequest, sha: str) -> MergeRequest | None:
        return self.find_merge_request_from(new.source_branch, sha)

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

    def _list_merge_requests(self, **filters: str) -> Iterator[MergeRequest]:
        """Merge requests with a source branch in this very project, newest first, bounded."""
        found = self._remote.mergerequests.list(iterator=True, per_page=PAGE, **filters)
        for each in itertools.islice(found, MOST_MERGE_REQUESTS):
            if each.attributes.get("source_project_id") == self.facts.id:
                yield read_merge_request(each.attributes)


def _branch_unseen(error: ApiError) -> bool:
    """``400 source branch does not exist``, also as ``{"source_branch": ["does not exist"]}``."""
    text = error.reason.lower()
    return error.status == 400 and "source" in text and "branch" in text and "exist" in text
