"""Finds the JSON answer in a model's text, and checks it against its schema.

Only what models get wrong is checked (types, missing keys, unknown words), so that they can correct
it; the agent's caller validates the answer completely.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gitlab_nightshift.agents.model.blocks import MalformedError

MOST_TRIED = 200
"""Opening braces of a text that are tried as the start of an object."""
_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}

Schema = Mapping[str, Any]


def parse_json_answer(text: str, schema: Schema) -> dict[str, Any]:
    """The JSON object that an answer is, or the only one in it that fits the schema.

    Raises :class:`MalformedError`.
    """
    # A list of objects is not one answer, even if only one of them fits.
    found = [] if text.lstrip().startswith("[") else list(_find_objects(text))
    fitting = [each for each in found if not any(_find_problems(each, schema, schema, ""))]
    if not found or any(each != fitting[0] for each in fitting):
        raise MalformedError("the answer is not one JSON object alone")
    return check_answer((fitting or found)[-1], schema)


def check_answer(found: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """The object, if it fits the schema. Raises :class:`MalformedError`."""
    if problem := next(_find_problems(found, schema, schema, "the answer"), ""):
        raise MalformedError(problem)
    selected = found.get("selected")
    if found.get("result") == "IMPROVEMENT_FOUND" and not (selected and selected.get("files")):
        raise MalformedError("selected: with IMPROVEMENT_FOUND it has files and a description")
    return found


def _find_objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects of a text."""
    decoder, at = json.JSONDecoder(strict=False), text.find("{")  # line ends within strings
    for _ in range(MOST_TRIED):
        if at < 0:
            return
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            yield value
        at = text.find("{", end)


def _find_problems(value: Any, schema: Schema, whole: Schema, where: str) -> Iterator[str]:
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    schema = whole["$defs"][name] if name else schema
    if options := schema.get("anyOf"):
        tried = [list(_find_problems(value, option, whole, where)) for option in options]
        # The first option says most: "null" comes last.
        yield from () if not all(tried) else tried[0]
        return
    kind = schema.get("type")
    if isinstance(kind, str) and not _has_type(value, kind):
        yield f"{where}: {kind} expected"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: one of {', '.join(map(str, schema['enum']))} expected"
    if isinstance(value, dict):
        needed = (key for key in schema.get("required", ()) if key not in value)
        yield from (f"{where}: {key} is missing" for key in needed)
        for key, inner in schema.get("properties", {}).items():
            if key in value:
                yield from _find_problems(value[key], inner, whole, key)
    if isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        for item in value:
            yield from _find_problems(item, items, whole, where)


def _has_type(value: Any, kind: str) -> bool:
    # A bool is an int in Python, but no integer in JSON Schema.
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _KINDS[kind])
