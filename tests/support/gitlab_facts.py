"""What GitLab's own sources say of each endpoint that this program calls: parameters with their
types, roles, tiers and limits. Both stand-ins hold every request against it.

A parameter is written ``name type``; ``name!`` is required, ``str<=255`` has a longest length in
characters, ``a|b`` are the values that are allowed. Lists are given as JSON, or separated by commas
in a query. GitLab ignores what it does not declare; here that is refused, as it would be a mistake
that nobody sees.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gitlab_nightshift.demo.standin import Standin
from gitlab_nightshift.demo.standin_api import Endpoint, StandinApiError, StandinCall

BOOLEANS = "true false 1 0 t f on off yes no".split()
PAGES = "page int, per_page int, pagination str"
ORDER = "sort asc|desc"
MR_ORDERS = "created_at|label_priority|milestone_due|popularity|priority|title|updated_at|merged_at"
_ONE = "projects/{id}"
_MR = f"{_ONE}/merge_requests"
_SCHEDULES = f"{_ONE}/pipeline_schedules"
_GROUP_VARIABLES = "groups/{group}/variables"
_SCOPE = f"{_ONE}/job_token_scope"
GUEST, REPORTER, DEVELOPER, MAINTAINER = 10, 20, 30, 40
SOURCES = (
    "push|web|trigger|schedule|api|external|pipeline|chat|webide|merge_request_event"
    "|external_pull_request_event|parent_pipeline|ondemand_dast_scan|ondemand_dast_validation"
    "|security_orchestration_policy|container_registry_push|duo_workflow|unknown"
)


@dataclass(frozen=True)
class Fact:
    """An endpoint. ``source`` is the file of gitlab-org/gitlab that says so; ``role`` who may call
    it in a private project, None where no project is concerned; ``old``: the file was only at hand
    in an older version, or not at all (``ee/``), and the manual says what is newer. ``note``: what
    else it refuses."""

    method: str
    path: str
    source: str
    role: int | None
    parameters: str = ""
    old: bool = False
    paid: bool = False
    note: str = ""


FACTS = (
    Fact("GET", "user", "lib/api/users.rb", None, old=True),
    Fact("GET", "users", "lib/api/users.rb", None, f"username str, search str, {PAGES}", old=True),
    Fact("GET", "users/{user}", "lib/api/users.rb", None, old=True),
    Fact("GET", "users/{user}/status", "lib/api/users.rb", None, old=True),
    Fact("GET", "version", "lib/api/metadata.rb", None, old=True),
    Fact(
        "GET",
        "personal_access_tokens/self",
        "lib/api/personal_access_tokens/self_information.rb",
        None,
        note="400 for what is no personal, project or group access token",
    ),
    Fact("GET", _ONE, "lib/api/projects.rb", GUEST, old=True),
    Fact(
        "GET",
        f"{_ONE}/labels",
        "lib/api/labels.rb",
        GUEST,
        f"with_counts bool, include_ancestor_groups bool, search str, {PAGES}",
    ),
    Fact(
        "GET",
        f"{_ONE}/labels/{{label}}",
        "lib/api/labels.rb",
        GUEST,
        "include_ancestor_groups bool",
    ),
    Fact(
        "POST",
        f"{_ONE}/labels",
        "lib/api/helpers/label_helpers.rb",
        REPORTER,
        "name! str<=255, color! str, description str, archived bool, priority int",
        note="409 Label already exists, of the project's groups, too",
    ),
    Fact(
        "GET",
        f"{_ONE}/protected_branches",
        "lib/api/protected_branches.rb",
        REPORTER,
        f"search str, {PAGES}",
        old=True,
    ),
    Fact(
        "GET",
        f"{_ONE}/protected_branches/{{name}}",
        "lib/api/protected_branches.rb",
        REPORTER,
        old=True,
    ),
    Fact(
        "GET",
        f"{_ONE}/repository/branches",
        "lib/api/branches.rb",
        REPORTER,
        f"search str, regex str, {ORDER}, page_token str, {PAGES}",
        old=True,
    ),
    Fact("GET", f"{_ONE}/repository/branches/{{name}}", "lib/api/branches.rb", REPORTER, old=True),
    Fact(
        "GET",
        f"{_ONE}/repository/compare",
        "lib/api/repositories.rb",
        REPORTER,
        "from! str, to! str, from_project_id str, straight bool",
        old=True,
    ),
    Fact("GET", f"{_ONE}/repository/commits/{{sha}}", "lib/api/commits.rb", REPORTER, "stats bool"),
    Fact(
        "POST",
        f"{_ONE}/repository/commits",
        "lib/api/commits.rb",
        DEVELOPER,
        "branch! str, commit_message! str, actions! list, start_branch str, start_sha str,"
        " start_project str, author_email str, author_name str, stats bool, force bool",
        note="400 for a protected branch that the role may not push to",
    ),
    Fact(
        "GET",
        f"{_ONE}/repository/files/{{path}}/raw",
        "lib/api/files.rb",
        REPORTER,
        "ref str, lfs bool",
        old=True,
    ),
    Fact(
        "GET",
        _MR,
        "lib/api/helpers/merge_requests_helpers.rb",
        REPORTER,
        f"state opened|closed|locked|merged|all, order_by {MR_ORDERS}, {ORDER}, labels strs,"
        " author_id int, author_username str, reviewer_id str, milestone str, search str, in str,"
        " scope created-by-me|assigned-to-me|created_by_me|assigned_to_me|reviews_for_me|all,"
        " source_branch str, target_branch str, source_project_id int, created_after date,"
        " created_before date, updated_after date, updated_before date, view simple,"
        f" with_labels_details bool, with_merge_status_recheck bool, iids ints, {PAGES}",
    ),
    Fact(
        "POST",
        _MR,
        "lib/api/merge_requests.rb",
        DEVELOPER,
        "title! str<=255, source_branch! str, target_branch! str, target_project_id int,"
        " description str<=1048576, assignee_id int, assignee_ids ints, reviewer_ids ints,"
        " labels strs, milestone_id int, remove_source_branch bool, allow_collaboration bool,"
        " squash bool",
        note="409 for an open one of the same branches, 422 for other projects",
    ),
    Fact(
        "GET",
        f"{_MR}/{{iid}}",
        "lib/api/merge_requests.rb",
        REPORTER,
        "render_html bool, include_diverged_commits_count bool, include_rebase_in_progress bool",
        note="detailed_merge_status is unchecked or checking, has_conflicts false, until a worker"
        " has looked (lib/api/entities/merge_request_basic.rb)",
    ),
    Fact(
        "PUT",
        f"{_MR}/{{iid}}",
        "lib/api/merge_requests.rb",
        DEVELOPER,
        "title str<=255, target_branch str, description str<=1048576, state_event close|reopen,"
        " assignee_id int, assignee_ids ints, reviewer_ids ints, labels strs, add_labels strs,"
        " remove_labels strs, milestone_id int, remove_source_branch bool, discussion_locked bool,"
        " allow_collaboration bool, squash bool",
        note="400 where none of them is given; its author may, too",
    ),
    Fact("GET", f"{_MR}/{{iid}}/changes", "lib/api/merge_requests.rb", REPORTER, "unidiff bool"),
    Fact(
        "GET",
        f"{_MR}/{{iid}}/diffs",
        "lib/api/merge_requests.rb",
        REPORTER,
        f"unidiff bool, {PAGES}",
    ),
    Fact("GET", f"{_MR}/{{iid}}/approvals", "lib/api/merge_request_approvals.rb", REPORTER),
    Fact(
        "PUT",
        f"{_MR}/{{iid}}/rebase",
        "lib/api/merge_requests.rb",
        DEVELOPER,
        "skip_ci bool",
        note="202 at once; rebase_in_progress and merge_error tell its end",
    ),
    *(
        fact
        for where, least in (("issues", GUEST), ("merge_requests", REPORTER))
        for fact in (
            Fact(
                "GET",
                f"{_ONE}/{where}/{{iid}}/notes",
                "lib/api/notes.rb",
                least,
                f"order_by created_at|updated_at, {ORDER}, activity_filter str, {PAGES}",
            ),
            Fact("GET", f"{_ONE}/{where}/{{iid}}/notes/{{note}}", "lib/api/notes.rb", GUEST),
            Fact(
                "PUT",
                f"{_ONE}/{where}/{{iid}}/notes/{{note}}",
                "lib/api/notes.rb",
                GUEST,
                "body str<=1000000, confidential bool",
                note="403 for somebody else's",
            ),
            Fact(
                "GET", f"{_ONE}/{where}/{{iid}}/discussions", "lib/api/discussions.rb", GUEST, PAGES
            ),
            Fact(
                "GET",
                f"{_ONE}/{where}/{{iid}}/discussions/{{thread}}",
                "lib/api/discussions.rb",
                GUEST,
            ),
            Fact(
                "POST",
                f"{_ONE}/{where}/{{iid}}/discussions/{{thread}}/notes",
                "lib/api/discussions.rb",
                GUEST,
                "body! str<=1000000, created_at str",
            ),
        )
    ),
    Fact(
        "POST",
        f"{_MR}/{{iid}}/notes",
        "lib/api/notes.rb",
        REPORTER,
        "body! str<=1000000, confidential bool, internal bool, created_at str,"
        " merge_request_diff_head_sha str",
    ),
    Fact(
        "GET",
        f"{_ONE}/issues",
        "lib/api/issues.rb",
        GUEST,
        f"state opened|closed|all, author_id int, labels strs, search str, order_by str, {ORDER},"
        f" iids ints, {PAGES}",
        old=True,
    ),
    Fact(
        "POST",
        f"{_ONE}/issues",
        "lib/api/issues.rb",
        GUEST,
        "title! str<=255, description str<=1048576, labels strs, confidential bool,"
        " assignee_ids ints",
        old=True,
    ),
    Fact("GET", f"{_ONE}/issues/{{iid}}", "lib/api/issues.rb", GUEST, old=True),
    Fact(
        "PUT",
        f"{_ONE}/issues/{{iid}}",
        "lib/api/issues.rb",
        REPORTER,
        "title str<=255, description str<=1048576, state_event reopen|close, labels strs,"
        " confidential bool",
        old=True,
        note="400 where none of them is given",
    ),
    Fact(
        "GET",
        f"{_ONE}/members/all",
        "lib/api/members.rb",
        GUEST,
        f"query str, user_ids ints, show_seat_info bool, {PAGES}",
    ),
    Fact("GET", f"{_ONE}/members/all/{{user}}", "lib/api/members.rb", GUEST),
    Fact(
        "GET",
        "groups/{group}/members/all",
        "lib/api/members.rb",
        None,
        f"query str, user_ids ints, show_seat_info bool, {PAGES}",
    ),
    *(
        Fact(method, path, "lib/api/group_variables.rb", None, parameters, note=note)
        for method, path, parameters, note in (
            ("GET", _GROUP_VARIABLES, PAGES, "403 but for Owners (admin_cicd_variables)"),
            (
                "POST",
                _GROUP_VARIABLES,
                "key! str<=255, value! str, protected bool, masked bool, masked_and_hidden bool,"
                " raw bool, variable_type env_var|file, environment_scope str,"
                " description str<=255",
                "400 key: has already been taken",
            ),
            (
                "PUT",
                f"{_GROUP_VARIABLES}/{{key}}",
                "value str, protected bool, masked bool, raw bool, variable_type env_var|file,"
                " environment_scope str, description str<=255, filter obj",
                "404 GroupVariable Not Found",
            ),
            ("DELETE", f"{_GROUP_VARIABLES}/{{key}}", "filter[environment_scope] str", ""),
        )
    ),
    Fact(
        "GET",
        "groups/{group}/projects",
        "lib/api/groups.rb",
        None,
        f"archived bool, include_subgroups bool, order_by str, {ORDER}, {PAGES}",
        old=True,
    ),
    Fact(
        "GET",
        f"{_ONE}/approval_rules",
        "ee/lib/api/project_approval_rules.rb",
        DEVELOPER,
        PAGES,
        old=True,
        paid=True,
    ),
    Fact(
        "GET",
        f"{_ONE}/push_rule",
        "ee/lib/api/project_push_rule.rb",
        MAINTAINER,
        old=True,
        paid=True,
    ),
    Fact(
        "GET",
        f"{_ONE}/pipelines",
        "lib/api/ci/pipelines.rb",
        REPORTER,
        "scope running|pending|finished|branches|tags, status str, ref str, sha str,"
        " yaml_errors bool, username str, updated_before date, updated_after date,"
        " created_before date, created_after date, order_by id|status|ref|updated_at|user_id,"
        f" {ORDER}, source {SOURCES}, name str, {PAGES}",
    ),
    Fact("GET", f"{_ONE}/pipelines/{{pipeline}}", "lib/api/ci/pipelines.rb", REPORTER),
    Fact(
        "POST",
        f"{_ONE}/pipeline",
        "lib/api/ci/helpers/pipelines_helpers.rb",
        DEVELOPER,
        "ref! str, variables list, inputs obj",
        note="400 base: no permission for a protected branch, or to set pipeline variables",
    ),
    Fact(
        "GET",
        f"{_ONE}/pipelines/{{pipeline}}/jobs",
        "lib/api/ci/pipelines.rb",
        REPORTER,
        f"include_retried bool, scope strs, {PAGES}",
    ),
    Fact("GET", f"{_ONE}/jobs/{{job}}", "lib/api/ci/jobs.rb", REPORTER),
    Fact("GET", f"{_ONE}/jobs/{{job}}/trace", "lib/api/ci/jobs.rb", DEVELOPER),
    Fact(
        "POST",
        f"{_ONE}/jobs/{{job}}/play",
        "lib/api/ci/jobs.rb",
        DEVELOPER,
        "job_variables_attributes list",
        note="400 Unplayable Job",
    ),
    Fact(
        "POST",
        f"{_ONE}/jobs/{{job}}/cancel",
        "lib/api/ci/jobs.rb",
        DEVELOPER,
        "force bool",
        note="201 for one that has ended, too; a protected branch asks for the right to push to it",
    ),
    Fact(
        "GET", f"{_ONE}/jobs/{{job}}/artifacts/{{path*}}", "lib/api/ci/job_artifacts.rb", DEVELOPER
    ),
    Fact(
        "GET",
        _SCHEDULES,
        "lib/api/ci/pipeline_schedules.rb",
        DEVELOPER,
        f"scope active|inactive, {PAGES}",
    ),
    Fact("GET", f"{_SCHEDULES}/{{schedule}}", "lib/api/ci/pipeline_schedules.rb", DEVELOPER),
    Fact(
        "POST",
        _SCHEDULES,
        "lib/api/ci/pipeline_schedules.rb",
        DEVELOPER,
        "description! str, ref! str, cron! str, cron_timezone str, active bool, inputs list",
        note="400 base: Maximum number of pipeline schedules (10) exceeded"
        " (doc/administration/instance_limits.md)",
    ),
    Fact(
        "PUT",
        f"{_SCHEDULES}/{{schedule}}",
        "lib/api/ci/pipeline_schedules.rb",
        DEVELOPER,
        "description str, ref str, cron str, cron_timezone str, active bool, inputs list",
        note="403 but for its owner",
    ),
    Fact(
        "DELETE",
        f"{_SCHEDULES}/{{schedule}}",
        "lib/api/ci/pipeline_schedules.rb",
        DEVELOPER,
        note="403 but for its owner and Maintainers",
    ),
    Fact(
        "POST",
        f"{_SCHEDULES}/{{schedule}}/variables",
        "lib/api/ci/pipeline_schedules.rb",
        DEVELOPER,
        "key! str<=255, value! str, variable_type env_var|file",
        note="403 where the project forbids pipeline variables, and but for the schedule's owner",
    ),
    Fact(
        "POST",
        f"{_SCHEDULES}/{{schedule}}/play",
        "lib/api/ci/pipeline_schedules.rb",
        DEVELOPER,
        note="403 for a branch that the user may not update; 500 where the queue refuses. Answers"
        " before there is a pipeline; an inactive schedule can be played, and a user's waiting play"
        " of a schedule is one (app/workers/run_pipeline_schedule_worker.rb). Its rate limit, one a"
        " minute for each user and schedule, is the web interface's: this file has none",
    ),
    Fact(
        "GET",
        f"{_SCHEDULES}/{{schedule}}/pipelines",
        "lib/api/ci/pipeline_schedules.rb",
        DEVELOPER,
        "scope running|pending|finished|branches|tags, status str, updated_before date,"
        f" updated_after date, created_before date, created_after date, {ORDER}, {PAGES}",
        note="without sort the oldest first",
    ),
    Fact("GET", f"{_ONE}/variables", "lib/api/ci/variables.rb", MAINTAINER, PAGES),
    Fact(
        "POST",
        f"{_ONE}/variables",
        "lib/api/ci/variables.rb",
        MAINTAINER,
        "key! str<=255, value! str, protected bool, masked bool, masked_and_hidden bool, raw bool,"
        " variable_type env_var|file, environment_scope str, description str<=255",
        note="400 value: is invalid, for one that cannot be masked",
    ),
    Fact(
        "PUT",
        f"{_ONE}/variables/{{key}}",
        "lib/api/ci/variables.rb",
        MAINTAINER,
        "value str, protected bool, masked bool, raw bool, variable_type env_var|file,"
        " environment_scope str, description str<=255, filter obj",
        note="409 for several of this key where no filter tells which; a hidden one stays hidden",
    ),
    Fact(
        "GET",
        f"{_ONE}/ci/lint",
        "lib/api/lint.rb",
        DEVELOPER,
        "sha str, content_ref str, dry_run bool, include_jobs bool, ref str, dry_run_ref str",
        note="404 Repository Not Found for an empty one, 429 beyond the limit",
    ),
    Fact(
        "POST",
        f"{_ONE}/ci/lint",
        "lib/api/lint.rb",
        DEVELOPER,
        "content! str, dry_run bool, include_jobs bool, ref str",
    ),
    Fact(
        "POST",
        f"{_ONE}/access_tokens",
        "lib/api/resource_access_tokens.rb",
        MAINTAINER,
        "name! str<=255, description str<=255, scopes! strs, expires_at date, access_level int",
        note="400, in a tier without such tokens, and for access tokens of projects and groups"
        " (project_bot_access in app/policies/project_policy.rb); a service account may",
    ),
    Fact(
        "GET",
        f"{_ONE}/access_tokens",
        "lib/api/resource_access_tokens.rb",
        MAINTAINER,
        f"revoked bool, state active|inactive, search str, sort str, {PAGES}",
    ),
    Fact(
        "DELETE",
        f"{_ONE}/access_tokens/{{token}}",
        "lib/api/resource_access_tokens.rb",
        MAINTAINER,
    ),
    Fact("GET", _SCOPE, "lib/api/project_job_token_scope.rb", MAINTAINER),
    Fact("GET", f"{_SCOPE}/allowlist", "lib/api/project_job_token_scope.rb", MAINTAINER, PAGES),
    Fact(
        "GET", f"{_SCOPE}/groups_allowlist", "lib/api/project_job_token_scope.rb", MAINTAINER, PAGES
    ),
    Fact(
        "POST",
        f"{_SCOPE}/allowlist",
        "lib/api/project_job_token_scope.rb",
        MAINTAINER,
        "target_project_id! int",
    ),
    Fact(
        "POST",
        "/api/graphql",
        "app/controllers/graphql_controller.rb",
        None,
        "query! str, variables obj, operationName str",
        old=True,
        note="errors come with 200: a complexity above 250 (app/graphql/gitlab_schema.rb), over"
        " 50 full paths, pipelineSchedules of more than one project, unknown fields",
    ),
)
BY_ENDPOINT = {(fact.method, fact.path): fact for fact in FACTS}


def check_all_requests() -> None:
    """Put the table in front of both stand-ins, for as long as this process lives."""

    def check(_standin: Standin, call: StandinCall, endpoint: Endpoint) -> None:
        check_request(call, endpoint)

    Standin.check_request = check  # type: ignore[assignment,method-assign]


def check_request(call: StandinCall, endpoint: Endpoint) -> None:
    """Refuse what GitLab refuses, in its words: a parameter that is missing or of another type, a
    value that is not allowed, a text that is too long; and what it does not declare."""
    fact = BY_ENDPOINT[(endpoint.method, endpoint.path)]
    if fact.paid and not call.state.paid_tier:
        raise StandinApiError(404, {"error": "404 Not Found"})
    body = call.request.body
    given = {**call.request.query, **(body if isinstance(body, dict) else {})}
    declared = _parse_parameters(fact.parameters)
    if problems := [*_list_problems(given, declared)]:
        raise StandinApiError(400, {"error": ", ".join(problems)})
    for name, (kind, _) in declared.items():
        limit = re.fullmatch(r"str<=(\d+)", kind)
        if limit and len(str(given.get(name) or "")) > int(limit[1]):
            why = f"is too long (maximum is {limit[1]} characters)"
            raise StandinApiError(400, {"message": {name: [why]}})


def _parse_parameters(text: str) -> dict[str, tuple[str, bool]]:
    """Name → type, and whether it is required."""
    parts = (part.split(" ", 1) for part in text.split(", ") if part)
    return {name.rstrip("!"): (kind, name.endswith("!")) for name, kind in parts}


def _list_problems(
    given: Mapping[str, Any], declared: Mapping[str, tuple[str, bool]]
) -> Iterator[str]:
    yield from (f"{name} is not declared" for name in sorted(set(given) - set(declared)))
    for name, (kind, required) in declared.items():
        value = given.get(name)
        if value is None:
            if required:
                yield f"{name} is missing"
        elif not _fits(value, kind):
            yield f"{name} {'does not have a valid value' if '|' in kind else 'is invalid'}"


def _fits(value: Any, kind: str) -> bool:
    """Whether Grape coerces a value to the type: numbers and booleans may be given as text."""
    text = str(value)
    each = value if isinstance(value, list) else text.split(",")
    tests: dict[str, Callable[[], bool]] = {
        "str": lambda: not isinstance(value, list | dict),
        "int": lambda: not isinstance(value, bool) and _is_number(text),
        "bool": lambda: text.lower() in BOOLEANS,
        "date": lambda: _is_date(text),
        "ints": lambda: all(_is_number(str(one).strip()) for one in each),
        "strs": lambda: not isinstance(value, dict),
        "list": lambda: isinstance(value, list),
        "obj": lambda: isinstance(value, dict),
    }
    kind = kind.partition("<")[0]
    return tests[kind]() if kind in tests else text in kind.split("|")


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+", text) is not None


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
