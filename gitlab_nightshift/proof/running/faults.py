"""A fault that can be planted in a function, permanently on or behind a switch; the templates of
its code, which are in the ``faults.toml`` of each language; and the places where it may be planted.

A ``code_with_switch`` has markers that cannot occur in source code: ``KEPT`` for the replaced code,
so that faults nest; ``SWITCH`` for an expression that is true while the fault is on; ``TEXT`` for
one that is "~" while it is on, else "".
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from tree_sitter import Node

from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.definitions import Function
from gitlab_nightshift.proof.syntax.file_side import Side
from gitlab_nightshift.proof.syntax.languages import read_language_table
from gitlab_nightshift.proof.syntax.nodes import (
    CALLS,
    FUNCTIONS,
    LAMBDAS,
    find_field,
    list_children,
    read_chain,
    read_text,
    walk,
)

KEPT = "\0kept\0"
SWITCH = "\0switch\0"
TEXT = "\0text\0"
_LONGEST_SHOWN = 60
_PLACEHOLDER = re.compile(r"\{(switch|text|kept|next)\}")


@dataclass(frozen=True)
class Fault:
    """A fault in a function, which replaces the bytes ``start`` to ``end`` of the original file.

    ``path`` is raw, ``line`` counts from 1, ``what`` describes the fault for people, ``function``
    is the qualified name of the function around it. ``code_without_switch`` replaces the bytes if
    the fault is permanently on; ``code_with_switch`` has the markers of this module, and is "" if
    the language has no switches. ``by_value``: a value or a decision is wrong, so an assertion
    likely fails; otherwise an exception is likely.
    """

    path: str
    line: int
    what: str
    function: str
    start: int
    end: int
    code_without_switch: str
    code_with_switch: str
    by_value: bool


@dataclass(frozen=True)
class Mutation:
    """A node and its replacement, whose fields are those of ``Fault``."""

    node: Node
    what: str
    code_without_switch: str
    code_with_switch: str
    by_value: bool


@dataclass(frozen=True)
class FaultTemplates:
    """The templates of a language, explained in ``languages/README.md``; one is "" if the language
    lacks that kind of fault."""

    on: str
    condition: str
    comparison: str = ""
    boolean: str = ""
    literal: str = ""
    number: str = ""
    int_siblings: str = ""
    int_parents: str = ""
    text: str = ""
    text_on: str = '"~"'
    call: str = ""
    assignment: str = ""
    raising: str = ""
    nothing: str = ""
    types: Sequence[tuple[str, str]] = ()
    empty_by_node: Mapping[str, str] = field(default_factory=dict)
    primitive: str = "-"
    zero_value: str = ""
    zero_pattern: str = ""
    usable_zero_types: str = ""
    zero_return: str = ""
    implicit_return: bool = False
    boolean_connectives: bool = False


@cache
def read_templates(language: str) -> FaultTemplates | None:
    """The templates of a language by its name; None without a table for it."""
    table = read_language_table(language, "faults")
    return FaultTemplates(**table) if table else None


def mutate(
    node: Node,
    what: str,
    template: str,
    templates: FaultTemplates,
    *,
    by_value: bool = True,
    other: str = "",
) -> Mutation:
    """Apply a template of a language to a node. ``what`` describes the fault, behind the node's
    code; ``other`` is inserted for ``{next}``."""
    kept = read_text(node)
    on = {"switch": templates.on, "text": templates.text_on, "kept": kept, "next": other}
    markers = {"switch": SWITCH, "text": TEXT, "kept": KEPT, "next": other}
    without_switch = _PLACEHOLDER.sub(lambda match: on[match[1]], template)
    with_switch = _PLACEHOLDER.sub(lambda match: markers[match[1]], template)
    code = " ".join(kept.split())
    excerpt = code if len(code) <= _LONGEST_SHOWN else f"{code[:_LONGEST_SHOWN]}…"
    return Mutation(node, f"`{excerpt}` {what}", without_switch, with_switch, by_value)


def move_fault(fault: Fault, before: Side, after: Side) -> Fault | None:
    """The same fault in another version of the file; None if its function is gone, was changed, or
    occurs twice."""
    function = next((each for each in before.functions if _contains_fault(each, fault)), None)
    if function is None:
        return None
    same = [each for each in after.functions if _is_same(each, function)]
    if len(same) != 1 or sum(_is_same(each, function) for each in before.functions) != 1:
        return None
    offset = same[0].node.start_byte - function.node.start_byte
    line = fault.line + same[0].node.start_point[0] - function.node.start_point[0]
    start, end = fault.start + offset, fault.end + offset
    return replace(fault, path=after.path, line=line, start=start, end=end)


def _contains_fault(function: Function, fault: Fault) -> bool:
    node = function.node
    return (
        not function.is_class
        and function.qualified == fault.function
        and node.start_byte <= fault.start
        and fault.end <= node.end_byte
    )


def _is_same(function: Function, other: Function) -> bool:
    return (
        function.qualified == other.qualified
        and function.marks == other.marks
        and function.node.text == other.node.text
    )


# --- where faults may be planted ------------------------------------------------------------------


# Not in messages for people, declarations, imports or dead code, and not in the conditions of
# loops, which might then not end.
TABLE = RuleTable(__file__)
BLOCKS = TABLE.get_words("blocks")
BRANCHES = TABLE.get_words("branches")
RAISING = TABLE.get_words("raising")
PARENTHESES = TABLE.get_words("parentheses")
TEXTS = TABLE.get_words("texts")
INTERPOLATIONS = TABLE.get_words("interpolations")
_SKIPPED = TABLE.get_words("skipped")
_LOOPS = TABLE.get_words("loops")
_ENDS = TABLE.get_words("ends")
_KEYED_VALUES = TABLE.get_words("keyed")
_MESSAGES = TABLE.get_pattern("messages")
_ERRORS = TABLE.get_pattern("errors")
_MESSAGE_NAMES = TABLE.get_pattern("message_names")
_MESSAGE_FUNCTIONS = TABLE.get_pattern("message_functions")
_NEVER_TAKEN = TABLE.get_pattern("never_taken")
_CREATED = frozenset(("new_expression", "object_creation_expression", "instance_expression"))
_NAMED_VALUES = frozenset(
    "assignment variable_declarator short_var_declaration let_declaration val_definition".split()
)
# Nodes that a return statement leaves. In Ruby it leaves the method around a block.
_FUNCTION_NODES = (LAMBDAS | FUNCTIONS) - {"block", "do_block", "case_block"}
_DEEPEST_NODE = 150  # depth of nodes: a chain of thousands of operators would take minutes
_RUST_MESSAGE_TRAITS = ("Debug", "Display")  # traits whose functions build messages
_LOCALS = ("local_variable_declaration", "local_declaration_statement")
_CONSTANT_WORDS = frozenset(("final", "const"))


@dataclass(frozen=True)
class Place:
    """A node that a fault may change. ``looping``: it is inside a loop that ends by a condition.
    ``owner`` is the innermost function or lambda around it, ``depth`` the number of levels in the
    function. ``counted`` are the names in the headers of the function's loops."""

    node: Node
    looping: bool
    owner: Node
    depth: int
    counted: frozenset[str]


def is_excluded(side: Side, function: Function) -> bool:
    """True for classes, tests, and functions that build messages, and in Rust for ``const`` and
    ``unsafe`` functions."""
    marks = " ".join([*function.marks, *(mark for each in function.outer for mark in each.marks)])
    in_tests = any(each.node.type == "mod_item" and each.name == "tests" for each in function.outer)
    test_marks = side.language.test_marks if side.language is not None else None
    # A const function runs while compiling, without the environment that has the switches.
    modifiers = (read_text(each) for each in function.node.children if "modifiers" in each.type)
    words = {*" ".join(modifiers).split()} if function.node.type == "function_item" else set()
    return (
        function.is_class
        or function.body is None
        or in_tests
        or "cfg(test)" in marks
        or bool(test_marks and any(map(test_marks.search, function.marks)))
        or _MESSAGE_FUNCTIONS.search(function.name) is not None
        or any(each.name.split()[-1] in _RUST_MESSAGE_TRAITS for each in function.outer)
        or bool({"const", "unsafe"} & words)
    )


def list_places(function: Function) -> Iterator[Place]:
    """The nodes of a function's body in source order."""
    if function.body is None:
        return
    owner = function.body if function.body.type in _FUNCTION_NODES else function.node
    loops = (each for each in walk(function.body) if _is_loop(each))
    headers = (read_text(each).split("\n")[0].split("{")[0] for each in loops)
    counted = frozenset(name for header in headers for name in re.findall(r"\w+", header))
    stack = [Place(function.body, False, owner, 0, counted)]
    while stack:
        # Not walk(): whether a node is entered depends on the nodes around it.
        place = stack.pop()
        node = place.node
        yield place
        if place.depth < _DEEPEST_NODE:
            looping = place.looping or (_is_loop(node) and not _has_counter(node))
            for child in reversed(_list_mutable_children(node)):
                owner = child if child.type in _FUNCTION_NODES else place.owner
                stack.append(Place(child, looping, owner, place.depth + 1, place.counted))


def _is_loop(node: Node) -> bool:
    """True for a loop that ends by a condition, not at the end of a collection."""
    if node.type != "for_statement":
        return node.type in _LOOPS
    return not any(child.type in ("in", "range_clause") for child in node.children)


def _has_counter(loop: Node) -> bool:
    """True for a loop that updates a counter in its header."""
    header = next((each for each in loop.children if each.type == "for_clause"), loop)
    return find_field(header, "increment", "update") is not None


def is_message(node: Node) -> bool:
    """True for a call that prints a message for people, or builds an error."""
    if node.type in _CREATED:
        created = find_field(node, "constructor", "type") or next(iter(list_children(node)), None)
        return _ERRORS.search(read_text(created)) is not None
    names = [link.name.rstrip("!") for link in read_chain(node)] if node.type in CALLS else []
    return (
        any(_MESSAGES.search(name) for name in names)
        or names[:1] == ["errors"]
        or _ERRORS.search("".join(names[-1:])) is not None
    )


def _list_mutable_children(node: Node) -> list[Node]:
    """The children in which faults may be planted."""
    children = [each for each in list_children(node) if each.type not in _SKIPPED]
    if is_message(node) or _is_for_people(node) or node.type in RAISING:
        return []
    if node.type in _LOCALS:
        modifiers = " ".join(read_text(each) for each in node.children if "modifier" in each.type)
        children = [] if _CONSTANT_WORDS & {*modifiers.split()} else children
    if node.type in TEXTS:
        return [each for each in children if each.type in TEXTS or each.type in INTERPOLATIONS]
    if _is_loop(node):
        return [find_field(node, "body") or children[-1]] if children else []
    if node.type in _KEYED_VALUES:
        return children[1:]
    if is_never_taken(node):
        return [each for each in children if each == find_field(node, "alternative")]
    return _drop_dead_code(children) if node.type in BLOCKS else children


def _is_for_people(node: Node) -> bool:
    """True for a named value that is a message for people, by its name."""
    if node.type not in _KEYED_VALUES | _NAMED_VALUES:
        return False
    name = find_field(node, "name", "key", "left", "pattern") or node.named_child(0)
    return _MESSAGE_NAMES.search(read_text(name).strip("\"'`: ")) is not None


def _drop_dead_code(statements: list[Node]) -> list[Node]:
    """The statements up to the first one that ends the block."""
    for number, statement in enumerate(statements, 1):
        children = list_children(statement)
        wraps = statement.type == "expression_statement" and len(children) == 1
        if (children[0] if wraps else statement).type in _ENDS:
            return statements[:number]
    return statements


def find_condition(branch: Node) -> Node | None:
    """The condition of a branch, without parentheses."""
    condition = find_field(branch, "condition")
    if condition is None and branch.type in ("conditional_expression", "if_clause"):
        children = list_children(branch)
        index = 1 if branch.type == "conditional_expression" else 0
        condition = children[index] if len(children) > index else None
    return unwrap_parentheses(condition) if condition else None


def is_never_taken(branch: Node) -> bool:
    """True for a branch that no test takes, by its condition, such as ``__name__ == …``."""
    return branch.type in BRANCHES and bool(_NEVER_TAKEN.search(read_text(find_condition(branch))))


def unwrap_parentheses(node: Node) -> Node:
    """The node inside parentheses."""
    while node.type in PARENTHESES and len(inner := list_children(node)) == 1:
        node = inner[0]
    return node
