"""Parameters of functions, as callers see them."""

from dataclasses import dataclass, replace

from tree_sitter import Node

from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.functions import Function
from gitlab_nightshift.proof.syntax.languages import Language
from gitlab_nightshift.proof.syntax.nodes import (
    COMMENTS,
    LITERALS,
    find_field,
    list_children,
    read_text,
)

_TABLE = RuleTable(__file__)
_VALUED = _TABLE.get_words("valued")


@dataclass(frozen=True)
class Parameter:
    """A parameter. ``kind`` is positional, keyword (by name only), rest or options (``**kwargs``);
    ``default`` is None where there is none, "?" where it is only optional."""

    name: str
    default: str | None
    kind: str = "positional"


_LISTS = ("parameters", "parameter")
_SELF = ("self", "cls", "mcs")
_NAMES = ("variable_name",)
_NO_PARAMETERS = frozenset("attribute_item decorator self_parameter positional_separator".split())
_REST = _TABLE.get_words("rest")
_OPTIONS = frozenset(("dictionary_splat_pattern", "hash_splat_parameter", "block_parameter"))


def read_parameters(function: Function, language: Language) -> tuple[Parameter, ...] | None:
    """The parameters without ``self``; None for a class."""
    if function.is_class:
        return None
    node = function.node
    if node.type in _VALUED:
        node = find_field(node, "value", "right") or node
    given = [child for name in _LISTS for child in node.children_by_field_name(name)]
    given = given or [c for c in node.named_children if c.type == "function_value_parameters"]
    found = [each for group in given for each in _read_group(group, language)]
    if language.name == "python" and function.outer and found and found[0].name in _SELF:
        del found[0]
    return tuple(found)


def _read_group(group: Node, language: Language) -> list[Parameter]:
    if group.type == "identifier":
        return [Parameter(read_text(group), None)]
    found: list[Parameter] = []
    keyword = False
    for child in group.children:
        if child.type == "keyword_separator" or read_text(child) == "*":
            keyword = True
        elif not child.is_named or child.type in COMMENTS | _NO_PARAMETERS:
            continue
        elif child.type in LITERALS and found:
            found[-1] = replace(found[-1], default=read_text(child))
        else:
            found += _read_parameter(child, keyword)
            keyword = keyword or (language.name == "python" and found[-1].kind == "rest")
    return found


def _read_parameter(node: Node, keyword: bool) -> list[Parameter]:
    kind = "keyword" if keyword or node.type == "keyword_parameter" else "positional"
    typed = node.type in ("typed_parameter", "required_parameter") and node.named_children
    inner = node.named_children[0] if typed else node
    kinds = {node.type, inner.type}
    dots = read_text(node).rstrip().endswith("...") or "..." in read_text(find_field(node, "type"))
    if dots or kinds & _REST or node.type == "parameter_modifiers":
        kind = "rest"
    elif kinds & _OPTIONS:
        kind = "options"
    names = node.children_by_field_name("name") or node.children_by_field_name("pattern")
    ids = (c for c in list_children(node) if c.type.endswith("identifier") or c.type in _NAMES)
    default = _read_default(node)
    return [
        Parameter(read_text(name).lstrip("*&$.").strip(), default, kind)
        for name in names or [next(ids, inner)]
    ]


def _read_default(node: Node) -> str | None:
    value = find_field(node, "value", "default_value", "right")
    if value is not None:
        return _normalize_code(read_text(value))
    if node.type in ("optional_parameter",):
        return "?"
    if node.type in ("keyword_parameter",):
        return None
    if node.type == "parameter" and "=" in read_text(node) and "=>" not in read_text(node):
        return _normalize_code(read_text(node).split("=", 1)[1])
    return None


def _normalize_code(code: str) -> str:
    return " ".join(code.replace("'", '"').split())
