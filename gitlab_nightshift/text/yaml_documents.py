"""YAML documents of bounded size: nested aliases or merges could expand a few lines beyond all
memory ("billion laughs")."""

import math
from collections.abc import Iterator
from typing import Any

MOST_VALUES = 300_000
"""In a document, with aliases expanded."""


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
