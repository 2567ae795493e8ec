"""The stand-in's REST front: who asks, what may they, which endpoint answers."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlencode

from gitlab_nightshift.demo.standin_state import (
    REPORTER,
    Answer,
    Credential,
    Project,
    State,
    Token,
)

PREFIX = "/api/v4/"
READ, WRITE = ("api", "read_api"), ("api",)
PAGING = {"page", "per_page", "pagination", "order_by", "sort"}
DEFAULT_PAGE, LARGEST_PAGE = 20, 100


class ApiError(Exception):
    """Ends a request with this answer."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(body)
        self.answer = Answer(status, body)


@dataclass(frozen=True)
class Request:
    """A REST request without its transport; ``path`` as sent, still encoded."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    credentials: Sequence[Credential] = ()


@dataclass(frozen=True)
class Call:
    """A request that may be answered; ``values`` are the decoded parts of the path."""

    state: State
    request: Request
    token: Token | None
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def project(self) -> Project:
        """The project of the path."""
        return find_project(self.state, self.values["id"])

    @property
    def caller(self) -> Token:
        """The token, where the endpoint wants one."""
        if self.token is None:
            raise ApiError(401, {"message": "401 Unauthorized"})
        return self.token


@dataclass(frozen=True)
class Endpoint:
    """One method of one path: the scopes (one of them) and the role that it asks for.

    ``access`` None stands for an endpoint outside a project. Job tokens reach what says so.
    """

    method: str
    path: str
    answer: Callable[[Call], Answer]
    access: int | None = None
    scopes: tuple[str, ...] | None = READ
    job_token: bool = False

    def match(self, path: str) -> dict[str, str] | None:
        """The decoded values of the path's ``{names}``, or None for another path.

        ``{name*}`` takes slashes, too.
        """
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.path)
        pattern = re.sub(r"\{(\w+)\*\}", r"(?P<\1>.+)", pattern)
        found = re.fullmatch(pattern, path)
        return {k: unquote(v) for k, v in found.groupdict().items()} if found else None


def answer(state: State, endpoints: Sequence[Endpoint], request: Request) -> Answer:
    """Answer one request; a fault of the stand-in itself is a 500 and noted in ``errors``."""
    try:
        with state.lock:
            endpoint, values = _route(endpoints, request)
            token = _authenticate(state, request.credentials, endpoint)
            call = Call(state, request, token, values)
            _authorize(call, endpoint)
            return endpoint.answer(call)
    except ApiError as error:
        return error.answer
    except Exception as error:
        state.errors.append(error)
        return Answer(500, {"message": "500 Internal Server Error"})


def find_project(state: State, name: str) -> Project:
    """A project by number or path; 404 where there is none."""
    for project in state.projects:
        if name in (str(project.id), project.path):
            return project
    raise ApiError(404, {"message": "404 Project Not Found"})


def not_found(what: str) -> ApiError:
    """GitLab's 404 for a thing inside a project."""
    return ApiError(404, {"message": f"404 {what} Not Found"})


def required(body: Any, *names: str) -> dict[str, Any]:
    """The body as an object that holds these names; else GitLab's 400."""
    given = body if isinstance(body, dict) else {}
    missing = [f"{name} is missing" for name in names if given.get(name) is None]
    if missing:
        raise ApiError(400, {"error": ", ".join(missing)})
    return given


def known_filters(request: Request, *names: str) -> dict[str, str]:
    """The query. 501 for a filter that is not built: ignored, it would answer too much."""
    unknown = sorted(set(request.query) - PAGING - set(names))
    if unknown:
        raise ApiError(501, {"message": f"the stand-in has no filter {', '.join(unknown)}"})
    return dict(request.query)


def one_page(call: Call, items: Sequence[Any], show: Callable[[Any], Any]) -> Answer:
    """The page that is asked for, with GitLab's headers; only what is on it is shown."""
    page = max(1, _number(call.request.query.get("page", "1")))
    size = min(LARGEST_PAGE, max(1, _number(call.request.query.get("per_page", DEFAULT_PAGE))))
    last = max(1, -(-len(items) // size))
    headers = {
        "X-Total": str(len(items)),
        "X-Total-Pages": str(last),
        "X-Page": str(page),
        "X-Per-Page": str(size),
        "X-Next-Page": str(page + 1) if page < last else "",
        "X-Prev-Page": str(page - 1) if page > 1 else "",
        "Link": ", ".join(_links(call, page, last, size)),
    }
    return Answer(200, [show(item) for item in items[(page - 1) * size : page * size]], headers)


def _links(call: Call, page: int, last: int, size: int) -> Iterator[str]:
    neighbours = {"prev": page - 1, "next": page + 1, "first": 1, "last": last}
    for name, number in neighbours.items():
        if 1 <= number <= last:
            query = {**call.request.query, "page": number, "per_page": size}
            yield f'<{call.state.url}{call.request.path}?{urlencode(query)}>; rel="{name}"'


def _number(text: str | int) -> int:
    try:
        return int(text)
    except ValueError:
        raise ApiError(400, {"error": "page is invalid"}) from None


def _route(endpoints: Sequence[Endpoint], request: Request) -> tuple[Endpoint, dict[str, str]]:
    path = request.path.removeprefix(PREFIX)
    found = [(each, values) for each in endpoints if (values := each.match(path)) is not None]
    for endpoint, values in found:
        if endpoint.method == request.method:
            return endpoint, values
    if found:
        raise ApiError(405, {"error": "405 Not Allowed"})
    raise ApiError(404, {"error": "404 Not Found"})


def _authenticate(
    state: State, credentials: Sequence[Credential], endpoint: Endpoint
) -> Token | None:
    offered = [each for each in credentials if each.kind != "basic"]
    if not offered:
        return None
    kind = "job" if offered[0].kind == "job-token" else "personal"
    for token in state.tokens:
        if (token.value, token.kind) == (offered[0].secret, kind):
            if token.kind == "job" and not endpoint.job_token:
                break
            return token
    raise ApiError(401, {"message": "401 Unauthorized"})


def _authorize(call: Call, endpoint: Endpoint) -> None:
    """Scope first, then whether the project may be seen, then the role on it."""
    token, reading = call.token, call.request.method == "GET"
    if token is None and not (reading and endpoint.access is not None):
        raise ApiError(401, {"message": "401 Unauthorized"})
    if token and token.kind == "personal" and endpoint.scopes is not None:
        _check_scope(token, endpoint.scopes)
    if endpoint.access is None:
        return
    role = token.access_level if token else 0
    if visible_to(call.project, token):
        role = max(role, REPORTER) if reading else role
    elif not role:
        raise ApiError(404, {"message": "404 Project Not Found"})
    if role < endpoint.access:
        raise ApiError(403, {"message": "403 Forbidden"})


def visible_to(project: Project, token: Token | None) -> bool:
    """Whether the project's visibility alone lets the caller read it."""
    return project.visibility == "public" or (
        project.visibility == "internal" and token is not None
    )


def _check_scope(token: Token, scopes: tuple[str, ...]) -> None:
    if not token.scopes.intersection(scopes):
        description = "The request requires higher privileges than provided by the access token."
        body = {"error": "insufficient_scope", "error_description": description}
        raise ApiError(403, {**body, "scope": " ".join(scopes)})
