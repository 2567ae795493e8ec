"""What a handler does with an error: does anything of it remain?"""

from tree_sitter import Node

from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.nodes import find_field, list_children, read_text, unwrap_node

_TABLE = RuleTable(__file__)
_ASSIGNS = _TABLE.get_words("assigns")
_LEAVES = _TABLE.get_words("leaves")

_NOTHING = _TABLE.get_words("nothing")
_DEFAULT = _TABLE.get_pattern("default")
_QUIET_LOG = _TABLE.get_pattern("quiet_log")


def is_default(node: Node | None) -> bool:
    """True for a value that says nothing about an error: empty, zero, null, a constant."""
    return node is None or is_default_text(read_text(node))


def is_default_text(said: str) -> bool:
    """The same for a piece of code."""
    return bool(_DEFAULT.match(" ".join(said.split())))


def is_empty(body: list[Node]) -> bool:
    """True where nothing at all is done, or the loop goes on."""
    return all(_is_nothing(unwrap_node(each)) for each in body)


def hides(body: list[Node], caught: str) -> bool:
    """True where a handler gives back a default, or does nothing, and the error is lost."""
    return all(_is_quiet(each, caught) for each in body)


def _is_nothing(node: Node) -> bool:
    if _QUIET_LOG.match(read_text(node)):
        return True
    return node.type in _NOTHING or read_text(node) in ("...", "()", "", "{}", "pass")


def _is_quiet(node: Node, caught: str) -> bool:
    inner = unwrap_node(node)
    inside = list_children(inner)
    if _is_nothing(inner):
        return True
    if inner.type in _LEAVES or read_text(inner).startswith("return"):
        value = inside[0] if inside else None
        lists = value is not None and value.type in ("argument_list", "expression_list")
        return is_default((list_children(value) or [value])[-1] if value and lists else value)
    if inner.type in _ASSIGNS:
        value = find_field(inner, "right", "value")
        return value is not None and is_default(value) and caught not in read_text(inner).split()
    declares = inner.type in ("local_variable_declaration", "lexical_declaration")
    return not declares and is_default(inner)
