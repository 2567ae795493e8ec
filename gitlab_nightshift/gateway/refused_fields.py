"""Fields that an endpoint refuses: requests are sent again without them, for the rest of the night.

An answer is limited by the field that the client sent, by its other name, or by counting bytes:
OpenAI's newer models take only ``max_completion_tokens``, older servers only ``max_tokens``, some
neither, and vLLM refuses a limit that exceeds its context together with the prompt
(vllm-project/vllm#42474).
"""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from gitlab_nightshift.gateway.limits import USUAL_OUTPUT, USUAL_TOKEN_BYTES
from gitlab_nightshift.gateway.request_body import CheckedRequest, JsonObject
from gitlab_nightshift.text.endpoint_answers import refuses_tools
from gitlab_nightshift.text.lazy_patterns import compile_lazily

REFUSALS, FAILURES = (400, 422), (400, 404, 415, 422, 500, 501)
"""HTTP statuses by which servers refuse a limit, and any other field (llama.cpp: 500)."""
BY_BYTES = ""
"""Instead of a key: no field is sent, and the answer is cut after so many bytes."""
TOOLS = "tools"
"""Never left out: the agent itself has to ask in another way."""
MESSAGE_FIELDS = frozenset({"reasoning_content", "reasoning", "reasoning_details", "extra_content"})
"""Fields of messages that some servers require, and others refuse."""
_OTHER_WORDS = {"response_format": r"|json_schema|grammar|guided|structured.?output"}
_ECHOED = ("input", "ctx", "request")
"""Keys of an error under which FastAPI servers repeat the request."""
_UNKNOWN_FIELD = compile_lazily(
    r"unrecogni[sz]ed|unknown|unsupported|not (supported|permitted|allowed)|unexpected|extra_"
    r"|invalid (argument|parameter|field|key)",
    re.IGNORECASE,
)
_TOO_LARGE = compile_lazily(
    r"too (large|many|long)|maximum|exceed|context|at most|less than", re.IGNORECASE
)


class RefusedFieldError(Exception):
    """The endpoint refuses a field of the request, or the value of its limit."""


def choose_limit_key(
    checked: CheckedRequest, path: str, refused: Collection[tuple[str, str]]
) -> tuple[str, bool]:
    """The first key for an answer's limit that was not ``refused``, and true if it is the last."""
    keys = (checked.output_key, *checked.other_keys)
    left = tuple(key for key in keys if (path, key) not in refused) or (BY_BYTES,)
    return left[0], len(left) == 1


def choose_limit(checked: CheckedRequest, key: str) -> int | None:
    """The limit to send; None if the client wants none. Without a ``key``, a limit in bytes: as a
    token has at least one, an answer of so many bytes has no more tokens."""
    if key or not checked.output_key:
        return checked.max_output
    return (checked.max_output or USUAL_OUTPUT) * USUAL_TOKEN_BYTES


def remove_fields(body: JsonObject, names: Collection[str]) -> JsonObject:
    """The body without these fields, also in its messages and their calls."""
    kept = {name: value for name, value in body.items() if name not in names or name == TOOLS}
    own = MESSAGE_FIELDS.intersection(names)
    if own and "messages" in kept:
        kept["messages"] = _remove_below(kept["messages"], own)
    return kept


def _remove_below(value: Any, names: Collection[str]) -> Any:
    if isinstance(value, list):
        return [_remove_below(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _remove_below(each, names) for key, each in value.items() if key not in names}


def find_refused_fields(
    status: int, error: str, checked: CheckedRequest, key: str
) -> tuple[str, ...]:
    """The fields that an endpoint's error refuses; none if it is about something else.

    A limit that the client itself chose too large is for the client to correct.
    """
    if status in REFUSALS and key and key in error and _UNKNOWN_FIELD.search(error):
        return (key,)
    if status in REFUSALS and key and checked.max_output is None and _TOO_LARGE.search(error):
        return tuple(k for k in (checked.output_key, *checked.other_keys) if k)
    # Other fields are only looked for in the server's own words: it may repeat the whole request.
    words = " ".join(_list_words(error))
    named = tuple(
        name
        for name in checked.optional
        if re.search(rf"\b{name}\b{_OTHER_WORDS.get(name, '')}", words, re.IGNORECASE)
    )
    if status not in FAILURES or named or TOOLS not in checked.body:
        return named if status in FAILURES else ()
    return (TOOLS,) if refuses_tools(words) else ()


def _list_words(error: str) -> Iterator[str]:
    """The texts of an error, without the request that it repeats."""
    try:
        left = [json.loads(error)]
    except (ValueError, RecursionError):
        left = [error]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            left += [each for name, each in value.items() if name not in _ECHOED]
        elif isinstance(value, str):
            yield value
