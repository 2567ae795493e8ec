"""The server side of Git over HTTP (``git http-backend``), for the embedded GitLab stand-in."""

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, cast

from gitlab_nightshift.repository.git import Git, build_isolated_git
from gitlab_nightshift.sandbox.launched_process import Launch
from gitlab_nightshift.sandbox.process import start_process
from gitlab_nightshift.system.environment import DEFAULT_PATH

CHUNK = 64 * 1024  # bytes read at once
EXIT_S = 10.0  # seconds that the backend may take to end after its answer
# No CONTENT_LENGTH: with one, the backend spins for ever on a body that ends early (git 2.39,
# http-backend.c, pipe_fixed_length); without one, it reads until the feeder closes its stdin.
CGI_VARIABLES = {
    "content-type": "CONTENT_TYPE",
    "content-encoding": "HTTP_CONTENT_ENCODING",
    "git-protocol": "GIT_PROTOCOL",
}
NO_BACKEND = "git http-backend gave no answer: is it installed (Alpine: apk add git-daemon)? "


@dataclass(frozen=True)
class BackendRequest:
    """A request of Git over HTTP, as far as CGI needs it (RFC 3875).

    ``path`` is decoded and begins with the repository's folder below ``root``; ``headers`` have
    lower-case names; ``variables`` are for the repository's hooks.
    """

    root: Path
    path: str
    query: str
    method: str
    headers: Mapping[str, str]
    variables: Mapping[str, str]


@dataclass(frozen=True)
class BackendResponse:
    """The backend's HTTP status, headers, and body as a stream."""

    status: int
    headers: tuple[tuple[str, str], ...]
    chunks: Iterator[bytes]


def build_server_git(home: Path) -> Git:
    """The server's git: the first on PATH, without this machine's configuration."""
    program = shutil.which("git")
    folders = [str(Path(program).parent)] if program else []
    return build_isolated_git(home, os.pathsep.join([*folders, DEFAULT_PATH]))


@contextlib.contextmanager
def run_http_backend(
    git: Git, request: BackendRequest, body: Iterable[bytes]
) -> Iterator[BackendResponse]:
    """Run ``git http-backend`` for one request, until the end of the block.

    A thread feeds the body while the response is read, so neither has to fit into memory.
    """
    argv = [git.program, "http-backend"]
    feeder = None
    try:
        launch = Launch(argv, _build_cgi_environment(git, request), request.root, confined=False)
        with start_process(launch.start) as process:
            assert process.stdin and process.stdout and process.stderr
            feeder = threading.Thread(target=_feed, args=(body, process.stdin))
            feeder.start()
            yield _read_response(cast(BufferedReader, process.stdout), process.stderr)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(EXIT_S)
    finally:
        if feeder:
            feeder.join()


def _build_cgi_environment(git: Git, request: BackendRequest) -> dict[str, str]:
    cgi = {
        "GIT_PROJECT_ROOT": str(request.root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": request.path,
        "QUERY_STRING": request.query,
        "REQUEST_METHOD": request.method,
    }
    from_headers = {
        variable: request.headers[header]
        for header, variable in CGI_VARIABLES.items()
        if header in request.headers
    }
    return {**git.env, **request.variables, **cgi, **from_headers}


def _feed(body: Iterable[bytes], stdin: IO[bytes]) -> None:
    """Feed the whole body to the backend. If the backend ends early, the rest of the body is still
    read: a client reads the response only after sending everything."""
    with contextlib.suppress(ConnectionError):
        for data in body:
            with contextlib.suppress(OSError, ValueError):
                stdin.write(data)
                stdin.flush()
    with contextlib.suppress(OSError):
        stdin.close()


def _read_response(stdout: BufferedReader, stderr: IO[bytes]) -> BackendResponse:
    headers = tuple(_read_cgi_headers(stdout))
    if not headers:
        text = NO_BACKEND.encode() + stderr.read()
        return BackendResponse(500, (("Content-Type", "text/plain"),), iter([text]))
    status = next((value for name, value in headers if name == "Status"), "200")
    sent = tuple(header for header in headers if header[0] != "Status")
    return BackendResponse(int(status.split()[0]), sent, _read_chunks(stdout))


def _read_cgi_headers(stdout: BufferedReader) -> Iterator[tuple[str, str]]:
    while line := stdout.readline().strip():
        name, _, value = line.decode("latin-1").partition(":")
        yield name, value.strip()


def _read_chunks(stdout: BufferedReader) -> Iterator[bytes]:
    while data := stdout.read1(CHUNK):  # what is available, without waiting for a whole chunk
        yield data
