"""How tools print their resolved settings. What they print is hostile: it may be anything."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from gitlab_nightshift.verdict.tooling.tool_facts import list_leaves

Answer = dict[str, dict[str, Any]]
"""Settings by what they are for: a file, a module, "" for the whole."""

LARGEST = 16_000_000


def parse_answer(kind: str, text: str, files: Sequence[str]) -> Answer:
    """Raises ValueError for what is no answer."""
    if len(text) > LARGEST:
        raise ValueError("the answer is too long")
    try:
        return _PARSERS[kind](text, files)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("the answer has another form") from error


def merge_answers(answers: Iterable[Answer]) -> Answer:
    """One answer of all; lists under the same name are one list."""
    merged: Answer = {}
    for answer in answers:
        for name, settings in answer.items():
            known = merged.setdefault(name, {})
            for key, value in settings.items():
                known[key] = _join_values(known.get(key), value)
    return merged


def _join_values(first: Any, second: Any) -> Any:
    """An empty list may be null."""
    if isinstance(first, tuple) and isinstance(second, tuple):
        return (*first, *second)
    return first if second is None else second


def _parse_json(text: str, files: Sequence[str]) -> Answer:
    return {files[0]: _flatten(json.loads(text))}


def _parse_each(text: str, _files: Sequence[str]) -> Answer:
    """The files that are checked, and the settings for each."""
    read = json.loads(text)
    of = {str(name): _flatten(settings) for name, settings in read["of"].items()}
    return {**of, "": {"checked": tuple(map(str, read["checked"]))}}


def _parse_lines(text: str, _files: Sequence[str]) -> Answer:
    return {"": {"checked": tuple(text.splitlines())}}


def _flatten(read: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(read, dict):
        raise ValueError("the answer is no object")
    return {key.removeprefix("."): value for key, _, value in list_leaves("", "", read)}


# --- ruff -----------------------------------------------------------------------------------------

_IGNORES = "linter.per_file_ignores"


def _parse_ruff(text: str, files: Sequence[str]) -> Answer:
    """Its settings, and for each file the rules that are left of them there."""
    settings = _read_ruff_lines(text)
    enabled = settings.pop("linter.rules.enabled")
    ignores = {key: settings.pop(key) for key in list(settings) if key.startswith(_IGNORES)}
    answer: Answer = {file: {"rules": enabled} for file in files}
    for key, rules in ignores.items():
        glob = key.removeprefix(f"{_IGNORES} ")
        if glob[:1] == "!" or any(mark in glob for mark in "{[\\"):
            settings[key] = rules
            continue
        ignored = frozenset(rules)
        for file in files if glob else ():
            if _matches_glob(file, glob):
                left = answer[file]["rules"]
                answer[file] = {"rules": tuple(rule for rule in left if rule not in ignored)}
    return {**answer, files[0]: {**answer[files[0]], **settings}}


def _matches_glob(file: str, glob: str) -> bool:
    name = file.rpartition("/")[2]
    return any(
        fnmatchcase(each, g) for g in (glob, glob.replace("**/", "")) for each in (file, name)
    )


def _read_ruff_lines(text: str) -> dict[str, Any]:
    """``key = value``, lists in brackets, and of the ignores per file one list for each pattern."""
    found: dict[str, Any] = {}
    items: list[str] | None = None
    prefix, glob, negated = "", "", ""
    for line in map(str.strip, text.splitlines()):
        key, equals, value = line.partition(" = ")
        if items is not None:
            if line == "]":
                items = None
            else:
                items.append(line.rstrip(",").strip('"'))
        elif line == "}":
            prefix = ""
        elif not equals:
            continue
        elif value == "{":
            prefix = key
        elif key == "absolute_matcher":
            glob, negated = value.strip('"'), ""
        elif key == "negated":
            negated = "!" if value == "true" else ""
        else:
            name = f"{_IGNORES} {negated}{glob}" if key == "data" else f"{prefix} {key}".strip()
            items = [] if value == "[" else None
            found[name] = items if items is not None else () if value == "[]" else value
    return {key: tuple(v) if isinstance(v, list) else v for key, v in found.items()}


# --- coverage -------------------------------------------------------------------------------------


def _parse_coverage(text: str, files: Sequence[str]) -> Answer:
    """``key: value`` under each other, further values below the first."""
    found: dict[str, tuple[str, ...]] = {}
    key = ""
    for line in text.splitlines():
        head = re.match(r"\s*([a-z_]+): (.*)", line)
        key, value = (head[1], head[2]) if head else (key, line.strip())
        if key and value not in ("", "-none-", "None"):
            found[key] = (*found.get(key, ()), value) if not head else (value,)
    if "fail_under" not in found:
        raise ValueError("the answer has no fail_under")
    return {files[0]: {k: v if len(v) > 1 or _is_list(k) else v[0] for k, v in found.items()}}


def _is_list(key: str) -> bool:
    return key.endswith(("_list", "_also", "_omit", "_include", "source", "_dirs", "_pkgs"))


_PARSERS: dict[str, Callable[[str, Sequence[str]], Answer]] = {
    "json": _parse_json,
    "each": _parse_each,
    "lines": _parse_lines,
    "ruff": _parse_ruff,
    "coverage": _parse_coverage,
}
