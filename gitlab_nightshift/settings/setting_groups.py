"""The groups of keys within the settings."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from gitlab_nightshift.agent_registry import list_agent_names
from gitlab_nightshift.settings.notations import (
    check_agent_name,
    check_flag_name,
    check_label,
    check_model_id,
    check_relative_glob,
    check_text_template,
    parse_flag_level,
    parse_open_host,
)

Gate = Literal["auto_allow", "require_approval", "deny"]
Glob = Annotated[str, BeforeValidator(check_relative_glob)]
AgentName = Annotated[
    str,
    AfterValidator(check_agent_name),
    WithJsonSchema({"enum": list(list_agent_names()), "type": "string"}),
]
FlagName = Annotated[str, BeforeValidator(check_flag_name)]
FlagLevel = Annotated[
    Literal["fail", "warn", "off"],
    BeforeValidator(parse_flag_level, json_schema_input_type=Literal["fail", "warn", "off", False]),
]
OpenHost = Annotated[str, BeforeValidator(parse_open_host)]
MOST = 10**12
"""Larger numbers are mistakes, and no reader of JSON takes them."""
LogIssue = Literal["auto", "off"] | Annotated[int, Field(ge=1, le=MOST)]
Label = Annotated[str, AfterValidator(check_label)]
TextTemplate = Annotated[str, AfterValidator(check_text_template)]
ModelId = Annotated[str, AfterValidator(check_model_id)]


class Part(BaseModel):
    """A group of keys: unknown ones are errors, and nothing changes after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_bool_as_number(cls, value: Any, info: ValidationInfo) -> Any:
        """``max_diff_lines: yes`` would otherwise be 1, and YAML reads ``off`` as False."""
        field = cls.model_fields[info.field_name or ""]
        if value is False and field.default == "off":
            return "off"
        if isinstance(value, bool) and not isinstance(field.default, bool):
            raise ValueError("expected a value other than true or false")
        return value

    @field_validator("*")
    @classmethod
    def _refuse_nul(cls, value: Any) -> Any:
        """No program, file or request takes one."""
        parts = value if isinstance(value, list) else [value]
        if any("\0" in part for part in parts if isinstance(part, str)):
            raise ValueError("must not contain a NUL character")
        return value


class Models(Part):
    """The model for each bead, by its full id. Each agent has its own defaults."""

    analyze: ModelId = "claude-opus-4-6"
    """Finds the improvement."""
    implement: ModelId = "claude-opus-4-6"
    """Makes it."""
    verify: ModelId = "claude-sonnet-4-6"
    """Judges it."""
    mr: ModelId = "claude-sonnet-4-6"
    """Describes it."""


class Prompts(Part):
    """Your own prompt templates; paths are relative to the configuration file's folder."""

    analyze: str | None = None
    """Template of Analyze."""
    implement: str | None = None
    """Template of Implement."""
    verify: str | None = None
    """Template of Verify."""
    mr: str | None = None
    """Template of the MR bead."""


class MaxOpenMrs(Part):
    """How many night-shift merge requests may be open before nights are skipped."""

    per_category: int = Field(default=1, ge=0, le=MOST)
    """A category with this many open merge requests is skipped."""
    total: int = Field(default=3, ge=0, le=MOST)
    """With this many open merge requests, the night is skipped."""


class LongPrice(Part):
    """USD per million tokens for the whole of a request with a long input."""

    above: int = Field(ge=1, le=MOST)
    """Applies to requests with more input tokens than this."""
    input: float = Field(ge=0, le=MOST)
    """Price of tokens sent."""
    output: float = Field(ge=0, le=MOST)
    """Price of tokens received."""


class Price(Part):
    """USD per million tokens."""

    input: float = Field(ge=0, le=MOST)
    """Price of tokens sent."""
    output: float = Field(ge=0, le=MOST)
    """Price of tokens received."""
    long: LongPrice | None = None
    """The price of requests with a long input, if it differs."""


class TestCommand(Part):
    """A test that a delegation may ask for by its id."""

    command: list[str] = Field(min_length=1)
    """The program and its fixed arguments, one list item each."""
    args: list[str] = []
    """Further arguments that a delegation may ask for."""


class Gates(Part):
    """What happens to a change, a command or a connection outside the lists."""

    write: Gate = "auto_allow"
    """Files outside `writable_paths`, and `sensitive_paths`."""
    exec: Gate = "deny"
    """Commands outside `allowed_commands`."""
    network: Gate = "deny"
    """Connections other than to the model's endpoint."""


class Policy(Part):
    """Gates, lists and red flags."""

    gates: Gates = Gates.model_construct()
    """What happens at each gate."""
    writable_paths: list[Glob] = ["**"]
    """Files that a change may touch without approval."""
    sensitive_paths: list[Glob] = []
    """Files to look at more closely, in addition to the built-in list."""
    test_commands: dict[str, TestCommand] = {}
    """Tests that a task or a delegation can ask for by id."""
    providers: dict[str, str] = {}
    """Kind of task (bugfix, docs, …), profile or `default` → the agent of such delegations, or
    `cheapest`: the one whose model has the lowest price."""
    orchestrators: list[str] = []
    """Who may delegate in production without asking a person: they give the approval themselves."""
    confidential_issues: bool = False
    """Act on comments on confidential issues and on internal comments too."""
    on_peoples_mrs: bool | Literal["suggest"] = False
    """Work on people's merge requests too, if a comment there asks for it: `true` adds a commit
    to their branch, `suggest` pushes nothing and suggests the change in the thread."""
    flags: dict[FlagName, FlagLevel] = {}
    """Red flag → `fail`, `warn`, `off`."""
    egress_hosts: list[OpenHost] = Field(default=[], max_length=100)
    """Hosts that agents and commands may reach: `host` (port 443), `host:port`, `*.domain`."""
