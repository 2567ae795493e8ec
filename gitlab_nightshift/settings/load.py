"""Merge command line, CI variables, the file and the defaults; tell all mistakes in one go."""

import difflib
import json
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from gitlab_nightshift.errors import NightshiftError, config_error
from gitlab_nightshift.settings.model import Settings

FILE_NAME = "nightshift.yaml"
ENV_PREFIX = "NIGHTSHIFT_"
TEMPLATE_VARIABLES = frozenset(
    {
        "NIGHTSHIFT_IMAGE",
        "NIGHTSHIFT_VERSION",
        "NIGHTSHIFT_PACKAGE",
        "NIGHTSHIFT_AGENT_PACKAGE",
        "NIGHTSHIFT_TOOLS",
    }
)
"""Variables of the CI template that are no settings."""
ALIAS = "code_agent"
_TOKEN = re.compile(
    r"\b(?:gl[a-z]{2,6}-[\w-]{16,}|sk-[\w-]{20,}|gh[pousr]_\w{20,}|xox[a-z]-[\w-]{10,})"
)

Path = tuple[str, ...]


@dataclass(frozen=True)
class ConfigFile:
    """The text of the configuration file and the name to use for it in messages."""

    name: str
    text: str


@dataclass(frozen=True)
class _Assignment:
    """One value from one source; ``place`` is where a user finds it."""

    path: Path
    value: Any
    source: str
    place: str


def load_settings(
    env: Mapping[str, str],
    file: ConfigFile | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Settings:
    """The settings of a run; ``overrides`` are dotted keys of the command line.

    Raises :class:`NightshiftError` (``E_CONFIG``) with every mistake, one a line.
    """
    mistakes: list[str] = []
    assignments = [
        *(_from_file(file, mistakes) if file else ()),
        *_from_env(env, mistakes),
        *_from_command_line(overrides or {}, mistakes),
    ]
    return _validated(assignments, mistakes)


def _validated(assignments: list[_Assignment], mistakes: list[str]) -> Settings:
    values: dict[str, Any] = Settings().model_dump()
    for assignment in assignments:
        _assign(values, assignment.path, assignment.value)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        mistakes += [_told(problem, assignments) for problem in error.errors(include_url=False)]
    if mistakes:
        raise _mistakes(mistakes)
    settings._sources = {".".join(a.path): a.source for a in assignments}
    return settings


def _mistakes(lines: Iterable[str]) -> NightshiftError:
    return config_error("\n".join(dict.fromkeys(lines)))


def _assign(values: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        inner = values.get(name)
        if not isinstance(inner, dict):
            inner = values[name] = {}
        values = inner
    values[path[-1]] = value


def _told(problem: Mapping[str, Any], assignments: Iterable[_Assignment]) -> str:
    text = str(problem["msg"]).removeprefix("Value error, ").replace("Input should", "should")
    loc = tuple(str(part) for part in problem["loc"] if part != "[key]")
    if not loc:  # a check over several keys names its key itself
        key, _, text = text.partition(": ")
        loc = tuple(key.split("."))
    place = next((f"{a.place}: " for a in reversed(list(assignments)) if _touches(a.path, loc)), "")
    if problem["type"] == "extra_forbidden":
        return f"{place}{'.'.join(loc)}: unknown key{_nearest(loc)}"
    return f"{place}{'.'.join(loc)}: {text}"


def _touches(path: Path, loc: Path) -> bool:
    shared = min(len(path), len(loc))
    return bool(shared) and path[:shared] == loc[:shared]


def _nearest(loc: Path) -> str:
    part: Any = Settings
    for name in loc[:-1]:
        part = _inner(part, name)
    names = list(part.model_fields) if _is_part(part) else []
    found = difflib.get_close_matches(loc[-1].lower(), names, 1)
    if not found and loc[-1].upper() in {"GITLAB_TOKEN", "TOKEN", "API_KEY"}:
        return "; secrets come from CI variables only"
    return f"; did you mean {'.'.join((*loc[:-1], found[0]))}?" if found else ""


def _is_part(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _inner(part: Any, name: str) -> Any:
    """The type of a key of a group of keys; ``None`` where there is no such key."""
    field = part.model_fields.get(name) if _is_part(part) else None
    return field.annotation if field else None


# --- CI variables -----------------------------------------------------------------------------


def _from_env(env: Mapping[str, str], mistakes: list[str]) -> Iterator[_Assignment]:
    named = set(re.findall(r"\$\{?(\w+)", env.get(f"{ENV_PREFIX}NOTIFY", "")))
    for name in sorted(env):
        if not name.startswith(ENV_PREFIX) or name in TEMPLATE_VARIABLES | named:
            continue
        if not env[name].strip():
            continue  # an empty drop-down of the Run pipeline form means "not set"
        path = tuple(name.removeprefix(ENV_PREFIX).lower().split("__"))
        try:
            yield _Assignment(path, _parsed(path, env[name]), f"variable {name}", name)
        except ValueError as error:
            mistakes.append(f"{name}: not valid JSON: {error}")


def _parsed(path: Path, text: str) -> Any:
    """A variable's text as the value of its key: lists by commas or JSON, mappings by JSON."""
    kind: Any = Settings
    for name in path:
        kind = _inner(kind, name)
    kinds = {typing.get_origin(k) or k for k in (kind, *typing.get_args(kind))}
    if text.lstrip().startswith(("[", "{")) and kinds & {list, dict}:
        return json.loads(text)
    if _is_part(kind) or typing.get_origin(kind) is dict:
        return json.loads(text)
    if typing.get_origin(kind) is list or (list in kinds and type(None) in kinds):
        return [part.strip() for part in re.split(r"[,\n]", text) if part.strip()]
    return text


def _from_command_line(given: Mapping[str, str], mistakes: list[str]) -> Iterator[_Assignment]:
    for key, text in given.items():
        path = tuple(key.split("."))
        try:
            yield _Assignment(path, _parsed(path, text), "command line", "command line")
        except ValueError as error:
            mistakes.append(f"command line: {key}: not valid JSON: {error}")


# --- the file ---------------------------------------------------------------------------------


def _from_file(file: ConfigFile, mistakes: list[str]) -> list[_Assignment]:
    import yaml

    try:
        root = yaml.compose(file.text, yaml.SafeLoader)
        data = yaml.safe_load(file.text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file.name}:{mark.line + 1}" if mark else file.name
        raise config_error(f"{place}: not YAML: {getattr(error, 'problem', error)}") from None
    if data is None:
        return []
    if not isinstance(data, dict):
        raise config_error(f"{file.name}: keys and values are expected at the top")
    found = list(_flatten(file.name, (), data, root, Settings))
    mistakes += _secrets(found)
    return _without_alias(found, mistakes)


def _flatten(file: str, path: Path, data: Any, node: Any, kind: Any) -> Iterator[_Assignment]:
    nodes = {k.value: (k, v) for k, v in node.value} if isinstance(data, dict) else {}
    for key, value in data.items():
        key_node, value_node = nodes.get(str(key), (node, node))
        inner = Settings if (*path, key) == (ALIAS,) else _inner(kind, str(key))
        if isinstance(value, dict) and _is_part(inner):
            yield from _flatten(file, (*path, str(key)), value, value_node, inner)
        else:
            place = f"{file}:{key_node.start_mark.line + 1}"
            yield _Assignment((*path, str(key)), value, place, place)


def _without_alias(found: list[_Assignment], mistakes: list[str]) -> list[_Assignment]:
    plain = {a.path for a in found}
    result = []
    for a in found:
        if a.path[0] != ALIAS or len(a.path) == 1:
            result.append(a)
        elif a.path[1:] in plain:
            mistakes.append(f"{a.place}: {'.'.join(a.path[1:])} is set twice, here and at the top")
        else:
            result.append(_Assignment(a.path[1:], a.value, a.source, a.place))
    return result


def _secrets(found: Iterable[_Assignment]) -> Iterator[str]:
    for a in found:
        if _TOKEN.search(json.dumps(a.value, default=str)):
            yield f"{a.place}: {'.'.join(a.path)} holds a secret; put it into a masked CI variable"


def schema() -> dict[str, Any]:
    """The JSON Schema of the configuration file, for editors."""
    return Settings.model_json_schema()
