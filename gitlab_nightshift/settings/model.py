"""Every key of ``nightshift.yaml``, with its type, default and meaning.

``nightshift config schema`` shows the text under each key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import date
from typing import Annotated, Any, Literal, Self

from gitlab_nightshift.records.codec import make_fields, to_fields
from gitlab_nightshift.registry.agent_registry import AGENTS
from gitlab_nightshift.registry.categories import (
    CATEGORY_GUIDANCE,
    FALLBACK_ORDER,
    TASK,
    TASK_GUIDANCE,
)
from gitlab_nightshift.settings import notations
from gitlab_nightshift.settings.notations import APPROVAL_RULES, CODE_OWNERS, GROUP
from gitlab_nightshift.settings.setting_groups import (
    LARGEST_NUMBER,
    AgentName,
    Glob,
    Label,
    LogIssue,
    MaxOpenMrs,
    Models,
    Policy,
    Price,
    Prompts,
    SettingsGroup,
    TextTemplate,
    check_after,
    check_before,
    check_bounds,
)

MAX_IMPLEMENT_RETRIES = 2

Seconds = Annotated[
    float,
    check_before(notations.parse_duration, json_schema_input_type=float | str),
    check_bounds(gt=0, le=7 * 24 * 3600),
]
Bytes = Annotated[
    int,
    check_before(notations.parse_size, json_schema_input_type=int | str),
    check_bounds(gt=0, le=1000 * LARGEST_NUMBER),
]
LONGEST_TASK = 20_000
"""Characters; a longer one is a document, not a task."""
Task = Annotated[str, check_bounds(max_length=LONGEST_TASK), check_after(str.strip)]
NewCategory = Annotated[str, check_before(notations.check_new_category)]
Category = Annotated[str, check_after(notations.check_known_category)]
InstructedCategory = Annotated[str, check_after(notations.check_instructed_category)]
Instructions = Annotated[str, check_after(notations.check_instructions)]
Reviewer = Annotated[str, check_before(notations.check_reviewer)]
Weekday = Annotated[str, check_before(notations.parse_weekday)]
Variable = Annotated[str, check_before(notations.check_variable_name)]
BranchPrefix = Annotated[str, check_after(notations.check_branch_prefix)]
WebAddress = Annotated[str, check_after(notations.check_web_address)]
HeaderName = Annotated[str, check_after(notations.check_key_header)]
ModelOptions = Annotated[dict[str, Any], check_after(notations.check_model_options)]
ProjectAddress = Annotated[str, check_after(notations.parse_project_address)]
QuietDate = Annotated[date, check_before(notations.parse_date)]
NotificationUrl = Annotated[str, check_before(notations.check_notification_url)]
PassedVariable = Annotated[str, check_before(notations.check_passed_variable)]
Command = Annotated[str, check_before(notations.check_command)]
FOLDER_NAME, PAGE_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", r"^[0-9]{1,20}$"
FolderName = Annotated[str, check_bounds(pattern=FOLDER_NAME)]
PageId = Annotated[str, check_bounds(coerce_numbers_to_str=True, pattern=PAGE_ID)]
NotifiedOutcome = Literal[
    "MR_CREATED", "NO_IMPROVEMENT", "MR_READY", "SKIPPED", "APPROVAL_REQUIRED", "FAILED", "changes"
]
Promise = Literal["files", "secrets", "network", "lifetime"]
AllowedCommand = Annotated[Command, check_before(notations.check_allowed_command)]

NO_SOURCES: Mapping[str, str] = {}


@dataclass(frozen=True, kw_only=True)
class Settings(SettingsGroup):
    """All settings. Precedence: command line, CI variables, nightshift.yaml, default."""

    enabled: bool = True
    """`false` stops all nights; set as a group variable, in all projects."""
    quiet_dates: list[QuietDate] = field(default_factory=list)
    """Dates without a night, as YYYY-MM-DD."""
    categories: dict[NewCategory, str] = field(default_factory=dict)
    """Your own categories: name → guidance for the agent."""
    category_schedule: dict[Weekday, Category] = field(
        default_factory=lambda: {
            "mon": "tests",
            "tue": "refactoring",
            "wed": "docs",
            "thu": "security",
            "fri": "performance",
        }
    )
    """Weekday → category. There is no night on a weekday that is not listed."""
    timezone: Annotated[str, check_after(notations.check_time_zone)] = "UTC"
    """Time zone that decides which weekday it is."""
    category: Category | None = None
    """For a manual run: overrides the schedule, even on a day without a night."""
    security_on_public: bool = False
    """Look for security findings in a public project too, where a fix makes them public."""
    task: Task | None = None
    """A task to do instead of a category."""
    task_test: Annotated[str, check_after(notations.check_task_test)] | None = None
    """The id of a test from `policy.test_commands` that the task's change must pass, and optionally
    arguments from that test's list."""
    dry_run: bool = False
    """Stop before publish and say what would be pushed."""
    rehearse: bool = False
    """Do everything in a night that costs no tokens, and say what a real one still lacks."""
    paths: list[Glob] = field(default_factory=list)
    """Where agents look and change files; empty means everywhere."""
    exclude_paths: list[Glob] = field(default_factory=list)
    """What agents leave alone, even within `paths`."""

    agent: AgentName = "auto"
    """The coding agent; `auto` is claude_code if its CLI and key are available, else codex, else
    `model` where `model_endpoint` is set."""
    agent_executable: str | None = None
    """Path of the agent's CLI, if it is not the first on PATH."""
    agent_env: list[PassedVariable] = field(default_factory=list)
    """Names of variables that are passed on to agents (JAVA_HOME, …)."""
    agent_paths: list[str] = field(default_factory=list)
    """Folders of tools outside the system's own that the sandbox may read."""
    replay_dir: Annotated[str | None, check_after(notations.check_recording)] = None
    """The recorded night that the agent `replay` plays back."""
    record_dir: str | None = None
    """Where to record this night for `replay`."""
    models: Models = field(default_factory=Models)
    """The model for each bead."""
    model_endpoint: WebAddress | None = None
    """Base URL of the model's API, if it is not the provider's own."""
    model_key_header: HeaderName | None = None
    """Header that carries the model key, if it is not the interface's own: Azure's `api-key`."""
    model_options: ModelOptions = field(default_factory=dict)
    """Further fields of each request of `model` and `patch`: `top_k`, `chat_template_kwargs`, …"""
    prices: dict[str, Price] = field(default_factory=dict)
    """Model id → USD per million tokens, if no price is built in or yours differs."""
    prompts: Prompts = field(default_factory=Prompts)
    """Your own prompt templates."""
    variables: dict[Variable, str] = field(default_factory=dict)
    """Your own strings for templates."""
    instructions: dict[InstructedCategory, Instructions] = field(default_factory=dict)
    """Your own words for the agent, for a category or `all`, added to the guidance."""
    allowed_commands: list[AllowedCommand] | None = None
    """Commands an agent may run: a single word allows any arguments, several words only exactly
    that command. Default: git and what the build files imply."""
    verify_commands: list[Command] = field(default_factory=list)
    """Commands that the program itself runs, without a shell (so no && or |); all must exit 0."""
    baseline: Literal["required", "report"] = "required"
    """`required`: skip a night if verify_commands fail on the untouched checkout."""

    reviewer: Reviewer | None = None
    """Reviewer and assignee: a user name, or whom to choose from: `group:PATH`, `code_owners`
    or `approval_rules`."""
    reviewers: list[Reviewer] = field(default_factory=list)
    """Several reviewers, each as `reviewer` (needs a paid tier of GitLab)."""
    labels: list[Label] | None = None
    """Labels of the merge request. Default: night-shift and the category."""
    branch_prefix: BranchPrefix = "night-shift/"
    """Prefix of branch names."""
    title_template: TextTemplate = "[night-shift/{{category}}] {{title}}"
    """Title of the merge request; {{category}}, {{title}}."""
    commit_template: TextTemplate | None = None
    """Commit message; {{category}}, {{title}}, {{message}}. Default: the drafted message."""
    commit_author: Literal["host", "token"] = "host"
    """`host`: the machine's git identity, else the pipeline's user; `token`: the token's user."""
    target_branch: str | None = None
    """Branch to start from and to merge into. Default: the default branch."""
    draft: bool = False
    """Open merge requests as drafts."""

    max_diff_lines: Annotated[int, check_bounds(ge=1, le=LARGEST_NUMBER)] = 100
    """Maximum of added plus deleted lines in a change."""
    avoid_recent_commits: Annotated[int, check_bounds(ge=0, le=1000)] = 10
    """Leave files alone that the last N commits have touched."""
    max_open_mrs: MaxOpenMrs = field(default_factory=MaxOpenMrs)
    """How many night-shift merge requests may be open."""
    max_budget_usd: Annotated[float, check_bounds(gt=0, le=LARGEST_NUMBER)] = 10.0
    """USD for the whole run: all beads and retries, including failed calls."""
    max_tokens: Annotated[int, check_bounds(gt=0, le=LARGEST_NUMBER)] | None = None
    """Tokens for the whole run."""
    max_answer_tokens: Annotated[int, check_bounds(ge=1024, le=1_000_000)] = 8_000
    """Tokens of one answer that the agents `model` and `patch` ask their endpoint for."""
    bead_timeout: Seconds | None = None
    """Seconds a bead may take."""
    idle_timeout: Seconds = 600.0
    """Seconds a bead may be silent."""
    run_timeout: Seconds | None = None
    """Seconds the work may take. Default: what is left of the job, minus what publish needs."""
    proof_time: Seconds | None = None
    """Seconds that the proof of a change may take besides `verify_commands`. Default: the larger of
    10 minutes and three times the baseline."""
    max_implement_retries: Annotated[int, check_bounds(ge=0, le=10)] = MAX_IMPLEMENT_RETRIES
    """Further attempts after a failed one."""
    max_output: Bytes = 2 * 10**9
    """Bytes a bead may print."""
    output_dir: FolderName = "nightshift"
    """Folder in the checkout for results and logs."""
    repo_url: ProjectAddress | None = None
    """Web or SSH address of the project. Default: from CI."""

    profile: Literal["production", "development"] = "production"
    """`development` allows delegations more: `in_place`, and open gates without an approval."""
    isolation: Literal["auto", "namespaces", "uid", "landlock", "none"] = "auto"
    """The sandbox tier."""
    accept_partial: list[Promise] = field(default_factory=list)
    """Sandbox guarantees that may hold only in part; otherwise such a run stops."""
    policy: Policy = field(default_factory=Policy)
    """Gates, lists and red flags."""
    notify: list[NotificationUrl] = field(default_factory=list)
    """Where to send notifications: addresses in apprise's form (ntfy, Discord, Slack, Teams, mail),
    which may contain variables as $NAME."""
    notify_on: list[NotifiedOutcome] = field(
        default_factory=lambda: [
            "MR_CREATED",
            "NO_IMPROVEMENT",
            "MR_READY",
            "APPROVAL_REQUIRED",
            "FAILED",
        ]
    )
    """Outcomes to send notifications about; `changes`: a merge request, a failure, the first good
    night after one, and the first skipped night."""
    confluence_page_id: PageId | None = None
    """Id of a Confluence page to which each night adds a line."""
    log_issue: LogIssue = "off"
    """Keep a dashboard of the nights in an issue: `auto` finds or opens one, or give its number."""
    throttle: bool = True
    """Try a category less often if its merge requests are rejected or ignored, and pause after
    three ignored in a row."""
    upkeep: bool = True
    """Look after open night-shift merge requests before new work: rebase, repair a failed pipeline,
    address review threads."""

    # Dotted key → source, for values that are not defaults. No setting, as it has no annotation.
    sources = NO_SOURCES

    def to_data(self) -> dict[str, Any]:
        """The values and their sources, for another process."""
        return {"values": to_fields(self), "sources": dict(self.sources)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """The settings from ``to_data``, not validated again: importing pydantic takes longer than
        some processes run."""
        return make_fields(cls, data["values"]).with_values(sources=data["sources"])

    @property
    def known_categories(self) -> tuple[str, ...]:
        """The five built-in categories, the team's own, and ``task``."""
        return (*FALLBACK_ORDER, *self.categories, TASK)

    @property
    def guidance(self) -> dict[str, str]:
        """Category → guidance for the agent."""
        return {**CATEGORY_GUIDANCE, TASK: TASK_GUIDANCE, **self.categories}

    @property
    def all_reviewers(self) -> tuple[str, ...]:
        """``reviewer`` and ``reviewers``, each once."""
        return tuple(dict.fromkeys(filter(None, (self.reviewer, *self.reviewers))))

    @property
    def named_reviewers(self) -> tuple[str, ...]:
        """The reviewers given by user name."""
        return tuple(
            each
            for each in self.all_reviewers
            if each not in (CODE_OWNERS, APPROVAL_RULES) and not each.startswith(GROUP)
        )

    def with_agent(self, agent: str) -> Self:
        """The settings for this agent: a model that nobody set is the agent's default, or without
        one the model of Implement."""
        defaults = Models(**AGENTS[agent].models)
        names = [each.name for each in fields(Models)]
        unset = [name for name in names if self.find_source(f"models.{name}").startswith("default")]
        models = self.models.with_values(**{name: getattr(defaults, name) for name in unset})
        without_default = [name for name in unset if not getattr(models, name)]
        models = models.with_values(**dict.fromkeys(without_default, models.implement))
        sources = {f"models.{name}": f"default of {agent}" for name in unset}
        return self.with_values(agent=agent, models=models, sources={**self.sources, **sources})

    def find_source(self, key: str) -> str:
        """The source of a dotted key's value; for a group of keys, the sources of all."""
        sources = (
            source
            for source_key, source in self.sources.items()
            if _is_within(source_key, key) or _is_within(key, source_key)
        )
        return ", ".join(dict.fromkeys(sources)) or "default"

    @property
    def off_reason(self) -> str:
        """Why no night may run, if ``enabled`` is false; "" if it is true."""
        return "" if self.enabled else f"enabled is false ({self.find_source('enabled')})"

    def flatten_values(self) -> dict[str, Any]:
        """Dotted key → value, in the order of the documentation."""
        return dict(_flatten_group("", self))


def _is_within(key: str, group: str) -> bool:
    """True if the dotted ``key`` is in the group of keys, or is the group itself."""
    return key == group or key.startswith(f"{group}.")


def _flatten_group(prefix: str, group: SettingsGroup) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for each in fields(group):
        value = getattr(group, each.name)
        if isinstance(value, SettingsGroup):
            pairs += _flatten_group(f"{prefix}{each.name}.", value)
        else:
            pairs.append((prefix + each.name, value))
    return pairs
