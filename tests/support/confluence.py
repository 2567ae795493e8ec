"""Confluence as a local server: one page, in the shapes of Cloud's API and of Data Center's."""

import base64
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.listeners import serving_http

PAGE, TOKEN, USER = "4242", "ATATT3xTokenOfTheWiki91", "night@acme.example"
CLOUD = f"/wiki/api/v2/pages/{PAGE}"
DATA_CENTER = f"/wiki/rest/api/content/{PAGE}"
BASIC = "Basic " + base64.b64encode(f"{USER}:{TOKEN}".encode()).decode()


@dataclass
class Confluence:
    """The page as it is. ``edits`` are people's, one before each of the next PUTs; ``answer`` is
    given instead of all others."""

    port: int = 0
    body: str = "<p>Nights</p>"
    version: int = 7
    edits: list[str] = field(default_factory=list)
    answer: tuple[int, str] | None = None
    asked: list[str] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        return {"CONFLUENCE_URL": f"http://127.0.0.1:{self.port}/wiki", "CONFLUENCE_TOKEN": TOKEN}

    def reply(self, method: str, path: str, login: str, sent: Any) -> tuple[int, Any]:
        """A status and JSON, as Confluence gives them."""
        place, _, query = path.partition("?")
        self.asked.append(method)
        if login != {CLOUD: BASIC, DATA_CENTER: f"Bearer {TOKEN}"}.get(place):
            return 401, {}
        storage = {"value": self.body, "representation": "storage"}
        known = {"id": PAGE, "type": "page", "title": "Log", "version": {"number": self.version}}
        if method == "GET":
            wanted = "body-format=storage" if place == CLOUD else "expand=body.storage%2Cversion"
            return 200, {**known, "body": {"storage": storage} if query == wanted else {}}
        return self._write(sent, sent["body"] if place == CLOUD else sent["body"]["storage"])

    def _write(self, sent: Any, body: Any) -> tuple[int, Any]:
        if self.edits:
            self.body, self.version = self.body + self.edits.pop(), self.version + 1
        if (sent["title"], body["representation"]) != ("Log", "storage"):
            return 400, {}
        if sent["version"]["number"] != self.version + 1:
            return 409, {}
        self.body, self.version = body["value"], self.version + 1
        return 200, {}


@contextlib.contextmanager
def confluence(**given: Any) -> Iterator[Confluence]:
    """A server on the loopback device."""
    made = Confluence(**given)

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            login = self.headers.get("Authorization", "")
            status, said = made.answer or (0, "")
            if not made.answer:
                status, found = made.reply(
                    self.command, self.path, login, json.loads(data or "null")
                )
                said = json.dumps(found)
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said.encode())

        def do_GET(self) -> None:
            self.answer()

        def do_PUT(self) -> None:
            self.answer()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving_http(Handler) as made.port:
        yield made
