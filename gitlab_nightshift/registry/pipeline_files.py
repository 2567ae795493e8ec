"""The files that GitLab reads as pipeline configuration: the main file and its local includes.

Pure functions of their texts. What is uncertain (a variable in a path, invalid YAML) counts as more
files, never as fewer.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.untrusted_data import build_gitlab_loader, construct_documents

MOST_FILES = 150
"""GitLab's own limit (ci_max_includes, app/models/application_setting_implementation.rb)."""
LARGEST_FILE = 1_000_000
"""Bytes; a larger file is not parsed, and may include anything."""
ANY_YAML = "**/*.{yml,yaml}"
"""Every YAML file, for includes that cannot be read."""

# Inputs, variables and wildcards in include:local (docs.gitlab.com/ci/yaml/includes).
_PLACEHOLDERS = compile_lazily(r"(\$\[\[.*?\]\]|\$\{\w+\}|\$\w+|\*\*/|\*\*|\*)")
# docs.gitlab.com/ci/yaml/includes: `*` does not match a slash, `**` does.
_WILDCARD_REGEX = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}


@dataclass(frozen=True)
class CiFiles:
    """Paths as in ``include:local``: ``*``, ``**`` and variables match any name."""

    patterns: tuple[str, ...] = ()

    def contains(self, path: str) -> bool:
        """True for a file that GitLab reads as pipeline configuration."""
        return self._regex.fullmatch(path) is not None

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        alternatives = (f"(?:{_build_regex(pattern)})" for pattern in self.patterns)
        return re.compile("|".join(alternatives) or "(?!)")  # (?!) matches nothing


NO_INCLUDES = CiFiles()
"""Used if the base was not read, or its configuration is in another project."""


def _build_regex(pattern: str) -> str:
    if pattern == ANY_YAML:
        return r".*\.ya?ml"
    # split() returns plain text and placeholders in turn.
    return "".join(
        _WILDCARD_REGEX.get(part, ".*") if index % 2 else re.escape(part)
        for index, part in enumerate(_PLACEHOLDERS.split(pattern.lstrip("/")))
    )


def follow_includes(
    main_file: str, list_paths: Callable[[], Collection[str]], read: Callable[[str], bytes | None]
) -> CiFiles:
    """The configuration file ``main_file``, and all that it includes from the same repository.

    ``list_paths`` returns all files of the commit, ``read`` the bytes of one, None if it does not
    exist.
    """
    patterns: dict[str, None] = {main_file: None}
    waiting, seen = [main_file], set[str]()
    while waiting and len(seen) < MOST_FILES:
        path = waiting.pop(0)
        if path in seen:  # files may include each other
            continue
        seen.add(path)
        for pattern in _find_includes(read(path)):
            if pattern not in patterns:
                patterns[pattern] = None
                waiting += _find_matches(pattern, list_paths)
    if waiting:
        patterns[ANY_YAML] = None
    return CiFiles(tuple(patterns))


def _find_matches(pattern: str, list_paths: Callable[[], Collection[str]]) -> list[str]:
    if not _PLACEHOLDERS.search(pattern) and pattern != ANY_YAML:
        return [pattern.lstrip("/")]
    files = CiFiles((pattern,))
    return sorted(path for path in list_paths() if files.contains(path))


def _find_includes(data: bytes | None) -> Iterator[str]:
    """The local files that a configuration includes, also for child pipelines."""
    if data is None:
        return
    documents = _parse_documents(data)
    if documents is None:
        yield ANY_YAML
        return
    for document in documents:
        if not isinstance(document, Mapping):
            continue
        yield from _find_local_files(document.get("include"))
        header = document.get("spec")  # a file with inputs has a header document
        yield from _find_local_files(header.get("include") if isinstance(header, Mapping) else None)
        for job in document.values():
            trigger = job.get("trigger") if isinstance(job, Mapping) else None
            if isinstance(trigger, Mapping):
                yield from _find_local_files(trigger.get("include"))


def _find_local_files(include: Any) -> Iterator[str]:
    for entry in include if isinstance(include, list) else [include]:
        # ``include: a.yml`` is local, ``include: https://…`` remote.
        if isinstance(entry, str) and not re.match(r"https?://", entry):
            yield entry
        elif isinstance(entry, Mapping):
            yield from _filter_strings(entry.get("local"))
            # A project may include its own files by its name.
            yield from _filter_strings(entry.get("file"))
            for component in _filter_strings(entry.get("component")):
                # Its own component: templates/NAME.yml or templates/NAME/template.yml.
                if "$CI_PROJECT_PATH" in component.replace("{", ""):
                    yield "templates/**"


def _filter_strings(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [value for value in values if isinstance(value, str)]


def _parse_documents(data: bytes) -> list[Any] | None:
    """The YAML documents of a file, with any tags; None if it is invalid."""
    import yaml

    if len(data) > LARGEST_FILE:
        return None
    try:
        return list(construct_documents(build_gitlab_loader()(data)))
    except (yaml.YAMLError, RecursionError, ValueError, TypeError):
        return None
