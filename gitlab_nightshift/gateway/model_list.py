"""The list of models of an endpoint, as vLLM, llama.cpp, Ollama and OpenRouter give it."""

import json
from collections.abc import Mapping
from typing import Any

_NAMES = ("max_model_len", "n_ctx", "context_length")
"""The context's size: vLLM's, llama.cpp's and OpenRouter's; llama.cpp has it in ``meta``."""


def parse_contexts(body: bytes) -> dict[str, int]:
    """Tokens of input and answer together, by the models' ids; 0 where the list does not say."""
    try:
        return {str(row["id"]): _find_context(row) for row in json.loads(body)["data"]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def pick_context(listed: Mapping[str, int], model: str) -> int | None:
    """Of one model: 0 where its context is not known, None where it is not listed. A server of one
    model may call it by another name, Ollama without its tag."""
    if len(listed) == 1:
        return next(iter(listed.values()))
    return listed.get(model, listed.get(f"{model}:latest"))


def _find_context(row: dict[str, Any]) -> int:
    meta = row.get("meta")
    given = {**(meta if isinstance(meta, dict) else {}), **row}
    sizes = (given.get(name) for name in _NAMES)
    return next((size for size in sizes if type(size) is int and 0 < size < 10**9), 0)
