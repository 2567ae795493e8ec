"""Parameters and results of functions, as callers see them."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.syntax.functions import Function
from gitlab_nightshift.verdict.syntax.languages import Language
from gitlab_nightshift.verdict.syntax.nodes import COMMENTS, LITERALS, field, kids, text

if TYPE_CHECKING:
    from tree_sitter import Node


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
_REST = frozenset(
    "list_splat_pattern rest_pattern splat_parameter variadic_parameter_declaration"
    " spread_parameter"
    " variadic_parameter".split()
)
_OPTIONS = frozenset(("dictionary_splat_pattern", "hash_splat_parameter", "block_parameter"))


def signature_of(function: Function, language: Language) -> Signature | None:
    """The signature; None for a class or where there are no parameters to be seen."""
    if function.is_class:
        return None
    node = function.node
    if node.type in (
        "variable_declarator",
        "public_field_definition",
        "field_definition",
        "assignment_expression",
        "pair",
    ):
        node = field(node, "value", "right") or node
    given = [child for name in _LISTS for child in node.children_by_field_name(name)]
    if not given:
        given = [
            child for child in node.named_children if child.type in ("function_value_parameters",)
        ]
    found: list[Parameter] = []
    for group in given:
        found += _group(group, language)
    return Signature(
        tuple(_without_self(found, function, language)), _returns(node), _is_async(node)
    )


def _without_self(
    found: list[Parameter], function: Function, language: Language
) -> list[Parameter]:
    if (
        language.name == "python"
        and found
        and function.outer
        and found[0].name in ("self", "cls", "mcs")
    ):
        return found[1:]
    return found


def _group(group: "Node", language: Language) -> list[Parameter]:
    if group.type in ("identifier",):
        return [Parameter(text(group), "", None)]
    found: list[Parameter] = []
    keyword = False
    children = [child for child in group.children if child.is_named or text(child) == "*"]
    for child in children:
        if child.type in COMMENTS or child.type in (
            "attribute_item",
            "decorator",
            "self_parameter",
        ):
            continue
        if child.type == "keyword_separator" or text(child) == "*":
            keyword = True
        elif child.type == "positional_separator":
            continue
        elif child.type in LITERALS and found:
            found[-1] = Parameter(found[-1].name, found[-1].type, text(child), found[-1].kind)
        else:
            made = _one(child, keyword)
            keyword = keyword or (
                language.name == "python" and bool(made) and made[0].kind == "rest"
            )
            found += made
    return found


def _one(node: "Node", keyword: bool) -> list[Parameter]:
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
            for each in kids(node)
            if each.type.endswith("identifier") or each.type == "variable_name"
        ]
        names = ids[:1] or [inner]
    default = _default(node)
    typed = _plain(text(field(node, "type")) or _bare_type(node)).removeprefix(":").strip()
    if text(node).rstrip().endswith("...") or "..." in typed:
        kind = "rest"
    return [Parameter(text(name).lstrip("*&$.").strip(), typed, default, kind) for name in names]


def _bare_type(node: "Node") -> str:
    return next(
        (
            text(each)
            for each in node.named_children
            if each.type in ("user_type", "nullable_type", "function_type")
        ),
        "",
    )


def _default(node: "Node") -> str | None:
    value = field(node, "value", "default_value", "right")
    if value is not None:
        return _plain(text(value))
    if node.type in ("optional_parameter",):
        return "?"
    if node.type in ("keyword_parameter",):
        return None
    if node.type == "parameter" and "=" in text(node) and "=>" not in text(node):
        return _plain(text(node).split("=", 1)[1])
    return None


def _plain(code: str) -> str:
    return " ".join(code.replace("'", '"').split())


def _returns(node: "Node") -> str:
    given = field(node, "return_type", "result", "returns") or (
        field(node, "type") if node.type == "method_declaration" else None
    )
    if given is None:
        bare_types = [
            each for each in node.named_children if each.type in ("user_type", "nullable_type")
        ]
        given = bare_types[-1] if node.type == "function_declaration" and bare_types else None
    if given is not None and given.type == "parameter_list":
        types = [
            text(field(each, "type"))
            for each in kids(given)
            for _ in each.children_by_field_name("name") or [each]
        ]
        return types[0] if len(types) == 1 else f"({', '.join(types)})"
    return re.sub(r"^(:|->)\s*", "", _plain(text(given))).strip('"')


def _is_async(node: "Node") -> bool:
    return bool(re.match(r"(export\s+)?(static\s+)?async\b", text(node)[:40]))
