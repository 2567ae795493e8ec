"""What publish needs of the checkout, as JSON: read before any agent."""

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.repository.git import CommitIdentity
from gitlab_nightshift.repository.private_repository import RepositoryParts
from gitlab_nightshift.stages.publish.publish_context import SourceCheckout


def pack_source(source: SourceCheckout) -> dict[str, Any]:
    """What publish needs of the checkout, read before any agent."""
    packed: dict[str, Any] = json.loads(
        json.dumps(dataclasses.asdict(source), default=_encode_plain)
    )
    return packed


def _encode_plain(value: bytes | Path) -> str:
    return value.hex() if isinstance(value, bytes) else os.fspath(value)


def unpack_source(data: Mapping[str, Any]) -> SourceCheckout:
    """The record again."""
    parts, identity = dict(data["parts"]), data["identity"]
    parts["objects"] = tuple(map(Path, parts["objects"]))
    for name in ("exclude", "attributes", "shallow"):
        parts[name] = bytes.fromhex(parts[name])
    return SourceCheckout(
        parts=RepositoryParts(**parts),
        head=data["head"],
        config=data["config"],
        identity=CommitIdentity(**identity) if identity else None,
        messages=tuple(data["messages"]),
    )
