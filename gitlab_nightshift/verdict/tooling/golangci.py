"""Settings of golangci-lint under their names of version 2, so that to migrate loosens nothing."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.tooling.directions import truth
from gitlab_nightshift.verdict.tooling.tool_facts import Fact

_TABLE = RuleTable(__file__)
_LISTS = r".*golangci\.linters\.(enable|disable|exclusions\.(paths|rules))"


def merge_versions(facts: dict[str, Fact]) -> dict[str, Fact]:
    """The facts with one name for what the two versions call differently. They are all of one
    file; of another tool's file they stay what they are."""
    tool = next((key for key in facts if re.search(r"(^|:)golangci\.", key)), "")
    if not tool:
        return facts
    prefix = f"{tool.partition('golangci.')[0]}golangci."
    first = [] if f"{prefix}version" in facts else list(_list_old_defaults(prefix, facts))
    found: dict[str, Fact] = {}
    for fact in map(_rename, (*facts.values(), *first)):
        known = found.setdefault(fact.key, fact)
        if known is not fact and re.fullmatch(_LISTS, fact.key):
            found[fact.key] = replace(known, value=(*known.value, *fact.value))
    return found


def _list_old_defaults(prefix: str, facts: dict[str, Fact]) -> Iterator[Fact]:
    """What version 1 leaves out unless it is told not to, and version 2 only when told."""
    file = next(iter(facts.values())).file
    for switch, name, value in _TABLE.entries["defaults"]:
        there = facts.get(f"{prefix}issues.{switch}")
        if there is None or truth(there.value):
            items = tuple(value) if isinstance(value, list) else value
            yield Fact(f"{prefix}{name}", name, items, file)


def _rename(fact: Fact) -> Fact:
    key, value = fact.key, fact.value
    for pattern, name in _TABLE.entries["names"]:
        key = re.sub(pattern, name, key, count=1)
    for old, new in _TABLE.entries["switches"].items():
        if key.endswith(f"golangci.linters.{old}") and truth(value):
            return replace(fact, key=key.replace(old, "default"), value=new)
    if re.fullmatch(_LISTS, key):
        value = _rename_linters(value)
    return replace(fact, key=key, value=value)


def _rename_linters(value: Any) -> tuple[str, ...]:
    names = _TABLE.entries["linters"]
    items = value if isinstance(value, tuple) else (value,)
    return tuple(name for item in items if (name := names.get(str(item), str(item))))
