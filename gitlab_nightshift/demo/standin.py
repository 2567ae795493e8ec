"""A small GitLab on loopback for ``nightshift demo``: REST, and real Git over HTTP.

    with Standin(folder) as gitlab:
        bot = gitlab.add_user("bot", "Night Shift")
        gitlab.add_token("glpat-1", bot, scopes=("api", "write_repository"), access_level=30)
        project = gitlab.add_project("group/project")
        ...  # push to project.http_url, drive gitlab.url by python-gitlab
        assert [each.title for each in project.merge_requests] == ["..."]

Answers, status codes and texts are GitLab's wherever this program depends on them. Nothing is
silently ignored: a missing endpoint answers 404, an unknown filter 501.
"""

import base64
import binascii
import contextlib
import json
import socket
import socketserver
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from gitlab_nightshift.demo import standin_api as api
from gitlab_nightshift.demo.standin_api import is_visible_to
from gitlab_nightshift.demo.standin_endpoints import ENDPOINTS
from gitlab_nightshift.demo.standin_state import (
    DEVELOPER,
    REPORTER,
    Credential,
    RecordedRequest,
    StandinAnswer,
    StandinProject,
    StandinToken,
    State,
)
from gitlab_nightshift.repository.http_backend import (
    BackendRequest,
    BackendResponse,
    run_http_backend,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily

GIT_PATH = compile_lazily(
    r"/(?P<project>.+?)\.git/(?P<action>info/refs|git-upload-pack|git-receive-pack)"
)
JOB_USER = "gitlab-ci-token"
READ_SCOPES = {"api", "read_api", "read_repository", "write_repository"}
PUSH_SCOPES = {"api", "write_repository"}
PUSH_SERVICE = "git-receive-pack"

# Messages as in lib/gitlab/git_access.rb and GitLab's controllers of Git over HTTP.
ACCESS_DENIED = (
    "HTTP Basic: Access denied. If a password was provided for Git authentication, the password"
    " was incorrect or you're required to use a token instead of a password. If a token was"
    " provided, it was either incorrect, expired, or improperly scoped."
)
NOT_FOUND = (
    "The project you were looking for could not be found or you don't have permission to view it."
)
NO_UPLOAD = "You are not allowed to upload code."
NO_PUSH = "You are not allowed to push code to this project."
NO_DOWNLOAD = "You are not allowed to download code from this project."
SMART_ONLY = "Git access over HTTP is only possible with the smart protocol."


class GitRefusedError(Exception):
    """A status and the text that git shows after ``remote:``."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


@dataclass(frozen=True)
class GitCall:
    """A Git request without its body and connection. ``query_text`` is the unparsed query."""

    method: str
    path: str
    query: Mapping[str, str]
    query_text: str
    headers: Mapping[str, str]
    credentials: tuple[Credential, ...]

    @property
    def service(self) -> str:
        """``git-upload-pack`` or ``git-receive-pack``."""
        match = GIT_PATH.fullmatch(self.path)
        action = match["action"] if match else ""
        return self.query.get("service", "") if action == "info/refs" else action


def authorize_call(state: State, call: GitCall) -> BackendRequest:
    """The request for the backend. Raises GitRefusedError if GitLab would not serve it."""
    match = GIT_PATH.fullmatch(call.path)
    path = match["project"] if match else ""
    project = next((each for each in state.projects if each.path == path), None)
    token = _authenticate(state, call.credentials)
    # GitLab's answer is the same for a hidden and a missing project. At 401, git asks for a token.
    if project is None or not _may_see(project, token):
        raise GitRefusedError(404, NOT_FOUND) if token else GitRefusedError(401, ACCESS_DENIED)
    if call.service not in (PUSH_SERVICE, "git-upload-pack"):
        raise GitRefusedError(403, SMART_ONLY)
    if call.service == PUSH_SERVICE:
        _check_push(token)
    else:
        _check_read(project, token)
    return _build_backend_request(call, project, token)


def _authenticate(state: State, credentials: tuple[Credential, ...]) -> StandinToken | None:
    credential = next((each for each in credentials if each.kind == "basic"), None)
    if credential is None:
        return None
    for token in state.tokens:
        if token.value == credential.secret:
            # A job token needs its own user name; other tokens accept any name.
            if token.kind == "job" and credential.username != JOB_USER:
                break
            return token
    raise GitRefusedError(401, ACCESS_DENIED)


def _may_see(project: StandinProject, token: StandinToken | None) -> bool:
    return is_visible_to(project, token) or (token is not None and token.access_level > 0)


def _check_push(token: StandinToken | None) -> None:
    if token is None:
        raise GitRefusedError(401, ACCESS_DENIED)
    if token.kind == "job" or not (token.fine_grained or token.scopes & PUSH_SCOPES):
        raise GitRefusedError(403, NO_UPLOAD)
    if token.access_level < DEVELOPER:
        raise GitRefusedError(403, NO_PUSH)


def _check_read(project: StandinProject, token: StandinToken | None) -> None:
    if is_visible_to(project, token) or token is None:
        return
    has_scope = token.kind == "job" or token.fine_grained or token.scopes & READ_SCOPES
    if not has_scope or token.access_level < REPORTER:
        raise GitRefusedError(403, NO_DOWNLOAD)


def _build_backend_request(
    call: GitCall, project: StandinProject, token: StandinToken | None
) -> BackendRequest:
    bare = project.bare_repository
    return BackendRequest(
        root=bare.parent,
        path=f"/{bare.name}/{call.path.rpartition('.git/')[2]}",
        query=call.query_text,
        method=call.method,
        headers=call.headers,
        variables={
            "REMOTE_USER": token.user.username if token else "",
            "STANDIN_ACCESS_LEVEL": str(token.access_level if token else 0),
            "STANDIN_PROTECTED": "\n".join(project.protected_branches),
        },
    )


# --- the server -----------------------------------------------------------------------------------

CHUNK = 64 * 1024
"""Bytes of a body that are read in one call."""
TOKEN_PARAMETERS = {"private_token", "access_token", "job_token"}
CHALLENGE = {"WWW-Authenticate": 'Basic realm="GitLab"'}
_POLL_S = 0.02
"""Seconds between socketserver's checks for a shutdown, which waits at most so long."""


class StandinServer(ThreadingHTTPServer):
    """Tracks its open connections, so that closing it waits for no client."""

    # server_close does not wait for daemon threads (docs.python.org, socketserver).
    daemon_threads = False
    request_queue_size = 128
    state: "Standin"

    def __init__(self, handler: "type[Handler]") -> None:
        self.connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), handler)

    def server_bind(self) -> None:
        """Bind without ``HTTPServer``'s look-up of this host's name, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept and remember a connection."""
        connection, address = super().get_request()
        self.connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        """Forget and close a connection."""
        self.connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a closed connection; record any other error in ``State.errors``."""
        error = sys.exception()
        if error and not isinstance(error, ConnectionError):
            self.state.errors.append(error)

    def close(self) -> None:
        """End every connection and wait for their threads."""
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    """One connection, kept open over many requests."""

    protocol_version = "HTTP/1.1"
    # Otherwise a small answer may wait for the client's delayed ACK (tcp(7), TCP_NODELAY).
    disable_nagle_algorithm = True
    server: StandinServer

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests are in ``State.requests``."""

    def respond(self) -> None:
        """Answer one request. Its body is always read to the end, as the connection is reused."""
        self.body = self.read_body()
        url = urlsplit(self.path)
        credentials = tuple(_read_credentials(self.headers.get))
        self.server.state.credentials_seen.extend(credentials)
        if GIT_PATH.fullmatch(unquote(url.path)):
            self._answer_git(url.path, url.query, credentials)
        else:
            self._answer_api(url.path, url.query, credentials)
        for _ in self.body:
            pass

    # BaseHTTPRequestHandler looks methods up by these names.
    do_GET = do_POST = do_PUT = do_DELETE = respond  # noqa: N815

    def _answer_api(self, path: str, query: str, credentials: tuple[Credential, ...]) -> None:
        text = b"".join(self.body)
        try:
            body = json.loads(text) if text else None
        except ValueError:
            body = text.decode(errors="replace")
        state = self.server.state
        request = api.StandinRequest(self.command, path, _parse_query(query), body, credentials)
        endpoints = (*state.more_endpoints, *ENDPOINTS)
        answer = api.answer(state, endpoints, request, state.check_request)
        self.record(path, query, body, answer.status)
        self.send_answer(answer)

    def _answer_git(self, path: str, query: str, credentials: tuple[Credential, ...]) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        call = GitCall(
            self.command, unquote(path), _parse_query(query), query, headers, credentials
        )
        state = self.server.state
        try:
            request = authorize_call(state, call)
        except GitRefusedError as refused:
            self.record(path, query, None, refused.status)
            challenge = CHALLENGE if refused.status == 401 else {}
            self.send_answer(StandinAnswer(refused.status, refused.text, challenge), "text/plain")
            return
        with run_http_backend(state.git, request, self.body) as answer:
            self.record(path, query, None, answer.status)
            self._stream(answer)

    def record(self, path: str, query: str, body: Any, status: int) -> None:
        """Record a request and its answer."""
        recorded = RecordedRequest(self.command, path, _parse_query(query), body, status)
        self.server.state.requests.append(recorded)

    def send_answer(self, answer: StandinAnswer, text_type: str = "text/html") -> None:
        """Send an answer."""
        body = answer.body
        if isinstance(body, bytes):
            content, content_type = body, "application/octet-stream"
        elif isinstance(body, str):
            content, content_type = body.encode(), text_type
        else:
            content, content_type = json.dumps(body).encode(), "application/json"
        self.send_response(answer.status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, answer: BackendResponse) -> None:
        self.send_response(answer.status)
        for name, value in (*answer.headers, ("Transfer-Encoding", "chunked")):
            self.send_header(name, value)
        self.end_headers()
        # Chunks, then an empty one (RFC 9112, 7.1).
        for data in answer.chunks:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def read_body(self) -> Iterator[bytes]:
        """The body in chunks. Raises ConnectionError if the client stops before its end."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            # Chunks and trailers: RFC 9112, 7.1.
            while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
                yield from self._read_exactly(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
        else:
            yield from self._read_exactly(int(self.headers.get("Content-Length") or 0))

    def _read_exactly(self, size: int) -> Iterator[bytes]:
        while size:
            data = self.rfile.read(min(size, CHUNK))
            if not data:
                raise ConnectionError("the client stopped within a body")
            size -= len(data)
            yield data


def _parse_query(text: str) -> dict[str, str]:
    """The query without tokens; a repeated ``name[]`` becomes one value, separated by commas."""
    values: dict[str, list[str]] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        if name not in TOKEN_PARAMETERS:
            values.setdefault(name.removesuffix("[]"), []).append(value)
    return {name: ",".join(items) for name, items in values.items()}


def _read_credentials(header: Any) -> Iterator[Credential]:
    if token := header("PRIVATE-TOKEN"):
        yield Credential("private-token", "", token)
    if token := header("JOB-TOKEN"):
        yield Credential("job-token", "", token)
    scheme, _, value = header("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        yield Credential("bearer", "", value.strip())
    if scheme.lower() == "basic":
        with contextlib.suppress(binascii.Error):
            user, _, password = base64.b64decode(value).decode(errors="replace").partition(":")
            yield Credential("basic", user, password)


class Standin(State):
    """The stand-in: its state (see :class:`State`), served while the ``with`` block runs.

    All its files are below ``root``. Without ``paid_tier``, a merge request has one reviewer and
    one assignee, as on GitLab's free tier.
    """

    handler = Handler

    def __init__(self, root: Path) -> None:
        self._server = StandinServer(self.handler)
        super().__init__(root, f"http://127.0.0.1:{self._server.server_port}")
        self._server.state = self
        self.more_endpoints: list[api.Endpoint] = []
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL_S,))

    def check_request(self, call: api.StandinCall, endpoint: api.Endpoint) -> None:
        """Override in tests, which check each request against GitLab's API description."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.close()
