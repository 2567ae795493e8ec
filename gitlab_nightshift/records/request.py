"""A task that a comment on an issue or a merge request gave, as GitLab itself has it."""

from dataclasses import dataclass
from typing import Literal

Where = Literal["issues", "merge_requests"]
"""What was commented on, as GitLab's API names it."""

UpkeepKind = Literal["", "repair", "review"]
"""What this program does of its own accord for a merge request that it has opened."""


@dataclass(frozen=True)
class CommentAddress:
    """A comment's address: the number of the issue or merge request, the comment's own id (0 for
    no comment), and the thread that it belongs to ("" where that is not known)."""

    where: Where
    iid: int
    note: int
    thread: str = ""


@dataclass(frozen=True)
class DiffSpot:
    """A commented line of a merge request's diff, as its head has it, and the ``first`` and the
    ``last`` of the lines around it that the diff shows."""

    path: str
    line: int
    first: int
    last: int


@dataclass(frozen=True)
class TaskRequest:
    """A task of somebody who may give one, or of this program itself where ``upkeep`` says so.

    ``context`` is the text of the issue, quoted: data for the agent. ``author`` is the display name
    of who asks, ``url`` the comment's address. ``provider``, ``model`` and ``test`` (a command of
    ``policy.test_commands`` with its arguments) are "" where the settings decide. ``branch`` and
    ``head`` (its commit) are those of the merge request to work on; "" for a new one;
    ``failed_pipeline`` is that of ``head``, 0 where it has not failed. ``also`` are
    further comments that are answered. ``suggest``: nothing is pushed, the change is suggested in
    the thread, which is that of ``spot``, None where it is no thread of the diff.
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
