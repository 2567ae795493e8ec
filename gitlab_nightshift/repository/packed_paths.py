"""The paths of a repository's parts as JSON, to hand from one process to another."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.repository.git import RepositoryPaths


def pack_repository_paths(place: RepositoryPaths) -> dict[str, Any]:
    """The paths as JSON."""
    paths = {name: part and str(part) for name, part in vars(place).items() if name != "objects"}
    return {**paths, "objects": list(map(str, place.objects))}


def unpack_repository_paths(data: Mapping[str, Any]) -> RepositoryPaths:
    """The paths from that JSON."""
    others = ("objects", "object_format")
    paths = {name: part and Path(part) for name, part in data.items() if name not in others}
    objects = tuple(map(Path, data["objects"]))
    return RepositoryPaths(**paths, objects=objects, object_format=data["object_format"])
