"""The list of models: as vLLM, llama.cpp, Ollama and OpenRouter return it, as agents get it, and
the free request by which ``doctor`` checks a key and a model."""

import urllib.error
import urllib.request
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from gitlab_nightshift.gateway.upstream import ANTHROPIC_VERSION, Api, Upstream
from gitlab_nightshift.text.untrusted_data import as_count, as_object, filter_objects, parse_json

_CONTEXT_KEYS = ("max_model_len", "n_ctx", "context_length")
"""The context's size at vLLM, llama.cpp (in ``meta``) and OpenRouter. Ollama does not tell."""


def parse_contexts(body: bytes) -> dict[str, int]:
    """Tokens of input and answer together by model id, 0 if the list does not say."""
    models = filter_objects(as_object(parse_json(body)).get("data"))
    return {str(model["id"]): _find_context(model) for model in models if "id" in model}


def pick_context(listed: Mapping[str, int], model: str) -> int | None:
    """The context of a model: 0 if unknown, None if the model is not listed. A server with a single
    model may list it under another name, and Ollama with the tag ``latest``."""
    if len(listed) == 1:
        return next(iter(listed.values()))
    return listed.get(model, listed.get(f"{model}:latest"))


def _find_context(model: dict[str, Any]) -> int:
    # Not n_ctx_train of llama.cpp's meta, which is what the model was trained with.
    fields = {**as_object(model.get("meta")), **model}
    sizes = (as_count(fields.get(key), 10**9) for key in _CONTEXT_KEYS)
    return next(filter(None, sizes), 0)


def build_models_answer(
    api: Api, contexts: Mapping[str, int], refused: Collection[str] = ()
) -> dict[str, Any]:
    """The list of a bead's models: each with its context in vLLM's form if it is known, and with
    the fields of Chat Completions that the endpoint has ``refused``."""
    names = sorted(contexts)
    if api is Api.OPENAI:
        models = [
            {"id": name, "object": "model", "created": 0, "owned_by": "x"}
            | ({"max_model_len": contexts[name]} if contexts[name] else {})
            | ({"refused": sorted(refused)} if refused else {})
            for name in names
        ]
        return {"object": "list", "data": models}
    models = [{"type": "model", "id": name, "display_name": name} for name in names]
    first, last = (names[0], names[-1]) if names else (None, None)
    return {"data": models, "has_more": False, "first_id": first, "last_id": last}


# --- the request of doctor ------------------------------------------------------------------------

TIMEOUT_S, MOST_BYTES = 20.0, 4_000_000


@dataclass(frozen=True)
class ProbedModel:
    """The HTTP status of an answer: 0, with ``why``, if the endpoint cannot be reached, 404 also if
    its list lacks the model (``listed`` are some that it has). ``context`` is in tokens, 0 if
    unknown."""

    status: int
    why: str = ""
    context: int = 0
    listed: tuple[str, ...] = ()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the key must not go to another address."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        """Take the redirect as the answer."""


def ask_for_model(upstream: Upstream, model: str) -> ProbedModel:
    """Look up the model: at Anthropic by its own URL, elsewhere in the list, as few servers have a
    URL for a name with slashes."""
    if upstream.api is Api.ANTHROPIC:
        status, _, why = _get(upstream, f"/v1/models/{quote(model, safe='')}")
        return ProbedModel(status, why)
    status, body, why = _get(upstream, "/v1/models")
    contexts = parse_contexts(body)
    context = pick_context(contexts, model)
    if status == 200 and context is None:
        status = 404
    return ProbedModel(status, why, context or 0, tuple(contexts)[:5])


def _get(upstream: Upstream, path: str) -> tuple[int, bytes, str]:
    headers = upstream.build_headers("")
    if upstream.api is Api.ANTHROPIC:
        headers["anthropic-version"] = ANTHROPIC_VERSION
    proxies = {"http": upstream.proxy, "https": upstream.proxy} if upstream.proxy else {}
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler(proxies),
        urllib.request.HTTPSHandler(context=upstream.build_tls_context()),
        _NoRedirects(),
    )
    url = upstream.build_url(path)
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - http(s), by build_upstream
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            return int(answer.status), answer.read(MOST_BYTES), ""
    except urllib.error.HTTPError as error:
        with error:
            return int(error.code), b"", ""
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        return 0, b"", str(getattr(why, "strerror", None) or why)[:200]
