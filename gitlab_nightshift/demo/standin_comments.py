"""The stand-in's issues, and comments on issues and merge requests."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from gitlab_nightshift.demo.standin_state import User


@dataclass(frozen=True)
class StandinNote:
    """A comment; those of one ``thread`` belong together. ``resolvable`` is one of a thread that
    can be resolved, ``position`` where in the diff it stands."""

    id: int
    body: str
    author: "User"
    created_at: str
    system: bool = False
    internal: bool = False
    thread: str = field(default_factory=lambda: secrets.token_hex(20))
    resolvable: bool = False
    resolved: bool = False
    position: Mapping[str, Any] | None = None


@dataclass
class Issue:
    """An issue within one project."""

    id: int
    iid: int
    web_url: str
    author: "User"
    title: str
    description: str | None = None
    confidential: bool = False
    state: str = "opened"
    notes: list[StandinNote] = field(default_factory=list)


class StandinNoteable(Protocol):
    """What can be commented on: an issue or a merge request."""

    @property
    def id(self) -> int:
        """Its number on the whole server."""

    @property
    def iid(self) -> int:
        """Its number in the project."""

    @property
    def notes(self) -> list[StandinNote]:
        """The comments, oldest first."""
