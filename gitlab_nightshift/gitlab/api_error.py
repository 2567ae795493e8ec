"""The one error class for requests to GitLab, and which errors to retry."""

from collections.abc import Callable
from typing import TypeVar

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.system.retry import RemoteFailure
from gitlab_nightshift.text.gitlab_refusals import Remedy, find_remedy

Answer = TypeVar("Answer")
_HIDDEN_OR_MISSING = (401, 403, 404)


class ApiError(NightshiftError, RemoteFailure):
    """GitLab refused a request or did not answer; the message is one line without the token.

    ``status`` is the HTTP status, None without an answer; ``reason`` is GitLab's message and
    ``kind`` its OAuth error code (``insufficient_scope``), each "" if it sent none;
    ``retry_after_s`` is how many seconds GitLab asks to wait; ``lasting`` is true if a retry can
    only fail again (an untrusted certificate, a redirect).
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        reason: str = "",
        kind: str = "",
        retry_after_s: float = 0.0,
        lasting: bool = False,
    ) -> None:
        super().__init__(Code.PUBLISH, message)
        self.status = status
        self.reason, self.kind = reason, kind
        self.retry_after_s = retry_after_s
        self.lasting = lasting

    @property
    def remedy(self) -> Remedy | None:
        """The remedy for GitLab's message; None for an unknown one."""
        return find_remedy(f"{self.kind} {self.reason}")


def not_performed(error: ApiError) -> bool:
    """True if GitLab did nothing and asks to retry: safe for any request."""
    # 409 is mostly a conflict, but "Resource lock" means: try again (python-gitlab retries it too,
    # since 3.13).
    return error.status == 429 or (error.status == 409 and "resource lock" in error.reason.lower())


def transient(error: ApiError) -> bool:
    """True if a retry may succeed. The request may have been performed all the same."""
    if error.lasting:
        return False
    return not_performed(error) or error.status is None or 500 <= error.status != 501


def call_or_none(ask: Callable[[], Answer], *statuses: int) -> Answer | None:
    """GitLab's answer; None for an error with one of these statuses, by default those for something
    that the token may not see or this GitLab does not have."""
    try:
        return ask()
    except ApiError as error:
        if error.status in (statuses or _HIDDEN_OR_MISSING):
            return None
        raise
