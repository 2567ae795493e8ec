"""JSON and YAML that somebody else wrote.

A part of JSON that has another type counts as missing. YAML documents have a bounded size: nested
aliases or merges could expand a few lines beyond all memory ("billion laughs").
"""

import json
import math
from collections.abc import Iterator
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


# --- YAML -----------------------------------------------------------------------------------------


MOST_VALUES = 300_000
"""Values in a document, with aliases expanded."""


def build_gitlab_loader() -> Any:
    """A PyYAML loader that reads a file as GitLab does: with libyaml, which accepts tabs between
    tokens that PyYAML's own scanner refuses. Values with other tags than YAML's are None."""
    import yaml

    class GitLabLoader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
        """Ignores ``!reference`` and the like."""

    GitLabLoader.add_multi_constructor("!", lambda _loader, _suffix, _node: None)
    return GitLabLoader


def construct_documents(loader: Any) -> Iterator[Any]:
    """The documents of a PyYAML loader. Raises ValueError if one is too large, or a value does not
    match its tag."""
    while loader.check_node():
        node = loader.get_node()
        if _count_values(node, {}) > MOST_VALUES:
            raise ValueError("too many values")
        try:
            yield loader.construct_document(node)
        except AttributeError:  # PyYAML raises it for `!!timestamp soon`
            raise ValueError("invalid date") from None


def _count_values(node: Any, counts: dict[int, float]) -> float:
    """The values in a node, with aliases expanded; infinite for one that contains itself."""
    if id(node) not in counts:
        counts[id(node)] = math.inf
        parts = node.value if isinstance(node.value, list) else ()
        flat = (n for part in parts for n in (part if isinstance(part, tuple) else (part,)))
        counts[id(node)] = 1 + sum(_count_values(each, counts) for each in flat)
    return counts[id(node)]
