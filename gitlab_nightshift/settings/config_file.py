"""Reads ``nightshift.yaml``: values with their lines, and mistakes that only the text shows."""

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

_ADVICE = "a secret; put it into a masked CI variable"
_CREDENTIAL = compile_lazily(r"(?=\D*\d)(?=[^A-Za-z]*[A-Za-z])[\w.-]{16,}", re.ASCII)
"""A part of a URL that looks random: 16 characters or more, with a digit and a letter."""


@dataclass(frozen=True)
class ConfigFile:
    """The text of the configuration file, and its name for messages."""

    name: str
    text: str


@dataclass(frozen=True)
class Assignment:
    """One value from one source. ``place`` tells a user where it was written: file and line, or a
    variable; ``node`` is its YAML node."""

    path: KeyPath
    value: Any
    source: str
    place: str
    node: Any = None

    def find_place(self, loc: KeyPath) -> str:
        """The place where a part of the value was written: in a file, the line of the list item or
        key."""
        node, line = self.node, None
        for name in loc[len(self.path) :]:
            found = find_entry(node, name)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
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
    found = list(flatten_assignment(Assignment((), data, "", f"{file.name}:1", root), Settings))
    mistakes += _find_secret_addresses(found)
    return _resolve_alias(found, mistakes)


def read_yaml(file: ConfigFile, mistakes: list[str]) -> tuple[Any, Any]:
    """The file's data, and its nodes, which have line numbers. Raises ``E_CONFIG``
    if it is not YAML."""
    import yaml

    class ConfigLoader(yaml.SafeLoader):
        """Dates stay text: keys that expect one check it."""

        yaml_implicit_resolvers = {  # noqa: RUF012 - as PyYAML declares it
            first: [(tag, how) for tag, how in resolvers if not tag.endswith(":timestamp")]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
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
    mark = getattr(error, "problem_mark", None)
    before = file.text[: getattr(error, "position", 0)]
    line = mark.line + 1 if mark else before.count("\n") + 1 if before else None
    why = getattr(error, "problem", None) or getattr(error, "reason", None) or error
    return f"{file.name}:{line}: not YAML: {why}" if line else f"{file.name}: not YAML: {why}"


def _find_repeated_keys(file: str, root: Any) -> Iterator[str]:
    """Keys that are set twice: YAML silently uses the last one."""
    # A node is visited once: an alias (`*name`) refers to a node that stands elsewhere, too.
    todo, seen = [root], set()
    while todo:
        node = todo.pop()
        if id(node) in seen or not isinstance(getattr(node, "value", None), list):
            continue
        seen.add(id(node))
        lines: dict[Any, int] = {}
        for entry in node.value:
            key, value = entry if isinstance(entry, tuple) else (None, entry)
            todo.append(value)
            if key is None or isinstance(key.value, list):
                continue
            line = key.start_mark.line + 1
            if key.value in lines:
                yield f"{file}:{line}: {key.value} is set twice, also in line {lines[key.value]}"
            lines[key.value] = line


def _resolve_alias(found: list[Assignment], mistakes: list[str]) -> list[Assignment]:
    """The assignments with those below ``code_agent`` moved to the top."""
    plain = {a.path for a in found}
    result = []
    for a in found:
        if a.path == (ALIAS,):
            if a.value is not None:
                mistakes.append(f"{a.place}: {ALIAS}: expected keys and values")
        elif a.path[0] != ALIAS:
            result.append(a)
        elif a.path[1:] in plain:
            mistakes.append(f"{a.place}: {'.'.join(a.path[1:])} is set twice, here and at the top")
        else:
            result.append(replace(a, path=a.path[1:]))
    return result


def _find_secret_addresses(assignments: Iterable[Assignment]) -> Iterator[str]:
    """Notification URLs with credentials: for most services, whoever knows the URL can post."""
    for a in assignments:
        if a.path in (("notify",), (ALIAS, "notify")) and isinstance(a.value, list):
            for at, text in enumerate(a.value):
                if isinstance(text, str) and any(
                    map(_CREDENTIAL.fullmatch, re.split(r"[/:@?&=,]", text))
                ):
                    place = a.find_place(("notify", str(at)))
                    yield f"{place}: {_ADVICE}"


def find_secrets(file: ConfigFile) -> Iterator[str]:
    """A line for each value that looks like a secret."""
    for number, line in enumerate(file.text.split("\n"), 1):
        if _TOKEN.search(line):
            yield f"{file.name}:{number}: {_ADVICE}"


def flatten_assignment(a: Assignment, kind: Any) -> Iterator[Assignment]:
    """Split the assignment of a group of keys into one for each key."""
    if not isinstance(a.value, dict) or not is_group(kind):
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


def is_group(kind: Any) -> bool:
    """True for a group of keys."""
    return isinstance(kind, type) and issubclass(kind, SettingsGroup)


def find_inner_kind(kind: Any, name: str) -> Any:
    """The type of the key ``name`` in a group of keys, or of a mapping's values; None if there is
    no such key."""
    if typing.get_origin(kind) is dict:
        return typing.get_args(kind)[1]
    return typing.get_type_hints(kind).get(name) if is_group(kind) else None


def find_entry(node: Any, name: str) -> tuple[Any, Any] | None:
    """The nodes of a mapping's key and value; for a list, the item twice."""
    entries = node.value if isinstance(getattr(node, "value", None), list) else []
    if name.isdecimal() and int(name) < len(entries) and not isinstance(entries[0], tuple):
        return entries[int(name)], entries[int(name)]
    pairs = (entry for entry in entries if isinstance(entry, tuple))
    return next(((key, value) for key, value in pairs if key.value == name), None)
