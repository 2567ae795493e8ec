"""Tool calls that a model has written into its text: the form for endpoints without tool calls, and
the forms of chat templates that a server did not translate."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gitlab_nightshift.text.lazy_patterns import compile_lazily

LARGEST, MOST = 400_000, 100
"""Characters of a text that is read, and calls that are taken from it."""
_NAMES, _INPUTS = ("tool", "name"), ("arguments", "parameters", "input")
_CALL = compile_lazily(
    r"""
    ^```[ ]*tool[ ]*\n         # the form that this program asks for
    | <tool_call>\s*           # Hermes, Qwen
    | \[TOOL_CALLS\]\s*        # Mistral
    # gpt-oss: to=functions.read <|message|>
    | \bto=functions\.(?P<name>\w{1,60})[^{]{0,80}
    """,
    re.MULTILINE | re.VERBOSE | re.IGNORECASE,
)


def find_written_calls(text: str) -> tuple[tuple[str, Any], ...]:
    """Name and arguments of each call, in order; arguments that are no JSON are None."""
    return tuple(call for _, call in zip(range(MOST), _find_calls(text[:LARGEST]), strict=False))


def _find_calls(text: str) -> Iterator[tuple[str, Any]]:
    decoder = json.JSONDecoder(strict=False)  # models write line ends into strings
    for mark in _CALL.finditer(text):
        try:
            value, _ = decoder.raw_decode(text, mark.end())
        except (ValueError, RecursionError):
            yield mark["name"] or "", None
            continue
        for each in value if isinstance(value, list) else [value]:
            yield (mark["name"], each) if mark["name"] else _read_call(each)


def _read_call(value: Any) -> tuple[str, Any]:
    rows = value if isinstance(value, Mapping) else {}
    rows = rows["function"] if isinstance(rows.get("function"), Mapping) else rows
    name = next((rows[key] for key in _NAMES if isinstance(rows.get(key), str)), "")
    given = next((rows[key] for key in _INPUTS if key in rows), None)
    if given is None:  # the arguments beside the name
        given = {key: each for key, each in rows.items() if key not in _NAMES} or None
    return name, given
