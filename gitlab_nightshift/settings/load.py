"""Merges command line, CI variables, the file and the defaults; reports all mistakes at once."""

import json
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.job.job_secrets import MODEL_KEYS, TOKEN
from gitlab_nightshift.settings.config_file import (
    Assignment,
    ConfigFile,
    KeyPath,
    find_value_type,
    flatten_assignment,
    is_group,
    read_file,
)
from gitlab_nightshift.settings.model import FOLDER_NAME, PAGE_ID, Settings
from gitlab_nightshift.settings.setting_groups import SettingsGroup
from gitlab_nightshift.text.printable_text import make_printable

if TYPE_CHECKING:
    from pydantic import TypeAdapter

ENV_PREFIX = "NIGHTSHIFT_"
TEMPLATE_VARIABLES = frozenset(
    "NIGHTSHIFT_IMAGE NIGHTSHIFT_VERSION NIGHTSHIFT_SOURCE NIGHTSHIFT_AGENT_PACKAGE"
    " NIGHTSHIFT_TOOLS".split()
)
"""Variables of the CI template; not settings."""
CALL_VARIABLES = frozenset({"NIGHTSHIFT_ORCHESTRATOR", "NIGHTSHIFT_WORKSPACES"})
"""Variables of a delegation's caller; not settings."""
SECRET_NAMES = frozenset({TOKEN, "TOKEN", "API_KEY", "PASSWORD", *MODEL_KEYS})
"""Unknown keys of these names, in any case, get a hint instead of a spelling suggestion."""
NOTIFICATION_KEYS = frozenset({"notify", "notify_on", "confluence_page_id", "rehearse", "dry_run"})
"""Settings that decide whether and whom to notify."""
LONGEST_LINE = 500
"""Characters of a message."""


def load_settings(
    env: Mapping[str, str],
    file: ConfigFile | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Settings:
    """The settings of a run; ``overrides`` are dotted keys from the command line.

    Raises :class:`NightshiftError` (``E_CONFIG``) with every mistake, one line each.
    """
    mistakes: list[str] = []
    return _validate_settings(_read_assignments(env, file, overrides or {}, mistakes), mistakes)


def load_notification_settings(
    env: Mapping[str, str], file: ConfigFile | None, overrides: Mapping[str, str]
) -> Settings:
    """The settings with only those of ``NOTIFICATION_KEYS`` read, so that mistakes in others do not
    matter.

    A value that is not valid JSON is ignored. Raises :class:`NightshiftError` if the file cannot be
    read, or a value of these settings is invalid otherwise.
    """
    assignments = _read_assignments(env, file, overrides, [])
    return _validate_settings([a for a in assignments if a.path[0] in NOTIFICATION_KEYS], [])


def _read_assignments(
    env: Mapping[str, str],
    file: ConfigFile | None,
    overrides: Mapping[str, str],
    mistakes: list[str],
) -> list[Assignment]:
    in_file = read_file(file, mistakes) if file else []
    in_env = _from_env(env, _find_url_variables(env, in_file), mistakes)
    return [*in_file, *in_env, *_from_command_line(overrides, mistakes)]


def _validate_settings(assignments: list[Assignment], mistakes: list[str]) -> Settings:
    if not assignments and not mistakes:
        return Settings()  # defaults need no validation, and importing pydantic takes 60 ms
    from pydantic import ValidationError

    values = asdict(Settings())
    for assignment in assignments:
        _assign(values, assignment.path, assignment.value)
    try:
        settings = build_settings(values)
    except ValidationError as error:
        mistakes += [
            describe_problem(problem, assignments) for problem in error.errors(include_url=False)
        ]
    if mistakes:
        raise build_mistakes_error(mistakes)
    return settings.with_values(sources=_collect_sources(assignments))


def build_settings(values: Mapping[str, Any]) -> Settings:
    """Settings from values by their keys. Raises pydantic.ValidationError."""
    return _build_adapter().validate_python(dict(values))


@cache
def _build_adapter() -> "TypeAdapter[Settings]":
    from pydantic import TypeAdapter

    return TypeAdapter(Settings)


def build_mistakes_error(lines: Iterable[str]) -> NightshiftError:
    """``E_CONFIG`` with every mistake, one per line."""
    printable = map(make_printable, lines)
    cut = (line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…" for line in printable)
    return build_config_error("\n".join(dict.fromkeys(cut)))


def _assign(values: dict[str, Any], path: KeyPath, value: Any) -> None:
    for name in path[:-1]:
        inner = values.get(name)
        if not isinstance(inner, dict):
            inner = values[name] = {}
        values = inner
    values[path[-1]] = value


def _collect_sources(assignments: Iterable[Assignment]) -> dict[str, str]:
    """Dotted key → source; a mapping that is set as a whole replaces its earlier parts."""
    sources: dict[KeyPath, str] = {}
    for a in assignments:
        for path in [path for path in sources if path[: len(a.path)] == a.path]:
            del sources[path]
        sources[a.path] = a.source
    return {".".join(path): source for path, source in sources.items()}


_GROUP, _BOOL, _INTEGER = "should be keys with values", "should be true or false", "a whole number"
_SHORT_TEXTS = {
    "bool_parsing": _BOOL,
    "bool_type": _BOOL,
    "dataclass_type": _GROUP,
    "dict_type": _GROUP,
    "float_parsing": "should be a number",
    "float_type": "should be a number",
    "int_from_float": f"should be {_INTEGER}",
    "int_parsing": f"should be {_INTEGER}",
    "int_type": f"should be {_INTEGER}",
    "list_type": "should be a list",
    "missing": "is missing",
    "string_type": "should be text",
    FOLDER_NAME: "should be one folder's name: at most 100 letters, digits and . _ -",
    PAGE_ID: "should be the page's id, a number",
}
"""By pydantic's type of an error, or by the pattern that does not match: replaces its message."""


def describe_problem(
    problem: Mapping[str, Any],
    assignments: Iterable[Assignment],
    settings_type: type[SettingsGroup] = Settings,
) -> str:
    """One of pydantic's errors about settings of this type, with the place of the value."""
    # For a dataclass, pydantic words its errors as for a call: "unexpected keyword argument".
    is_unknown = problem["type"] == "unexpected_keyword_argument"
    # An error about a mapping's key has this after the key; an unknown key may be called so.
    path = tuple(str(part) for part in problem["loc"] if is_unknown or part != "[key]")
    assigned = [a for a in assignments if _overlap(a.path, path)]
    place = f"{assigned[-1].find_place(path)}: " if assigned else ""
    text = str(problem["msg"]).removeprefix("Value error, ").replace("Input should", "should")
    if is_unknown:
        text = f"unknown key{_suggest_key(path, settings_type)}"
    text = _SHORT_TEXTS.get(problem.get("ctx", {}).get("pattern", problem["type"]), text)
    return f"{place}{'.'.join(path)}: {text}"


def _overlap(path: KeyPath, other: KeyPath) -> bool:
    """True if one of the paths begins with the other."""
    shared = min(len(path), len(other))
    return bool(shared) and path[:shared] == other[:shared]


def _suggest_key(path: KeyPath, settings_type: type[SettingsGroup]) -> str:
    *parents, key = path
    if key.upper() in SECRET_NAMES:
        return "; secrets come from CI variables only"
    group: Any = settings_type
    for name in parents:
        group = find_value_type(group, name)
    names = [each.name for each in fields(group)] if is_group(group) else []
    import difflib

    similar = difflib.get_close_matches(key.lower(), names, 1)
    return f"; did you mean {'.'.join((*parents, similar[0]))}?" if similar else ""


# --- CI variables and the command line ------------------------------------------------------------


def _find_url_variables(env: Mapping[str, str], in_file: Iterable[Assignment]) -> set[str]:
    """Variables that a notification URL uses: they are not settings, whatever their names."""
    urls = [env.get(f"{ENV_PREFIX}NOTIFY", "")]
    for a in in_file:
        if a.path == ("notify",) and isinstance(a.value, list):
            urls += [url for url in a.value if isinstance(url, str)]
    return set(re.findall(r"\$\{?(\w+)", "\n".join(urls)))


def _from_env(
    env: Mapping[str, str], url_variables: set[str], mistakes: list[str]
) -> Iterator[Assignment]:
    for name in sorted(env.keys() - TEMPLATE_VARIABLES - CALL_VARIABLES - url_variables):
        if not name.startswith(ENV_PREFIX):
            continue
        if not env[name].strip():
            continue  # an empty drop-down in GitLab's New pipeline form means "not set"
        path = tuple(name.removeprefix(ENV_PREFIX).lower().split("__"))
        yield from _from_text(path, env[name], f"variable {name}", name, mistakes)


def _from_command_line(overrides: Mapping[str, str], mistakes: list[str]) -> Iterator[Assignment]:
    place = "command line"
    for key, text in overrides.items():
        yield from _from_text(tuple(key.split(".")), text, place, place, mistakes)


def _from_text(
    path: KeyPath, text: str, source: str, place: str, mistakes: list[str]
) -> Iterator[Assignment]:
    """The assignments that a text makes."""
    value_type: Any = Settings
    for name in path:
        value_type = find_value_type(value_type, name)
    try:
        value = _parse_value(value_type, text)
        yield from flatten_assignment(Assignment(path, value, source, place), value_type)
    except (ValueError, RecursionError) as error:
        mistakes.append(f"{place}: {'.'.join(path)}: not valid JSON: {error}")


def _parse_value(value_type: Any, text: str) -> Any:
    """The value of a key: JSON for mappings; JSON, lines or comma-separated text for lists."""
    origin = typing.get_origin(value_type)
    members = {typing.get_origin(member) or member for member in typing.get_args(value_type)}
    is_list = origin is list or {list, type(None)} <= members
    stripped = text.strip()  # GitLab's form may have added a space or a line end
    if is_group(value_type) or origin is dict or (is_list and stripped.startswith("[")):
        return json.loads(text)
    if is_list:
        items = (item.strip() for item in stripped.split("\n" if "\n" in stripped else ","))
        return [item for item in items if item]
    return stripped


# --- values of one run ----------------------------------------------------------------------------


def override_settings(settings: Settings, values: Mapping[str, Any], source: str) -> Settings:
    """The settings with these ``values`` by dotted key, validated.

    ``source`` is the values' source for ``config show``. Raises ``E_CONFIG`` for an invalid value.
    """
    from pydantic import ValidationError

    data = asdict(settings)
    for key, value in values.items():
        _assign(data, tuple(key.split(".")), value)
    try:
        overridden = build_settings(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        text = str(first["msg"]).removeprefix("Value error, ")
        raise build_config_error(f"{source}: {place}: {text}") from None
    return overridden.with_values(sources={**settings.sources, **dict.fromkeys(values, source)})
