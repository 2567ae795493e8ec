"""The stable error codes and the exit status of each.

An error that a user can fix is one line: what is wrong, where, and what to do.
"""

import errno
from enum import StrEnum

from gitlab_nightshift.text.printable_text import make_printable

MOST_LINES, LONGEST_LINE = 100, 2_000
_FULL = {errno.ENOSPC, errno.EDQUOT}


class Code(StrEnum):
    """Error codes with their exit statuses, as ``result.json`` and the docs show them."""

    exit_status: int

    def __new__(cls, value: str, exit_status: int = 0) -> "Code":
        """Make a member of its text and status. A look-up, ``Code("E_CONFIG")``, gives the text
        alone."""
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


KILLED = "perhaps for lack of memory"
"""Added to the message about a process that SIGKILL ended: the kernel sends it when memory runs
out."""
STOPPED = "stopped by a signal"
"""The reason for what a person has stopped. Only this program's handlers of the signal give it: a
process that a fault, the kernel or an agent ends gives none."""
CANCELLED = (Code.INTERRUPTED, Code.TERMINATED)
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
        """The message as it is printed: bounded, and without control characters, since a name in
        it may be an agent's."""
        lines = self.message.splitlines()[:MOST_LINES]
        return [make_printable(line[:LONGEST_LINE]) for line in lines]


class Interruption(BaseException):
    """SIGINT or SIGTERM arrived: agents are ended and the checkout is put back on the way out.

    Not an ``Exception``, so that no handler for failures takes it for one.
    """

    def __init__(self, code: Code) -> None:
        super().__init__(code.value)
        self.code = code


def build_config_error(message: str) -> NightshiftError:
    """A mistake in the settings or in how the command was called (exit status 2)."""
    return NightshiftError(Code.CONFIG, message)


def is_disk_full(error: OSError) -> bool:
    """True if a disk or a quota has no space left, or no inodes."""
    return error.errno in _FULL


def is_failure(code: str) -> bool:
    """True if a result's error code says that the run failed. ``E_INCOMPLETE`` does not: it says
    that a part is missing."""
    return code not in ("", Code.INCOMPLETE.value)


def to_exit_status(code: str) -> int:
    """The exit status of a result's error code; 0 for "". The code may come from a job that agents
    ran in: an unknown one counts as E_PARSE_ERROR."""
    known = {"": 0, **{each.value: each.exit_status for each in Code}}
    return known.get(code, Code.PARSE_ERROR.exit_status)
