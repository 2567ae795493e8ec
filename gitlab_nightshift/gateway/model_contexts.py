"""The context size of a model, from its endpoint's list of models.

Imports aiohttp: only the gateway's own process reads this module.
"""

import asyncio

import aiohttp
from yarl import URL

from gitlab_nightshift.gateway.forward import read_start
from gitlab_nightshift.gateway.keys import Api
from gitlab_nightshift.gateway.model_list import parse_contexts
from gitlab_nightshift.gateway.routes import MODELS
from gitlab_nightshift.gateway.upstream import Upstream

LIST_S, LIST_BYTES = 10.0, 1024 * 1024


async def ask_for_contexts(session: aiohttp.ClientSession, upstream: Upstream) -> dict[str, int]:
    """Tokens of input and answer together, by the models' ids; 0 where the list does not say."""
    if upstream.api is not Api.OPENAI:
        return {}
    try:
        async with (
            asyncio.timeout(LIST_S),
            session.get(
                URL(upstream.build_url(MODELS), encoded=True),
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
