"""The list of models: as vLLM, llama.cpp, Ollama and OpenRouter give it, and as agents get it."""

from collections.abc import Collection, Mapping
from typing import Any

from gitlab_nightshift.gateway.keys import Api
from gitlab_nightshift.text.json_parts import as_count, as_object, as_objects, parse_json

_NAMES = ("max_model_len", "n_ctx", "context_length")
"""The context's size at vLLM, llama.cpp (in ``meta``) and OpenRouter. Ollama does not tell."""


def parse_contexts(body: bytes) -> dict[str, int]:
    """Tokens of input and answer together by model id, 0 if the list does not say."""
    rows = as_objects(as_object(parse_json(body)).get("data"))
    return {str(row["id"]): _find_context(row) for row in rows if "id" in row}


def pick_context(listed: Mapping[str, int], model: str) -> int | None:
    """One model's context: 0 if unknown, None if the model is not listed. A server with a single
    model may list it under another name, and Ollama with the tag ``latest``."""
    if len(listed) == 1:
        return next(iter(listed.values()))
    return listed.get(model, listed.get(f"{model}:latest"))


def _find_context(row: dict[str, Any]) -> int:
    # Not n_ctx_train of llama.cpp's meta, which is what the model was trained with.
    given = {**as_object(row.get("meta")), **row}
    sizes = (as_count(given.get(name), 10**9) for name in _NAMES)
    return next(filter(None, sizes), 0)


def build_models_answer(
    api: Api, contexts: Mapping[str, int], refused: Collection[str] = ()
) -> dict[str, Any]:
    """The list of a bead's models: each with its context in vLLM's form if it is known, and with
    the fields of Chat Completions that the endpoint has ``refused``."""
    names = sorted(contexts)
    if api is Api.OPENAI:
        rows = [
            {"id": name, "object": "model", "created": 0, "owned_by": "x"}
            | ({"max_model_len": contexts[name]} if contexts[name] else {})
            | ({"refused": sorted(refused)} if refused else {})
            for name in names
        ]
        return {"object": "list", "data": rows}
    data = [{"type": "model", "id": name, "display_name": name} for name in names]
    first, last = (names[0], names[-1]) if names else (None, None)
    return {"data": data, "has_more": False, "first_id": first, "last_id": last}
