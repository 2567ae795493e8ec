"""Parameters of functions, as callers see them."""

from dataclasses import dataclass, replace

from tree_sitter import Node

from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax.functions import Function
from gitlab_nightshift.verdict.syntax.languages import Language
from gitlab_nightshift.verdict.syntax.nodes import (
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


@dataclass(frozen=True)
class Signature:
    """Parameters without ``self``."""

    parameters: tuple[Parameter, ...]


_LISTS = ("parameters", "parameter")
_REST = _TABLE.get_words("rest")
_OPTIONS = frozenset(("dictionary_splat_pattern", "hash_splat_parameter", "block_parameter"))


def read_signature(function: Function, language: Language) -> Signature | None:
    """The signature; None for a class or where there are no parameters to be seen."""
    if function.is_class:
        return None
    node = function.node
    if node.type in _VALUED:
        node = find_field(node, "value", "right") or node
    given = [child for name in _LISTS for child in node.children_by_field_name(name)]
    if not given:
        given = [
            child for child in node.named_children if child.type in ("function_value_parameters",)
        ]
    found: list[Parameter] = []
    for group in given:
        found += _read_parameters(group, language)
    return Signature(tuple(_drop_self(found, function, language)))


def _drop_self(found: list[Parameter], function: Function, language: Language) -> list[Parameter]:
    if (
        language.name == "python"
        and found
        and function.outer
        and found[0].name in ("self", "cls", "mcs")
    ):
        return found[1:]
    return found


def _read_parameters(group: Node, language: Language) -> list[Parameter]:
    if group.type in ("identifier",):
        return [Parameter(read_text(group), None)]
    found: list[Parameter] = []
    keyword = False
    children = [child for child in group.children if child.is_named or read_text(child) == "*"]
    for child in children:
        if child.type in COMMENTS or child.type in (
            "attribute_item",
            "decorator",
            "self_parameter",
        ):
            continue
        if child.type == "keyword_separator" or read_text(child) == "*":
            keyword = True
        elif child.type == "positional_separator":
            continue
        elif child.type in LITERALS and found:
            found[-1] = replace(found[-1], default=read_text(child))
        else:
            made = _read_parameter(child, keyword)
            keyword = keyword or (
                language.name == "python" and bool(made) and made[0].kind == "rest"
            )
            found += made
    return found


def _read_parameter(node: Node, keyword: bool) -> list[Parameter]:
    kind = "keyword" if keyword or node.type == "keyword_parameter" else "positional"
    inner = (
        node.named_children[0]
        if node.type in ("typed_parameter", "required_parameter") and node.named_children
        else node
    )
    if node.type in _REST or inner.type in _REST or node.type == "parameter_modifiers":
        kind = "rest"
    if node.type in _OPTIONS or inner.type in _OPTIONS:
        kind = "options"
    names = node.children_by_field_name("name") or node.children_by_field_name("pattern")
    if not names:
        ids = [
            each
            for each in list_children(node)
            if each.type.endswith("identifier") or each.type == "variable_name"
        ]
        names = ids[:1] or [inner]
    default = _read_default(node)
    if read_text(node).rstrip().endswith("...") or "..." in read_text(find_field(node, "type")):
        kind = "rest"
    return [Parameter(read_text(name).lstrip("*&$.").strip(), default, kind) for name in names]


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
