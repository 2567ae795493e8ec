"""YAML as its tools write it: imported for a file that is YAML alone, as it takes its time."""

from typing import Any

import yaml

from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.yaml_documents import construct_documents


def load_documents(text: str) -> list[Any]:
    """The documents that say something. Raises ValueError."""
    try:
        return [each for each in construct_documents(_Loader(text)) if each is not None]
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """YAML with any tag (``!reference``, ``!vault``) and with ``on`` and ``off`` as they stand."""


def _construct_tagged(loader: Any, _suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    return loader.construct_scalar(node)


_Loader.add_multi_constructor("!", _construct_tagged)
_Loader.yaml_implicit_resolvers = {
    first: [
        (
            tag,
            compile_lazily(r"^(?:true|True|TRUE|false|False|FALSE)$") if "bool" in tag else pattern,
        )
        for tag, pattern in resolvers
        if "timestamp" not in tag
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
