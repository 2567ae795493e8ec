"""python-gitlab with one retry policy and one error class; no other module imports it."""

import contextlib
import json
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import gitlab
import requests
import urllib3.exceptions

from gitlab_nightshift import __version__
from gitlab_nightshift.gitlab.api_error import ApiError, not_performed, transient
from gitlab_nightshift.gitlab.resources import PAGE_SIZE
from gitlab_nightshift.system.retry import RetryPolicy, parse_retry_after
from gitlab_nightshift.text.printable_text import make_printable

_T = TypeVar("_T")
LONGEST_REASON = 300
"""Characters."""
CHUNK_BYTES = 64 * 1024
NO_CONTENT = 204
"""The status of a successful deletion."""


class Client(gitlab.Gitlab):
    """A connection whose requests end in an answer or in an :class:`ApiError`.

    Reads are retried after every error that may be temporary. Writes are retried only if GitLab
    said that it did nothing: after a timeout, the caller has to look first.
    """

    def __init__(
        self,
        server_url: str,
        token: str,
        *,
        timeout_s: float,
        retry_policy: RetryPolicy,
        is_job_token: bool = False,
    ) -> None:
        """``is_job_token``: the token is a ``CI_JOB_TOKEN``, which GitLab accepts for few
        requests."""
        session = requests.Session()
        # requests drops only Authorization on a redirect to another host, not PRIVATE-TOKEN.
        session.max_redirects = 0
        session.hooks["response"].append(self._read_retry_after)
        self.server = urlsplit(server_url).netloc
        self.retry_policy = retry_policy
        self._secret, self._retry_after_s = token, 0.0
        super().__init__(
            server_url,
            private_token=None if is_job_token else token,
            job_token=token if is_job_token else None,
            timeout=timeout_s,
            session=session,
            # Behind a proxy, GitLab's links to next pages name another host.
            keep_base_url=True,
            user_agent=f"gitlab-nightshift/{__version__}",
        )

    def has_token_prefix(self, prefix: str) -> bool:
        """True if the token begins with this. No other module reads the token."""
        return self._secret.startswith(prefix)

    @cached_property
    def own_user(self) -> dict[str, Any]:
        """The token's own user, read once."""
        return self.read_object("/user")

    def read_object(self, path: str, **query: Any) -> dict[str, Any]:
        """The JSON object at a path; empty for anything else."""
        answer = self.http_get(path, query_data=query)
        return answer if isinstance(answer, dict) else {}

    def read_page(self, path: str, **query: Any) -> list[dict[str, Any]]:
        """The JSON objects on one page of a list, by default the first."""
        rows = self.http_list(path, query_data={"per_page": PAGE_SIZE, **query}, get_all=False)
        return [row for row in rows if isinstance(row, dict)]

    def read_pages(self, path: str, pages: int, **query: Any) -> list[dict[str, Any]]:
        """The JSON objects on the first ``pages`` pages of a list."""
        objects: list[dict[str, Any]] = []
        for page in range(1, pages + 1):
            rows = self.read_page(path, page=page, **query)
            objects += rows
            if len(rows) < PAGE_SIZE:
                break
        return objects

    def read_all_pages(self, path: str) -> list[dict[str, Any]]:
        """The JSON objects of a whole list."""
        rows = self.http_list(path, query_data={"per_page": PAGE_SIZE}, get_all=True)
        return [row for row in rows if isinstance(row, dict)]

    def http_request(self, verb: str, path: str, *args: Any, **kwargs: Any) -> requests.Response:
        """One request of python-gitlab, with our retries instead of its own, which follow any
        ``Retry-After`` without a limit, and repeat writes too."""
        kwargs |= {"obey_rate_limit": False, "max_retries": 0}
        should_retry = transient if verb == "get" else not_performed

        def send_once() -> requests.Response:
            with self._convert_errors(verb, path):
                # A nested function has no first argument, which a bare super() needs (PEP 3135).
                response = super(Client, self).http_request(verb, path, *args, **kwargs)
                return self._check_json(response)

        return self.retry_policy.call_with_retries(send_once, should_retry)

    def send_idempotent(self, send: Callable[..., _T], *args: Any, **named: Any) -> _T:
        """The answer to a write that is safe to repeat, so that it is retried like a read."""
        return self.retry_policy.call_with_retries(partial(send, *args, **named), transient)

    def download(self, path: str, most: int) -> bytes:
        """The bytes of a file. Raises ApiError for more than ``most`` bytes."""

        def download_once() -> bytes:
            with self._open_stream(path) as response:
                return self._read_bounded(response, path, most)

        return self.retry_policy.call_with_retries(download_once, transient)

    def read_tail(self, path: str, size: int, most: int) -> bytes:
        """The last ``size`` bytes of a text, of which about ``most`` bytes are read at most."""

        def read_once() -> bytes:
            tail, bytes_read = b"", 0
            with self._open_stream(path) as response:
                for chunk in response.iter_content(CHUNK_BYTES):
                    tail = (tail + chunk)[-size:]
                    bytes_read += len(chunk)
                    if bytes_read > most:
                        break
            return tail

        return self.retry_policy.call_with_retries(read_once, transient)

    @contextlib.contextmanager
    def _open_stream(self, path: str) -> Iterator[requests.Response]:
        with self._convert_errors("get", path):
            options: dict[str, Any] = {"obey_rate_limit": False, "max_retries": 0}
            response = super().http_request("get", path, streamed=True, **options)
            with contextlib.closing(response):
                yield response

    def send_query(
        self,
        query: str,
        variables: Mapping[str, Any],
        partial_errors: list[tuple[tuple[Any, ...], str]] | None = None,
    ) -> Any:
        """The data of GraphQL's answer. Raises a lasting ApiError if it has errors; with the list
        ``partial_errors``, an answer with some data is accepted, and the path and message of each
        error are appended to the list.
        """

        def ask_once() -> Any:
            with self._convert_errors("post", "graphql"):
                return super(Client, self).http_request(
                    "post",
                    f"{self.url}/api/graphql",
                    post_data={"query": query, "variables": dict(variables)},
                    obey_rate_limit=False,
                    max_retries=0,
                )

        # A query only reads, so it is retried like a GET although it is posted.
        answer = self._check_json(self.retry_policy.call_with_retries(ask_once, transient)).json()
        answer = answer if isinstance(answer, dict) else {}
        errors = answer.get("errors")
        if errors and partial_errors is not None and answer.get("data"):
            partial_errors += [
                (tuple(error.get("path") or ()), self._format_reason(error.get("message") or ""))
                for error in errors
            ]
        elif errors or not answer.get("data"):
            reason = self._format_reason(errors or "no data")
            raise ApiError(f"GitLab's GraphQL refused the query: {reason}", lasting=True)
        return answer["data"]

    def _read_bounded(self, response: requests.Response, path: str, most: int) -> bytes:
        data = bytearray()
        for chunk in response.iter_content(CHUNK_BYTES):
            data += chunk
            if len(data) > most:
                text = f"GitLab at {self.server}: {path} has more than {most} bytes"
                raise ApiError(text, status=response.status_code, lasting=True)
        return bytes(data)

    @contextlib.contextmanager
    def _convert_errors(self, verb: str, path: str) -> Iterator[None]:
        """Raise the library's exceptions as :class:`ApiError`, without the token."""
        self._retry_after_s = 0.0
        try:
            yield
        except gitlab.GitlabError as error:
            description, kind = _read_oauth_error(error)
            reason = self._format_reason(description or error.error_message)
            where = f"{verb.upper()} {path.rpartition('/api/v4/')[2].lstrip('/')}"
            raise ApiError(
                f"GitLab at {self.server} answered {error.response_code} to {where}: {reason}",
                status=error.response_code,
                reason=reason,
                kind=kind,
                retry_after_s=self._retry_after_s,
            ) from None
        except requests.TooManyRedirects as error:
            response = error.response
            target = self._format_reason(response.headers.get("Location", "")) if response else ""
            raise self._build_unreachable_error(
                f"it redirects to {target}; use the final address", lasting=True
            ) from None
        except (OSError, urllib3.exceptions.LocationParseError) as error:  # RequestException too
            reason, lasting = _describe_failure(error, self.timeout)
            raise self._build_unreachable_error(reason, lasting=lasting) from None

    def _build_unreachable_error(self, reason: str, *, lasting: bool) -> ApiError:
        text = f"GitLab at {self.server} cannot be reached: {reason}"
        return ApiError(text, reason=reason, lasting=lasting)

    def _check_json(self, response: requests.Response) -> requests.Response:
        try:
            if response.status_code != NO_CONTENT:
                response.json()
        except ValueError:
            text = f"GitLab at {self.server} sent no JSON: is this the address of a GitLab?"
            raise ApiError(text, status=response.status_code, lasting=True) from None
        return response

    def _read_retry_after(self, response: requests.Response, *_args: Any, **_kwargs: Any) -> None:
        self._retry_after_s = parse_retry_after(response.headers.get("Retry-After", ""))

    def _format_reason(self, message: Any) -> str:
        """GitLab's message as one short line, without the token."""
        if isinstance(message, bytes):
            message = message.decode(errors="replace")
        text = message if isinstance(message, str) else json.dumps(message)
        if text.lstrip().startswith("<"):
            text = " ".join(re.findall(r"<title>([^<]*)", text)[:1]) or "a page instead of JSON"
        text = make_printable(text)
        text = " ".join(text.replace(self._secret, "[token]").split())
        return text[:LONGEST_REASON] or "no reason given"


def _read_oauth_error(error: gitlab.GitlabError) -> tuple[str, str]:
    """The description and the code of an OAuth error, "" if there is none: the library's exception
    has only the code."""
    try:
        body = json.loads(error.response_body or b"")
    except ValueError:
        return "", ""
    if not isinstance(body, dict) or "error_description" not in body:
        return "", ""
    return str(body["error_description"] or ""), str(body.get("error") or "")


def _describe_failure(error: BaseException, timeout_s: float | None) -> tuple[str, bool]:
    """Why there was no answer, and whether a retry can only fail again. The exception's own text is
    not used, as it may quote the request."""
    # requests raises a plain OSError without errno only if the certificate file is missing
    # (adapters.py: cert_verify).
    if type(error) is OSError and error.errno is None:
        return "REQUESTS_CA_BUNDLE names a file of certificates that does not exist", True
    chain = list(_list_causes(error))
    failures: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str, bool], ...]
    failures = (
        (requests.Timeout, f"no answer within {timeout_s:.0f} s", False),
        (
            (requests.exceptions.SSLError, ssl.SSLError),
            "its certificate is not trusted; SSL_CERT_FILE may name your CA's file",
            True,
        ),
        (requests.exceptions.ProxyError, "the proxy refuses the connection", False),
        (urllib3.exceptions.NameResolutionError, "its name cannot be resolved", False),
        (ConnectionRefusedError, "connection refused", False),
        (
            (requests.exceptions.InvalidURL, urllib3.exceptions.LocationParseError),
            "its address, or that of the proxy, is not a URL",
            True,
        ),
        (requests.exceptions.MissingSchema, "its address lacks http:// or https://", True),
    )
    for types, text, lasting in failures:
        if any(isinstance(cause, types) for cause in chain):
            return text, lasting
    return "the connection was lost", False


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    pending = [error]
    while pending:
        cause = pending.pop()
        # Exceptions may be linked in a circle.
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        linked = (cause.__cause__, cause.__context__, getattr(cause, "reason", None), *cause.args)
        pending += [other for other in linked if isinstance(other, BaseException)]
