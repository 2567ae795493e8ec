"""Parts of JSON that somebody else wrote: a value of another type counts as a missing one."""

import json
from typing import Any


def parse_json(raw: bytes | str, *, strict: bool = True) -> Any:
    """The value, or None for what is not JSON. Without ``strict``, texts may hold line ends and
    other controls, as models write them."""
    try:
        return json.loads(raw, strict=strict)
    except (ValueError, RecursionError):
        return None


def as_object(value: object) -> dict[str, Any]:
    """An object, else an empty one."""
    return value if isinstance(value, dict) else {}


def filter_objects(value: object) -> list[dict[str, Any]]:
    """The objects in a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def as_text(value: object) -> str:
    """A text, else an empty one."""
    return value if isinstance(value, str) else ""


def as_count(value: object, most: int = 10**12) -> int:
    """A whole number from 0 to ``most``, else 0."""
    return value if type(value) is int and 0 <= value <= most else 0


def take_first_line(text: str, longest: int) -> str:
    """The first line of a text, shortened."""
    return text.strip().partition("\n")[0][:longest]
