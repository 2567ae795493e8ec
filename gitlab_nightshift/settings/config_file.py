"""Reads ``nightshift.yaml``: the values with their lines, and the mistakes that are only visible in
the text: repeated keys and secrets."""

import re
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.setting_groups import SettingsGroup
from gitlab_nightshift.text.lazy_patterns import compile_lazily

FILE_NAME = "nightshift.yaml"
ALIAS = "code_agent"
"""A group of keys that means the same as its keys at the top."""
KeyPath = tuple[str, ...]
_TOKEN = compile_lazily(
    r"""
      # glpat-0123456789abcdef0123
      (?P<gitlab>\bgl(pat|oas|dt|rtr?|cbt|ptt|ft|imt|agent|wt|soat|ffct)-[\w.-]{16,})
    | (?P<model>\bsk-((ant|proj|svcacct|admin)-[\w-]{16,}|\w{20,}))  # sk-ant-0123456789abcdef
    | (?P<github>\b(gh[pousr]|github_pat)_\w{20,})                   # ghp_0123456789abcdef0123
    | (?P<slack>\bxox[a-z]-[\w-]{10,})                               # xoxb-0123456789
    | (?P<aws>\bAKIA[0-9A-Z]{16}\b)                                  # AKIA0123456789ABCDEF
    | (?P<private_key>-----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----)        # -----BEGIN PRIVATE KEY-----
    | (?P<address>://[^/\s:@]*:[^/\s@$]+@)                           # https://me:word@example.org
    """,
    re.VERBOSE,
)

_USE_VARIABLE = "a secret; put it into a masked CI variable"
_CREDENTIAL = compile_lazily(r"(?=\D*\d)(?=[^A-Za-z]*[A-Za-z])[\w.-]{16,}", re.ASCII)
"""A part of a URL that looks random: 16 characters or more, with a digit and a letter."""


@dataclass(frozen=True)
class ConfigFile:
    """The text of the configuration file, and its name for messages."""

    name: str
    text: str


@dataclass(frozen=True)
class Assignment:
    """One value. ``source`` is where it comes from, for ``config show``, and ``place`` where it was
    written, for errors: file and line, a variable, or the command line. ``node`` is its YAML node,
    None outside a file."""

    path: KeyPath
    value: Any
    source: str
    place: str
    node: Any = None

    def find_place(self, path: KeyPath) -> str:
        """The place where a part of the value was written: in a file, the line of the list item or
        key. ``path`` is that of the part, from the top."""
        node, line = self.node, None
        for name in path[len(self.path) :]:
            entry = find_entry(node, name)
            if entry is None:
                break
            line, node = entry[0].start_mark.line + 1, entry[1]
        return f"{self.place.rpartition(':')[0]}:{line}" if line else self.place


def read_file(file: ConfigFile, mistakes: list[str]) -> list[Assignment]:
    """The values that the file sets; what is wrong with it is appended to ``mistakes``, one line
    each. Raises ``E_CONFIG`` if it is not a YAML mapping."""
    data, root = read_yaml(file, mistakes)
    mistakes += find_secrets(file)
    if data is None:
        return []
    if not isinstance(data, dict):
        raise build_config_error(f"{file.name}: expected keys and values at the top")
    top = Assignment((), data, "", f"{file.name}:1", root)
    assignments = list(flatten_assignment(top, Settings))
    mistakes += _find_secret_urls(assignments)
    return _resolve_alias(assignments, mistakes)


def read_yaml(file: ConfigFile, mistakes: list[str]) -> tuple[Any, Any]:
    """The file's data, and its root node, whose nodes have line numbers. Raises ``E_CONFIG`` if it
    is not YAML."""
    import yaml

    class ConfigLoader(yaml.SafeLoader):
        """Reads dates as text; the keys that expect a date parse it."""

        yaml_implicit_resolvers = {  # noqa: RUF012 - as PyYAML declares it
            first: [(tag, pattern) for tag, pattern in pairs if not tag.endswith(":timestamp")]
            for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    try:
        loader = ConfigLoader(file.text)
        root = loader.get_single_node()
        mistakes += _find_repeated_keys(file.name, root)
        return (None if root is None else loader.construct_document(root)), root
    # PyYAML raises AttributeError for `!!timestamp soon`.
    except (yaml.YAMLError, ValueError, AttributeError, RecursionError) as error:
        raise build_config_error(_describe_yaml_error(file, error)) from None


def _describe_yaml_error(file: ConfigFile, error: Exception) -> str:
    place = file.name
    if mark := getattr(error, "problem_mark", None):
        place += f":{mark.line + 1}"
    elif position := getattr(error, "position", 0):
        line = file.text[:position].count("\n") + 1
        place += f":{line}"
    why = getattr(error, "problem", None) or getattr(error, "reason", None) or error
    return f"{place}: not YAML: {why}"


def _find_repeated_keys(file: str, root: Any) -> Iterator[str]:
    """Keys that are set twice: YAML silently uses the last one."""
    # Each node is visited once, as aliases (`*name`) may refer to it from elsewhere.
    pending, seen = [root], set()
    while pending:
        node = pending.pop()
        if id(node) in seen or not isinstance(getattr(node, "value", None), list):
            continue
        seen.add(id(node))
        lines: dict[Any, int] = {}
        for entry in node.value:
            key, value = entry if isinstance(entry, tuple) else (None, entry)
            pending.append(value)
            if key is None or isinstance(key.value, list):
                continue
            line = key.start_mark.line + 1
            if key.value in lines:
                yield f"{file}:{line}: {key.value} is set twice, also in line {lines[key.value]}"
            lines[key.value] = line


def _resolve_alias(assignments: list[Assignment], mistakes: list[str]) -> list[Assignment]:
    """The assignments with those below ``code_agent`` moved to the top."""
    paths = {a.path for a in assignments}
    resolved = []
    for a in assignments:
        if a.path == (ALIAS,):
            if a.value is not None:
                mistakes.append(f"{a.place}: {ALIAS}: expected keys and values")
        elif a.path[0] != ALIAS:
            resolved.append(a)
        elif a.path[1:] in paths:
            mistakes.append(f"{a.place}: {'.'.join(a.path[1:])} is set twice, here and at the top")
        else:
            resolved.append(replace(a, path=a.path[1:]))
    return resolved


def _find_secret_urls(assignments: Iterable[Assignment]) -> Iterator[str]:
    """Notification URLs with credentials: for most services, whoever knows the URL can post."""
    for a in assignments:
        if a.path not in (("notify",), (ALIAS, "notify")) or not isinstance(a.value, list):
            continue
        for index, url in enumerate(a.value):
            parts = re.split(r"[/:@?&=,]", url) if isinstance(url, str) else ()
            if any(map(_CREDENTIAL.fullmatch, parts)):
                yield f"{a.find_place(('notify', str(index)))}: {_USE_VARIABLE}"


def find_secrets(file: ConfigFile) -> Iterator[str]:
    """A line for each value that looks like a secret."""
    for number, line in enumerate(file.text.split("\n"), 1):
        if _TOKEN.search(line):
            yield f"{file.name}:{number}: {_USE_VARIABLE}"


def flatten_assignment(a: Assignment, value_type: Any) -> Iterator[Assignment]:
    """Split the assignment of a group of keys into one for each key; ``value_type`` is the type of
    its value by the annotations of the settings."""
    if not isinstance(a.value, dict) or not is_group(value_type):
        yield a
        return
    for key, value in a.value.items():
        path = (*a.path, str(key))
        place, entry = a.find_place(path), find_entry(a.node, str(key))
        source = place if a.node else a.source
        child = Assignment(path, value, source, place, entry and entry[1])
        child_type = Settings if path == (ALIAS,) else find_value_type(value_type, str(key))
        yield from flatten_assignment(child, child_type)


def is_group(value_type: Any) -> bool:
    """True for the type of a group of keys."""
    return isinstance(value_type, type) and issubclass(value_type, SettingsGroup)


def find_value_type(value_type: Any, name: str) -> Any:
    """The type of the key ``name`` in a group of keys, or of a mapping's values; None if there is
    no such key."""
    if typing.get_origin(value_type) is dict:
        return typing.get_args(value_type)[1]
    return typing.get_type_hints(value_type).get(name) if is_group(value_type) else None


def find_entry(node: Any, name: str) -> tuple[Any, Any] | None:
    """The nodes of a mapping's key and value; for an index of a list, the item twice."""
    entries = node.value if isinstance(getattr(node, "value", None), list) else []
    if name.isdecimal() and int(name) < len(entries) and not isinstance(entries[0], tuple):
        return entries[int(name)], entries[int(name)]
    pairs = (entry for entry in entries if isinstance(entry, tuple))
    return next((pair for pair in pairs if pair[0].value == name), None)
