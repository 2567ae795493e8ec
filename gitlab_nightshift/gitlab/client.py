"""python-gitlab, with one deadline, one kind of error and no surprise: nobody else imports it."""

import contextlib
import json
import re
import ssl
import unicodedata
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import gitlab
import requests
import urllib3.exceptions

from gitlab_nightshift import __version__
from gitlab_nightshift.gitlab.errors import ApiError
from gitlab_nightshift.gitlab.retry import Patience, not_performed, transient

LONGEST_REASON = 300
CHUNK = 64 * 1024


class Client(gitlab.Gitlab):
    """A connection whose every request ends in an answer or in an :class:`ApiError`.

    Reading is repeated while it may help. Writing is repeated only where GitLab said that it did
    nothing: after a timeout the caller has to look first.
    """

    def __init__(
        self, server_url: str, token: str, *, timeout_s: float, patience: Patience
    ) -> None:
        session = requests.Session()
        # A redirect would carry the token to another address.
        session.max_redirects = 0
        session.hooks["response"].append(self._note_pause)
        self.server = urlsplit(server_url).netloc
        self.patience = patience
        self._secret, self._retry_after_s = token, 0.0
        super().__init__(
            server_url,
            private_token=token,
            timeout=timeout_s,
            session=session,
            keep_base_url=True,
            user_agent=f"gitlab-nightshift/{__version__}",
        )

    def http_request(self, verb: str, path: str, *args: Any, **kwargs: Any) -> requests.Response:
        """One request of python-gitlab, with our own retry in place of the library's."""
        kwargs |= {"obey_rate_limit": False, "max_retries": 0}
        again = transient if verb == "get" else not_performed

        def once() -> requests.Response:
            with self._errors(verb, path):
                response = super(Client, self).http_request(verb, path, *args, **kwargs)
                return self._checked(response)

        return self.patience.tries(once, again)

    def download(self, path: str, most: int) -> bytes:
        """The bytes of a file, at most ``most`` of them; a longer one is an error."""

        def once() -> bytes:
            with self._errors("get", path):
                options: dict[str, Any] = {"obey_rate_limit": False, "max_retries": 0}
                response = super(Client, self).http_request("get", path, streamed=True, **options)
                with contextlib.closing(response):
                    return self._bounded(response, path, most)

        return self.patience.tries(once, transient)

    def _bounded(self, response: requests.Response, path: str, most: int) -> bytes:
        data = bytearray()
        for chunk in response.iter_content(CHUNK):
            data += chunk
            if len(data) > most:
                text = f"GitLab at {self.server}: {path} has more than {most} bytes"
                raise ApiError(text, status=response.status_code, lasting=True)
        return bytes(data)

    @contextlib.contextmanager
    def _errors(self, verb: str, path: str) -> Iterator[None]:
        """The library's exceptions as :class:`ApiError`, without a trace of the token."""
        self._retry_after_s = 0.0
        try:
            yield
        except gitlab.GitlabError as error:
            reason = self._plain(error.error_message)
            where = f"{verb.upper()} {path.rpartition('/api/v4/')[2].lstrip('/')}"
            raise ApiError(
                f"GitLab at {self.server} answered {error.response_code} to {where}: {reason}",
                status=error.response_code,
                reason=reason,
                retry_after_s=self._retry_after_s,
            ) from None
        except requests.TooManyRedirects as error:
            to = self._plain(error.response.headers.get("Location", "")) if error.response else ""
            raise self._unreachable(
                f"it redirects to {to}; use the final address", lasting=True
            ) from None
        except requests.RequestException as error:
            why, lasting = _why(error, self.timeout)
            raise self._unreachable(why, lasting=lasting) from None

    def _unreachable(self, why: str, *, lasting: bool) -> ApiError:
        text = f"GitLab at {self.server} cannot be reached: {why}"
        return ApiError(text, reason=why, lasting=lasting)

    def _checked(self, response: requests.Response) -> requests.Response:
        try:
            response.json()
        except ValueError:
            text = f"GitLab at {self.server} sent no JSON: is this the address of a GitLab?"
            raise ApiError(text, status=response.status_code, lasting=True) from None
        return response

    def _note_pause(self, response: requests.Response, *_args: Any, **_kwargs: Any) -> None:
        with contextlib.suppress(ValueError):
            self._retry_after_s = float(response.headers.get("Retry-After", 0))

    def _plain(self, words: Any) -> str:
        """GitLab's own words as one short line."""
        if isinstance(words, bytes):
            words = words.decode(errors="replace")
        text = words if isinstance(words, str) else json.dumps(words)
        if text.lstrip().startswith("<"):
            text = " ".join(re.findall(r"<title>([^<]*)", text)[:1]) or "a page instead of JSON"
        text = "".join(c if unicodedata.category(c)[0] != "C" else " " for c in text)
        text = " ".join(text.replace(self._secret, "[token]").split())
        return text[:LONGEST_REASON] or "no reason given"


def _why(error: BaseException, timeout_s: float | None) -> tuple[str, bool]:
    """Why there was no answer, and whether it is for good. No text of the exception itself: it may
    quote what was sent."""
    chain = list(_causes(error))
    kinds: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str, bool], ...] = (
        (requests.Timeout, f"no answer within {timeout_s:.0f} s", False),
        (
            (requests.exceptions.SSLError, ssl.SSLError),
            "its certificate is not trusted; REQUESTS_CA_BUNDLE may name your CA's file",
            True,
        ),
        (requests.exceptions.ProxyError, "the proxy does not let us through", False),
        (urllib3.exceptions.NameResolutionError, "its name cannot be resolved", False),
        (ConnectionRefusedError, "connection refused", False),
        (requests.exceptions.InvalidURL, "its address is not a URL", True),
        (requests.exceptions.MissingSchema, "its address has no http:// or https://", True),
    )
    for kind, text, lasting in kinds:
        if any(isinstance(each, kind) for each in chain):
            return text, lasting
    return "the connection was lost", False


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        linked = (each.__cause__, each.__context__, getattr(each, "reason", None), *each.args)
        waiting += [other for other in linked if isinstance(other, BaseException)]
