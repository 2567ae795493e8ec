"""Path patterns as in ``.gitignore``, and tables of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from gitlab_nightshift.text.lazy_patterns import compile_lazily

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    from gitlab_nightshift.settings.model import Settings

# What separates the fixed parts of a pattern, and what gives it another meaning (gitignore(5)).
_WILD = compile_lazily(r"[*?/]+")
_SPECIAL = compile_lazily(r"[\\\[!#\s]")


@dataclass(frozen=True)
class PathGroup:
    """Patterns for the files of one tool, and an example for each pattern with a wildcard."""

    name: str
    patterns: tuple[str, ...]
    examples: tuple[str, ...]


def read_groups(table: str) -> tuple[PathGroup, ...]:
    """The groups of a table, one a line: ``name: pattern pattern -> example example``."""
    return tuple(_read_group(line) for line in table.splitlines() if line.strip())


def _read_group(line: str) -> PathGroup:
    name, _, table = line.strip().partition(": ")
    patterns, _, examples = table.partition(" -> ")
    return PathGroup(name, tuple(patterns.split()), tuple(examples.split()))


def is_in_scope(path: str, settings: "Settings") -> bool:
    """True if ``paths`` and ``exclude_paths`` allow a path."""
    if settings.paths and not matches(path, settings.paths):
        return False
    return not matches(path, settings.exclude_paths)


def matches(path: str, patterns: Iterable[str]) -> bool:
    """True if one of the patterns matches the path."""
    return bool(find_matching((path,), patterns))


def find_matching(paths: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """The paths that one of the patterns matches."""
    patterns = tuple(patterns)
    return [path for path in paths if _is_matched(path, patterns)]


def _is_matched(path: str, patterns: tuple[str, ...]) -> bool:
    # Compiling hundreds of patterns takes longer than a small command. Usually none can match.
    possible = tuple(
        pattern for pattern in patterns if all(part in path for part in _list_fixed_parts(pattern))
    )
    return bool(possible) and _compile_patterns(possible).match_file(path)


@cache
def _list_fixed_parts(pattern: str) -> tuple[str, ...]:
    """Strings that every matching path contains; none for a pattern with special characters."""
    return () if _SPECIAL.search(pattern) else tuple(filter(None, _WILD.split(pattern)))


@lru_cache(maxsize=64)
def _compile_patterns(patterns: tuple[str, ...]) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(patterns)
