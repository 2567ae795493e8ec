"""The gateway's refusals, in the error format of the provider that it replaces."""

import json

from gitlab_nightshift.gateway.keys import Api


class RequestRefusal(Exception):
    """A request that is not forwarded. The message goes to the agent and into an event."""

    def __init__(
        self, message: str, status: int = 400, kind: str = "invalid_request_error"
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.kind = message, status, kind


def build_error_body(api: Api, message: str, kind: str) -> bytes:
    """An error as the provider's own clients read it."""
    if api is Api.ANTHROPIC:
        return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
    error = {"message": message, "type": kind, "param": None, "code": None}
    return json.dumps({"error": error}).encode()


def quote_text(text: object, longest: int = 80) -> str:
    """An agent's text, printable, quoted and shortened for a message."""
    shown = repr(str(text)[: longest + 1])
    return shown if len(shown) <= longest + 2 else f"{shown[:longest]}…'"
