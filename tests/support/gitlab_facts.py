"""What GitLab's own sources say of each endpoint that this program calls: parameters with their
types, roles, tiers and limits. Both stand-ins hold every request against it.

A parameter is written ``name type``; ``name!`` is required, ``str<=255`` has a longest length in
characters, ``a|b`` are the values that are allowed. Lists are given as JSON, or separated by commas
in a query. GitLab ignores what it does not declare; here that is refused, as it would be a mistake
that nobody sees.

In the table, a line in brackets names the file for the endpoints below it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gitlab_nightshift.demo.standin import Standin
from gitlab_nightshift.demo.standin_api import Endpoint, StandinApiError, StandinCall

BOOLEANS = "true false 1 0 t f on off yes no".split()
ROLES = {"anybody": None, "guest": 10, "reporter": 20, "developer": 30, "maintainer": 40}
_SHORT = {
    "PAGES": "page int, per_page int, pagination str",
    "MR_ORDERS": "created_at|label_priority|milestone_due|popularity|priority|title|updated_at"
    "|merged_at",
    "ORDER": "sort asc|desc",
    "SOURCES": "push|web|trigger|schedule|api|external|pipeline|chat|webide|merge_request_event"
    "|external_pull_request_event|parent_pipeline|ondemand_dast_scan|ondemand_dast_validation"
    "|security_orchestration_policy|container_registry_push|duo_workflow|unknown",
}
"""What the table's words in capitals stand for."""


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


_TABLE = """
[lib/api/users.rb]
GET user anybody old
GET users anybody old
    username str, search str, PAGES
GET users/{user} anybody old
GET users/{user}/status anybody old
[lib/api/metadata.rb]
GET version anybody old
[lib/api/personal_access_tokens/self_information.rb]
GET personal_access_tokens/self anybody
    note: 400 for what is no personal, project or group access token
[lib/api/projects.rb]
GET projects/{id} guest old
[lib/api/labels.rb]
GET projects/{id}/labels guest
    with_counts bool, include_ancestor_groups bool, search str, PAGES
GET projects/{id}/labels/{label} guest
    include_ancestor_groups bool
[lib/api/helpers/label_helpers.rb]
POST projects/{id}/labels reporter
    name! str<=255, color! str, description str, archived bool, priority int
    note: 409 Label already exists, of the project's groups, too
[lib/api/protected_branches.rb]
GET projects/{id}/protected_branches reporter old
    search str, PAGES
GET projects/{id}/protected_branches/{name} reporter old
[lib/api/branches.rb]
GET projects/{id}/repository/branches reporter old
    search str, regex str, ORDER, page_token str, PAGES
GET projects/{id}/repository/branches/{name} reporter old
[lib/api/repositories.rb]
GET projects/{id}/repository/compare reporter old
    from! str, to! str, from_project_id str, straight bool
[lib/api/commits.rb]
GET projects/{id}/repository/commits/{sha} reporter
    stats bool
POST projects/{id}/repository/commits developer
    branch! str, commit_message! str, actions! list, start_branch str, start_sha str,
    start_project str, author_email str, author_name str, stats bool, force bool
    note: 400 for a protected branch that the role may not push to
[lib/api/files.rb]
GET projects/{id}/repository/files/{path}/raw reporter old
    ref str, lfs bool
[lib/api/helpers/merge_requests_helpers.rb]
GET projects/{id}/merge_requests reporter
    state opened|closed|locked|merged|all, order_by MR_ORDERS, ORDER, labels strs, author_id int,
    author_username str, reviewer_id str, milestone str, search str, in str,
    scope created-by-me|assigned-to-me|created_by_me|assigned_to_me|reviews_for_me|all,
    source_branch str, target_branch str, source_project_id int, created_after date,
    created_before date, updated_after date, updated_before date, view simple,
    with_labels_details bool, with_merge_status_recheck bool, iids ints, PAGES
[lib/api/merge_requests.rb]
POST projects/{id}/merge_requests developer
    title! str<=255, source_branch! str, target_branch! str, target_project_id int,
    description str<=1048576, assignee_id int, assignee_ids ints, reviewer_ids ints, labels strs,
    milestone_id int, remove_source_branch bool, allow_collaboration bool, squash bool
    note: 409 for an open one of the same branches, 422 for other projects
GET projects/{id}/merge_requests/{iid} reporter
    render_html bool, include_diverged_commits_count bool, include_rebase_in_progress bool
    note: detailed_merge_status is unchecked or checking, has_conflicts false, until a worker has
    looked (lib/api/entities/merge_request_basic.rb)
PUT projects/{id}/merge_requests/{iid} developer
    title str<=255, target_branch str, description str<=1048576, state_event close|reopen,
    assignee_id int, assignee_ids ints, reviewer_ids ints, labels strs, add_labels strs,
    remove_labels strs, milestone_id int, remove_source_branch bool, discussion_locked bool,
    allow_collaboration bool, squash bool
    note: 400 where none of them is given; its author may, too
GET projects/{id}/merge_requests/{iid}/changes reporter
    unidiff bool
GET projects/{id}/merge_requests/{iid}/diffs reporter
    unidiff bool, PAGES
PUT projects/{id}/merge_requests/{iid}/rebase developer
    skip_ci bool
    note: 202 at once; rebase_in_progress and merge_error tell its end
[lib/api/merge_request_approvals.rb]
GET projects/{id}/merge_requests/{iid}/approvals reporter
[lib/api/notes.rb]
GET projects/{id}/issues/{iid}/notes guest
    order_by created_at|updated_at, ORDER, activity_filter str, PAGES
GET projects/{id}/issues/{iid}/notes/{note} guest
PUT projects/{id}/issues/{iid}/notes/{note} guest
    body str<=1000000, confidential bool
    note: 403 for somebody else's
GET projects/{id}/merge_requests/{iid}/notes reporter
    order_by created_at|updated_at, ORDER, activity_filter str, PAGES
GET projects/{id}/merge_requests/{iid}/notes/{note} guest
PUT projects/{id}/merge_requests/{iid}/notes/{note} guest
    body str<=1000000, confidential bool
    note: 403 for somebody else's
POST projects/{id}/merge_requests/{iid}/notes reporter
    body! str<=1000000, confidential bool, internal bool, created_at str,
    merge_request_diff_head_sha str
[lib/api/discussions.rb]
GET projects/{id}/issues/{iid}/discussions guest
    PAGES
GET projects/{id}/issues/{iid}/discussions/{thread} guest
POST projects/{id}/issues/{iid}/discussions/{thread}/notes guest
    body! str<=1000000, created_at str
GET projects/{id}/merge_requests/{iid}/discussions guest
    PAGES
GET projects/{id}/merge_requests/{iid}/discussions/{thread} guest
POST projects/{id}/merge_requests/{iid}/discussions/{thread}/notes guest
    body! str<=1000000, created_at str
[lib/api/issues.rb]
GET projects/{id}/issues guest old
    state opened|closed|all, author_id int, labels strs, search str, order_by str, ORDER, iids ints,
    PAGES
POST projects/{id}/issues guest old
    title! str<=255, description str<=1048576, labels strs, confidential bool, assignee_ids ints
GET projects/{id}/issues/{iid} guest old
PUT projects/{id}/issues/{iid} reporter old
    title str<=255, description str<=1048576, state_event reopen|close, labels strs,
    confidential bool
    note: 400 where none of them is given
[lib/api/members.rb]
GET projects/{id}/members/all guest
    query str, user_ids ints, show_seat_info bool, PAGES
GET projects/{id}/members/all/{user} guest
GET groups/{group}/members/all anybody
    query str, user_ids ints, show_seat_info bool, PAGES
[lib/api/group_variables.rb]
GET groups/{group}/variables anybody
    PAGES
    note: 403 but for Owners (admin_cicd_variables)
POST groups/{group}/variables anybody
    key! str<=255, value! str, protected bool, masked bool, masked_and_hidden bool, raw bool,
    variable_type env_var|file, environment_scope str, description str<=255
    note: 400 key: has already been taken
PUT groups/{group}/variables/{key} anybody
    value str, protected bool, masked bool, raw bool, variable_type env_var|file,
    environment_scope str, description str<=255, filter obj
    note: 404 GroupVariable Not Found
DELETE groups/{group}/variables/{key} anybody
    filter[environment_scope] str
[lib/api/groups.rb]
GET groups/{group}/projects anybody old
    archived bool, include_subgroups bool, order_by str, ORDER, PAGES
[ee/lib/api/project_approval_rules.rb]
GET projects/{id}/approval_rules developer old paid
    PAGES
[ee/lib/api/project_push_rule.rb]
GET projects/{id}/push_rule maintainer old paid
[lib/api/ci/pipelines.rb]
GET projects/{id}/pipelines reporter
    scope running|pending|finished|branches|tags, status str, ref str, sha str, yaml_errors bool,
    username str, updated_before date, updated_after date, created_before date, created_after date,
    order_by id|status|ref|updated_at|user_id, ORDER, source SOURCES, name str, PAGES
GET projects/{id}/pipelines/{pipeline} reporter
GET projects/{id}/pipelines/{pipeline}/jobs reporter
    include_retried bool, scope strs, PAGES
[lib/api/ci/helpers/pipelines_helpers.rb]
POST projects/{id}/pipeline developer
    ref! str, variables list, inputs obj
    note: 400 base: no permission for a protected branch, or to set pipeline variables
[lib/api/ci/jobs.rb]
GET projects/{id}/jobs/{job} reporter
GET projects/{id}/jobs/{job}/trace developer
POST projects/{id}/jobs/{job}/play developer
    job_variables_attributes list
    note: 400 Unplayable Job
POST projects/{id}/jobs/{job}/cancel developer
    force bool
    note: 201 for one that has ended, too; a protected branch asks for the right to push to it
[lib/api/ci/job_artifacts.rb]
GET projects/{id}/jobs/{job}/artifacts/{path*} developer
[lib/api/ci/pipeline_schedules.rb]
GET projects/{id}/pipeline_schedules developer
    scope active|inactive, PAGES
GET projects/{id}/pipeline_schedules/{schedule} developer
POST projects/{id}/pipeline_schedules developer
    description! str, ref! str, cron! str, cron_timezone str, active bool, inputs list
    note: 400 base: Maximum number of pipeline schedules (10) exceeded
    (doc/administration/instance_limits.md)
PUT projects/{id}/pipeline_schedules/{schedule} developer
    description str, ref str, cron str, cron_timezone str, active bool, inputs list
    note: 403 but for its owner
DELETE projects/{id}/pipeline_schedules/{schedule} developer
    note: 403 but for its owner and Maintainers
POST projects/{id}/pipeline_schedules/{schedule}/variables developer
    key! str<=255, value! str, variable_type env_var|file
    note: 403 where the project forbids pipeline variables, and but for the schedule's owner
POST projects/{id}/pipeline_schedules/{schedule}/play developer
    note: 403 for a branch that the user may not update; 500 where the queue refuses. Answers before
    there is a pipeline; an inactive schedule can be played, and a user's waiting play of a schedule
    is one (app/workers/run_pipeline_schedule_worker.rb). Its rate limit, one a minute for each user
    and schedule, is the web interface's: this file has none
GET projects/{id}/pipeline_schedules/{schedule}/pipelines developer
    scope running|pending|finished|branches|tags, status str, updated_before date,
    updated_after date, created_before date, created_after date, ORDER, PAGES
    note: without sort the oldest first
[lib/api/ci/variables.rb]
GET projects/{id}/variables maintainer
    PAGES
POST projects/{id}/variables maintainer
    key! str<=255, value! str, protected bool, masked bool, masked_and_hidden bool, raw bool,
    variable_type env_var|file, environment_scope str, description str<=255
    note: 400 value: is invalid, for one that cannot be masked
PUT projects/{id}/variables/{key} maintainer
    value str, protected bool, masked bool, raw bool, variable_type env_var|file,
    environment_scope str, description str<=255, filter obj
    note: 409 for several of this key where no filter tells which; a hidden one stays hidden
[lib/api/lint.rb]
GET projects/{id}/ci/lint developer
    sha str, content_ref str, dry_run bool, include_jobs bool, ref str, dry_run_ref str
    note: 404 Repository Not Found for an empty one, 429 beyond the limit
POST projects/{id}/ci/lint developer
    content! str, dry_run bool, include_jobs bool, ref str
[lib/api/resource_access_tokens.rb]
POST projects/{id}/access_tokens maintainer
    name! str<=255, description str<=255, scopes! strs, expires_at date, access_level int
    note: 400, in a tier without such tokens, and for access tokens of projects and groups
    (project_bot_access in app/policies/project_policy.rb); a service account may
GET projects/{id}/access_tokens maintainer
    revoked bool, state active|inactive, search str, sort str, PAGES
DELETE projects/{id}/access_tokens/{token} maintainer
[lib/api/project_job_token_scope.rb]
GET projects/{id}/job_token_scope maintainer
GET projects/{id}/job_token_scope/allowlist maintainer
    PAGES
GET projects/{id}/job_token_scope/groups_allowlist maintainer
    PAGES
POST projects/{id}/job_token_scope/allowlist maintainer
    target_project_id! int
[app/controllers/graphql_controller.rb]
POST /api/graphql anybody old
    query! str, variables obj, operationName str
    note: errors come with 200: a complexity above 250 (app/graphql/gitlab_schema.rb), over 50 full
    paths, pipelineSchedules of more than one project, unknown fields
"""


def _read_table() -> Iterator[Fact]:
    source = ""
    for block in re.split(r"\n(?=\S)", _TABLE.strip()):
        head, *lines = block.split("\n")
        if head.startswith("["):
            source = head.strip("[]")
            continue
        method, path, role, *marks = head.split()
        text = " ".join(line.strip() for line in lines)
        given, _, note = text.partition("note: ")
        for name, parameters in _SHORT.items():
            given = given.replace(name, parameters)
        old, paid = ("old" in marks), ("paid" in marks)
        yield Fact(method, path, source, ROLES[role], given.strip(), old, paid, note)


FACTS = tuple(_read_table())
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
