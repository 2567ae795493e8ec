"""One value from one source, and where it was written."""

import typing
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.setting_groups import Part

ALIAS = "code_agent"
Path = tuple[str, ...]


@dataclass(frozen=True)
class Assignment:
    """One value from one source. ``place`` tells a user where it was written: file and line, or a
    variable; ``node`` is its YAML node."""

    path: Path
    value: Any
    source: str
    place: str
    node: Any = None

    def find_place(self, loc: Path) -> str:
        """Where a part of the value was written: in a file, the line of the list item or key."""
        node, line = self.node, None
        for name in loc[len(self.path) :]:
            found = find_entry(node, name)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        return f"{self.place.rpartition(':')[0]}:{line}" if line else self.place


def flatten_assignment(a: Assignment, kind: Any) -> Iterator[Assignment]:
    """Split the assignment of a group of keys into one for each key."""
    if not isinstance(a.value, dict) or not is_part(kind):
        yield a
        return
    for key, value in a.value.items():
        name = str(key)
        inner = Settings if (*a.path, name) == (ALIAS,) else find_inner_kind(kind, name)
        whole = (*a.path, name)
        at = replace(a, place=a.find_place(whole))
        at = replace(at, source=at.place) if a.node else at
        child = find_entry(a.node, name)
        yield from flatten_assignment(
            replace(at, path=whole, value=value, node=child and child[1]), inner
        )


def is_part(kind: Any) -> bool:
    """True for a group of keys."""
    return isinstance(kind, type) and issubclass(kind, Part)


def find_inner_kind(kind: Any, name: str) -> Any:
    """The type of a key of a group of keys or a mapping; ``None`` where there is no such key."""
    if typing.get_origin(kind) is dict:
        return typing.get_args(kind)[1]
    return typing.get_type_hints(kind).get(name) if is_part(kind) else None


def find_entry(node: Any, name: str) -> tuple[Any, Any] | None:
    """The nodes of a mapping's key and value; for a list, the item twice."""
    entries = node.value if isinstance(getattr(node, "value", None), list) else []
    if name.isdecimal() and int(name) < len(entries) and not isinstance(entries[0], tuple):
        return entries[int(name)], entries[int(name)]
    pairs = (entry for entry in entries if isinstance(entry, tuple))
    return next(((key, value) for key, value in pairs if key.value == name), None)
