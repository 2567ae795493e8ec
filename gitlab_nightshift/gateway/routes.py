"""The paths that the gateway serves."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from gitlab_nightshift.gateway.anthropic import check_count, check_messages
from gitlab_nightshift.gateway.keys import Api
from gitlab_nightshift.gateway.openai import check_chat, check_responses
from gitlab_nightshift.gateway.refusal import RequestRefusal, quote_text
from gitlab_nightshift.gateway.request_body import CheckedRequest

MODELS = "/v1/models"
CHAT = "/v1/chat/completions"


@dataclass(frozen=True)
class Route:
    """A path that is forwarded; ``queries`` are its allowed query strings."""

    path: str
    api: Api
    check: Callable[[Mapping[str, Any], Collection[str]], CheckedRequest]
    queries: tuple[str, ...] = ("",)


_BETA = ("", "beta=true")
_ROUTES = {
    route.path: route
    for route in (
        Route("/v1/messages", Api.ANTHROPIC, check_messages, _BETA),
        Route("/v1/messages/count_tokens", Api.ANTHROPIC, check_count, _BETA),
        Route("/v1/responses", Api.OPENAI, check_responses),
        Route(CHAT, Api.OPENAI, check_chat),
    )
}


def find_route(api: Api, method: str, target: str) -> tuple[Route, str]:
    """The route and the query of a request, by the exact text of its target: nothing is decoded or
    normalized, so any other spelling of a path is unknown. Raises :class:`RequestRefusal` (404)."""
    path, _, query = target.partition("?")
    route = _ROUTES.get(path)
    if method != "POST" or route is None or route.api is not api or query not in route.queries:
        what = f"{quote_text(method, 16)} {quote_text(target)}"
        raise RequestRefusal(f"{what} is no path of the model gateway", 404, "not_found_error")
    return route, query
