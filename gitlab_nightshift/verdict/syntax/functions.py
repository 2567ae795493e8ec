"""Functions and classes of a file: where they are, how they are called, who may call them."""

from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as slot
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.syntax.languages import Language
from gitlab_nightshift.verdict.syntax.nodes import (
    CLASSES,
    COMMENTS,
    FUNCTIONS,
    LAMBDAS,
    field,
    kids,
    last_line,
    line,
    names_in,
    text,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_DEEPEST = 12
_MARKS = frozenset(
    "decorator annotation marker_annotation attribute_item attribute_list attribute_group".split()
)


@dataclass(frozen=True)
class Function:
    """A function, method or class. ``qualified`` has the names of what it stands in, with dots.

    ``marks`` are its annotations, decorators or attributes as they are written; ``line`` to
    ``end`` are its lines with them, from 1.
    """

    name: str
    qualified: str
    line: int
    end: int
    marks: tuple[str, ...]
    is_class: bool
    outer: tuple["Function", ...] = slot(repr=False)
    node: "Node" = slot(repr=False)
    body: "Node | None" = slot(repr=False)


def functions_of(root: "Node", language: Language) -> tuple[Function, ...]:
    """All functions, methods and classes with a name, those inside functions left out."""
    found: list[Function] = []
    stack: list[tuple[Node, tuple[Function, ...]]] = [(root, ())]
    while stack:
        node, outer = stack.pop()
        here = outer
        if node is not root and (made := _function(node, outer, language)):
            found.append(made)
            if not made.is_class:
                continue
            here = (*outer, made)
        if len(here) < _DEEPEST:
            stack.extend((child, here) for child in reversed(node.named_children) if _holds(child))
    return tuple(found)


_HOLDERS = frozenset(
    "decorated_definition export_statement lexical_declaration variable_declaration body_statement"
    " class_body block declaration_list template_body statement_block expression_statement"
    " interface_body enum_body enum_class_body namespace_declaration program source_file"
    " compilation_unit if_statement else_clause try_statement type_declaration"
    " enum_body_declarations ambient_declaration object_type companion_object"
    " class_member_declarations"
    " file_scoped_namespace_declaration namespace_definition field_declaration_list singleton_class"
    " assignment_expression package_clause enum_variant_list begin compound_statement"
    " extension_definition object pair".split()
)
_VARIABLES = frozenset(("variable_declarator", "public_field_definition", "field_definition"))


def _holds(node: "Node") -> bool:
    kind = node.type
    return (
        kind in _HOLDERS or kind in FUNCTIONS or kind in CLASSES or kind in _VARIABLES
        or kind in ("type_spec", "type_alias")
    )  # fmt: skip


def _function(node: "Node", outer: tuple[Function, ...], language: Language) -> Function | None:
    kind = node.type
    is_class = kind in CLASSES or kind == "type_spec"
    body = field(node, "body")
    if not is_class and kind not in FUNCTIONS:
        if kind not in _VARIABLES | {"assignment_expression", "pair"}:
            return None
        body = field(node, "value", "right")
        if body is None or body.type not in LAMBDAS:
            return None
    name = _name(node)
    if not name:
        return None
    start, marks = _marks(node)
    owner = [each.name for each in outer if each.node.type != "mod_item" or each.name != "tests"]
    if receiver := field(node, "receiver"):
        owner = [text(_type_name(receiver))]
    return Function(
        name=name,
        qualified=".".join([*owner, name]),
        line=min(start, line(node)),
        end=last_line(node),
        marks=marks,
        is_class=is_class,
        outer=outer,
        node=node,
        body=body or _body(node),
    )


def _body(node: "Node") -> "Node | None":
    if node.type in ("method", "singleton_method"):
        return node  # Ruby: without a statement there is no body
    return next((child for child in node.named_children if child.type.endswith("body")), None)


def _name(node: "Node") -> str:
    named = field(node, "name", "left", "key") or (
        field(node, "type", "trait") if node.type == "impl_item" else None
    )
    if named is None:
        ids = [child for child in kids(node) if child.type.endswith("identifier")]
        named = ids[0] if ids and node.type in FUNCTIONS | CLASSES else None
    name = text(named)
    if node.type == "impl_item":
        name = name.split("<")[0]
    for prefix in ("module.exports.", "exports."):
        name = name.removeprefix(prefix)
    return name.strip("`\"'") if len(name) < 200 else ""


def _type_name(receiver: "Node") -> "Node | None":
    """The type of a Go receiver."""
    stack = [receiver]
    while stack:
        node = stack.pop(0)
        if node.type == "type_identifier":
            return node
        stack += kids(node)
    return None


def _marks(node: "Node") -> tuple[int, tuple[str, ...]]:
    """The first line with the annotations of a definition, and these."""
    found = list(_marks_inside(node))
    outside = node
    if node.parent and node.parent.type in ("decorated_definition", "export_statement"):
        outside = node.parent
        found += [child for child in outside.named_children if child.type in _MARKS]
    before = outside.prev_named_sibling
    while before is not None and before.type in _MARKS | COMMENTS:
        if before.type in _MARKS:
            found.append(before)
        before = before.prev_named_sibling
    lines = [line(each) for each in found] or [line(node)]
    return min(lines), tuple(text(each) for each in sorted(found, key=lambda n: n.start_byte))


def _marks_inside(node: "Node") -> Iterator["Node"]:
    for child in node.named_children:
        if child.type in _MARKS:
            yield child
        elif child.type in ("modifiers", "attributes"):
            yield from child.named_children


def names_used(function: Function) -> frozenset[str]:
    """Every name that a function mentions, in its signature, its marks and its body."""
    return names_in(function.node)
