"""Checks by one free request that an endpoint accepts the key and knows a model."""

import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from gitlab_nightshift.gateway.keys import Api
from gitlab_nightshift.gateway.model_list import parse_contexts, pick_context
from gitlab_nightshift.gateway.upstream import Upstream

TIMEOUT_S, MOST_BYTES = 20.0, 4_000_000
VERSION = "2023-06-01"
"""The only ``anthropic-version`` of this interface."""


@dataclass(frozen=True)
class ProbedModel:
    """The status of an answer: 0, with ``why``, if the endpoint cannot be reached, 404 also if its
    list lacks the model (``listed`` are some that it has). ``context`` is in tokens, 0 if
    unknown."""

    status: int
    why: str = ""
    context: int = 0
    listed: tuple[str, ...] = ()


class _StayHere(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the key must not go to another address."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        """Take the redirect as the answer."""


def ask_for_model(upstream: Upstream, model: str) -> ProbedModel:
    """Look up the model: at Anthropic by its own URL, elsewhere in the list, as few servers have a
    URL for a name with slashes."""
    if upstream.api is Api.ANTHROPIC:
        status, body, why = _get(upstream, f"/v1/models/{quote(model, safe='')}")
        return ProbedModel(status, why)
    status, body, why = _get(upstream, "/v1/models")
    contexts = parse_contexts(body)
    found = pick_context(contexts, model)
    if status == 200 and found is None:
        status = 404
    return ProbedModel(status, why, found or 0, tuple(contexts)[:5])


def _get(upstream: Upstream, path: str) -> tuple[int, bytes, str]:
    headers = upstream.build_headers("")
    if upstream.api is Api.ANTHROPIC:
        headers["anthropic-version"] = VERSION
    proxies = {"http": upstream.proxy, "https": upstream.proxy} if upstream.proxy else {}
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler(proxies),
        urllib.request.HTTPSHandler(context=upstream.build_tls_context()),
        _StayHere(),
    )
    url = upstream.build_url(path)
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - http(s), checked there
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            return int(answer.status), answer.read(MOST_BYTES), ""
    except urllib.error.HTTPError as error:
        with error:
            return int(error.code), b"", ""
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        return 0, b"", str(getattr(why, "strerror", None) or why)[:200]
