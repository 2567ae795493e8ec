"""What can go wrong between this program and GitLab, as one kind of error."""

from gitlab_nightshift.errors import Code, NightshiftError


class ApiError(NightshiftError):
    """GitLab refused a request or gave no answer; the message is one line without the token.

    ``status`` is the HTTP status, None where there was no answer; ``reason`` GitLab's own words;
    ``retry_after_s`` what GitLab asked to wait, in seconds; ``lasting`` is true where the same
    request can only fail again (an untrusted certificate, a redirect).
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        reason: str = "",
        retry_after_s: float = 0.0,
        lasting: bool = False,
    ) -> None:
        super().__init__(Code.PUBLISH, message)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s
        self.lasting = lasting
