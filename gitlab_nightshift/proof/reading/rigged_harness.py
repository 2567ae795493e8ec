"""test-cannot-fail, beside the tests: code that sets outcomes or exit statuses, or makes everything
equal."""

import re
from collections import Counter
from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.proof.reviewed_change import Changeset, RuleViolation, take
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.proof.syntax.nodes import (
    CALLS,
    LAMBDAS,
    LITERALS,
    Link,
    find_field,
    list_arguments,
    list_children,
    list_tokens,
    read_assignment,
    read_chain,
    read_line_number,
    read_on_one_line,
    read_text,
    unwrap_node,
    walk,
)
from gitlab_nightshift.text.printable_text import format_excerpt

_TABLE = RuleTable(__file__)
_OUTCOMES = _TABLE.get_words("outcomes")
_ENDS = _TABLE.get_words("ends")
_EQUALITY = _TABLE.get_words("equality")
_COMPARES = _TABLE.get_pattern("compares", re.IGNORECASE)
_HARNESS = _TABLE.get_pattern("harness", re.IGNORECASE)
_ALWAYS_EQUAL = frozenset("true True 0 Ordering::Equal".split())
_RETURNS = frozenset("return_statement return return_expression block statement_block".split())
_Found = tuple[str, Node]  # what is wrong with a piece of code, and the code


def find_rigged_harness(change: Changeset) -> Iterator[RuleViolation]:
    """Code added beside the tests that decides their result itself."""
    for file in change.files:
        old, new = read_sides(file)
        if new.is_product:
            continue
        known = Counter((why, *list_tokens(node)) for why, node in _list_rigged(old))
        for why, node in _list_rigged(new):
            if not take(known, (why, *list_tokens(node))):
                excerpt = format_excerpt(read_on_one_line(node))
                yield RuleViolation(file.path, read_line_number(node), f"{why}: {excerpt}")


def find_constant_equality(side: Side) -> Iterator[Node]:
    """Equality methods, and comparators passed as arguments, that hold for all values."""
    for each in side.functions:
        if each.name in _EQUALITY and each.body is not None and _is_constant(each.body):
            yield each.node
    for node in side.walk():
        links = read_chain(node) if node.type in CALLS else ()
        if links and _COMPARES.search(links[-1].name):
            passed = (inner for arg in list_arguments(node) for inner in walk(arg))
            lambdas = (each for each in passed if each.type in LAMBDAS)
            yield from (each for each in lambdas if _is_constant(find_field(each, "body")))


def _list_rigged(side: Side) -> Iterator[_Found]:
    for node in find_constant_equality(side):
        yield "Everything is equal by this", node
    if not (side.tests or _HARNESS.search(side.path)):
        return
    for node in side.walk():
        pair = read_assignment(node)
        if pair and _sets_outcome(*pair):
            yield "The tests' outcome is set here", node
        elif node.type in CALLS and _ends_green(read_chain(node)):
            yield "The test run ends with success here", node


def _sets_outcome(target: Node, value: Node) -> bool:
    """``report.outcome = "passed"``, ``process.exitCode = 0``, or several at once."""
    targets, values = (
        list_children(each) if "list" in each.type or "tuple" in each.type else [each]
        for each in (target, value)
    )
    return any(
        unwrap_node(given).type in LITERALS
        and len(links := read_chain(place)) > 1
        and links[-1].name in _OUTCOMES
        for place, given in zip(targets, values, strict=False)
    )


def _ends_green(links: tuple[Link, ...]) -> bool:
    """``os.Exit(0)``, ``process.exit()``, ``System.exit(0)``."""
    args = links[-1].args if links else None
    if args is None or ".".join(link.name for link in links) not in _ENDS:
        return False
    return "".join(map(read_text, args)) in ("0", "")


def _is_constant(body: Node | None) -> bool:
    for _ in range(4):  # a block in a block, a return, its value
        if body is None:
            return False
        inside = list_children(body)
        if body.type not in _RETURNS or len(inside) != 1:
            break
        body = inside[0]
    return read_text(body) in _ALWAYS_EQUAL
