"""What the variables of a function stand for."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.syntax.nodes import CALLS, bare, chain, field, text, walk

if TYPE_CHECKING:
    from tree_sitter import Node

_ASSIGNMENTS = frozenset(
    "assignment variable_declarator short_var_declaration let_declaration val_definition"
    " local_variable_declaration property_declaration assignment_expression"
    " augmented_assignment var_spec const_spec".split()
)
_COMPUTED = CALLS | frozenset(
    "identifier attribute member_expression field_expression selector_expression await_expression"
    " expression_list field_access".split()
)


def assignment(node: "Node") -> "tuple[Node, Node] | None":
    """Target and value of an assignment or declaration."""
    if node.type not in _ASSIGNMENTS:
        return None
    target, value = field(node, "left", "name", "pattern"), field(node, "right", "value")
    return (target, value) if target is not None and value is not None else None


def values_in(node: "Node") -> dict[str, str]:
    """The code that each variable stands for, where it is assigned once, from a call or a name."""
    found: dict[str, str] = {}
    other: set[str] = set()
    for each in walk(node):
        if pair := assignment(each):
            name = text(pair[0])
            if name in found or bare(pair[1]).type not in _COMPUTED:
                other.add(name)
            found[name] = text(pair[1])
    return {name: value for name, value in found.items() if name not in other}


def resolved(code: str, values: dict[str, str]) -> str:
    """A piece of code with its variables spelled out, and those in their values once more."""
    for _ in range(2):
        if len(code) > _LONGEST:
            break
        code = _VARIABLE.sub(lambda name: values.get(name[0], name[0]), code)
    return code


_LONGEST = 500
_VARIABLE = re.compile(r"(?<![\w.\"'])[A-Za-z_]\w*")


def calls_of_variables(node: "Node") -> dict[str, frozenset[str]]:
    """The functions that the value of each variable comes from."""
    found: dict[str, frozenset[str]] = {}
    for each in walk(node):
        if pair := assignment(each):
            calls = frozenset(filter(None, map(called, _calls(pair[1]))))
            for name in re.findall(r"\w+", text(pair[0])[:200]):
                found[name] = found.get(name, frozenset()) | calls
    return found


def calls_behind(part: "Node", origins: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The functions that a value comes from, through variables."""
    found = set(filter(None, map(called, _calls(part))))
    for each in walk(part):
        if each.type == "identifier":
            found |= origins.get(text(each), frozenset())
    return frozenset(found)


def _calls(node: "Node") -> "list[Node]":
    return [each for each in walk(node) if each.type in CALLS]


def called(node: "Node") -> str:
    """The last name of a call: ``total`` of ``cart.total(3)``."""
    links = chain(node)
    return links[-1].name if links and links[-1].args is not None else ""
