"""A project's settings for pipelines and pushes, as far as a token may see them; and the changes
that prepare it for nights: tokens, variables, schedules, a commit by the API."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import date
from typing import TYPE_CHECKING, Any, Self

from gitlab_nightshift.gitlab.accounts import DEVELOPER, parse_day
from gitlab_nightshift.gitlab.api_error import ApiError, call_or_none
from gitlab_nightshift.gitlab.resources import ProjectFacts, build_project_path
from gitlab_nightshift.text.printable_text import make_printable

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

LONGEST_ERROR = 300
"""Characters."""
_INHERITED_VARIABLES = """
query($project: ID!) { project(fullPath: $project) { inheritedCiVariables(first: 100) { nodes {
  key protected masked environmentScope groupName } } } }
"""
MOST_SCHEDULES = 20
"""Schedules whose variables are read: one request each, as the list does not show them."""
NIGHT_VARIABLE = "NIGHTSHIFT"
"""The variable whose value ``true`` makes a schedule's pipelines nights."""
FLEET_SCHEDULE = "Night shift (fleet)"
"""The description of the inactive schedule in each project that a fleet plays."""


@dataclass(frozen=True)
class Schedule:
    """A pipeline schedule. ``ref`` is a branch; ``has_night_variable`` is None if the token does
    not see the variables; ``inputs`` are the pipeline's, by name."""

    id: int
    description: str
    ref: str
    active: bool
    owner: str
    owner_active: bool
    has_night_variable: bool | None = None
    inputs: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class PushRule:
    """GitLab's requirements for a push; "" and False mean no requirement."""

    branch_name_regex: str = ""
    commit_message_regex: str = ""
    commit_message_negative_regex: str = ""
    author_email_regex: str = ""
    member_check: bool = False
    commit_committer_check: bool = False
    commit_committer_name_check: bool = False
    reject_unsigned_commits: bool = False
    reject_non_dco_commits: bool = False

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """The rule from the API's JSON."""
        names = [each.name for each in fields(cls)]
        return cls(**{name: data[name] for name in names if data.get(name)})


@dataclass(frozen=True)
class CiVariable:
    """A variable, without its value. ``scope`` is its environment scope; ``group`` the name of the
    group that it is inherited from, "" for the project's own; ``description`` is "" for inherited
    ones."""

    key: str
    protected: bool
    masked: bool
    scope: str
    group: str = ""
    description: str = ""


@dataclass(frozen=True)
class PipelineFile:
    """GitLab's check of a ``.gitlab-ci.yml``: its ``errors``, one line each, and the ``merged``
    YAML with all includes."""

    errors: tuple[str, ...]
    merged: str


class CiSettings:
    """The settings of a project. Every method may raise :class:`ApiError`, and returns None if the
    token may not see them, or GitLab's tier does not have them."""

    def __init__(self, client: "Client", project: str) -> None:
        self._client, self._path = client, build_project_path(project)

    def list_schedules(self) -> tuple[Schedule, ...] | None:
        """The schedules, active ones first."""
        rows = self._list("pipeline_schedules")
        if rows is None:
            return None
        active_first = sorted(rows, key=lambda row: not row.get("active"))
        return tuple(
            _read_schedule(row, self._has_night_variable(row) if number < MOST_SCHEDULES else None)
            for number, row in enumerate(active_first)
        )

    def read_schedule(self, row: Mapping[str, Any]) -> Schedule:
        """A schedule from GitLab's list. The variables are read only of an active one."""
        return _read_schedule(row, self._has_night_variable(row) if row.get("active") else None)

    def read_push_rule(self) -> PushRule | None:
        """The project's push rule, which GitLab shows to Maintainers on paid tiers."""
        rule = self._get("push_rule")
        return PushRule.from_data(rule) if isinstance(rule, dict) else None

    def check_pipeline_file(self) -> PipelineFile | None:
        """Lint the default branch's ``.gitlab-ci.yml``; this creates no pipeline."""
        return _read_pipeline_file(self._get("ci/lint"))

    def check_pipeline_text(self, text: str) -> PipelineFile | None:
        """Lint a ``.gitlab-ci.yml`` before it is committed."""
        path, data = f"{self._path}/ci/lint", {"content": text}
        answer = call_or_none(lambda: self._client.http_post(path, post_data=data))
        return _read_pipeline_file(answer)

    def list_variables(self) -> tuple[CiVariable, ...] | None:
        """The project's own variables, which GitLab shows to Maintainers."""
        rows = self._list("variables")
        if rows is None:
            return None
        return tuple(
            CiVariable(
                str(row.get("key")),
                bool(row.get("protected")),
                bool(row.get("masked")),
                str(row.get("environment_scope") or "*"),
                description=str(row.get("description") or ""),
            )
            for row in rows
        )

    def list_inherited_variables(self, path: str) -> tuple[CiVariable, ...] | None:
        """The variables of the groups above the project with this path."""
        # REST shows them only to the group's Owners, GraphQL to the project's Maintainers.
        try:
            answer = self._client.send_query(_INHERITED_VARIABLES, {"project": path})
            nodes = answer["project"]["inheritedCiVariables"]["nodes"]
            return tuple(_read_inherited(node) for node in nodes)
        except (ApiError, TypeError, KeyError):
            return None

    def _has_night_variable(self, row: Mapping[str, Any]) -> bool | None:
        """Whether the schedule's variables make its pipelines nights. GitLab shows them to its
        owner and to Maintainers."""
        schedule = self._get(f"pipeline_schedules/{int(row['id'])}")
        if not isinstance(schedule, dict) or not isinstance(schedule.get("variables"), list):
            return None
        return any(
            variable.get("key") == NIGHT_VARIABLE and variable.get("value") == "true"
            for variable in schedule["variables"]
            if isinstance(variable, dict)
        )

    def _get(self, name: str) -> Any:
        return call_or_none(lambda: self._client.http_get(f"{self._path}/{name}"))

    def _list(self, name: str) -> list[dict[str, Any]] | None:
        return call_or_none(lambda: self._client.read_all_pages(f"{self._path}/{name}"))


def _read_pipeline_file(lint: object) -> PipelineFile | None:
    if not isinstance(lint, dict) or not isinstance(lint.get("valid"), bool):
        return None
    lines = (make_printable(str(error)) for error in lint.get("errors") or ())
    errors = tuple(" ".join(line.split())[:LONGEST_ERROR] for line in lines)
    errors = () if lint["valid"] else errors or ("GitLab gives no reason",)
    return PipelineFile(errors, str(lint.get("merged_yaml") or ""))


def _read_inherited(node: Mapping[str, Any]) -> CiVariable:
    return CiVariable(
        str(node["key"]),
        bool(node["protected"]),
        bool(node["masked"]),
        str(node["environmentScope"] or "*"),
        str(node["groupName"]),
    )


def _read_schedule(row: Mapping[str, Any], has_night_variable: bool | None) -> Schedule:
    owner = row.get("owner") or {}
    return Schedule(
        id=int(row["id"]),
        description=str(row.get("description") or ""),
        # GitLab stores full refs, even if a short one was sent (lib/api/ci/pipeline_schedules.rb).
        ref=str(row.get("ref") or "").removeprefix("refs/heads/"),
        active=bool(row.get("active")),
        owner=str(owner.get("username") or ""),
        owner_active=owner.get("state") == "active",
        has_night_variable=has_night_variable,
        inputs={str(entry.get("name")): entry.get("value") for entry in row.get("inputs") or ()},
    )


# --- set-up ---------------------------------------------------------------------------------------


TOKEN_SCOPES = ("api", "write_repository")


@dataclass(frozen=True)
class NewSecret:
    """A project variable to create: masked, hidden and protected. ``scope`` is its environment
    scope; the ``description`` is not hidden."""

    key: str
    value: str = field(repr=False)
    scope: str = "*"
    description: str = ""


@dataclass(frozen=True)
class NewToken:
    """A project access token just created, the only time that GitLab shows its value."""

    id: int
    value: str = field(repr=False)


@dataclass(frozen=True)
class ProjectToken:
    """An existing project access token. It expires at the start (UTC) of ``expires_on``, or never
    if that is None."""

    id: int
    name: str
    active: bool
    revoked: bool
    expires_on: date | None


@dataclass(frozen=True)
class NewSchedule:
    """A schedule for nights, with ``cron`` in ``timezone``. Its pipelines are nights by its
    variable (``with_night_variable``), or else by its description. A fleet plays a schedule that is
    not ``active``."""

    description: str
    branch: str
    cron: str
    timezone: str
    with_night_variable: bool = True
    active: bool = True


class ProjectSetup:
    """Changes for which a token needs Maintainer. Every method may raise :class:`ApiError`."""

    def __init__(self, client: "Client", project: str) -> None:
        self._client, self._path = client, build_project_path(project)

    def create_token(self, name: str, expires_on: date) -> NewToken:
        """Create a project access token, whose bot user GitLab adds to the project as Developer."""
        data = {
            "name": name,
            "scopes": list(TOKEN_SCOPES),
            "access_level": DEVELOPER,
            "expires_at": expires_on.isoformat(),
        }
        token = self._post("access_tokens", data)
        return NewToken(int(token["id"]), str(token["token"]))

    def list_tokens(self) -> tuple[ProjectToken, ...]:
        """The project's access tokens, expired and revoked ones too."""
        rows = self._client.read_all_pages(f"{self._path}/access_tokens")
        return tuple(_read_token(row) for row in rows)

    def revoke_token(self, token: int) -> None:
        """Revoke a token by its id; a missing one counts as revoked."""
        path = f"{self._path}/access_tokens/{token}"
        call_or_none(lambda: self._client.send_idempotent(self._client.http_delete, path), 404)

    def create_secret(self, new: NewSecret) -> None:
        """Store a variable. A GitLab before 17.4 ignores ``masked_and_hidden`` and only masks
        it."""
        self._post(
            "variables",
            {
                "key": new.key,
                "value": new.value,
                "masked": True,
                "masked_and_hidden": True,
                "protected": True,
                # Then a $ in the value is not expanded (doc/ci/variables).
                "raw": True,
                "environment_scope": new.scope,
                **({"description": new.description} if new.description else {}),
            },
        )

    def replace_secret(self, new: NewSecret) -> None:
        """Change only a variable's value and description. It is safe to repeat, so it is
        retried."""
        data = {
            "value": new.value,
            "description": new.description,
            "filter": {"environment_scope": new.scope},
        }
        path = f"{self._path}/variables/{new.key}"
        self._client.send_idempotent(self._client.http_put, path, post_data=data)

    def create_schedule(self, new: NewSchedule) -> None:
        """Create a schedule owned by the token's user. If GitLab refuses its variable, the schedule
        is deleted again. It is inactive until it has the variable: without that, its pipelines
        would be the project's usual ones instead of nights."""
        data = {
            "description": new.description,
            "ref": new.branch,
            "cron": new.cron,
            "cron_timezone": new.timezone,
            "active": new.active and not new.with_night_variable,
        }
        schedule = int(self._post("pipeline_schedules", data)["id"])
        if not new.with_night_variable:
            return
        path = f"pipeline_schedules/{schedule}"
        try:
            self._post(f"{path}/variables", {"key": NIGHT_VARIABLE, "value": "true"})
            if new.active:
                self._client.http_put(f"{self._path}/{path}", post_data={"active": True})
        except BaseException:  # a signal must leave no schedule behind either
            self.delete_schedule(schedule)
            raise

    def delete_schedule(self, schedule: int) -> None:
        """Delete a schedule by its id."""
        self._client.http_delete(f"{self._path}/pipeline_schedules/{schedule}")

    def is_job_token_allowed(self, source: str, project: ProjectFacts) -> bool | None:
        """Whether jobs of the project may read ``source``, allowed by name or by a group; None if
        this token may not see that."""
        scope = f"{build_project_path(source)}/job_token_scope"
        limits = call_or_none(lambda: self._client.http_get(scope))
        # Without the inbound limit, the job tokens of all projects are accepted.
        if isinstance(limits, dict) and limits.get("inbound_enabled") is False:
            return True
        rows = self._list_allowed(f"{scope}/allowlist")
        if rows is None:
            return None
        groups = self._list_allowed(f"{scope}/groups_allowlist") or ()
        paths = (str(row.get("web_url")).partition("/groups/")[2] for row in groups)
        return any(row.get("id") == project.id for row in rows) or any(
            path and project.path.startswith(f"{path}/") for path in paths
        )

    def _list_allowed(self, path: str) -> list[dict[str, Any]] | None:
        return call_or_none(lambda: self._client.read_all_pages(path))

    def allow_job_token(self, source: str, project: int) -> None:
        """Allow jobs of the project with this id to read ``source`` with their job tokens."""
        path = f"{build_project_path(source)}/job_token_scope/allowlist"
        self._client.http_post(path, post_data={"target_project_id": project})

    def list_labels(self) -> frozenset[str]:
        """The names of the project's labels, inherited ones too."""
        rows = self._client.read_all_pages(f"{self._path}/labels")
        return frozenset(str(row.get("name")) for row in rows)

    def commit_files(
        self, branch: str, start_sha: str, message: str, files: Mapping[str, tuple[str, bool]]
    ) -> None:
        """Commit on top of ``start_sha``, and reset ``branch`` to that commit. ``files`` maps a
        path to the text, and to whether the file is new."""
        actions = [
            {"action": "create" if new else "update", "file_path": path, "content": text}
            for path, (text, new) in files.items()
        ]
        # force: the branch of an earlier try is replaced, not continued.
        data = {"branch": branch, "start_sha": start_sha, "commit_message": message, "force": True}
        self._post("repository/commits", {**data, "actions": actions})

    def update_description(self, iid: int, text: str) -> None:
        """Replace the description of a merge request."""
        self._client.http_put(f"{self._path}/merge_requests/{iid}", post_data={"description": text})

    def _post(self, name: str, data: Mapping[str, Any]) -> Any:
        return self._client.http_post(f"{self._path}/{name}", post_data=dict(data))


def _read_token(row: Mapping[str, Any]) -> ProjectToken:
    return ProjectToken(
        int(row["id"]),
        str(row.get("name") or ""),
        bool(row.get("active")),
        bool(row.get("revoked")),
        parse_day(row.get("expires_at")),
    )
