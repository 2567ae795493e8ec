"""The stand-in's REST API: authentication, permissions and routing."""

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
_ENDED = {
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
    """A REST request, apart from its connection; ``path`` as sent, still encoded."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    credentials: Sequence[Credential] = ()


@dataclass(frozen=True)
class StandinCall:
    """A request that may be answered; ``values`` are the decoded parts of the path."""

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
    """One method of one path. A token needs one of ``scopes``, None for any, and the role
    ``access`` on the project, None for an endpoint outside projects. ``job_token``: a job token may
    call it.
    """

    method: str
    path: str
    answer: Callable[[StandinCall], StandinAnswer]
    access: int | None = None
    scopes: tuple[str, ...] | None = READ
    job_token: bool = False

    def match(self, path: str) -> dict[str, str] | None:
        """The decoded values of the path's ``{names}``, or None for another path.

        ``{name*}`` takes slashes, too.
        """
        # Parts are decoded after matching: an encoded slash (%2F) belongs to its part.
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.path)
        pattern = re.sub(r"\{(\w+)\*\}", r"(?P<\1>.+)", pattern)
        found = re.fullmatch(pattern, path)
        return {k: unquote(v) for k, v in found.groupdict().items()} if found else None


def answer(
    state: State,
    endpoints: Sequence[Endpoint],
    request: StandinRequest,
    check: Callable[[StandinCall, Endpoint], None],
) -> StandinAnswer:
    """Answer one request that ``check`` lets pass; a bug of the stand-in itself is a 500 and
    recorded in ``errors``."""
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
    """The query. 501 for a filter that is not implemented: ignoring it would return too much."""
    unknown = sorted(set(request.query) - PAGING - set(names))
    if unknown:
        raise StandinApiError(501, {"message": f"the stand-in has no filter {', '.join(unknown)}"})
    return dict(request.query)


def build_page(
    call: StandinCall, items: Sequence[Any], show: Callable[[Any], Any]
) -> StandinAnswer:
    """The requested page, with GitLab's headers; only its items are rendered."""
    page = max(1, _parse_number(call.request.query.get("page", "1")))
    size = min(
        LARGEST_PAGE, max(1, _parse_number(call.request.query.get("per_page", DEFAULT_PAGE)))
    )
    # Rounded up, and one page of nothing (lib/gitlab/pagination/offset_header_builder.rb).
    last = max(1, -(-len(items) // size))
    headers = {
        "X-Total": str(len(items)),
        "X-Total-Pages": str(last),
        "X-Page": str(page),
        "X-Per-Page": str(size),
        "X-Next-Page": str(page + 1) if page < last else "",
        "X-Prev-Page": str(page - 1) if page > 1 else "",
        "Link": ", ".join(_build_links(call, page, last, size)),
    }
    return StandinAnswer(
        200, [show(item) for item in items[(page - 1) * size : page * size]], headers
    )


def _build_links(call: StandinCall, page: int, last: int, size: int) -> Iterator[str]:
    neighbours = {"prev": page - 1, "next": page + 1, "first": 1, "last": last}
    for name, number in neighbours.items():
        if 1 <= number <= last:
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
    found = [(each, values) for each in endpoints if (values := each.match(path)) is not None]
    for endpoint, values in found:
        if endpoint.method == request.method:
            return endpoint, values
    if found:
        raise StandinApiError(405, {"error": "405 Not Allowed"})
    raise StandinApiError(404, {"error": "404 Not Found"})


def _authenticate(
    state: State, credentials: Sequence[Credential], endpoint: Endpoint
) -> StandinToken | None:
    offered = [each for each in credentials if each.kind != "basic"]
    if not offered:
        return None
    kind = "job" if offered[0].kind == "job-token" else "personal"
    for token in state.tokens:
        if (token.value, token.kind) == (offered[0].secret, kind):
            if token.kind == "job" and not endpoint.job_token:
                break
            if token.ended:
                why = f"Token {_ENDED[token.ended]}."
                raise StandinApiError(401, {"error": "invalid_token", "error_description": why})
            return token
    raise StandinApiError(401, {"message": "401 Unauthorized"})


def _authorize(call: StandinCall, endpoint: Endpoint) -> None:
    """Check the token's scope, then the project's visibility, then the role, in GitLab's order."""
    token, reading = call.token, call.request.method == "GET"
    if token is None and not (reading and endpoint.access is not None):
        raise StandinApiError(401, {"message": "401 Unauthorized"})
    if token and token.fine_grained:
        _check_permission(token, endpoint)
    elif token and token.kind == "personal" and endpoint.scopes is not None:
        _check_scope(token, endpoint.scopes)
    if endpoint.access is None:
        return
    role = token.access_level if token else 0
    # Whoever sees a project may read it like a Reporter, but a hidden one does not exist for them.
    if visible_to(call.project, token):
        role = max(role, REPORTER) if reading else role
    elif not role:
        raise StandinApiError(404, {"message": "404 Project Not Found"})
    if role < endpoint.access:
        raise StandinApiError(403, {"message": "403 Forbidden"})


def visible_to(project: StandinProject, token: StandinToken | None) -> bool:
    """True if the project's visibility alone allows the caller to read it."""
    return project.visibility == "public" or (
        project.visibility == "internal" and token is not None
    )


def _check_permission(token: StandinToken, endpoint: Endpoint) -> None:
    """GitLab's error code is as in its sources; its sentence words the permission differently."""
    if (wanted := f"{endpoint.method} {endpoint.path}") in token.lacking:
        description = f"Your fine-grained token lacks the permission for {wanted}"
        body = {"error": "insufficient_granular_scope", "error_description": description}
        raise StandinApiError(403, body)


def _check_scope(token: StandinToken, scopes: tuple[str, ...]) -> None:
    if not token.scopes.intersection(scopes):
        description = "The request requires higher privileges than provided by the access token."
        body = {"error": "insufficient_scope", "error_description": description}
        raise StandinApiError(403, {**body, "scope": " ".join(scopes)})
