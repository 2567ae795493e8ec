"""Settings in XML (Checkstyle, PMD, Scalastyle, SpotBugs, PHP's tools) as facts."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.tooling.tool_facts import MOST_FACTS, Fact

_TOOLS = RuleTable(__file__).entries["tools"]
_NAMES = ("name", "ref", "class", "id", "type", "key", "files", "checks", "Id")


def read_markup_facts(file: str, root: Mapping[str, Any]) -> dict[str, Fact]:
    """An XML file's settings: each element that is there, its attributes and its text."""
    name = file.rpartition("/")[2].lower()
    tool = next((tool for pattern, tool in _TOOLS if re.search(pattern, name)), "")
    if not tool and root["tag"] == "ruleset":
        tool = "pmd"
    if not tool and root["tag"] == "module":
        tool = "checkstyle"
    found: dict[str, Fact] = {}
    for key, value in _walk(tool, root, 0) if tool else ():
        found.setdefault(key, Fact(key, key.partition(".")[2], value, file))
        if len(found) >= MOST_FACTS:
            break
    return found


def _walk(path: str, element: Mapping[str, Any], depth: int) -> Iterator[tuple[str, Any]]:
    """Elements are told apart by their names; the value of a ``property`` is its parent's."""
    attributes = element["attrib"]
    name = next((attributes[n] for n in _NAMES if n in attributes), "")
    if element["tag"] == "property" and name:
        yield f"{path}.{name}", attributes.get("value", element["text"])
        return
    own = f"{path}.{name or element['text'] or element['tag']}"
    kind = element["tag"]
    yield f"{own}<{kind}>", True
    for key, value in attributes.items():
        if key not in _NAMES:
            yield f"{own}@{key}", value
    if depth < 12:
        for child in element["children"]:
            yield from _walk(own, child, depth + 1)
