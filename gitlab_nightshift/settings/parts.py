"""The groups of keys within the settings."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from gitlab_nightshift.settings.values import relative_glob

Gate = Literal["auto_allow", "require_approval", "deny"]
Glob = Annotated[str, BeforeValidator(relative_glob)]


class Part(BaseModel):
    """A group of keys: unknown ones are errors, and nothing changes after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Models(Part):
    """The model of each bead, by its full id."""

    analyze: str = "claude-opus-4-6"
    implement: str = "claude-opus-4-6"
    verify: str = "claude-sonnet-4-6"
    mr: str = "claude-sonnet-4-6"


class Prompts(Part):
    """Own prompt templates; paths relative to the configuration file's folder."""

    analyze: str | None = None
    implement: str | None = None
    verify: str | None = None
    mr: str | None = None


class MaxOpenMrs(Part):
    """How many night-shift merge requests may be open before a night is left out."""

    per_category: int = Field(default=1, ge=0)
    total: int = Field(default=3, ge=0)


class Price(Part):
    """USD per million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)


class TestCommand(Part):
    """A test that a delegation may ask for by its id."""

    command: list[str] = Field(min_length=1)
    args: list[str] = []


class Gates(Part):
    """What happens to a change, a command or a connection outside the lists."""

    write: Gate = "auto_allow"
    exec: Gate = "deny"
    network: Gate = "deny"


class Policy(Part):
    """Gates, lists and red flags."""

    gates: Gates = Gates()
    writable_paths: list[Glob] = ["**"]
    sensitive_paths: list[Glob] = []
    test_commands: dict[str, TestCommand] = {}
    providers: dict[str, str] = {}
    orchestrators: list[str] = []
    flags: dict[str, Literal["fail", "warn", "off"]] = {}
    egress_hosts: list[str] = []
