"""Functions and classes of a file: their names, lines and annotations."""

from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as slot

from tree_sitter import Node

from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.languages import Language
from gitlab_nightshift.proof.syntax.nodes import (
    CLASSES,
    COMMENTS,
    FUNCTIONS,
    LAMBDAS,
    find_field,
    list_children,
    read_last_line_number,
    read_line_number,
    read_text,
    walk,
)

_TABLE = RuleTable(__file__)

_DEEPEST = 12
_MARKS = _TABLE.get_words("marks")
# Nodes that may give a lambda its name: ``const total = () => …``.
_VARIABLES = frozenset(("variable_declarator", "public_field_definition", "field_definition"))
# Nodes that may contain definitions; others are not searched.
_HOLDERS = _TABLE.get_words("holders") | FUNCTIONS | CLASSES | _VARIABLES


@dataclass(frozen=True)
class Function:
    """A function, method or class. ``name`` is what its callers write: of ``res.send = function …``
    the last word. ``qualified`` is the name after those of the definitions around it, ``outer``:
    ``Cart.total``.

    ``marks`` are its annotations, decorators or attributes as written; ``line`` to ``end`` are its
    lines including them, from 1.
    """

    name: str
    qualified: str
    line: int
    end: int
    marks: tuple[str, ...]
    is_class: bool
    outer: tuple["Function", ...] = slot(repr=False)
    node: Node = slot(repr=False)
    body: Node | None = slot(repr=False)


def list_functions(root: Node, language: Language) -> tuple[Function, ...]:
    """All named functions, methods and classes, without those inside functions."""
    found: list[Function] = []
    stack: list[tuple[Node, tuple[Function, ...]]] = [(root, ())]
    while stack:
        node, outer = stack.pop()
        here = outer
        if node is not root and (made := _read_function(node, outer, language)):
            found.append(made)
            if not made.is_class:
                continue
            here = (*outer, made)
        if len(here) < _DEEPEST:
            inside = (child for child in reversed(node.named_children) if child.type in _HOLDERS)
            stack.extend((child, here) for child in inside)
    return tuple(found)


def _read_function(node: Node, outer: tuple[Function, ...], language: Language) -> Function | None:
    is_class = node.type in CLASSES or node.type == "type_spec"
    body = find_field(node, "body")
    if not is_class and node.type not in FUNCTIONS:
        named = node.type in _VARIABLES | {"assignment_expression", "pair"}
        body = find_field(node, "value", "right") if named else None
        if body is None or body.type not in LAMBDAS:
            return None
    name = _read_name(node)
    if not name:
        return None
    start, marks = _read_marks(node)
    owner = [each.name for each in outer if each.node.type != "mod_item" or each.name != "tests"]
    # Go's methods are declared outside of their type.
    if receiver := find_field(node, "receiver"):
        types = (each for each in walk(receiver) if each.type == "type_identifier")
        owner = [read_text(next(types, None))]
    qualified, end = ".".join([*owner, name]), read_last_line_number(node)
    line = min(start, read_line_number(node))
    if body is None and node.type in ("method", "singleton_method"):
        body = node  # Ruby: an empty method has no body node
    body = body or next(
        (child for child in node.named_children if child.type.endswith("body")), None
    )
    if node.type == "assignment_expression":
        name = name.rpartition(".")[2]
    return Function(name, qualified, line, end, marks, is_class, outer, node, body)


def _read_name(node: Node) -> str:
    named = find_field(node, "name", "left", "key") or (
        find_field(node, "type", "trait") if node.type == "impl_item" else None
    )
    if named is None:
        ids = [child for child in list_children(node) if child.type.endswith("identifier")]
        named = ids[0] if ids and node.type in FUNCTIONS | CLASSES else None
    name = read_text(named)
    if node.type == "impl_item":
        name = name.split("<")[0]
    for prefix in ("module.exports.", "exports."):
        name = name.removeprefix(prefix)
    return name.strip("`\"'") if len(name) < 200 else ""


def _read_marks(node: Node) -> tuple[int, tuple[str, ...]]:
    """The annotations of a definition, and their first line."""
    found = list(_list_inner_marks(node))
    outside = node
    if node.parent and node.parent.type in ("decorated_definition", "export_statement"):
        outside = node.parent
        found += [child for child in outside.named_children if child.type in _MARKS]
    before = outside.prev_named_sibling
    while before is not None and before.type in _MARKS | COMMENTS:
        if before.type in _MARKS:
            found.append(before)
        before = before.prev_named_sibling
    lines = [read_line_number(each) for each in found] or [read_line_number(node)]
    return min(lines), tuple(read_text(each) for each in sorted(found, key=lambda n: n.start_byte))


def _list_inner_marks(node: Node) -> Iterator[Node]:
    for child in node.named_children:
        if child.type in _MARKS:
            yield child
        elif child.type in ("modifiers", "attributes"):
            yield from child.named_children
