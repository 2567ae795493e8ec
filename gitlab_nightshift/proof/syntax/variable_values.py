"""The values that variables of a function are set to, as code."""

from tree_sitter import Node

from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.nodes import CALLS, find_field, read_text, unwrap_node, walk

_TABLE = RuleTable(__file__)

_ASSIGNMENTS = _TABLE.get_words("assignments")
_COMPUTED = CALLS | frozenset(
    "identifier attribute member_expression field_expression selector_expression await_expression"
    " expression_list field_access".split()
)
"""Nodes whose value is not known from reading."""


def read_assignment(node: Node) -> tuple[Node, Node] | None:
    """Target and value of an assignment or declaration; None for other nodes."""
    if node.type not in _ASSIGNMENTS:
        return None
    target, value = find_field(node, "left", "name", "pattern"), find_field(node, "right", "value")
    if node.type == "property_declaration" and value is None and len(node.named_children) > 1:
        target, value = node.named_children[0], node.named_children[-1]  # Kotlin has no fields
    return (target, value) if target is not None and value is not None else None


def read_variable_values(node: Node) -> dict[str, str]:
    """The code that each variable is set to, if it is assigned once, from a call or a name."""
    found: dict[str, str] = {}
    other: set[str] = set()
    for each in walk(node):
        if pair := read_assignment(each):
            name = read_text(pair[0])
            if name in found or unwrap_node(pair[1]).type not in _COMPUTED:
                other.add(name)
            found[name] = read_text(pair[1])
    return {name: value for name, value in found.items() if name not in other}


def resolve_variables(code: str, values: dict[str, str]) -> str:
    """A piece of code with variables replaced by their values, and variables in those, too."""
    for _ in range(2):
        if len(code) > _LONGEST:
            break
        code = _VARIABLE.sub(lambda name: values.get(name[0], name[0]), code)
    return code


_LONGEST = 500
_VARIABLE = _TABLE.get_pattern("variable")
