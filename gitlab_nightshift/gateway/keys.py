"""The model key, and the placeholder that an agent gets instead.

``model_gateway.py: open_bead`` hands the placeholder out; ``upstream.py`` puts the key in its
place.
"""

import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.records.codec import Pattern


class Api(StrEnum):
    """The provider whose interface an endpoint has."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"


OAUTH = "CLAUDE_CODE_OAUTH_TOKEN"
_APIS = {
    "ANTHROPIC_API_KEY": Api.ANTHROPIC,
    "ANTHROPIC_AUTH_TOKEN": Api.ANTHROPIC,
    OAUTH: Api.ANTHROPIC,
    "OPENAI_API_KEY": Api.OPENAI,
}
Word = Annotated[str, Pattern(r"[!-~]{1,2000}")]
_PREFIX = {Api.ANTHROPIC: "sk-ant-placeholder-", Api.OPENAI: "sk-placeholder-"}


@dataclass(frozen=True)
class ModelKey:
    """A key and its variable, which determines the header that carries it, unless ``header_name``
    is set. Its repr hides the key."""

    variable: str
    value: str
    header_name: str = ""

    def __post_init__(self) -> None:
        """Raise ``E_CONFIG`` if it cannot be sent in a header."""
        object.__setattr__(self, "value", self.value.strip())
        if self.variable not in _APIS:
            raise build_config_error(f"{self.variable} is not a variable for a model key")
        if not self.value or not self.value.isascii() or not self.value.isprintable():
            raise build_config_error(f"{self.variable} is empty or has characters that no key has")

    def __repr__(self) -> str:
        return f"ModelKey({self.variable})"

    @property
    def api(self) -> Api:
        """The interface that the key is for."""
        return _APIS[self.variable]

    @property
    def header(self) -> tuple[str, str]:
        """The header that carries the key to the endpoint."""
        # Anthropic takes API keys in X-Api-Key, other tokens as Bearer, as OpenAI does its keys.
        name = self.header_name or (
            "X-Api-Key" if self.variable == "ANTHROPIC_API_KEY" else "Authorization"
        )
        if name.lower() != "authorization":
            return name, self.value
        return "Authorization", f"Bearer {self.value}"


def make_placeholder(api: Api) -> str:
    """A random placeholder: CLIs accept it as a key, people see that it is not one."""
    return _PREFIX[api] + secrets.token_hex(24)


@dataclass(frozen=True)
class BeadTicket:
    """What a bead's agent gets instead of a key; ``base_url`` has no ``/v1``."""

    bead: Word
    placeholder: Word = field(repr=False)
    base_url: Word


@dataclass(frozen=True)
class EgressTicket:
    """What a bead's tools get: ``url`` is the value of ``HTTPS_PROXY`` (and ``HTTP_PROXY``)."""

    bead: Word
    url: Word = field(repr=False)
    credential: Word = field(repr=False)
