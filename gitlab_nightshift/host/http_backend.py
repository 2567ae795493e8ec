"""The server side of Git over HTTP (``git http-backend``), for the embedded GitLab stand-in."""

import contextlib
import functools
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, cast

from gitlab_nightshift.host.process import _started, capture

CHUNK = 64 * 1024
EXIT_S = 10.0
CGI_HEADERS = {
    "content-type": "CONTENT_TYPE",
    "content-length": "CONTENT_LENGTH",
    "content-encoding": "HTTP_CONTENT_ENCODING",
    "git-protocol": "GIT_PROTOCOL",
}
NO_BACKEND = "git http-backend gave no answer: is it installed (Alpine: apk add git-daemon)? "


class GitFailedError(Exception):
    """A git command of the stand-in failed; the text is git's own."""


@dataclass(frozen=True)
class BackendRequest:
    """One Git request as CGI wants it.

    ``path`` is decoded and begins with the repository's folder below ``root``; ``headers`` have
    lower-case names; ``variables`` reach the hooks of the repository.
    """

    root: Path
    path: str
    query: str
    method: str
    headers: Mapping[str, str]
    variables: Mapping[str, str]


@dataclass(frozen=True)
class BackendAnswer:
    """The backend's HTTP status, its headers, and its body as it comes."""

    status: int
    headers: tuple[tuple[str, str], ...]
    chunks: Iterator[bytes]


def git(*arguments: str, cwd: Path, home: Path) -> bytes:
    """Run git without any configuration of this machine and return what it printed.

    Raises GitFailedError where git ends with another exit status than 0.
    """
    done = capture([_git_program(), *arguments], cwd=cwd, env=git_environment(home))
    if not done.ok:
        raise GitFailedError(done.stderr.decode(errors="replace").strip())
    return done.stdout


def git_environment(home: Path) -> dict[str, str]:
    """An environment in which git sees neither the system's nor the user's configuration.

    ``home`` is an empty folder: git's HTTP client also reads ``.netrc`` there.
    """
    return {
        "PATH": f"{Path(_git_program()).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
    }


@contextlib.contextmanager
def http_backend(
    request: BackendRequest, body: Iterable[bytes], *, home: Path
) -> Iterator[BackendAnswer]:
    """Run ``git http-backend`` on one request; at the end of the block it is gone.

    The body is fed while the answer is read, so neither has to fit into memory.
    """
    argv = [_git_program(), "http-backend"]
    feeder = None
    try:
        with _started(argv, cwd=request.root, env=_cgi_environment(request, home)) as process:
            assert process.stdin and process.stdout and process.stderr
            feeder = threading.Thread(target=_feed, args=(body, process.stdin))
            feeder.start()
            yield _answer(cast(BufferedReader, process.stdout), process.stderr)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(EXIT_S)
    finally:
        if feeder:
            feeder.join()


@functools.cache
def _git_program() -> str:
    return shutil.which("git") or "git"


def _cgi_environment(request: BackendRequest, home: Path) -> dict[str, str]:
    cgi = {
        "GIT_PROJECT_ROOT": str(request.root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": request.path,
        "QUERY_STRING": request.query,
        "REQUEST_METHOD": request.method,
    }
    sent = {
        name: request.headers[header]
        for header, name in CGI_HEADERS.items()
        if header in request.headers
    }
    return {**git_environment(home), **request.variables, **cgi, **sent}


def _feed(body: Iterable[bytes], stdin: IO[bytes]) -> None:
    """All of the body; what a backend that ended early does not want is read all the same."""
    with contextlib.suppress(ConnectionError):
        for data in body:
            with contextlib.suppress(OSError, ValueError):
                stdin.write(data)
                stdin.flush()
    with contextlib.suppress(OSError):
        stdin.close()


def _answer(stdout: BufferedReader, stderr: IO[bytes]) -> BackendAnswer:
    headers = tuple(_cgi_headers(stdout))
    if not headers:
        text = NO_BACKEND.encode() + stderr.read()
        return BackendAnswer(500, (("Content-Type", "text/plain"),), iter([text]))
    status = next((value for name, value in headers if name == "Status"), "200")
    rest = tuple(header for header in headers if header[0] != "Status")
    return BackendAnswer(int(status.split()[0]), rest, _chunks(stdout))


def _cgi_headers(stdout: BufferedReader) -> Iterator[tuple[str, str]]:
    while line := stdout.readline().strip():
        name, _, value = line.decode("latin-1").partition(":")
        yield name, value.strip()


def _chunks(stdout: BufferedReader) -> Iterator[bytes]:
    while data := stdout.read1(CHUNK):
        yield data
