"""Checks that an endpoint accepts the key and knows a model, by one request that costs nothing."""

import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

from gitlab_nightshift.gateway.keys import Api
from gitlab_nightshift.gateway.upstream import Upstream

TIMEOUT_S = 20.0
VERSION = "2023-06-01"
"""Anthropic's only ``anthropic-version`` of this interface."""


class _StayHere(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the key must not go to another address."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        """Follow nothing: the redirect is the answer."""


def ask_for_model(upstream: Upstream, model: str) -> tuple[int, str]:
    """The status of ``GET /v1/models/MODEL``, and "" for the reason; 0 and the reason where the
    endpoint cannot be reached."""
    headers = upstream.build_headers("")
    if upstream.api is Api.ANTHROPIC:
        headers["anthropic-version"] = VERSION
    url = f"{upstream.base_url}/v1/models/{quote(model, safe='')}"
    proxies = {"http": upstream.proxy, "https": upstream.proxy} if upstream.proxy else {}
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler(proxies),
        urllib.request.HTTPSHandler(context=upstream.build_tls_context()),
        _StayHere(),
    )
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - http(s), checked there
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            return int(answer.status), ""
    except urllib.error.HTTPError as error:
        with error:
            return int(error.code), ""
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        return 0, str(getattr(why, "strerror", None) or why)[:200]
