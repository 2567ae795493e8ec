"""What agents use: models, in USD and tokens, and tools.

The gateway counts the requests that pass through it; without a gateway, the agents' own figures
count. A bead's usage is in its result; a run's is the sum over its beads.
"""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, TypeVar

from gitlab_nightshift.records.codec import Length

Bound = Literal["", "at least", "at most"]
Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Usage:
    """Cost and tokens of a bead or a run. None is unknown, and so is a sum with an unknown part.

    ``assumed_usd`` and ``assumed_tokens`` are the part that no endpoint has reported: the worst
    case of answers whose end did not arrive. If they are not 0, the sum is an upper bound.
    """

    cost_usd: float | None = 0.0
    tokens: int | None = 0
    assumed_usd: float = 0.0
    assumed_tokens: int = 0

    @property
    def bound(self) -> Bound:
        """The words printed before the sums: if a part is assumed, they are upper bounds."""
        # Not by the assumed cost, which is 0 for a model without a price.
        return "at most" if self.assumed_tokens else ""

    def __add__(self, other: Self) -> "Usage":
        return Usage(
            _add_amounts(self.cost_usd, other.cost_usd),
            _add_amounts(self.tokens, other.tokens),
            self.assumed_usd + other.assumed_usd,
            self.assumed_tokens + other.assumed_tokens,
        )


UNKNOWN_USAGE = Usage(None, None)


def add_usage(parts: Iterable[Usage]) -> Usage:
    """The sum over requests, beads or runs."""
    return sum(parts, Usage())


def _add_amounts(left: Number | None, right: Number | None) -> Number | None:
    return None if left is None or right is None else left + right


@dataclass(frozen=True)
class SpendingLimit:
    """The USD and tokens that may be used; None is no limit."""

    usd: float | None = None
    tokens: int | None = None

    def subtract(self, used: Iterable[Usage]) -> "SpendingLimit":
        """The limit less what was used, at least 0. Unknown usage counts as 0: no limit can be
        enforced on it."""
        usages = tuple(used)
        return SpendingLimit(
            _subtract(self.usd, [usage.cost_usd or 0.0 for usage in usages]),
            _subtract(self.tokens, [usage.tokens or 0 for usage in usages]),
        )


def _subtract(limit: Number | None, amounts: Iterable[Number]) -> Number | None:
    return None if limit is None else max(limit - sum(amounts), type(limit)(0))


# --- as text --------------------------------------------------------------------------------------


def format_usd(usd: float | None, bound: Bound = "") -> str:
    """``at least $1.20``."""
    if usd is None:
        return "not known"
    # Four decimals below a cent, as $0.00 would mean no cost at all.
    return f"{bound} ${usd:.{4 if 0 < usd < 0.01 else 2}f}".lstrip()


def format_cost(usage: Usage) -> str:
    """Cost and tokens as text, with the part that is assumed."""
    if usage == Usage():
        return "nothing spent"
    has_cost = usage.cost_usd is not None
    money = format_usd(usage.cost_usd, usage.bound) if has_cost else "cost not known"
    if usage.tokens is None:
        return money
    tokens = _format_tokens(usage.tokens)
    if not has_cost:  # the bound stands only before the first figure
        tokens = f"{usage.bound} {tokens}".lstrip()
    text = f"{money}, {tokens}"
    if not usage.bound:
        return text
    assumed = format_usd(usage.assumed_usd) if has_cost else _format_tokens(usage.assumed_tokens)
    return f"{text} ({assumed} of it assumed: the end of an answer was not seen)"


def _format_tokens(tokens: int) -> str:
    return f"{tokens / 1000:.0f}k tokens" if tokens >= 1000 else f"{tokens} tokens"


# --- tools ----------------------------------------------------------------------------------------


MOST_CALLS = 200
"""Calls of a bead that are kept; the others are only counted."""
LONGEST_SUBJECT, LONGEST_ID = 300, 100
"""Characters of a call's subject, and of a tool's name or a call's id."""
LONGEST_COMMAND = 10_000
"""Characters; a longer one is shown unparsed, as shlex would take too long."""
SHELLS = ("sh", "bash", "dash", "zsh")
# The arguments that name a call's subject, in the tools of agents' CLIs; the first one counts.
_SUBJECT_ARGUMENTS = ("command", "cmd", "file_path", "path", "pattern")


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool: the tool's name, the subject (a command, a path), and the result that the
    agent's CLI ``reported``, "" for none. ``call_id`` is the model's."""

    tool: str
    subject: str = ""
    reported: str = ""
    call_id: str = ""


@dataclass(frozen=True)
class ToolUse:
    """The calls of a bead, as seen by ``source``: this program's ``gateway``, in the model's
    answers, or only the agent's own ``cli``. ``more`` is the number of calls that were not kept."""

    source: Literal["gateway", "cli"]
    calls: Annotated[tuple[ToolCall, ...], Length(MOST_CALLS)] = ()
    more: int = 0


def build_tool_call(tool: object, arguments: object, call_id: object = "") -> ToolCall:
    """Build a call from a model's or a CLI's data, which is hostile and may have any shape."""
    values = arguments if isinstance(arguments, Mapping) else {}
    subject = next((values[name] for name in _SUBJECT_ARGUMENTS if values.get(name)), "")
    return ToolCall(
        clean_line(tool, LONGEST_ID),
        clean_line(unwrap_command(subject), LONGEST_SUBJECT),
        call_id=clean_line(call_id, LONGEST_ID),
    )


def unwrap_command(command: Any) -> Any:
    """A command without the ``sh -c`` that an agent's CLI puts around it."""
    if isinstance(command, str) and len(command) > LONGEST_COMMAND:
        return command
    try:
        words = shlex.split(command) if isinstance(command, str) else command
    except ValueError:
        return command
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return command
    if len(words) == 3 and words[0].rpartition("/")[2] in SHELLS and words[1] in ("-c", "-lc"):
        return words[2]
    return command if isinstance(command, str) else shlex.join(words)


def clean_line(value: object, max_chars: int) -> str:
    """A string as one line of at most ``max_chars`` characters, "" for other types."""
    # Cut first, to save time; not to max_chars, as runs of white space become one space below.
    text = value[: max_chars * 2] if isinstance(value, str) else ""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:max_chars]
