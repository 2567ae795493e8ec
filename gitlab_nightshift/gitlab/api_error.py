"""What can go wrong between this program and GitLab, as one kind of error."""

from collections.abc import Callable
from typing import TypeVar

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.system.retry import RemoteFailure
from gitlab_nightshift.text.gitlab_refusals import Remedy, find_remedy

Answer = TypeVar("Answer")
_UNSEEN = (401, 403, 404)


class ApiError(NightshiftError, RemoteFailure):
    """GitLab refused a request or gave no answer; the message is one line without the token.

    ``status`` is the HTTP status, None where there was no answer; ``reason`` GitLab's own words,
    ``kind`` its code for what a token lacks (``insufficient_scope``), "" for none;
    ``retry_after_s`` what GitLab asked to wait, in seconds; ``lasting`` is true where the same
    request can only fail again (an untrusted certificate, a redirect).
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
        """What helps against the refusal, by GitLab's words; None where these say nothing known."""
        return find_remedy(f"{self.kind} {self.reason}")


def not_performed(error: ApiError) -> bool:
    """GitLab said that it did nothing and to come again: safe to repeat whatever the request."""
    return error.status == 429 or (error.status == 409 and "resource lock" in error.reason.lower())


def transient(error: ApiError) -> bool:
    """The error may pass by itself. The request may have been performed all the same."""
    if error.lasting:
        return False
    return not_performed(error) or error.status is None or 500 <= error.status != 501


def call_or_none(ask: Callable[[], Answer], *statuses: int) -> Answer | None:
    """What GitLab answers; None for these statuses: unless told, those of what the token may not
    see, or this GitLab does not have."""
    try:
        return ask()
    except ApiError as error:
        if error.status in (statuses or _UNSEEN):
            return None
        raise
