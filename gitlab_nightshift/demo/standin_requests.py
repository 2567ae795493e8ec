"""The GitLab stand-in's requests and answers as records, and the failures to inject."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Credential:
    """A credential as it was sent, valid or not."""

    kind: Literal["basic", "private-token", "bearer", "job-token"]
    username: str
    secret: str


@dataclass(frozen=True)
class RecordedRequest:
    """A request without its credentials, and the status of its answer."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    status: int


@dataclass(frozen=True)
class StandinAnswer:
    """A body that is a string or bytes is sent as it is, everything else as JSON."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)
