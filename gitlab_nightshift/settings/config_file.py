"""Reads ``nightshift.yaml``: values with their lines, and mistakes that only the text shows."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.settings.assignment import ALIAS, Assignment, flatten_assignment
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.text.lazy_patterns import compile_lazily

FILE_NAME = "nightshift.yaml"
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
"""A part of a URL that looks random."""


@dataclass(frozen=True)
class ConfigFile:
    """The text of the configuration file, and its name for messages."""

    name: str
    text: str


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
            first: [(tag, how) for tag, how in known if not tag.endswith(":timestamp")]
            for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
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
    todo, seen = [root], set()
    while todo:
        node = todo.pop()
        if id(node) in seen or not isinstance(getattr(node, "value", None), list):
            continue
        seen.add(id(node))
        known: dict[Any, int] = {}
        for entry in node.value:
            key, value = entry if isinstance(entry, tuple) else (None, entry)
            todo.append(value)
            if key is None or isinstance(key.value, list):
                continue
            line = key.start_mark.line + 1
            if key.value in known:
                yield f"{file}:{line}: {key.value} is set twice, also in line {known[key.value]}"
            known[key.value] = line


def _resolve_alias(found: list[Assignment], mistakes: list[str]) -> list[Assignment]:
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


def _find_secret_addresses(found: Iterable[Assignment]) -> Iterator[str]:
    """Notification URLs with credentials: for most services, whoever knows the URL can post."""
    for a in found:
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
