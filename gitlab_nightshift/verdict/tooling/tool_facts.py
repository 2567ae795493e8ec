"""What a settings file says, under one name for each tool wherever the setting is.

``mypy.ini``, ``setup.cfg`` and ``pyproject.toml`` may all say ``mypy.strict``: a setting that moves
from one to another is the same one.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitlab_nightshift.lazy_patterns import compile_lazily
from gitlab_nightshift.verdict.rule_tables import RuleTable

MOST_FACTS = 20_000
_TABLE = RuleTable(__file__)


@dataclass(frozen=True)
class Fact:
    """A setting: ``key`` is its name for us, ``shown`` its name in the file."""

    key: str
    shown: str
    value: Any
    file: str


def read_facts(file: str, data: Any) -> dict[str, Fact]:
    """The settings that a file holds, by their keys; of a file that is no tool's none."""
    found: dict[str, Fact] = {}
    for key, shown, value in _flatten_roots(_find_roots(file, data)):
        found[_normalize_key(key)] = Fact(_normalize_key(key), shown, value, file)
        if len(found) >= MOST_FACTS:
            break
    return found


# --- which tool a file belongs to -----------------------------------------------------------------

Rooted = tuple[str, str, Any]
"""The tool's name, the prefix as it is shown, and the data."""


def _find_roots(file: str, data: Any) -> Iterator[Rooted]:
    name = file.rpartition("/")[2].lower()
    folder = file.rpartition("/")[0]
    for tool, shown, value in _find_roots_by_name(name, data):
        yield (f"{folder}:{tool}" if folder else tool), shown, value


def _find_roots_by_name(name: str, data: Any) -> Iterator[Rooted]:
    for pattern, tool in _TABLE.entries["files"]:
        if re.search(pattern, name):
            if tool == "pre-commit":
                yield tool, "", {"hooks": _list_hooks(data)}
            yield (f"{name}" if tool == "ignored" else tool), "", data
            return
    if re.fullmatch(r"[tj]sconfig(\.[\w.-]+)?\.json", name):
        yield ("tsconfig" if name == "tsconfig.json" else f"tsconfig({name})"), "", data
    elif isinstance(data, dict):
        yield from _find_shared_roots(name, data)


def _list_hooks(data: Any) -> list[str]:
    """The names of all hooks of pre-commit."""
    repositories = data.get("repos") if isinstance(data, dict) else None
    bodies = [each for each in repositories or [] if isinstance(each, dict)]
    hooks = [hook for body in bodies for hook in body.get("hooks") or []]
    return [str(hook["id"]) for hook in hooks if isinstance(hook, dict) and "id" in hook]


def _find_shared_roots(name: str, data: dict[str, Any]) -> Iterator[Rooted]:
    """Files that hold the settings of several tools."""
    if name == "pyproject.toml":
        tools = data.get("tool", {})
        for tool, value in tools.items() if isinstance(tools, dict) else ():
            inner, shown = _find_pytest_options(value) if tool == "pytest" else (value, "")
            yield tool.removeprefix("based"), f"tool.{tool}{shown}", inner
    elif name == "package.json":
        for key, tool in _TABLE.entries["package"].items():
            yield tool, key, data.get(key, {})
    elif name == "cargo.toml":
        yield "cargo-lints", "lints", data.get("lints", {})
        yield "cargo", "", {key: data.get(key) for key in ("package", "lib", "bin", "test")}
        yield "cargo-lints", "workspace.lints", _read_nested(data, "workspace", "lints")
    elif name.endswith((".ini", ".cfg")) or name in (
        ".coveragerc",
        ".flake8",
        "pylintrc",
        ".pylintrc",
    ):
        for section, values in data.items():
            yield _find_section_tool(name, section), section, values
    elif name == ".editorconfig":
        for section, values in data.items():
            yield f"editorconfig.{section}", section, values


def _find_pytest_options(value: Any) -> tuple[Any, str]:
    inner = value.get("ini_options") if isinstance(value, dict) else None
    return (inner, ".ini_options") if isinstance(inner, dict) else (value, "")


def _read_nested(data: Any, *keys: str) -> Any:
    for key in keys:
        data = data.get(key, {}) if isinstance(data, dict) else {}
    return data


def _find_section_tool(name: str, section: str) -> str:
    if "pylintrc" in name or section.lower().startswith("pylint"):
        return "pylint"
    if name == ".coveragerc":
        return f"coverage.{section}"
    if section.startswith("mypy-"):
        return f"mypy.overrides[{section.removeprefix('mypy-')}]"
    return str(_TABLE.entries["sections"].get(section, section.replace(":", ".")))


# --- flat -----------------------------------------------------------------------------------------


def _flatten_roots(roots: Iterable[Rooted]) -> Iterator[Rooted]:
    for tool, shown, data in roots:
        yield from list_leaves(tool, shown, data, 0)


def list_leaves(key: str, shown: str, data: Any, depth: int = 0) -> Iterator[Rooted]:
    """Every value below, under two names; a list as a whole, and what its entries hold."""
    if depth > 12:
        return
    if isinstance(data, dict) and data and not _is_element(data):
        for name, value in data.items():
            below = f"{shown}.{name}" if shown else str(name)
            yield from list_leaves(f"{key}.{name}", below, value, depth + 1)
    elif isinstance(data, list):
        yield key, shown, list_items(data)
        for item in data:
            if isinstance(item, dict):
                name = _find_identity(item)
                yield from list_leaves(f"{key}[{name}]", f"{shown}[{name}]", item, depth + 1)
    else:
        yield key, shown, data


def _is_element(data: Mapping[str, Any]) -> bool:
    return data.keys() == {"tag", "attrib", "text", "children"}


def _find_identity(item: Mapping[str, Any]) -> str:
    for name in _TABLE.entries["identities"].split():
        if value := item.get(name):
            return ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return ""


def list_items(value: Any) -> tuple[str, ...]:
    """A list, or a text that is read as one, as texts."""
    if isinstance(value, (list, tuple)):
        return tuple(item if isinstance(item, str) else _read_item_name(item) for item in value)
    if isinstance(value, str):
        lines = (re.sub(r"\s#.*", "", line) for line in value.split("\n"))
        parts = (part.strip() for line in lines for part in line.split(","))
        return tuple(part for part in parts if part and part[0] != "#")
    return () if value is None else (str(value),)


def _read_item_name(item: Any) -> str:
    """An entry of a list by its name, so that one which only changed is the same one."""
    name = item.get("name", item.get("id")) if isinstance(item, dict) else None
    return name if isinstance(name, str) else json.dumps(item, sort_keys=True, default=str)


_SECTIONLESS = compile_lazily(r"^((?:.*:)?pylint)\.(?:[^.]+)\.(?=[^.]+$)")


def _normalize_key(key: str) -> str:
    """One name where a tool knows several."""
    key = re.sub(r"^((?:.*:)?ruff)\.(lint|format)\.", r"\1.", key)
    key = _SECTIONLESS.sub(r"\1.", key)
    if re.match(r"(.*:)?(mypy|flake8|pylint|ruff|coverage|nyc)\.", key):
        return key.replace("_", "-")
    return key
