"""Reads a request's JSON strictly, in bounded memory: the endpoint must not read it differently."""

import json
import math
from typing import Any, NoReturn

from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.gateway.refusal import RequestRefusal, quote_text

JsonObject = dict[str, Any]


def read_object(raw: bytes, limits: GatewayLimits) -> JsonObject:
    """The object of a request body.

    Raises RequestRefusal for anything else, a key that appears twice, too many parts, too much
    depth, and numbers or texts that JSON does not know.
    """
    # Before parsing: a million empty lists fit into 3 MB, but take far more memory as objects.
    if sum(raw.count(sign) for sign in b"{[,") > limits.body_parts:
        raise RequestRefusal("the request has too many parts", 413, "request_too_large")
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_build_object,
            parse_constant=_refuse_number,
            parse_float=_parse_finite,
        )
    except (ValueError, RecursionError):
        raise RequestRefusal("the request is not JSON") from None
    if not isinstance(value, dict):
        raise RequestRefusal("the request is not a JSON object")
    _check_depth(value, limits.body_depth)
    return value


def write_object(value: JsonObject) -> bytes:
    """The bytes to send: written anew, so that what was checked is what is sent."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can express
        return json.dumps(value, separators=(",", ":")).encode()


def _build_object(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RequestRefusal(f"the key {quote_text(twice)} appears twice")
    return found


def _refuse_number(text: str) -> NoReturn:
    raise RequestRefusal(f"{quote_text(text)} is not a number in JSON")


def _parse_finite(text: str) -> float:
    """Refuse ``1e999``: Python reads it as infinity, which JSON cannot express."""
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def _check_depth(value: Any, most: int) -> None:
    level: list[Any] = [value]
    for _ in range(most):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise RequestRefusal("the request is nested too deeply")
