"""A project's settings for pipelines and pushes, as far as a token may see them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

from gitlab_nightshift.gitlab.api_error import ApiError, call_or_none
from gitlab_nightshift.gitlab.resources import build_project_path
from gitlab_nightshift.text.printable_text import make_printable

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

LONGEST_ERROR = 300
_INHERITED = """
query($project: ID!) { project(fullPath: $project) { inheritedCiVariables(first: 100) { nodes {
  key protected masked environmentScope groupName } } } }
"""
MOST_SCHEDULES = 20
"""Schedules whose variables are read: one request each, as the list does not show them."""
SWITCH = "NIGHTSHIFT"
"""The variable by which a schedule's pipelines are nights."""
FLEET_SCHEDULE = "Night shift (fleet)"
"""The description of the inactive schedule that a fleet plays: one in each project."""


@dataclass(frozen=True)
class Schedule:
    """A pipeline schedule. ``ref`` is a branch; ``switched`` is true if its variables make it a
    night, None if the token does not see them; ``inputs`` are the pipeline's, by name."""

    id: int
    description: str
    ref: str
    active: bool
    owner: str
    owner_active: bool
    switched: bool | None = None
    inputs: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class PushRule:
    """What GitLab requires of a push; "" and False for nothing."""

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
        """From the API's JSON."""
        given = {each.name: data[each.name] for each in fields(cls) if data.get(each.name)}
        return cls(**given)


@dataclass(frozen=True)
class CiVariable:
    """A variable, without its value; ``scope`` is its environment scope, ``group`` the name of the
    group that it is inherited from, "" for the project's own. Only these have a ``description``."""

    key: str
    protected: bool
    masked: bool
    scope: str
    group: str = ""
    description: str = ""


@dataclass(frozen=True)
class PipelineFile:
    """A ``.gitlab-ci.yml`` as GitLab reads it: its ``errors``, one line each, and the ``merged``
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
        known = sorted(rows, key=lambda row: not row.get("active"))
        return tuple(
            _read_schedule(row, self._find_switch(row) if number < MOST_SCHEDULES else None)
            for number, row in enumerate(known)
        )

    def read_schedule(self, row: Mapping[str, Any]) -> Schedule:
        """A schedule from a row of their list; the variables of an active one are read."""
        return _read_schedule(row, self._find_switch(row) if row.get("active") else None)

    def read_push_rule(self) -> PushRule | None:
        """The project's push rule: for Maintainers, on paid tiers."""
        found = self._get("push_rule")
        return PushRule.from_data(found) if isinstance(found, dict) else None

    def check_pipeline_file(self) -> PipelineFile | None:
        """Lint the default branch's ``.gitlab-ci.yml``; this creates no pipeline."""
        return _read_pipeline_file(self._get("ci/lint"))

    def check_pipeline_text(self, text: str) -> PipelineFile | None:
        """Lint a ``.gitlab-ci.yml`` before it is committed."""
        path, data = f"{self._path}/ci/lint", {"content": text}
        found = call_or_none(lambda: self._client.http_post(path, post_data=data))
        return _read_pipeline_file(found)

    def list_variables(self) -> tuple[CiVariable, ...] | None:
        """The project's own variables: for Maintainers."""
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
            answer = self._client.send_query(_INHERITED, {"project": path})
            nodes = answer["project"]["inheritedCiVariables"]["nodes"]
            return tuple(_read_inherited(node) for node in nodes)
        except (ApiError, TypeError, KeyError):
            return None

    def _find_switch(self, row: Mapping[str, Any]) -> bool | None:
        """True if the schedule's variables make it a night. GitLab shows them to its owner and to
        Maintainers."""
        found = self._get(f"pipeline_schedules/{int(row['id'])}")
        if not isinstance(found, dict) or not isinstance(found.get("variables"), list):
            return None
        return any(
            each.get("key") == SWITCH and each.get("value") == "true"
            for each in found["variables"]
            if isinstance(each, dict)
        )

    def _get(self, name: str) -> Any:
        return call_or_none(lambda: self._client.http_get(f"{self._path}/{name}"))

    def _list(self, name: str) -> list[dict[str, Any]] | None:
        return call_or_none(lambda: self._client.read_all_rows(f"{self._path}/{name}"))


def _read_pipeline_file(found: object) -> PipelineFile | None:
    if not isinstance(found, dict) or not isinstance(found.get("valid"), bool):
        return None
    given = (make_printable(str(each)) for each in found.get("errors") or ())
    errors = tuple(" ".join(each.split())[:LONGEST_ERROR] for each in given)
    known = () if found["valid"] else errors or ("GitLab gives no reason",)
    return PipelineFile(known, str(found.get("merged_yaml") or ""))


def _read_inherited(node: Mapping[str, Any]) -> CiVariable:
    return CiVariable(
        str(node["key"]),
        bool(node["protected"]),
        bool(node["masked"]),
        str(node["environmentScope"] or "*"),
        str(node["groupName"]),
    )


def _read_schedule(row: Mapping[str, Any], switched: bool | None) -> Schedule:
    owner = row.get("owner") or {}
    return Schedule(
        id=int(row["id"]),
        description=str(row.get("description") or ""),
        # GitLab stores full refs, even if a short one was sent (lib/api/ci/pipeline_schedules.rb).
        ref=str(row.get("ref") or "").removeprefix("refs/heads/"),
        active=bool(row.get("active")),
        owner=str(owner.get("username") or ""),
        owner_active=owner.get("state") == "active",
        switched=switched,
        inputs={str(each.get("name")): each.get("value") for each in row.get("inputs") or ()},
    )
