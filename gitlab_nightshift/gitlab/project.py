"""One project on one GitLab: everything that stages read from it and write to it."""

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.gitlab.accounts import Access, People, read_access
from gitlab_nightshift.gitlab.api_error import ApiError, call_or_none
from gitlab_nightshift.gitlab.history import HistoryRequest, Memory, read_history, read_memory
from gitlab_nightshift.gitlab.issues import Issues
from gitlab_nightshift.gitlab.merge_requests import MergeRequests, Reviews
from gitlab_nightshift.gitlab.pipelines import (
    JobStart,
    NightJob,
    Pipelines,
    list_night_jobs,
    read_job_start,
)
from gitlab_nightshift.gitlab.project_settings import CiSettings, ProjectSetup
from gitlab_nightshift.gitlab.resources import PAGE_SIZE, Label, ProjectFacts
from gitlab_nightshift.gitlab.threads import Threads
from gitlab_nightshift.records.history_records import NightHistory
from gitlab_nightshift.system.retry import Clock, RetryPolicy, write_notice

if TYPE_CHECKING:
    from gitlab.v4.objects import Project as Remote

    from gitlab_nightshift.gitlab.client import Client

TIMEOUT_S, PATIENCE_S = 30.0, 120.0
"""For one request, and for all retries together."""
OLDEST_GITLAB = (16, 11)
"""The oldest GitLab that accepts the template (``artifacts: access``), as docs/ci-template.md says.
All API requests of this program work on older ones, too."""
_LEAST_VARIABLE_LEVELS = {"developer": 30, "maintainer": 40, "owner": 50, "no_one_allowed": None}
"""GitLab's setting for who may give pipelines variables → the least access level."""


def open_project(
    server_url: str,
    project: str,
    token: str,
    *,
    timeout_s: float = TIMEOUT_S,
    patience_s: float = PATIENCE_S,
    clock: Clock | None = None,
    tell: Callable[[str], None] = write_notice,
    is_job_token: bool = False,
) -> "Project":
    """A project, by its id or path. Nothing is sent before a method is called.

    ``timeout_s`` limits each request, ``patience_s`` all retries together, from now on; ``tell``
    gets a line before each longer pause between retries. ``is_job_token``: the token is a
    ``CI_JOB_TOKEN``, which can read little more than artifacts of this project's jobs. Raises
    ``E_CONFIG`` for an invalid server address or token."""
    check_server(server_url, token)
    if not project:
        raise build_config_error("the project is unknown: set repo_url to its web address")
    clock = clock or Clock()
    retry_policy = RetryPolicy(clock.now() + patience_s, clock, tell=tell)
    return Project(
        server_url.rstrip("/"), project, token, timeout_s, retry_policy, is_job_token=is_job_token
    )


def check_server(server_url: str, token: str) -> None:
    """Raise ``E_CONFIG`` for an invalid server address or token."""
    if "@" in server_url:
        raise build_config_error("the GitLab address holds an @: give it without credentials")
    if not _is_http_url(server_url):
        raise build_config_error(f"the GitLab address {server_url!r} is not an http(s) URL")
    # The token is sent in a header, in which requests refuses a line break.
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise build_config_error("GITLAB_TOKEN is empty or contains a space or line break")


def _is_http_url(url: str) -> bool:
    # Only an IP literal may have brackets (RFC 3986, 3.2.2).
    host = r"(?:[^\s/@?#[\]]+|\[[\da-fA-F:.]+\](?::\d+)?)"
    try:
        return bool(re.fullmatch(rf"https?://{host}(/[^\s@?#]*)?", url) and urlsplit(url).hostname)
    except ValueError:  # an invalid IPv6 address
        return False


class Project:
    """A project behind one token. Every method may raise :class:`ApiError` (``E_PUBLISH``)."""

    def __init__(
        self,
        server_url: str,
        name: str,
        token: str,
        timeout_s: float,
        retry_policy: RetryPolicy,
        *,
        is_job_token: bool = False,
    ) -> None:
        self.name, self._is_job_token = name, is_job_token
        self._server_url, self._token, self._timeout_s = server_url, token, timeout_s
        self._retry_policy = retry_policy

    def with_token(self, token: str) -> "Project":
        """The same project, read and changed with another token."""
        return Project(self._server_url, self.name, token, self._timeout_s, self._retry_policy)

    # --- reading ------------------------------------------------------------------------------

    def check_access(self) -> Access:
        """The token's user and rights. Raises ``E_CONFIG`` for a token that a night cannot use."""
        return self._access

    @cached_property
    def _access(self) -> Access:
        return read_access(self._client, self.name, lambda: self._attributes)

    @cached_property
    def facts(self) -> ProjectFacts:
        """Id, path, visibility, default branch, and which features are on."""
        data = self._attributes
        return ProjectFacts(
            id=data["id"],
            path=data["path_with_namespace"],
            visibility=data.get("visibility") or "",
            default_branch=data.get("default_branch") or "",
            archived=data.get("archived"),
            empty=data.get("empty_repo"),
            merge_requests=data.get("merge_requests_enabled"),
        )

    @cached_property
    def _attributes(self) -> dict[str, Any]:
        return self._client.projects.get(self.name).attributes

    def can_set_variables(self) -> bool | None:
        """Whether the token's user may give pipelines and schedules variables; None if unknown:
        GitLab shows the setting only to Maintainers."""
        data = self._attributes
        if data.get("restrict_user_defined_variables") is False:
            return True
        role = data.get("ci_pipeline_variables_minimum_override_role")
        if role is None or role not in _LEAST_VARIABLE_LEVELS:
            return None
        level, least_level = self.check_access().level, _LEAST_VARIABLE_LEVELS[role]
        return least_level is not None and (level is None or level >= least_level)

    def check_version(self) -> None:
        """Raise ``E_CONFIG`` for a GitLab that would refuse the template, if the token may see the
        version."""
        answer = call_or_none(lambda: self._client.read_object("/version")) or {}
        version = str(answer.get("version"))
        match = re.match(r"(\d+)\.(\d+)", version)
        if match and (int(match[1]), int(match[2])) < OLDEST_GITLAB:
            oldest = ".".join(map(str, OLDEST_GITLAB))
            text = f"GitLab {version} would refuse every pipeline that includes the template"
            raise build_config_error(f"{text}, which needs {oldest} or newer")

    def find_branch_head(self, branch: str) -> str | None:
        """The full id of a branch's newest commit; None without such a branch."""
        remote_branch = call_or_none(lambda: self._remote.branches.get(branch), 404)
        return str(remote_branch.commit["id"]) if remote_branch else None

    def has_commit(self, branch: str, sha: str) -> bool | None:
        """Whether a branch contains a commit; None if GitLab does not have the commit."""
        commits = self._list_commits_between(branch, sha)
        return None if commits is None else not commits

    def read_memory(self, branch_prefix: str, label: str) -> Memory:
        """The merge requests of earlier nights, and other open ones."""
        return read_memory(self._client, self.facts, branch_prefix, label)

    def read_history(self, request: HistoryRequest) -> NightHistory:
        """Many nights: their merge requests, and the results that have not expired."""
        return read_history(self._client, self.facts, request)

    def has_other_commits(self, target: str, branch: str, title: str) -> bool:
        """True if a branch has a commit that is not in the target and has another title."""
        commits = self._list_commits_between(target, branch) or ()
        return any(each["title"] != title for each in commits)

    def _list_commits_between(self, base: str, head: str) -> Any:
        """The commits of ``head`` that ``base`` does not have (branches or ids); None if GitLab
        does not know one of the two."""
        comparison: Any = call_or_none(lambda: self._remote.repository_compare(base, head), 404)
        return comparison and comparison["commits"]

    def list_protected_patterns(self) -> tuple[str, ...] | None:
        """Names and wildcards of protected branches; None if the token may not see them."""
        branches = self._remote.protectedbranches
        protected = call_or_none(lambda: branches.list(get_all=True, per_page=PAGE_SIZE), 403, 404)
        return None if protected is None else tuple(str(each.name) for each in protected)

    def list_night_jobs(self) -> tuple[NightJob, ...]:
        """The unfinished jobs of nights."""
        return list_night_jobs(self._client, self.facts.path)

    def find_job_start(self, job: str) -> JobStart | None:
        """A job and who started it; None without such a job."""
        return read_job_start(self._client, self.name, job)

    def download_artifact(self, job: int, path: str, most: int) -> bytes:
        """One file from a job's artifacts. Raises ApiError for more than ``most`` bytes."""
        project = f"{self._remote.manager.path}/{self._remote.encoded_id}"
        return self._client.download(f"{project}/jobs/{job}/artifacts/{path}", most)

    @cached_property
    def people(self) -> People:
        """Users, members, approval rules and code owners."""
        return People(self._client, self.name)

    @cached_property
    def threads(self) -> Threads:
        """Comments and replies."""
        return Threads(self._client, self.name)

    @cached_property
    def reviews(self) -> Reviews:
        """The state of open merge requests: conflicts, approvals, pipelines; rebases."""
        return Reviews(self._client, self.name, self._retry_policy.clock)

    @cached_property
    def merge_requests(self) -> MergeRequests:
        """Merge requests from this project's own branches: find them, open one."""
        return MergeRequests(self._client, self.facts.id, self._retry_policy)

    @cached_property
    def issues(self) -> Issues:
        """Issues that this program maintains."""
        return Issues(self._client, self.facts.id)

    @cached_property
    def pipelines(self) -> Pipelines:
        """Pipelines: start one, list its jobs, start a manual job."""
        return Pipelines(self._client, self.name)

    @cached_property
    def setup(self) -> ProjectSetup:
        """Changes that prepare a project's nights."""
        return ProjectSetup(self._client, self.name)

    @cached_property
    def ci_settings(self) -> CiSettings:
        """The project's settings for pipelines and pushes."""
        return CiSettings(self._client, self.name)

    # --- writing ------------------------------------------------------------------------------

    def ensure_labels(self, labels: Iterable[Label]) -> tuple[str, ...]:
        """Create missing labels; returns a warning for each that could not be created."""
        warnings: list[str] = []
        for label in labels:
            try:
                self._client.send_idempotent(self._create_label, label)
            except ApiError as error:
                if error.status != 409:  # it exists, here or in a group
                    warnings.append(f"label {label.name} could not be created: {error}")
        return tuple(warnings)

    def _create_label(self, label: Label) -> None:
        data = {"name": label.name, "color": label.color, "description": label.description}
        self._remote.labels.create(data)

    # --- python-gitlab ------------------------------------------------------------------------

    @cached_property
    def _client(self) -> "Client":
        from gitlab_nightshift.gitlab.client import Client

        return Client(
            self._server_url,
            self._token,
            timeout_s=self._timeout_s,
            retry_policy=self._retry_policy,
            is_job_token=self._is_job_token,
        )

    @cached_property
    def _remote(self) -> "Remote":
        return self._client.projects.get(self.name, lazy=True)


def find_matching_pattern(name: str, patterns: Iterable[str]) -> str | None:
    """The first of the patterns (names, or wildcards with ``*``) that matches the name of a branch
    or an environment."""
    # As GitLab matches them, * includes slashes (app/models/ref_matcher.rb).
    for pattern in patterns:
        if re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name, re.DOTALL):
            return pattern
    return None
