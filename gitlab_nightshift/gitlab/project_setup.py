"""Changes that prepare a project for nights: settings, and a commit by the API."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.gitlab.access import parse_day
from gitlab_nightshift.gitlab.api_error import call_or_none, transient
from gitlab_nightshift.gitlab.ci_settings import SWITCH
from gitlab_nightshift.gitlab.resources import ProjectFacts, build_project_path

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

DEVELOPER = 30
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
    """A project access token just created: GitLab shows its value only now."""

    id: int
    value: str = field(repr=False)


@dataclass(frozen=True)
class HeldToken:
    """An existing project access token; ``ends_on`` is the day at whose start (UTC) it expires,
    None for none."""

    id: int
    name: str
    active: bool
    revoked: bool
    ends_on: date | None


@dataclass(frozen=True)
class NewSchedule:
    """A schedule for nights, with ``cron`` in ``timezone``. Its pipelines are nights by its
    variable (``switched``), or else by its description. A fleet plays one that is not
    ``active``."""

    description: str
    branch: str
    cron: str
    timezone: str
    switched: bool = True
    active: bool = True


class ProjectSetup:
    """Changes for which a token needs Maintainer. Every method may raise :class:`ApiError`."""

    def __init__(self, client: "Client", project: str) -> None:
        self._client, self._path = client, build_project_path(project)

    def create_token(self, name: str, ends_on: date) -> NewToken:
        """Create a project access token, for which GitLab adds a bot user as Developer."""
        asked = {
            "name": name,
            "scopes": list(TOKEN_SCOPES),
            "access_level": DEVELOPER,
            "expires_at": ends_on.isoformat(),
        }
        made = self._post("access_tokens", asked)
        return NewToken(int(made["id"]), str(made["token"]))

    def list_tokens(self) -> tuple[HeldToken, ...]:
        """The project's access tokens, expired and revoked ones too."""
        rows = self._client.read_all_rows(f"{self._path}/access_tokens")
        return tuple(_read_token(row) for row in rows)

    def revoke_token(self, token: int) -> None:
        """Revoke a token by its id; a missing one counts as revoked."""
        delete = partial(self._client.http_delete, f"{self._path}/access_tokens/{token}")
        call_or_none(partial(self._client.patience.call_with_retries, delete, transient), 404)

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
                "raw": True,
                "environment_scope": new.scope,
                **({"description": new.description} if new.description else {}),
            },
        )

    def replace_secret(self, new: NewSecret) -> None:
        """Change a variable's value and description, and nothing else of it. It is safe to repeat,
        so it is retried."""
        asked = {
            "value": new.value,
            "description": new.description,
            "filter": {"environment_scope": new.scope},
        }
        put = partial(self._client.http_put, f"{self._path}/variables/{new.key}", post_data=asked)
        self._client.patience.call_with_retries(put, transient)

    def create_schedule(self, new: NewSchedule) -> None:
        """Create a schedule owned by the token's user. If GitLab refuses its variable, it is
        deleted again. It is inactive until it has the variable: without it, its pipelines were no
        nights but the project's usual ones."""
        asked = {
            "description": new.description,
            "ref": new.branch,
            "cron": new.cron,
            "cron_timezone": new.timezone,
            "active": new.active and not new.switched,
        }
        made = int(self._post("pipeline_schedules", asked)["id"])
        if not new.switched:
            return
        path = f"pipeline_schedules/{made}"
        try:
            self._post(f"{path}/variables", {"key": SWITCH, "value": "true"})
            if new.active:
                self._client.http_put(f"{self._path}/{path}", post_data={"active": True})
        except BaseException:  # a signal must leave no schedule behind either
            self.delete_schedule(made)
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
        return call_or_none(lambda: self._client.read_all_rows(path))

    def allow_job_token(self, source: str, project: int) -> None:
        """Allow jobs of the project with this id to read ``source`` with their job tokens."""
        path = f"{build_project_path(source)}/job_token_scope/allowlist"
        self._client.http_post(path, post_data={"target_project_id": project})

    def list_labels(self) -> frozenset[str]:
        """The names of the project's labels, inherited ones too."""
        rows = self._client.read_all_rows(f"{self._path}/labels")
        return frozenset(str(row.get("name")) for row in rows)

    def commit_files(
        self, branch: str, start: str, message: str, files: Mapping[str, tuple[str, bool]]
    ) -> None:
        """Commit on top of ``start``, and reset ``branch`` to that commit. A file is its text, and
        true if it is new."""
        actions = [
            {"action": "create" if new else "update", "file_path": name, "content": text}
            for name, (text, new) in files.items()
        ]
        # force: the branch of an earlier try is replaced, not continued.
        asked = {"branch": branch, "start_sha": start, "commit_message": message, "force": True}
        self._post("repository/commits", {**asked, "actions": actions})

    def update_description(self, iid: int, text: str) -> None:
        """Replace the description of a merge request."""
        self._client.http_put(f"{self._path}/merge_requests/{iid}", post_data={"description": text})

    def _post(self, name: str, data: Mapping[str, Any]) -> Any:
        return self._client.http_post(f"{self._path}/{name}", post_data=dict(data))


def _read_token(row: Mapping[str, Any]) -> HeldToken:
    return HeldToken(
        int(row["id"]),
        str(row.get("name") or ""),
        bool(row.get("active")),
        bool(row.get("revoked")),
        parse_day(row.get("expires_at")),
    )
