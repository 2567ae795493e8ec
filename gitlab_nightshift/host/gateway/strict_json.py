"""Read a request's JSON so that no two readers can see two things in it, in bounded memory."""

import json
import math
from typing import Any, NoReturn

from gitlab_nightshift.host.gateway.limits import Limits
from gitlab_nightshift.host.gateway.refusal import Refusal, plain

JsonObject = dict[str, Any]


def read_object(raw: bytes, limits: Limits) -> JsonObject:
    """The object of a request body.

    Raises :class:`Refusal` for anything else, a key that is there twice, too many parts, too much
    depth, and numbers or texts that JSON does not know.
    """
    if sum(raw.count(sign) for sign in b"{[,") > limits.body_parts:
        raise Refusal("the request has too many parts", 413, "request_too_large")
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_without_doubles,
            parse_constant=_no_number,
            parse_float=_finite,
        )
    except (ValueError, RecursionError):
        raise Refusal("the request is not JSON") from None
    if not isinstance(value, dict):
        raise Refusal("the request is not a JSON object")
    _check_depth(value, limits.body_depth)
    return value


def write_object(value: JsonObject) -> bytes:
    """The bytes to send: written anew, so that what was checked is what is sent."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a character, which only an escape can write
        return json.dumps(value, separators=(",", ":")).encode()


def _without_doubles(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Refusal(f"the key {plain(twice)} is there twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise Refusal(f"{plain(text)} is no number in JSON")


def _finite(text: str) -> float:
    """``1e999`` is read as what JSON cannot write."""
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


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
    raise Refusal("the request is nested too deeply")
