"""What agents use: models, in dollars and tokens, and tools.

The gateway counts what agents use through it; without a gateway the agent's own figures count. A
bead's usage is in its result; a run's is the sum over its beads.
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
    case of answers whose end did not arrive. If they are not 0, the sum is the most that can have
    been used.
    """

    cost_usd: float | None = 0.0
    tokens: int | None = 0
    assumed_usd: float = 0.0
    assumed_tokens: int = 0

    @property
    def bound(self) -> Bound:
        """The words before the sums in print: they are bounds if a part is assumed."""
        # By the tokens, as the assumed cost is 0 for a model without a price.
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
    """The USD and tokens that may be used; None: no limit."""

    usd: float | None = None
    tokens: int | None = None

    def subtract(self, used: Iterable[Usage]) -> "SpendingLimit":
        """The limit without what is used, at least 0. Unknown usage counts as 0: no limit can be
        enforced on it."""
        parts = tuple(used)
        return SpendingLimit(
            _subtract(self.usd, [part.cost_usd or 0.0 for part in parts]),
            _subtract(self.tokens, [part.tokens or 0 for part in parts]),
        )


def _subtract(limit: Number | None, amounts: Iterable[Number]) -> Number | None:
    return None if limit is None else max(limit - sum(amounts), type(limit)(0))


# --- words ----------------------------------------------------------------------------------------


def format_usd(usd: float | None, bound: Bound = "") -> str:
    """``at least $1.20``."""
    if usd is None:
        return "not known"
    # Four decimals below a cent, as $0.00 would mean no cost at all.
    return f"{bound} ${usd:.{4 if 0 < usd < 0.01 else 2}f}".lstrip()


def format_cost(usage: Usage) -> str:
    """Cost and tokens for a log line, with the part that is assumed."""
    if usage == Usage():
        return "nothing spent"
    has_cost = usage.cost_usd is not None
    money = format_usd(usage.cost_usd, usage.bound) if has_cost else "cost not known"
    if usage.tokens is None:
        return money
    tokens = _format_tokens(usage.tokens)
    # The bound once, before the first figure.
    text = f"{money}, {tokens}" if has_cost else f"{money}, {f'{usage.bound} {tokens}'.lstrip()}"
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
"""Characters of a call's subject as it is kept, and of a tool's name or a call's id."""
LONGEST_COMMAND = 10_000
"""Characters; a longer one is shown unparsed, as shlex would take too long."""
SHELLS = ("sh", "bash", "dash", "zsh")
# The arguments in which the tools of agents' CLIs name what they work on; the first one counts.
_SUBJECTS = ("command", "cmd", "file_path", "path", "pattern")


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
    """The calls of a bead. ``source`` observed them: this program's ``gateway``, in the model's
    answers, or only the agent's own ``cli``. ``more`` is the number of calls that were not kept."""

    source: Literal["gateway", "cli"]
    calls: Annotated[tuple[ToolCall, ...], Length(MOST_CALLS)] = ()
    more: int = 0


def build_tool_call(tool: object, arguments: object, call_id: object = "") -> ToolCall:
    """Build a call from a model's or a CLI's data, which is hostile and may have any shape."""
    named = arguments if isinstance(arguments, Mapping) else {}
    subject = next((named[name] for name in _SUBJECTS if named.get(name)), "")
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


def clean_line(value: object, most: int) -> str:
    """A string as one line of at most ``most`` characters, "" for other types."""
    # Cut before the work below, which takes as long as the text is: to twice the length, as runs of
    # white space become one space.
    text = value[: most * 2] if isinstance(value, str) else ""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:most]
