"""The context size of a model, from its endpoint's list of models.

Imports aiohttp: only the gateway's own process reads this module.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import aiohttp
from yarl import URL

from gitlab_nightshift.gateway.forward import read_start
from gitlab_nightshift.gateway.keys import Api
from gitlab_nightshift.gateway.routes import MODELS
from gitlab_nightshift.gateway.upstream import Upstream

LIST_S, LIST_BYTES = 10.0, 1024 * 1024
_NAMES = ("max_model_len", "n_ctx", "context_length")
"""vLLM's, llama.cpp's and OpenRouter's; llama.cpp has it in ``meta``."""


async def ask_for_contexts(session: aiohttp.ClientSession, upstream: Upstream) -> dict[str, int]:
    """Tokens of input and answer together, by the models' ids; 0 where the list does not say."""
    if upstream.api is not Api.OPENAI:
        return {}
    try:
        async with (
            asyncio.timeout(LIST_S),
            session.get(
                URL(f"{upstream.base_url}{MODELS}", encoded=True),
                headers={"Accept-Encoding": "identity", **upstream.build_headers("")},
                proxy=upstream.proxy or None,
                allow_redirects=False,
            ) as response,
        ):
            if response.status != 200:
                return {}
            return parse_contexts(await read_start(response, LIST_BYTES))
    except (aiohttp.ClientError, TimeoutError, OSError):
        return {}


def parse_contexts(body: bytes) -> dict[str, int]:
    """The same, from the list's JSON."""
    try:
        return {str(row["id"]): _find_context(row) for row in json.loads(body)["data"]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def pick_context(listed: Mapping[str, int], model: str) -> int:
    """Of one model, 0 where it is not known. A server of one model may call it by another name."""
    if len(listed) == 1:
        return next(iter(listed.values()))
    return listed.get(model, 0)


def _find_context(row: dict[str, Any]) -> int:
    meta = row.get("meta")
    given = {**(meta if isinstance(meta, dict) else {}), **row}
    sizes = (given.get(name) for name in _NAMES)
    return next((size for size in sizes if type(size) is int and 0 < size < 10**9), 0)
