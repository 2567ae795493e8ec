"""Parameters and results of functions, as callers see them."""

import re
from dataclasses import dataclass

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
    type: str
    default: str | None
    kind: str = "positional"


@dataclass(frozen=True)
class Signature:
    """Parameters without ``self``, and what is given back as it is written ("" where it is not)."""

    parameters: tuple[Parameter, ...]
    returns: str
    is_async: bool


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
    return Signature(
        tuple(_drop_self(found, function, language)), _read_return_type(node), _is_async(node)
    )


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
        return [Parameter(read_text(group), "", None)]
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
            found[-1] = Parameter(found[-1].name, found[-1].type, read_text(child), found[-1].kind)
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
    typed = (
        _normalize_code(read_text(find_field(node, "type")) or _find_bare_type(node))
        .removeprefix(":")
        .strip()
    )
    if read_text(node).rstrip().endswith("...") or "..." in typed:
        kind = "rest"
    return [
        Parameter(read_text(name).lstrip("*&$.").strip(), typed, default, kind) for name in names
    ]


def _find_bare_type(node: Node) -> str:
    return next(
        (
            read_text(each)
            for each in node.named_children
            if each.type in ("user_type", "nullable_type", "function_type")
        ),
        "",
    )


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


def _read_return_type(node: Node) -> str:
    given = find_field(node, "return_type", "result", "returns") or (
        find_field(node, "type") if node.type == "method_declaration" else None
    )
    if given is None:
        bare_types = [
            each for each in node.named_children if each.type in ("user_type", "nullable_type")
        ]
        given = bare_types[-1] if node.type == "function_declaration" and bare_types else None
    if given is not None and given.type == "parameter_list":
        types = [
            read_text(find_field(each, "type"))
            for each in list_children(given)
            for _ in each.children_by_field_name("name") or [each]
        ]
        return types[0] if len(types) == 1 else f"({', '.join(types)})"
    return re.sub(r"^(:|->)\s*", "", _normalize_code(read_text(given))).strip('"')


def _is_async(node: Node) -> bool:
    return bool(re.match(r"(export\s+)?(static\s+)?async\b", read_text(node)[:40]))
