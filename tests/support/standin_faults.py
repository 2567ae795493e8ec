"""What is to go wrong with requests to the stand-in."""

import io
import re
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from gitlab_nightshift.demo.standin import Handler
from gitlab_nightshift.demo.standin_state import StandinAnswer


@dataclass
class Fault:
    """What goes wrong for the next ``times`` requests that match.

    With an answer it is given instead of performing the request; without one the request is
    performed and the connection closed.
    """

    method: str
    path: re.Pattern[str]
    times: int
    answer: StandinAnswer | None

    def matches(self, method: str, path: str) -> bool:
        """Whether this request is one that goes wrong."""
        return self.times > 0 and self.method == method and bool(self.path.search(path))


class FaultySource(Protocol):
    """A stand-in that knows what is to go wrong."""

    def take_fault(self, method: str, path: str) -> Fault | None:
        """The fault for this request, if there is one, counted as used once."""


class FaultyHandler(Handler):
    """A connection on which requests go wrong as planned."""

    def respond(self) -> None:
        """Answer one request, or leave it without its answer."""
        url = urlsplit(self.path)
        source: FaultySource = self.server.state  # type: ignore[assignment]
        fault = source.take_fault(self.command, url.path)
        if fault is None:
            super().respond()
        elif fault.answer is None:
            self.wfile = io.BytesIO()
            super().respond()
            self.close_connection = True
        else:
            for _ in self.read_body():
                pass
            self.record(url.path, url.query, None, fault.answer.status)
            self.send_answer(fault.answer)

    do_GET = do_POST = do_PUT = do_DELETE = respond  # noqa: N815
