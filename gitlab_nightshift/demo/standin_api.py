"""The stand-in's REST API: authentication, permissions and routing."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlencode

from gitlab_nightshift.demo.standin_state import (
    REPORTER,
    Credential,
    StandinAnswer,
    StandinProject,
    StandinToken,
    State,
)

PREFIX = "/api/v4/"
READ, WRITE = ("api", "read_api"), ("api",)
PAGING = {"page", "per_page", "pagination", "order_by", "sort"}
DEFAULT_PAGE, LARGEST_PAGE = 20, 100
_INVALID_TOKEN = {
    "expired": "is expired. You can either do re-authorization or token refresh",
    "revoked": "was revoked. You have to re-authorize from the user",
}


class StandinApiError(Exception):
    """Ends a request with this answer."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(body)
        self.answer = StandinAnswer(status, body)


@dataclass(frozen=True)
class StandinRequest:
    """A REST request without its connection; ``path`` is percent-encoded, as it was sent."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    credentials: Sequence[Credential] = ()


@dataclass(frozen=True)
class StandinCall:
    """A request with its token; ``values`` are the decoded ``{names}`` of the endpoint's path."""

    state: State
    request: StandinRequest
    token: StandinToken | None
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def project(self) -> StandinProject:
        """The project of the path."""
        return find_project(self.state, self.values["id"])

    @property
    def caller(self) -> StandinToken:
        """The token, for an endpoint that needs one."""
        if self.token is None:
            raise StandinApiError(401, {"message": "401 Unauthorized"})
        return self.token


@dataclass(frozen=True)
class Endpoint:
    """One method of one path. A token needs one of ``scopes`` (None: any scope), and the role
    ``access`` in the project (None: the endpoint is outside projects). ``job_token``: a job token
    may call it.
    """

    method: str
    path: str
    answer: Callable[[StandinCall], StandinAnswer]
    access: int | None = None
    scopes: tuple[str, ...] | None = READ
    job_token: bool = False

    def match(self, path: str) -> dict[str, str] | None:
        """The decoded values of the path's ``{names}``, or None for another path.

        ``{name*}`` also matches slashes.
        """
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.path)
        pattern = re.sub(r"\{(\w+)\*\}", r"(?P<\1>.+)", pattern)
        match = re.fullmatch(pattern, path)
        if match is None:
            return None
        # Decoded after matching: an encoded slash (%2F) belongs to a value.
        return {name: unquote(value) for name, value in match.groupdict().items()}


def answer(
    state: State,
    endpoints: Sequence[Endpoint],
    request: StandinRequest,
    check: Callable[[StandinCall, Endpoint], None],
) -> StandinAnswer:
    """Answer one request that ``check`` accepts. An exception in the stand-in itself is answered
    with 500, and recorded in ``errors``."""
    try:
        # One request at a time: handlers read and change the state in several steps.
        with state.lock:
            endpoint, values = _find_endpoint(endpoints, request)
            token = _authenticate(state, request.credentials, endpoint)
            call = StandinCall(state, request, token, values)
            check(call, endpoint)
            _authorize(call, endpoint)
            return endpoint.answer(call)
    except StandinApiError as error:
        return error.answer
    except Exception as error:
        state.errors.append(error)
        return StandinAnswer(500, {"message": "500 Internal Server Error"})


def find_project(state: State, name: str) -> StandinProject:
    """A project by number or path, else 404."""
    for project in state.projects:
        if name in (str(project.id), project.path):
            return project
    raise StandinApiError(404, {"message": "404 Project Not Found"})


def build_not_found(what: str) -> StandinApiError:
    """GitLab's 404 for a resource of a project."""
    return StandinApiError(404, {"message": f"404 {what} Not Found"})


def require_fields(body: Any, *names: str) -> dict[str, Any]:
    """The body as an object with these keys, else GitLab's 400."""
    fields = body if isinstance(body, dict) else {}
    missing = [f"{name} is missing" for name in names if fields.get(name) is None]
    if missing:
        raise StandinApiError(400, {"error": ", ".join(missing)})
    return fields


def check_filters(request: StandinRequest, *names: str) -> dict[str, str]:
    """The query. 501 for an unknown filter: ignoring it would return too much."""
    unknown = sorted(set(request.query) - PAGING - set(names))
    if unknown:
        raise StandinApiError(501, {"message": f"the stand-in has no filter {', '.join(unknown)}"})
    return dict(request.query)


def build_page(
    call: StandinCall, items: Sequence[Any], show: Callable[[Any], Any]
) -> StandinAnswer:
    """The requested page, with GitLab's headers. Only its items are rendered, by ``show``."""
    query = call.request.query
    page = max(1, _parse_number(query.get("page", "1")))
    size = min(LARGEST_PAGE, max(1, _parse_number(query.get("per_page", DEFAULT_PAGE))))
    # An empty list has one page (lib/gitlab/pagination/offset_header_builder.rb).
    page_count = max(1, math.ceil(len(items) / size))
    headers = {
        "X-Total": str(len(items)),
        "X-Total-Pages": str(page_count),
        "X-Page": str(page),
        "X-Per-Page": str(size),
        "X-Next-Page": str(page + 1) if page < page_count else "",
        "X-Prev-Page": str(page - 1) if page > 1 else "",
        "Link": ", ".join(_build_links(call, page, page_count, size)),
    }
    shown = [show(item) for item in items[(page - 1) * size : page * size]]
    return StandinAnswer(200, shown, headers)


def _build_links(call: StandinCall, page: int, page_count: int, size: int) -> Iterator[str]:
    pages = {"prev": page - 1, "next": page + 1, "first": 1, "last": page_count}
    for name, number in pages.items():
        if 1 <= number <= page_count:
            query = {**call.request.query, "page": number, "per_page": size}
            yield f'<{call.state.url}{call.request.path}?{urlencode(query)}>; rel="{name}"'


def _parse_number(text: str | int) -> int:
    try:
        return int(text)
    except ValueError:
        raise StandinApiError(400, {"error": "page is invalid"}) from None


def _find_endpoint(
    endpoints: Sequence[Endpoint], request: StandinRequest
) -> tuple[Endpoint, dict[str, str]]:
    path = request.path.removeprefix(PREFIX)
    is_known_path = False
    for endpoint in endpoints:
        values = endpoint.match(path)
        if values is not None and endpoint.method == request.method:
            return endpoint, values
        is_known_path = is_known_path or values is not None
    if is_known_path:
        raise StandinApiError(405, {"error": "405 Not Allowed"})
    raise StandinApiError(404, {"error": "404 Not Found"})


def _authenticate(
    state: State, credentials: Sequence[Credential], endpoint: Endpoint
) -> StandinToken | None:
    credential = next((each for each in credentials if each.kind != "basic"), None)
    if credential is None:
        return None
    kind = "job" if credential.kind == "job-token" else "personal"
    for token in state.tokens:
        if (token.value, token.kind) == (credential.secret, kind):
            if token.kind == "job" and not endpoint.job_token:
                break
            if token.ended:
                text = f"Token {_INVALID_TOKEN[token.ended]}."
                raise StandinApiError(401, {"error": "invalid_token", "error_description": text})
            return token
    raise StandinApiError(401, {"message": "401 Unauthorized"})


def _authorize(call: StandinCall, endpoint: Endpoint) -> None:
    """Check the token's scope, then the project's visibility, then the role, in GitLab's order."""
    token, is_read = call.token, call.request.method == "GET"
    if token is None and not (is_read and endpoint.access is not None):
        raise StandinApiError(401, {"message": "401 Unauthorized"})
    if token and token.fine_grained:
        _check_permission(token, endpoint)
    elif token and token.kind == "personal" and endpoint.scopes is not None:
        _check_scope(token, endpoint.scopes)
    if endpoint.access is None:
        return
    role = token.access_level if token else 0
    # Whoever can see a project may read it like a Reporter; for others, it does not exist.
    if is_visible_to(call.project, token):
        role = max(role, REPORTER) if is_read else role
    elif not role:
        raise StandinApiError(404, {"message": "404 Project Not Found"})
    if role < endpoint.access:
        raise StandinApiError(403, {"message": "403 Forbidden"})


def is_visible_to(project: StandinProject, token: StandinToken | None) -> bool:
    """True if the project's visibility alone allows the caller to read it."""
    return project.visibility == "public" or (
        project.visibility == "internal" and token is not None
    )


def _check_permission(token: StandinToken, endpoint: Endpoint) -> None:
    """The error code is GitLab's; its description names the permission in another way."""
    permission = f"{endpoint.method} {endpoint.path}"
    if permission in token.lacking:
        description = f"Your fine-grained token lacks the permission for {permission}"
        body = {"error": "insufficient_granular_scope", "error_description": description}
        raise StandinApiError(403, body)


def _check_scope(token: StandinToken, scopes: tuple[str, ...]) -> None:
    if not token.scopes.intersection(scopes):
        description = "The request requires higher privileges than provided by the access token."
        body = {"error": "insufficient_scope", "error_description": description}
        raise StandinApiError(403, {**body, "scope": " ".join(scopes)})
