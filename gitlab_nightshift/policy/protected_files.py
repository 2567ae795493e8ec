"""Files that no night may change, listed in ``protected_files.toml``: dependency manifests, and
settings of the tools that measure a change, such as linters, type checkers and test runners."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.policy.path_patterns import find_matching, matches, read_groups
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import format_excerpt

MOST_NAMED = 4
"""Changed keys or blocks that a text names."""
WHOLE_FILE = "the whole file"
FileVersions = tuple[str, bytes | None, bytes | None]
"""A path, and its bytes before and after; None if there is no file."""


@dataclass(frozen=True)
class SharedFiles:
    """Files that have tool settings beside other content: below ``tables``, or in the ``blocks`` of
    a build script (``settings_parser.py``)."""

    patterns: tuple[str, ...]
    tables: tuple[str, ...] = ()
    blocks: re.Pattern[str] | None = None
    has_c_comments: bool = False

    def list_changed(self, path: str, old: bytes | None, new: bytes | None) -> list[str]:
        """The changed keys, or the beginnings of changed blocks."""
        from gitlab_nightshift.policy.settings_parser import (  # few changes need its parsers
            list_changed_blocks,
            list_changed_keys,
        )

        if self.blocks is None:
            return list_changed_keys(path, old, new, self.tables)
        return list_changed_blocks(old, new, self.blocks, has_c_comments=self.has_c_comments)


def _read_shared(entry: Mapping[str, Any]) -> SharedFiles:
    return SharedFiles(
        patterns=tuple(entry["files"].split()),
        tables=tuple(entry.get("tables", "").split()),
        blocks=compile_lazily(entry["blocks"]) if "blocks" in entry else None,
        has_c_comments=entry.get("has_c_comments", False),
    )


_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
DEPENDENCY_GROUPS = read_groups(_DATA["dependencies"])
DEPENDENCY_FILES = tuple(pattern for group in DEPENDENCY_GROUPS for pattern in group.patterns)
"""Dependency manifests and lock files."""
TOOL_GROUPS = read_groups(_DATA["files"])
TOOL_FILES = tuple(pattern for group in TOOL_GROUPS for pattern in group.patterns)
"""Files that contain nothing but tool settings."""
SHARED = tuple(map(_read_shared, _DATA["shared"]))
_ALL_PATTERNS = (*TOOL_FILES, *(pattern for shared in SHARED for pattern in shared.patterns))


def find_settings_files(paths: Iterable[str]) -> list[str]:
    """The files that contain tool settings, alone or beside other content."""
    return find_matching(paths, _ALL_PATTERNS)


def list_changed_settings(files: Iterable[FileVersions]) -> dict[str, str]:
    """The files with changed tool settings, each with what differs."""
    relevant = ((path, old, new) for path, old, new in files if find_settings_files((path,)))
    changes = ((path, _describe_change(path, old, new)) for path, old, new in relevant)
    return {path: what for path, what in changes if what}


def _describe_change(path: str, old: bytes | None, new: bytes | None) -> str:
    if old == new:
        return ""
    if matches(path, TOOL_FILES):
        names = _list_changed_keys(path, old, new) or [WHOLE_FILE]
    else:
        shared = (each for each in SHARED if matches(path, each.patterns))
        names = [name for each in shared for name in each.list_changed(path, old, new)]
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    return ", ".join([*map(format_excerpt, names[:MOST_NAMED]), *more])


def _list_changed_keys(path: str, old: bytes | None, new: bytes | None) -> list[str]:
    """Changed keys, for the text alone: in such a file any changed byte counts."""
    if old is None or new is None:
        return []
    from gitlab_nightshift.policy.settings_parser import EVERYTHING, UNREADABLE, list_changed_keys

    names = list_changed_keys(path, old, new, EVERYTHING)
    return [] if UNREADABLE in names else names


def describe_denial(path: str, what: str) -> str:
    """Why a change of tool settings (``what``) is refused, and what to do, in one line."""
    return (
        f"{path} contains tool settings ({what}), which measure this change: restore them, and fix"
        " the code instead."
    )
