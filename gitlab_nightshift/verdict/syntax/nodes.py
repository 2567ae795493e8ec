"""What nodes mean, the same words for every language."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

FUNCTIONS = frozenset(
    "function_definition function_declaration method_declaration constructor_declaration"
    " method_definition method singleton_method function_item function_signature_item"
    " generator_function_declaration function_signature abstract_method_signature"
    " method_signature secondary_constructor".split()
)
LAMBDAS = frozenset(
    "lambda arrow_function function_expression function generator_function func_literal"
    " lambda_expression closure_expression lambda_literal anonymous_function block do_block"
    " anonymous_method_expression anonymous_function_creation_expression case_block".split()
)
CLASSES = frozenset(
    "class_definition class_declaration abstract_class_declaration interface_declaration"
    " enum_declaration record_declaration class module object_definition trait_definition"
    " impl_item trait_item mod_item struct_item enum_item object_declaration struct_declaration"
    " enum_definition internal_module trait_declaration annotation_type_declaration".split()
)
COMMENTS = frozenset("comment line_comment block_comment multiline_comment".split())
STRINGS = frozenset(
    "string string_literal interpreted_string_literal raw_string_literal template_string"
    " encapsed_string character_literal char_literal rune_literal heredoc_body string_array"
    " verbatim_string_literal interpolated_string interpolated_string_expression"
    " concatenated_string line_string_literal multi_line_string_literal symbol_array".split()
)
LITERALS = STRINGS | frozenset(
    "integer float true false none null nil undefined number integer_literal float_literal"
    " int_literal decimal_integer_literal decimal_floating_point_literal boolean_literal"
    " number_literal null_literal hex_integer_literal floating_point_literal real_literal boolean"
    " long_literal simple_symbol regex hash_key_symbol imaginary_literal rational complex".split()
)
LISTS = frozenset(
    "list tuple set array array_initializer array_expression array_creation_expression"
    " composite_literal collection_literal initializer_expression collection_expression".split()
)
CALLS = frozenset(
    "call call_expression invocation_expression function_call_expression method_invocation"
    " member_call_expression nullsafe_member_call_expression scoped_call_expression"
    " macro_invocation infix_expression".split()
)
_MEMBERS = {
    "attribute": ("object", "attribute"),
    "member_expression": ("object", "property"),
    "selector_expression": ("operand", "field"),
    "field_expression": ("value", "field"),
    "field_access": ("object", "field"),
    "member_access_expression": ("expression", "name"),
    "scoped_identifier": ("path", "name"),
    "scope_resolution": ("scope", "name"),
    "class_constant_access_expression": ("", ""),
    "navigation_expression": ("", ""),
    "conditional_access_expression": ("", ""),
    "stable_identifier": ("", ""),
}
_RECEIVER = {"method_invocation": "object", "call": "receiver", "scoped_call_expression": "scope"}
_WRAPPERS = frozenset(
    "await_expression await parenthesized_expression generic_function non_null_expression"
    " try_expression expression_statement as_expression parenthesized_statements"
    " instance_expression reference_expression unary_plus argument value_argument"
    " type_cast_expression cast_expression literal_element satisfies_expression".split()
)
_LONGEST_CHAIN = 60


@dataclass(frozen=True)
class Link:
    """A part of ``a.b(1).c``: a name, and its arguments where it is called."""

    name: str
    args: "tuple[Node, ...] | None" = None
    types: str = ""


def text(node: "Node | None") -> str:
    """The source of a node; odd bytes are replaced."""
    return (node.text or b"").decode("utf-8", "replace") if node else ""


def line(node: "Node") -> int:
    """The line that a node starts on, from 1."""
    return node.start_point[0] + 1


def last_line(node: "Node") -> int:
    """The line that a node ends on, from 1."""
    row, column = node.end_point
    return row + 1 if column or row == node.start_point[0] else row


def walk(node: "Node", into: "Callable[[Node], bool] | None" = None) -> "Iterator[Node]":
    """The node and all below it in the order of the text; what ``into`` refuses is not entered."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if into is None or current is node or into(current):
            stack.extend(reversed(current.named_children))


def kids(node: "Node") -> "list[Node]":
    """The named children without comments."""
    return [child for child in node.named_children if child.type not in COMMENTS]


def field(node: "Node", *names: str) -> "Node | None":
    """The child in the first of these fields that is there."""
    for name in names:
        if found := node.child_by_field_name(name):
            return found
    return None


def bare(node: "Node") -> "Node":
    """The node inside parentheses, ``await`` and other wrappers."""
    for _ in range(_LONGEST_CHAIN):
        inside = kids(node) if node.type in _WRAPPERS else []
        if not inside:
            return node
        node = field(node, "function") or inside[0]
    return node


def chain(node: "Node") -> tuple[Link, ...]:
    """``expect(a).not.toBe(3)`` as links from the left; empty where it does not end in names."""
    links: list[Link] = []
    current: Node | None = bare(node)
    for _ in range(_LONGEST_CHAIN):
        if current is None:
            break
        before, types = len(links), _types(current)
        current = _link(bare(current), links)
        if types and len(links) > before and not links[before].types:
            links[before] = replace(links[before], types=types)
    return tuple(reversed(links))


def _types(node: "Node") -> str:
    return (
        text(field(node, "type_arguments")).strip("[]") if node.type == "generic_function" else ""
    )


def _link(node: "Node", links: list[Link]) -> "Node | None":
    """Add the outermost links of a node, and give what is left of them."""
    kind = node.type
    if kind in ("infix_expression", "binary_operator_call") and len(kids(node)) >= 3:
        left, name, right = kids(node)[:3]
        links.append(Link(text(name), (right,)))
        return left
    if kind in ("macro_invocation",):
        links.append(Link(text(field(node, "macro")) + "!", macro_arguments(node)))
        return None
    if kind in CALLS:
        return _call(node, links)
    if kind in _MEMBERS:
        owner, member = (field(node, part) if part else None for part in _MEMBERS[kind])
        ends = kids(node)
        if member is None and len(ends) > 1:
            owner, member = ends[0], ends[-1]
        links.append(Link(text(member)))
        return owner
    links.append(Link(text(node) if node.end_byte - node.start_byte < 2000 else ""))
    return None


def _call(node: "Node", links: list[Link]) -> "Node | None":
    args = arguments(node)
    if name := field(node, "name", "method"):
        links.append(Link(text(name), args))
        return field(node, _RECEIVER.get(node.type, "object"), "object")
    callee = field(node, "function") or next(iter(kids(node)), None)
    if callee is None:
        return None
    types = text(field(callee, "type_arguments"))
    callee = bare(callee)
    if callee.type in CALLS:
        links.append(Link("", args))
        return callee
    before = len(links)
    left = _link(callee, links)
    if len(links) > before:
        plain, _, generic = links[before].name.partition("<")
        links[before] = Link(plain, args, types.strip("[]") or generic.strip("<>"))
    return left


def arguments(node: "Node") -> "tuple[Node, ...]":
    """What a call passes: arguments, then a block or trailing function."""
    if node.type == "macro_invocation":
        return macro_arguments(node)
    given = field(node, "arguments")
    found: list[Node] = []
    if given is not None:
        found = [given] if given.type in ("block", "template_string", "case_block") else kids(given)
    for child in node.named_children:
        if child.type in ("value_arguments", "call_suffix") or child.type == "annotated_lambda":
            found += kids(child)
        elif child.type in ("lambda_literal", "do_block") or (
            child.type == "block" and child != given
        ):
            found.append(child)
    return tuple(
        bare(each) if each.type in ("argument", "value_argument") else each for each in found
    )


def macro_arguments(node: "Node") -> "tuple[Node, ...]":
    """The arguments of a Rust macro, which the grammar leaves as tokens: parsed by themselves."""
    from gitlab_nightshift.verdict.syntax.languages import language_of
    from gitlab_nightshift.verdict.syntax.parse import parse

    tokens = next((child for child in node.children if child.type == "token_tree"), None)
    rust = language_of("x.rs")
    if tokens is None or rust is None:
        return ()
    inside = (tokens.text or b"()")[1:-1]
    root = parse(rust, b"fn f() { m(" + inside + b"\n) }")
    for found in walk(root) if root else ():
        if found.type == "call_expression":
            given = field(found, "arguments")
            return tuple(kids(given)) if given else ()
    return ()


def binary(node: "Node") -> "tuple[str, Node, Node] | None":
    """Operator, left and right of a comparison or another binary expression."""
    node = bare(node)
    if "binary" not in node.type and node.type not in (
        "comparison_operator",
        "boolean_operator",
        "infix_expression",
        "equality_expression",
        "comparison_expression",
        "conjunction_expression",
        "disjunction_expression",
        "is_pattern_expression",
        "in_expression",
    ):
        return None
    parts = [child for child in node.children if child.type not in COMMENTS]
    if len(parts) < 3 or (node.type == "comparison_operator" and len(kids(node)) != 2):
        return None
    operator = " ".join(text(part) for part in parts[1:-1])
    return operator, parts[0], parts[-1]


def tokens(node: "Node") -> tuple[str, ...]:
    """The words of a piece of code without white space, comments and trailing commas."""
    found: list[str] = []
    stack = [node]
    while stack:
        current = stack.pop()
        if current.type in COMMENTS:
            continue
        if current.child_count and current.type not in STRINGS:
            stack.extend(reversed(current.children))
            continue
        word = text(current).strip()
        if current.type in STRINGS:
            word = word.replace("'", '"')
        if word in (")", "]", "}") and found and found[-1] == ",":
            found.pop()
        if word and word != ";":
            found.append(word)
    return tuple(found)


def names_in(node: "Node") -> frozenset[str]:
    """Every identifier in a piece of code."""
    return frozenset(
        text(each)
        for each in walk(node)
        if not each.child_count
        and each.is_named
        and (
            each.type.endswith("identifier")
            or each.type in ("constant", "name", "instance_variable")
        )
    )
