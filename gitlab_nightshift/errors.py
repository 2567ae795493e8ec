"""The stable error codes and the exit status of each.

An error that a user can fix is one line: what is wrong, where, and what to do.
"""

import errno
from enum import StrEnum

from gitlab_nightshift.text.printable_text import make_printable

MAX_LINES, MAX_LINE_CHARS = 100, 2_000
"""Limits of a printed message."""


class Code(StrEnum):
    """Error codes with their exit statuses, as ``result.json`` and the docs show them."""

    exit_status: int

    def __new__(cls, value: str, exit_status: int = 0) -> "Code":
        """Create a member. ``exit_status`` has a default for type checkers: ``Code("E_CONFIG")``
        looks up a member by its value alone."""
        code = str.__new__(cls, value)
        code._value_ = value
        code.exit_status = exit_status
        return code

    CONFIG = "E_CONFIG", 2
    POLICY_DENY = "E_POLICY_DENY", 3
    APPROVAL_REQUIRED = "E_APPROVAL_REQUIRED", 4
    PROVIDER_UNAVAILABLE = "E_PROVIDER_UNAVAILABLE", 5
    TIMEOUT = "E_TIMEOUT", 6
    BUDGET = "E_BUDGET", 7
    TEST_FAILED = "E_TEST_FAILED", 8
    APPLY_FAILED = "E_APPLY_FAILED", 9
    PARSE_ERROR = "E_PARSE_ERROR", 10
    WORKSPACE_DIRTY = "E_WORKSPACE_DIRTY", 11
    PUBLISH = "E_PUBLISH", 12
    INCOMPLETE = "E_INCOMPLETE", 13
    INTERNAL = "E_INTERNAL", 70
    INTERRUPTED = "E_INTERRUPTED", 130
    TERMINATED = "E_TERMINATED", 143


OUT_OF_MEMORY_HINT = "perhaps for lack of memory"
"""Added to the message about a process that SIGKILL ended: the kernel sends it when memory runs
out."""
STOPPED_BY_SIGNAL = "stopped by a signal"
"""The reason of a run that a person stopped. Only this program's signal handlers set it, so a
process that crashed or was killed never has it."""
CANCELLATION_CODES = (Code.INTERRUPTED, Code.TERMINATED)
"""The codes of a run that was stopped or killed."""


class NightshiftError(Exception):
    """An expected failure: ends as one line on stderr and the exit status of its code."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.exit_status = code.exit_status
        self.message = message

    @property
    def lines(self) -> list[str]:
        """The message as it is printed: bounded, and without control characters, since it may
        quote an agent's file names."""
        lines = self.message.splitlines()[:MAX_LINES]
        return [make_printable(line[:MAX_LINE_CHARS]) for line in lines]


class Interruption(BaseException):
    """SIGINT or SIGTERM arrived: agents are ended and the checkout is restored on the way out.

    Not an ``Exception``, so that no handler for failures catches it.
    """

    def __init__(self, code: Code) -> None:
        super().__init__(code.value)
        self.code = code


def build_config_error(message: str) -> NightshiftError:
    """The error for a mistake in the settings or on the command line (exit status 2)."""
    return NightshiftError(Code.CONFIG, message)


def is_disk_full(error: OSError) -> bool:
    """True if a disk or a quota has no space left, or no inodes."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def is_failure(code: str) -> bool:
    """True if a result's error code means failure; with ``E_INCOMPLETE`` only a part is missing."""
    return code not in ("", Code.INCOMPLETE.value)


def to_exit_status(code: str) -> int:
    """The exit status of a result's error code; 0 for "". An unknown code, perhaps forged by an
    agent, counts as E_PARSE_ERROR."""
    statuses = {"": 0, **{member.value: member.exit_status for member in Code}}
    return statuses.get(code, Code.PARSE_ERROR.exit_status)
