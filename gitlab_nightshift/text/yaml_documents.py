"""YAML documents of a size that can be worked with: a few aliases of aliases, or merges of merges,
make more of one line than there is memory."""

import math
from collections.abc import Iterator
from typing import Any

MOST_VALUES = 300_000
"""Of a document, with each alias written out."""


def build_gitlab_loader() -> Any:
    """A class of PyYAML's loaders that reads a file as GitLab does: by libyaml, which takes tabs
    between tokens where PyYAML's own scanner takes none. Other tags than YAML's give None."""
    import yaml

    class GitLabLoader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
        """``!reference`` and its like are of no interest here."""

    GitLabLoader.add_multi_constructor("!", lambda _loader, _suffix, _node: None)
    return GitLabLoader


def construct_documents(loader: Any) -> Iterator[Any]:
    """The documents of one of PyYAML's loaders. Raises ValueError where one is too large, or a
    value is not what its tag says."""
    while loader.check_node():
        node = loader.get_node()
        if _count_values(node, {}) > MOST_VALUES:
            raise ValueError("too many values")
        try:
            yield loader.construct_document(node)
        except AttributeError:  # PyYAML's, for `!!timestamp soon`
            raise ValueError("a date is none") from None


def _count_values(node: Any, known: dict[int, float]) -> float:
    """Endless for a node that holds itself."""
    if id(node) not in known:
        known[id(node)] = math.inf
        parts = node.value if isinstance(node.value, list) else ()
        flat = (n for part in parts for n in (part if isinstance(part, tuple) else (part,)))
        known[id(node)] = 1 + sum(_count_values(each, known) for each in flat)
    return known[id(node)]
