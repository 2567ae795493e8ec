"""Assertions that are never reached, not waited for, or whose failure is hidden."""

import re
from collections.abc import Iterator, Sequence

from tree_sitter import Node

from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.assertion import Assertion
from gitlab_nightshift.proof.syntax.called_tests import find_iterated_node
from gitlab_nightshift.proof.syntax.nodes import (
    find_field,
    read_chain,
    read_line_number,
    read_text,
    walk,
)

_TABLE = RuleTable(__file__)
_TRIES = _TABLE.get_words("tries")
_BROAD_CATCH = _TABLE.get_pattern("broad_catch")
_SUPPRESSES = _TABLE.get_pattern("suppresses")
_NOTHING = _TABLE.get_pattern("nothing")
_HANDLERS = ("except_clause", "catch_clause", "rescue", "catch_block")
_LONGEST_BODY = 20_000
_PROMISES = frozenset(("resolves", "rejects", "doesNotReject"))


def find_unreached_assertions(
    assertions: Sequence[Assertion], body: Node, *, in_script: bool
) -> Iterator[tuple[str, int]]:
    """Why assertions cannot fail a test, and their lines. ``in_script``: JavaScript."""
    lines = {a.line for a in assertions if a.word != "fail"}
    fails = {a.line for a in assertions} - lines
    for node in walk(body):
        over = find_iterated_node(node)
        if node.type in _TRIES:
            yield from _find_swallowed(node, lines, fails)
        elif node.type == "with_statement" and _SUPPRESSES.match(read_text(node)[:120]):
            hidden = "suppress() around it hides the failure of its assertion"
            yield from ((hidden, line) for line in sorted(lines & {*_list_lines(node)})[:1])
        elif over is not None and _is_nothing(over, body):
            if (lines | fails) & {*_list_lines(node)}:
                yield "its loop runs over nothing", read_line_number(node)
        elif in_script and _is_promise(node) and not _takes_done(body):
            yield "nobody waits for its promise (await or return it)", read_line_number(node)


def _find_swallowed(node: Node, lines: set[int], fails: set[int]) -> Iterator[tuple[str, int]]:
    """Assertions whose failure a handler around them hides."""
    tried = {*_list_lines(find_field(node, "body") or node)}
    for handler in node.named_children:
        handled = {*_list_lines(handler)}
        if handler.type not in _HANDLERS or handled & (lines | fails) or not _hides(handler):
            continue
        bare = not re.search(r"[A-Z]\w+", read_text(handler).partition("{")[0])
        wanted = lines | fails if handler.type == "catch_clause" and bare else lines
        for line in sorted((wanted & tried) - handled)[:1]:
            yield "a handler around it hides the failure of its assertion", line


def _list_lines(node: Node) -> range:
    return range(read_line_number(node), node.end_point[0] + 2)


def _hides(handler: Node) -> bool:
    """It catches what assertions throw, and goes on as if nothing were."""
    sign = "\n" if handler.type in ("except_clause", "rescue") else "{"
    head, _, rest = read_text(handler).partition(sign)
    if re.search(r"\b(raise|throw|fail|done|reject|next)\b", rest):
        return False
    return not re.search(r"[A-Z]\w+", head) or bool(_BROAD_CATCH.search(head))


def _is_nothing(over: Node, body: Node) -> bool:
    """An empty list, or one that is made empty, and named once more only, where it is used."""
    said = read_text(over)
    if not said.isidentifier() or body.end_byte - body.start_byte > _LONGEST_BODY:
        return _NOTHING.match(said[:60]) is not None
    code = read_text(body)
    made = re.search(rf"\b{said}\b[^=\n]*=\s*([^;\n]+)", code)
    empty = made is not None and _NOTHING.match(made[1].strip())
    return bool(empty) and len(re.findall(rf"\b{said}\b", code)) == 2


def _is_promise(node: Node) -> bool:
    """A statement whose assertion comes later: ``expect(x).rejects…``, ``f().then(expect…)``."""
    parent = node.parent
    if node.type != "call_expression" or parent is None or parent.type != "expression_statement":
        return False
    names = [link.name for link in read_chain(node)]
    if names[0] in ("assert", "expect"):
        return bool(_PROMISES.intersection(names))
    later = len(names) > 1 and names[-1] in ("then", "catch", "finally")
    return later and re.search(r"\bexpect\(|\bassert\b", read_text(node)) is not None


def _takes_done(body: Node) -> bool:
    outer = body.parent if body.type == "statement_block" else body
    given = find_field(outer, "parameters", "parameter") if outer is not None else None
    return re.search(r"\b(done|cb|next|resolve)\b", read_text(given)) is not None
