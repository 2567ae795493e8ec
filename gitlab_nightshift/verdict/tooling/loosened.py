"""Which settings of tools a change makes looser: both sides compared setting by setting."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gitlab_nightshift.verdict.change import ChangedFile, Found
from gitlab_nightshift.verdict.tooling.directions import Worse, truth
from gitlab_nightshift.verdict.tooling.facts import Fact, facts_of, items_of
from gitlab_nightshift.verdict.tooling.lines import line_facts, marks_itself
from gitlab_nightshift.verdict.tooling.markup import markup_facts
from gitlab_nightshift.verdict.tooling.parse import LARGEST, parsed
from gitlab_nightshift.verdict.tooling.rules import TYPES, rule_for

Flagged = tuple[str, Found]
"""A flag's name and the place."""

_SUCCESSORS = (
    frozenset("ruff flake8 pylint pycodestyle pydocstyle isort black bandit autopep8 yapf".split()),
    frozenset("eslint tslint biome oxlint".split()),
    frozenset("mypy pyright ty pyre".split()),
    frozenset("nyc jest vitest".split()),
)
_CALLED = re.compile(r"(eslint|jest|vitest|biome|scalafix)[\w.]*$", re.IGNORECASE)


@dataclass(frozen=True)
class _Known:
    fact: Fact
    flag: str
    worse: Worse


def loosened_settings(files: tuple[ChangedFile, ...]) -> Iterator[Flagged]:
    """Every setting that is looser after the change; one that moved to another file is the same."""
    old: dict[str, _Known] = {}
    new: dict[str, _Known] = {}
    named: dict[str, ChangedFile] = {}
    for file in files:
        whole = file.status in ("A", "D")
        if not file.binary and not (whole and marks_itself(file.path)):
            before, after = _sides(file)
            old |= before
            new |= after
            named[file.path] = file
    had = {_tool(known.fact) for known in old.values()}
    has = {_tool(known.fact) for known in new.values()}
    came, gone = (has - had) | _programs(files), set[str]()
    for key in dict.fromkeys((*new, *old)):
        known = new.get(key) or old[key]
        text = _worse(key, old, new)
        if not text or (key not in new and _replaced(known.fact, came)):
            continue
        if key not in old and _tool(known.fact) in came and _replaced(known.fact, had - has):
            continue
        file = named[known.fact.file]
        if file.status == "D":
            if file.path not in gone:
                gone.add(file.path)
                yield (
                    known.flag,
                    Found(file.path, 0, f"The settings of a tool are gone: {file.path}."),
                )
            continue
        yield (
            known.flag,
            Found(file.path, _line(file, known.fact, text), f"{known.fact.shown} {text}."),
        )


def _worse(key: str, old: Mapping[str, _Known], new: Mapping[str, _Known]) -> str:
    before, after = old.get(key), new.get(key)
    known = after or before
    assert known
    values = tuple(each.fact.value if each else None for each in (before, after))
    if values[0] == values[1]:
        return ""
    if after is None and known.flag == TYPES and _strict(key, new):
        return ""
    if re.search(r"ruff\.(extend-)?ignore$|ruff\.(extend-)?per-file-ignores\.", key):
        values = (values[0], _formerly_checked(key, values[1], old))
    return known.worse(*values)


def _strict(key: str, new: Mapping[str, _Known]) -> bool:
    """True where one switch now stands for all of them."""
    umbrella = new.get(f"{key.rpartition('.')[0]}.strict")
    return umbrella is not None and truth(umbrella.fact.value)


def _formerly_checked(key: str, codes: object, old: Mapping[str, _Known]) -> object:
    """Codes that were selected: to select a whole family and leave some out loosens nothing."""
    tool = key.rpartition("ruff.")[0] + "ruff."
    names = (f"{tool}select", f"{tool}extend-select")
    selected = [item for n in names if n in old for item in items_of(old[n].fact.value)]
    selected = selected or ["E", "F"]
    if codes is None or "ALL" in selected:
        return codes
    return [c for c in items_of(codes) if any(c.startswith(s) or s.startswith(c) for s in selected)]


def _replaced(fact: Fact, came: set[str]) -> bool:
    """True where another tool of the same kind came in the same change, or new-style settings."""
    tool = _tool(fact)
    return tool in came or any(tool in same and came & same for same in _SUCCESSORS)


def _tool(fact: Fact) -> str:
    if "#" in fact.key:
        return next(iter(_program(fact.file)), fact.file)
    return re.split(r"[.(\[]", fact.key.rpartition(":")[2])[0]


def _programs(files: tuple[ChangedFile, ...]) -> set[str]:
    return {tool for file in files if file.status == "A" for tool in _program(file.path)}


def _program(path: str) -> set[str]:
    match = _CALLED.search(path.rpartition("/")[2])
    return {match[1].lower()} if match else set()


# --- one file -------------------------------------------------------------------------------------


def _sides(file: ChangedFile) -> tuple[dict[str, _Known], dict[str, _Known]]:
    """What is known of both sides; nothing where one side cannot be read."""
    old, new = (_facts(file.path, side) for side in (file.difference.old, file.difference.new))
    if old is None or new is None:
        return {}, {}
    return old, new


def _facts(path: str, data: bytes | None) -> dict[str, _Known] | None:
    if data is None:
        return {}
    found: dict[str, _Known] = {}
    if len(data) <= LARGEST:
        text = data.decode("utf-8", "replace")
        found = {key: _Known(*known) for key, known in line_facts(path, text).items()}
    read = parsed(path, data)
    if read is None:
        return None if _is_settings(path) else found
    is_markup = isinstance(read, dict) and read.keys() == {"tag", "attrib", "text", "children"}
    facts = markup_facts(path, read) if is_markup else facts_of(path, read)
    for key, fact in facts.items():
        if rule := rule_for(key):
            found[key] = _Known(fact, *rule)
    return found


def _is_settings(path: str) -> bool:
    return parsed(path, b"{}") is not None


def _line(file: ChangedFile, fact: Fact, text: str) -> int:
    """The changed line that says it: with what was gained, else with the name, else the first."""
    lines = file.added or file.deleted
    words = re.split(r"[.\[\]]", fact.shown)
    marks = re.findall(r"[\w*/.-]{2,}", text.partition(" ")[2])
    for mark in (*marks, *reversed(words)):
        for line in lines:
            if len(mark) > 1 and mark in line.text:
                return line.number
    return lines[0].number if lines else 0
