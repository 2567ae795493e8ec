"""The groups of keys in the settings, and how their values are checked.

An annotation names the check, ``Annotated[str, check_after(check_command)]``, and pydantic runs it.
pydantic takes longer to load than most commands run, so it is loaded only if there are values to
check: defaults, and values that another process has checked, need no check.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self

from gitlab_nightshift.registry.agent_registry import list_agent_names
from gitlab_nightshift.settings import notations


@dataclass(frozen=True, eq=False)
class DeferredCheck:
    """Stands for one of pydantic's annotations, by name, and creates it when pydantic iterates over
    this object."""

    annotation: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    # Marks a GroupedMetadata: readers of annotations have to iterate over it, and use what it
    # yields instead (annotated-types, README, "GroupedMetadata").
    __is_annotated_types_grouped_metadata__: ClassVar[Literal[True]] = True

    def __iter__(self) -> Iterator[Any]:
        import pydantic

        created = getattr(pydantic, self.annotation)(*self.arguments, **self.options)
        return iter(created.metadata if self.annotation == "Field" else (created,))


def check_before(check: Callable[..., Any], **options: Any) -> DeferredCheck:
    """Check or convert the value before pydantic does; ``options`` are those of BeforeValidator."""
    return DeferredCheck("BeforeValidator", (check,), options)


def check_after(check: Callable[..., Any]) -> DeferredCheck:
    """Check or convert the value after pydantic has converted it to its type."""
    return DeferredCheck("AfterValidator", (check,), {})


def check_bounds(**bounds: Any) -> DeferredCheck:
    """Check bounds or a pattern, as ``pydantic.Field`` names them."""
    return DeferredCheck("Field", (), bounds)


def show_as(schema: Mapping[str, Any]) -> DeferredCheck:
    """Show this JSON Schema of the value."""
    return DeferredCheck("WithJsonSchema", (schema,), {})


Gate = Literal["auto_allow", "require_approval", "deny"]
Glob = Annotated[str, check_before(notations.check_relative_glob)]
AgentName = Annotated[
    str,
    check_after(notations.check_agent_name),
    show_as({"enum": list(list_agent_names()), "type": "string"}),
]
FlagName = Annotated[str, check_before(notations.check_flag_name)]
_FlagInput = Literal["fail", "warn", "off", False]
FlagLevel = Annotated[
    Literal["fail", "warn", "off"],
    check_before(notations.parse_flag_level, json_schema_input_type=_FlagInput),
]
EgressHosts = Annotated[
    list[Annotated[str, check_before(notations.check_egress_host)]], check_bounds(max_length=100)
]
LARGEST_NUMBER = 10**12
"""Larger numbers are mistakes, and lose precision in some JSON parsers."""
LogIssue = Literal["auto", "off"] | Annotated[int, check_bounds(ge=1, le=LARGEST_NUMBER)]
Label = Annotated[str, check_after(notations.check_label)]
TextTemplate = Annotated[str, check_after(notations.check_text_template)]
ModelId = Annotated[str, check_after(notations.check_model_id)]


@dataclass(frozen=True, kw_only=True)
class SettingsGroup:
    """A group of keys: unknown ones are errors, and values are immutable."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    def __init_subclass__(cls) -> None:
        # Add two checks to the annotation of every field. The decorator of the dataclass reads the
        # annotations after this method.
        annotations = {}
        for name, annotation in cls.__annotations__.items():
            check = check_before(partial(_check_bool, getattr(cls, name, None)))
            annotations[name] = Annotated[annotation, check, check_after(_refuse_nul)]
        cls.__annotations__ = annotations

    def with_values(self, **values: Any) -> Self:
        """A copy with these values, unchecked."""
        changed = copy.copy(self)
        vars(changed).update(values)
        return changed


def _refuse_nul(value: Any) -> Any:
    """Refuse NUL characters, which no program, file name or request accepts."""
    items = value if isinstance(value, list) else [value]
    if any("\0" in item for item in items if isinstance(item, str)):
        raise ValueError("must not contain a NUL character")
    return value


def _check_bool(default: Any, value: Any) -> Any:
    """Allow a bool only where the default is one: ``max_diff_lines: yes`` would otherwise be 1.
    YAML reads ``off`` as False, so False becomes ``off`` where that is the default."""
    if value is False and default == "off":
        return "off"
    if isinstance(value, bool) and not isinstance(default, bool):
        raise ValueError(
            "cannot be true or false, nor yes, no, on or off, which YAML reads as these"
        )
    return value


@dataclass(frozen=True, kw_only=True)
class Models(SettingsGroup):
    """The model for each bead, by its full id. Each agent has its own defaults."""

    analyze: ModelId = "claude-opus-4-6"
    """Finds the improvement."""
    implement: ModelId = "claude-opus-4-6"
    """Makes it."""
    verify: ModelId = "claude-sonnet-4-6"
    """Judges it."""
    mr: ModelId = "claude-sonnet-4-6"
    """Describes it."""


@dataclass(frozen=True, kw_only=True)
class Prompts(SettingsGroup):
    """Your own prompt templates; paths are relative to the configuration file's folder."""

    analyze: str | None = None
    """Template of Analyze."""
    implement: str | None = None
    """Template of Implement."""
    verify: str | None = None
    """Template of Verify."""
    mr: str | None = None
    """Template of the MR bead."""


@dataclass(frozen=True, kw_only=True)
class MaxOpenMrs(SettingsGroup):
    """How many night-shift merge requests may be open before nights are skipped."""

    per_category: Annotated[int, check_bounds(ge=0, le=LARGEST_NUMBER)] = 1
    """A category with this many open merge requests is skipped."""
    total: Annotated[int, check_bounds(ge=0, le=LARGEST_NUMBER)] = 3
    """With this many open merge requests, the night is skipped."""


@dataclass(frozen=True, kw_only=True)
class LongPrice(SettingsGroup):
    """USD per million tokens for the whole of a request with a long input."""

    above: Annotated[int, check_bounds(ge=1, le=LARGEST_NUMBER)]
    """Applies to requests with more input tokens than this."""
    input: Annotated[float, check_bounds(ge=0, le=LARGEST_NUMBER)]
    """Price of tokens sent."""
    output: Annotated[float, check_bounds(ge=0, le=LARGEST_NUMBER)]
    """Price of tokens received."""


@dataclass(frozen=True, kw_only=True)
class Price(SettingsGroup):
    """USD per million tokens."""

    input: Annotated[float, check_bounds(ge=0, le=LARGEST_NUMBER)]
    """Price of tokens sent."""
    output: Annotated[float, check_bounds(ge=0, le=LARGEST_NUMBER)]
    """Price of tokens received."""
    long: LongPrice | None = None
    """The price of requests with a long input, if it differs."""


@dataclass(frozen=True, kw_only=True)
class TestCommand(SettingsGroup):
    """A test that a delegation may ask for by its id."""

    command: Annotated[list[str], check_bounds(min_length=1)]
    """The program and its fixed arguments, one list item each."""
    args: list[str] = field(default_factory=list)
    """Further arguments that a delegation may ask for."""


@dataclass(frozen=True, kw_only=True)
class Gates(SettingsGroup):
    """What happens to a change, a command or a connection outside the lists."""

    write: Gate = "auto_allow"
    """Files that `writable_paths` does not match, and those of `sensitive_paths`."""
    exec: Gate = "deny"
    """Commands outside `allowed_commands`."""
    network: Gate = "deny"
    """Connections other than to the model's endpoint."""


@dataclass(frozen=True, kw_only=True)
class Policy(SettingsGroup):
    """Gates, lists and red flags."""

    gates: Gates = field(default_factory=Gates)
    """What happens at each gate."""
    writable_paths: list[Glob] = field(default_factory=lambda: ["**"])
    """Files that a change may touch without approval."""
    sensitive_paths: list[Glob] = field(default_factory=list)
    """Files to look at more closely, in addition to the built-in list."""
    test_commands: dict[str, TestCommand] = field(default_factory=dict)
    """Tests that a task or a delegation can ask for by id."""
    providers: dict[str, str] = field(default_factory=dict)
    """Kind of task (bugfix, docs, …), profile or `default` → the agent of such delegations, or
    `cheapest`: the one whose model has the lowest price."""
    orchestrators: list[str] = field(default_factory=list)
    """Users whose delegations in production count as approved."""
    confidential_issues: bool = False
    """Act on comments on confidential issues and on internal comments too."""
    on_peoples_mrs: bool | Literal["suggest"] = False
    """Work on people's merge requests too, if a comment there asks for it: `true` adds a commit
    to their branch, `suggest` pushes nothing and suggests the change in the thread."""
    flags: dict[FlagName, FlagLevel] = field(default_factory=dict)
    """Red flag → `fail`, `warn`, `off`."""
    egress_hosts: EgressHosts = field(default_factory=list)
    """Hosts that agents and commands may reach: `host` (port 443), `host:port`, `*.domain`."""
