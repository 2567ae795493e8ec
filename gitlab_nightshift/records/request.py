"""A task given by a comment on an issue or a merge request, as read from GitLab."""

from dataclasses import dataclass
from typing import Literal

Where = Literal["issues", "merge_requests"]
"""What has the comment, by its name in GitLab's API."""

UpkeepKind = Literal["", "repair", "review"]
"""What this program does unasked for a merge request that it has opened."""


@dataclass(frozen=True)
class CommentAddress:
    """A comment's address: the number of the issue or merge request, the comment's id (0 for no
    comment), and the id of its thread ("" for unknown)."""

    where: Where
    iid: int
    note: int
    thread: str = ""


@dataclass(frozen=True)
class DiffSpot:
    """A commented line of a merge request's diff, numbered as in its head, and the ``first`` and
    ``last`` line of its hunk."""

    path: str
    line: int
    first: int
    last: int


@dataclass(frozen=True)
class TaskRequest:
    """A task by somebody who is allowed to give one, or by this program itself (``upkeep``).

    ``context`` is the quoted text of the issue, as data for the agent. ``author`` is the display
    name of who asks, ``url`` the comment's web address. ``provider``, ``model`` and ``test`` (a
    command of ``policy.test_commands`` with its arguments) are "" for the settings' choice.
    ``branch`` and ``head`` (its commit) are those of the merge request to work on, "" for a new
    one; ``failed_pipeline`` is the failed one of ``head``, 0 for none. ``also`` are further
    comments to answer. ``suggest``: nothing is pushed, the change is suggested in the thread at
    ``spot`` (None for a thread outside the diff).
    """

    place: CommentAddress
    task: str
    context: str = ""
    author: str = ""
    url: str = ""
    provider: str = ""
    model: str = ""
    dry_run: bool = False
    test: str = ""
    branch: str = ""
    head: str = ""
    failed_pipeline: int = 0
    also: tuple[CommentAddress, ...] = ()
    upkeep: UpkeepKind = ""
    suggest: bool = False
    spot: DiffSpot | None = None
