"""Syntax nodes in terms common to all languages; ``nodes.toml`` has the grammars' own names."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tree_sitter import Node

from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.languages import find_language, parse

_TABLE = RuleTable(__file__)

FUNCTIONS = _TABLE.get_words("functions")
LAMBDAS = _TABLE.get_words("lambdas")
CLASSES = _TABLE.get_words("classes")
COMMENTS = frozenset("comment line_comment block_comment multiline_comment".split())
STRINGS = _TABLE.get_words("strings")
LITERALS = STRINGS | _TABLE.get_words("literals")
CALLS = _TABLE.get_words("calls")
MEMBERS: dict[str, list[str]] = _TABLE.entries["members"]
_RECEIVERS = {"method_invocation": "object", "call": "receiver", "scoped_call_expression": "scope"}
_WRAPPERS = _TABLE.get_words("wrappers")
_BINARY = _TABLE.get_words("binary")
_ASSIGNMENTS = _TABLE.get_words("assignments")
# Nodes whose value is known only when they are executed.
_COMPUTED = CALLS | frozenset(
    "identifier attribute member_expression field_expression selector_expression await_expression"
    " expression_list field_access".split()
)
_VARIABLE_NAME = _TABLE.get_pattern("variable")
_NAME_TYPES = ("constant", "name", "instance_variable")  # Ruby's and PHP's
_LONGEST_CHAIN = 60  # links; hostile code may have thousands
_LONGEST_NAME = 2000  # bytes; longer code is no name
_LONGEST_RESOLVED = 500  # characters of code in which variables are still replaced


@dataclass(frozen=True)
class Link:
    """A part of ``a.b(1).c``: a name, its arguments if it is called, and its type arguments."""

    name: str
    args: tuple[Node, ...] | None = None
    types: str = ""


def read_text(node: Node | None) -> str:
    """The source of a node; invalid bytes are replaced."""
    return (node.text or b"").decode("utf-8", "replace") if node else ""


def read_on_one_line(node: Node) -> str:
    """The source of a node, with single spaces for all white space."""
    return " ".join(read_text(node).split())


def read_line_number(node: Node) -> int:
    """The line that a node starts on, from 1."""
    return node.start_point[0] + 1


def read_last_line_number(node: Node) -> int:
    """The line that a node ends on, from 1; one that ends with a line feed ends on that line."""
    row, column = node.end_point
    return row + 1 if column or row == node.start_point[0] else row


def list_line_numbers(node: Node) -> range:
    """The numbers of a node's lines, from 1."""
    return range(node.start_point[0] + 1, node.end_point[0] + 2)


def walk(node: Node, into: Callable[[Node], bool] | None = None) -> Iterator[Node]:
    """The node and all below it in source order; ``into`` decides whether to enter a node."""
    # No recursion: hostile code nests deeper than Python's limit.
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if into is None or current is node or into(current):
            stack.extend(reversed(current.named_children))


def list_enclosing(
    node: Node | None, most: int = 1000, *, including: bool = False
) -> Iterator[Node]:
    """The nodes around this one, the innermost first, at most ``most`` of them; with ``including``,
    the node itself comes first."""
    outer = node if node is None or including else node.parent
    # tree-sitter looks for each parent from the root (lib/src/node.c: ts_node_parent): unlimited,
    # deep nesting would cost quadratic time.
    for _ in range(most):
        if outer is None:
            return
        yield outer
        outer = outer.parent


def list_children(node: Node) -> list[Node]:
    """The named children, without comments."""
    return [child for child in node.named_children if child.type not in COMMENTS]


def find_field(node: Node, *names: str) -> Node | None:
    """The child in the first of these fields that the node has."""
    for name in names:
        if child := node.child_by_field_name(name):
            return child
    return None


def unwrap_node(node: Node) -> Node:
    """The node inside parentheses, ``await`` and other wrappers."""
    for _ in range(_LONGEST_CHAIN):
        children = list_children(node) if node.type in _WRAPPERS else []
        if not children:
            return node
        node = find_field(node, "function") or children[0]
    return node


def read_chain(node: Node) -> tuple[Link, ...]:
    """The links of a chain such as ``expect(a).not.toBe(3)``, from the left."""
    links: list[Link] = []
    current: Node | None = unwrap_node(node)
    for _ in range(_LONGEST_CHAIN):
        if current is None:
            break
        first_new, is_generic = len(links), current.type == "generic_function"
        types = read_text(find_field(current, "type_arguments")).strip("[]") if is_generic else ""
        current = _add_links(unwrap_node(current), links)
        if types and len(links) > first_new and not links[first_new].types:
            links[first_new] = replace(links[first_new], types=types)
    return tuple(reversed(links))


def _add_links(node: Node, links: list[Link]) -> Node | None:
    """Append the links of a node from the right, and return the node to their left."""
    kind = node.type
    if kind in ("infix_expression", "binary_operator_call") and len(list_children(node)) >= 3:
        left, name, right = list_children(node)[:3]
        links.append(Link(read_text(name), (right,)))
        return left
    if kind == "macro_invocation":
        links.append(Link(read_text(find_field(node, "macro")) + "!", parse_macro_arguments(node)))
        return None
    if kind in CALLS:
        return _add_call_links(node, links)
    index = find_field(node, "index") if kind == "subscript_expression" else None
    if index is not None and index.type in STRINGS:
        links.append(Link(read_text(index).strip("\"'`")))
        return find_field(node, "object")
    if kind in MEMBERS:
        owner, member = (find_field(node, field) if field else None for field in MEMBERS[kind])
        children = list_children(node)
        if member is None and len(children) > 1:  # a grammar without fields, such as Kotlin's
            owner, member = children[0], children[-1]
        links.append(Link(read_text(member)))
        return owner
    is_short = node.end_byte - node.start_byte < _LONGEST_NAME
    links.append(Link(read_text(node) if is_short else ""))
    return None


def _add_call_links(node: Node, links: list[Link]) -> Node | None:
    args = list_arguments(node)
    if method := find_field(node, "name", "method"):
        links.append(Link(read_text(method), args))
        return find_field(node, _RECEIVERS.get(node.type, "object"), "object")
    callee = find_field(node, "function") or next(iter(list_children(node)), None)
    if callee is None:
        return None
    types = read_text(find_field(callee, "type_arguments"))
    callee = unwrap_node(callee)
    if callee.type in CALLS:
        links.append(Link("", args))
        return callee
    first_new = len(links)
    left = _add_links(callee, links)
    if len(links) > first_new:
        name, _, generic = links[first_new].name.partition("<")
        links[first_new] = Link(name, args, types.strip("[]") or generic.strip("<>"))
    return left


def list_arguments(node: Node) -> tuple[Node, ...]:
    """The arguments of a call, then its block or trailing lambda."""
    if node.type == "macro_invocation":
        return parse_macro_arguments(node)
    field = find_field(node, "arguments")
    args: list[Node] = []
    if field is not None:
        is_argument = field.type in ("block", "template_string", "case_block")
        args = [field] if is_argument else list_children(field)
    for child in node.named_children:
        if child.type in ("value_arguments", "call_suffix", "annotated_lambda"):
            args += list_children(child)
        elif child.type in ("lambda_literal", "do_block", "block") and child != field:
            args.append(child)
    wrappers = ("argument", "value_argument")
    return tuple(unwrap_node(arg) if arg.type in wrappers else arg for arg in args)


def parse_macro_arguments(node: Node) -> tuple[Node, ...]:
    """The arguments of a Rust macro. Its grammar has only tokens, so these are parsed again as the
    arguments of a call."""
    tokens = next((child for child in node.children if child.type == "token_tree"), None)
    rust = find_language("x.rs")
    if tokens is None or rust is None:
        return ()
    inside = (tokens.text or b"()")[1:-1]
    root = parse(rust, b"fn f() { m(" + inside + b"\n) }")
    for call in walk(root) if root else ():
        if call.type == "call_expression":
            arguments = find_field(call, "arguments")
            return tuple(list_children(arguments)) if arguments else ()
    return ()


def split_binary(node: Node) -> tuple[str, Node, Node] | None:
    """Operator, left and right side of a binary expression."""
    node = unwrap_node(node)
    if "binary" not in node.type and node.type not in _BINARY:
        return None
    parts = [child for child in node.children if child.type not in COMMENTS]
    # Python's ``a < b < c`` is one node with three operands.
    if len(parts) < 3 or (node.type == "comparison_operator" and len(list_children(node)) != 2):
        return None
    operator = " ".join(read_text(part) for part in parts[1:-1])
    return operator, parts[0], parts[-1]


def list_tokens(node: Node) -> tuple[str, ...]:
    """The tokens of a piece of code, without comments, semicolons and trailing commas; all quotes
    are double."""
    tokens: list[str] = []
    stack = [node]
    while stack:
        current = stack.pop()
        if current.type in COMMENTS:
            continue
        if current.child_count and current.type not in STRINGS:
            stack.extend(reversed(current.children))
            continue
        text = read_text(current).strip()
        if current.type in STRINGS:
            text = text.replace("'", '"')
        if text in (")", "]", "}") and tokens and tokens[-1] == ",":
            tokens.pop()
        if text and text != ";":
            tokens.append(text)
    return tuple(tokens)


def list_names(node: Node) -> frozenset[str]:
    """All identifiers in a piece of code."""
    return frozenset(
        read_text(leaf)
        for leaf in walk(node)
        if not leaf.child_count
        and leaf.is_named
        and (leaf.type.endswith("identifier") or leaf.type in _NAME_TYPES)
    )


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
    values: dict[str, str] = {}
    excluded: set[str] = set()
    for inner in walk(node):
        if assignment := read_assignment(inner):
            target, value = assignment
            name = read_text(target)
            if name in values or unwrap_node(value).type not in _COMPUTED:
                excluded.add(name)
            values[name] = read_text(value)
    return {name: value for name, value in values.items() if name not in excluded}


def resolve_variables(code: str, values: dict[str, str]) -> str:
    """A piece of code with variables replaced by their values, twice: values may have variables."""
    for _ in range(2):
        if len(code) > _LONGEST_RESOLVED:
            break
        code = _VARIABLE_NAME.sub(lambda match: values.get(match[0], match[0]), code)
    return code
