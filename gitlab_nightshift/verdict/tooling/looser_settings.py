"""Which settings of tools a change makes looser: both sides compared setting by setting."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gitlab_nightshift.lazy_patterns import compile_lazily
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.verdict.reviewed_change import RuleViolation
from gitlab_nightshift.verdict.tooling.directions import Worse, truth
from gitlab_nightshift.verdict.tooling.golangci import merge_versions
from gitlab_nightshift.verdict.tooling.line_settings import marks_itself, read_line_facts
from gitlab_nightshift.verdict.tooling.markup import read_markup_facts
from gitlab_nightshift.verdict.tooling.settings_parser import LARGEST, parse_data
from gitlab_nightshift.verdict.tooling.tool_facts import Fact, list_items, read_facts
from gitlab_nightshift.verdict.tooling.tool_rules import TYPES, find_rule

Flagged = tuple[str, RuleViolation]
"""A flag's name and the place."""

_SUCCESSORS = (
    frozenset("ruff flake8 pylint pycodestyle pydocstyle isort black bandit autopep8 yapf".split()),
    frozenset("eslint tslint biome oxlint".split()),
    frozenset("mypy pyright ty pyre".split()),
    frozenset("nyc c8 jest vitest".split()),
)
_CALLED = compile_lazily(r"(eslint|jest|vitest|biome|scalafix)[\w.]*$", re.IGNORECASE)


@dataclass(frozen=True)
class _FactRule:
    fact: Fact
    flag: str
    worse: Worse


def find_loosened_settings(files: tuple[ChangedFile, ...]) -> Iterator[Flagged]:
    """Every setting that is looser after the change; one that moved to another file is the same."""
    old: dict[str, _FactRule] = {}
    new: dict[str, _FactRule] = {}
    named: dict[str, ChangedFile] = {}
    for file in files:
        whole = file.status in ("A", "D")
        if not file.binary and not (whole and marks_itself(file.path)):
            before, after = _read_sides(file)
            old |= before
            new |= after
            named[file.path] = file
    had = {_find_tool(known.fact) for known in old.values()}
    has = {_find_tool(known.fact) for known in new.values()}
    unused = had - has  # a tool that goes has no settings to be loosened
    came, gone = (has - had) | _find_added_programs(files), set[str]()
    for key in dict.fromkeys((*new, *old)):
        known = new.get(key) or old[key]
        text = _describe_loosening(key, old, new)
        if not text or (key not in new and _replaced(known.fact, came)):
            continue
        if key not in old and _find_tool(known.fact) in came and _replaced(known.fact, unused):
            continue
        file = named[known.fact.file]
        if file.status == "D":
            if file.path not in gone:
                gone.add(file.path)
                yield (
                    known.flag,
                    RuleViolation(file.path, 0, f"The settings of a tool are gone: {file.path}."),
                )
            continue
        yield (
            known.flag,
            RuleViolation(
                file.path,
                file.find_line(_list_marks(known.fact, text)),
                f"{known.fact.shown} {text}.",
                certain=False if _may_be_meant(file, known, unused) else None,
            ),
        )


def _may_be_meant(file: ChangedFile, known: _FactRule, unused: set[str]) -> bool:
    """New settings, those of a tool that goes, and a baseline, which the tool itself writes."""
    is_new = file.status == "A" or "baseline" in file.path.rpartition("/")[2]
    return is_new or _find_tool(known.fact) in unused


def _describe_loosening(
    key: str, old: Mapping[str, _FactRule], new: Mapping[str, _FactRule]
) -> str:
    before, after = old.get(key), new.get(key)
    known = after or before
    assert known
    values = tuple(each.fact.value if each else None for each in (before, after))
    if values[0] == values[1]:
        return ""
    if after is None and (known.flag == TYPES or "xfail" in key) and _strict(key, new):
        return ""
    if re.search(r"ruff\.(extend-)?ignore$|ruff\.(extend-)?per-file-ignores\.", key):
        values = (values[0], _filter_checked_codes(key, values[1], old))
    if key.endswith("rubocop.require") and (moved := new.get(f"{key[:-7]}plugins")):
        values = (values[0], [*list_items(values[1]), *list_items(moved.fact.value)])
    return known.worse(*values)


def _strict(key: str, new: Mapping[str, _FactRule]) -> bool:
    """True where one switch now stands for all of them."""
    umbrella = new.get(f"{key.rpartition('.')[0]}.strict")
    return umbrella is not None and truth(umbrella.fact.value)


def _filter_checked_codes(key: str, codes: object, old: Mapping[str, _FactRule]) -> object:
    """Codes that were selected: to select a whole group and leave some out loosens nothing."""
    tool = key.rpartition("ruff.")[0] + "ruff."
    names = (f"{tool}select", f"{tool}extend-select")
    selected = [item for n in names if n in old for item in list_items(old[n].fact.value)]
    selected = selected or ["E", "F"]
    if codes is None or "ALL" in selected:
        return codes
    return [
        c for c in list_items(codes) if any(c.startswith(s) or s.startswith(c) for s in selected)
    ]


def _replaced(fact: Fact, came: set[str]) -> bool:
    """True where another tool of the same kind came in the same change, or new-style settings."""
    tool = _find_tool(fact)
    return tool in came or any(tool in same and came & same for same in _SUCCESSORS)


def _find_tool(fact: Fact) -> str:
    if "#" in fact.key:
        return next(iter(_find_program(fact.file)), fact.file)
    return re.split(r"[.(\[]", fact.key.rpartition(":")[2])[0]


def _find_added_programs(files: tuple[ChangedFile, ...]) -> set[str]:
    return {tool for file in files if file.status == "A" for tool in _find_program(file.path)}


def _find_program(path: str) -> set[str]:
    match = _CALLED.search(path.rpartition("/")[2])
    return {match[1].lower()} if match else set()


# --- one file -------------------------------------------------------------------------------------


def _read_sides(file: ChangedFile) -> tuple[dict[str, _FactRule], dict[str, _FactRule]]:
    """What is known of both sides; nothing where one side cannot be read."""
    old, new = (_read_fact_rules(file.path, side) for side in (file.old, file.new))
    if old is None or new is None:
        return {}, {}
    return old, new


def _read_fact_rules(path: str, data: bytes | None) -> dict[str, _FactRule] | None:
    if data is None:
        return {}
    found: dict[str, _FactRule] = {}
    if len(data) <= LARGEST:
        text = data.decode("utf-8", "replace")
        found = {key: _FactRule(*known) for key, known in read_line_facts(path, text).items()}
    read = parse_data(path, data)
    if read is None:
        return None if _is_settings(path) else found
    is_markup = isinstance(read, dict) and read.keys() == {"tag", "attrib", "text", "children"}
    facts = read_markup_facts(path, read) if is_markup else merge_versions(read_facts(path, read))
    for key, fact in facts.items():
        if rule := find_rule(key):
            found[key] = _FactRule(fact, *rule)
    return found


def _is_settings(path: str) -> bool:
    return parse_data(path, b"{}") is not None


def _list_marks(fact: Fact, text: str) -> list[str]:
    """What a line that says it may hold: what was gained, else the setting's name."""
    words = re.split(r"[.\[\]]", fact.shown)
    return [*re.findall(r"[\w*/.-]{2,}", text.partition(" ")[2]), *reversed(words)]
