"""Conditions that are asserted, as demands: each side of a conjunction is one."""

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from gitlab_nightshift.proof.syntax.nodes import list_children, read_text, split_binary, unwrap_node

_EQUAL = frozenset(("==", "===", "is", "eq", "equals", "=~="))
_UNEQUAL = frozenset(("!=", "!==", "is not", "ne", "<>", "=!="))
_AND, _OR = frozenset(("and", "&&")), frozenset(("or", "||"))
_NOTHING = frozenset(("None", "nil", "null", "undefined"))
_TRUTHS = frozenset(("true", "True", "false", "False"))
_UNARY = frozenset(
    "unary_expression unary prefix_expression prefix_unary_expression unary_op_expression".split()
)
_DEEPEST = 20


@dataclass(frozen=True)
class Demand:
    """What a condition says about its parts: a word as of an assertion, and what it compares."""

    word: str
    negated: bool
    parts: tuple[Node, ...]


def is_condition(node: Node) -> bool:
    """True for a comparison or a negation, false for a plain value."""
    return split_binary(node) is not None or _read_negation(unwrap_node(node)) is not None


def list_demands(node: Node, flip: bool = False, depth: int = 0) -> Iterator[Demand]:
    """The demands of a condition, or of its opposite; one that leaves a choice is one."""
    node = unwrap_node(node)
    inner, parts = _read_negation(node), split_binary(node)
    if inner is not None and depth < _DEEPEST:
        yield from list_demands(inner, not flip, depth + 1)
    elif parts and parts[0] in (_OR if flip else _AND) and depth < _DEEPEST:
        for side in parts[1:]:
            yield from list_demands(side, flip, depth + 1)
    elif parts and parts[0] not in _AND | _OR:
        yield _read_comparison(*parts, flip)
    else:
        *others, last = _list_equals(node)
        chained = [Demand("equal", False, (each, last)) for each in others]
        yield from chained if chained and not flip else [Demand("true", flip, (node,))]


def _list_equals(node: Node) -> list[Node]:
    """What ``a == b == 1`` says is equal; else the node alone."""
    signs = node.children[1::2] if node.type == "comparison_operator" else []
    equal = len(signs) > 1 and all(read_text(sign) == "==" for sign in signs)
    return node.children[::2] if equal else [node]


def _read_negation(node: Node) -> Node | None:
    inside = list_children(node)
    negates = node.type == "not_operator" or (
        node.type in _UNARY and read_text(node).startswith(("!", "not "))
    )
    return inside[-1] if negates and inside else None


def _read_comparison(operator: str, left: Node, right: Node, flip: bool) -> Demand:
    if operator not in _EQUAL | _UNEQUAL:
        return Demand("compare", flip, (left, right))
    negated, said = (operator in _EQUAL) == flip, {read_text(left), read_text(right)}
    if said & _NOTHING:
        of_error = any(each.endswith(("err", "Err", "error")) for each in said)
        return Demand("noerror" if of_error else "null", negated, (left, right))
    if said & _TRUTHS and operator != "is":
        return Demand("true", negated, (right if read_text(left) in _TRUTHS else left,))
    return Demand("equal", negated, (left, right))
