"""A change as the policy looks at it, and patterns for paths."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from gitlab_nightshift.policy.pipeline import NO_INCLUDES, CiFiles
from gitlab_nightshift.settings import Settings

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


@dataclass(frozen=True)
class ChangeView:
    """What the policy looks at: paths as they are shown (odd bytes as escapes), changed lines.

    ``ci`` are the files that GitLab reads as pipeline configuration, as the base commit says.
    """

    paths: tuple[str, ...]
    lines: int
    ci: CiFiles = NO_INCLUDES


def within(path: str, settings: Settings) -> bool:
    """True where ``paths`` and ``exclude_paths`` allow a path."""
    if settings.paths and not matches(path, settings.paths):
        return False
    return not matches(path, settings.exclude_paths)


def matches(path: str, patterns: Iterable[str]) -> bool:
    """True where one of the patterns, written as in ``.gitignore``, matches the path."""
    return bool(matching((path,), patterns))


def matching(paths: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """The paths that one of the patterns matches."""
    return list(_spec(tuple(patterns)).match_files(paths))


@lru_cache(maxsize=64)
def _spec(patterns: tuple[str, ...]) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(patterns)
