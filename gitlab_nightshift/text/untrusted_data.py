"""JSON and YAML that somebody else wrote.

A JSON value of an unexpected type counts as missing. The size of YAML documents is limited: nested
aliases or merges could expand a few lines beyond all memory ("billion laughs").
"""

import json
import math
from collections.abc import Iterator
from typing import Any


def parse_json(raw: bytes | str, *, strict: bool = True) -> Any:
    """The parsed value; None if it is not JSON. Without ``strict``, strings may contain line ends
    and other controls, as models write them."""
    try:
        return json.loads(raw, strict=strict)
    except (ValueError, RecursionError):
        return None


def as_object(value: object) -> dict[str, Any]:
    """The value if it is an object, else {}."""
    return value if isinstance(value, dict) else {}


def filter_objects(value: object) -> list[dict[str, Any]]:
    """The objects in a list; [] for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_text(value: object) -> str:
    """The value if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def as_count(value: object, most: int = 10**12) -> int:
    """The value if it is an integer from 0 to ``most``, else 0."""
    return value if type(value) is int and 0 <= value <= most else 0


def take_first_line(text: str, longest: int) -> str:
    """The first line of a text, up to ``longest`` characters."""
    return text.strip().partition("\n")[0][:longest]


# --- YAML -----------------------------------------------------------------------------------------


MOST_VALUES = 300_000
"""Values in a document, with aliases expanded."""


def build_gitlab_loader() -> Any:
    """A PyYAML loader that reads a file as GitLab does: with libyaml, which accepts tabs between
    tokens that PyYAML's own scanner refuses. Values with a tag such as ``!reference`` are None."""
    import yaml

    class GitLabLoader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
        """A class of its own, as constructors are registered by class."""

    GitLabLoader.add_multi_constructor("!", lambda _loader, _suffix, _node: None)
    return GitLabLoader


def construct_documents(loader: Any) -> Iterator[Any]:
    """The documents of a PyYAML loader. Raises ValueError for a too large or an invalid one."""
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
        # A mapping has pairs of nodes, a sequence has nodes.
        children = (n for part in parts for n in (part if isinstance(part, tuple) else (part,)))
        counts[id(node)] = 1 + sum(_count_values(child, counts) for child in children)
    return counts[id(node)]
