"""Assertions that are never reached, not waited for, or whose failure is hidden."""

import re
from collections.abc import Iterator, Sequence

from tree_sitter import Node

from gitlab_nightshift.verdict.flags.matched_tests import TestVersion
from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax.assertion import Assertion
from gitlab_nightshift.verdict.syntax.nodes import (
    CALLS,
    find_field,
    list_children,
    read_chain,
    read_line_number,
    read_text,
    walk,
)

_TABLE = RuleTable(__file__)
_TRIES = _TABLE.get_words("tries")


_BROAD_CATCH = _TABLE.get_pattern("broad_catch")


_SUPPRESSES = _TABLE.get_pattern("suppresses")
_LONGEST_BODY = 20_000


def find_swallowed_assertions(
    assertions: Sequence[Assertion], body: Node
) -> Iterator[tuple[str, int]]:
    """Assertions whose failure a handler around them hides."""
    lines = [a.line for a in assertions if a.word != "fail"]
    fails = [a.line for a in assertions if a.word == "fail"]
    for node in walk(body):
        for handler in _list_handlers(node):
            handled = _list_lines(handler)
            tried = _list_lines(find_field(node, "body") or node)
            bare = not re.search(r"[A-Z]\w+", read_text(handler).partition("{")[0])
            wanted = lines + fails if handler.type == "catch_clause" and bare else lines
            inside = [at for at in wanted if at in tried and at not in handled]
            again = any(at in handled for at in lines + fails)
            if inside and not again and _hides(handler):
                yield "a handler around it hides the failure of its assertion", inside[0]
        suppresses = node.type == "with_statement" and _SUPPRESSES.match(read_text(node)[:120])
        if suppresses and (inside := [at for at in lines if at in _list_lines(node)]):
            yield "suppress() around it hides the failure of its assertion", inside[0]


def _list_lines(node: Node) -> range:
    return range(read_line_number(node), node.end_point[0] + 2)


def _list_handlers(node: Node) -> list[Node]:
    if node.type not in _TRIES:
        return []
    return [
        child
        for child in node.named_children
        if child.type in ("except_clause", "catch_clause", "rescue", "catch_block")
    ]


def _hides(handler: Node) -> bool:
    code = read_text(handler)
    head, _, rest = (
        code.partition("\n") if handler.type in ("except_clause", "rescue") else code.partition("{")
    )
    if re.search(r"\b(raise|throw|fail|done|reject|next)\b", rest):
        return False
    typed = re.search(r"[A-Z]\w+", head)
    return not typed or bool(_BROAD_CATCH.search(head))


def find_empty_loops(version: TestVersion, body: Node) -> Iterator[tuple[str, int]]:
    """Assertions in a loop over nothing."""
    lines = {a.line for a in version.assertions}
    for node in walk(body):
        loops = (node.type in _LOOPS and _is_over_nothing(node, body)) or (
            node.type in CALLS and _is_each_of_nothing(node, body)
        )
        if loops and lines & set(_list_lines(node)):
            yield "its loop runs over nothing", read_line_number(node)


_LOOPS = frozenset("for_statement for_in_statement for enhanced_for_statement".split())
_NOTHING = _TABLE.get_pattern("nothing")


def _is_over_nothing(node: Node, body: Node) -> bool:
    over = find_field(node, "right", "value") or (
        list_children(node)[1] if len(list_children(node)) > 2 else None
    )
    if over is None:
        return False
    if over.type == "identifier":
        return _is_never_filled(read_text(over), body)
    return bool(_NOTHING.match(read_text(over)[:60]))


def _is_each_of_nothing(node: Node, body: Node) -> bool:
    looped = re.match(r"([^.]{1,40})\.(forEach|each|map|foreach)\b", read_text(node)[:60])
    if looped is None:
        return False
    return bool(_NOTHING.match(looped[1])) or _is_never_filled(looped[1], body)


def _is_never_filled(name: str, body: Node) -> bool:
    """A list that is made empty, and named once more only, where it is gone through."""
    code = read_text(body) if body.end_byte - body.start_byte < _LONGEST_BODY else ""
    word = re.escape(name)
    made = re.search(rf"\b{word}\b[^=\n]*=\s*([^;\n]+)", code)
    if made is None or not _NOTHING.match(made[1].strip()):
        return False
    return len(re.findall(rf"\b{word}\b", code)) == 2


def find_unawaited_assertions(_version: TestVersion, body: Node) -> Iterator[tuple[str, int]]:
    """Assertions on promises that nobody waits for; ``expect(x)`` without a matcher."""
    waits_for_callback = _takes_done(body)
    for node in walk(body):
        parent = node.parent
        if node.type not in ("call_expression", "member_expression") or parent is None:
            continue
        if parent.type == "expression_statement" and (
            why := _describe_missing_check(node)
            or ("" if waits_for_callback else _describe_late_assertion(node, body))
        ):
            yield why, read_line_number(node)


_NOBODY_WAITS = "nobody waits for its promise (await or return it)"


def _describe_missing_check(node: Node) -> str:
    """Why a statement with ``expect`` or ``assert`` checks nothing yet."""
    links = read_chain(node)
    names = [link.name for link in links]
    if names[0] == "assert":
        return _NOBODY_WAITS if names[-1] in ("rejects", "doesNotReject") else ""
    if names[0] != "expect":
        return ""
    if "resolves" in names or "rejects" in names:
        return _NOBODY_WAITS
    if node.type == "call_expression":
        return (
            "expect() without a matcher checks nothing" if len(links) == 1 and links[0].args else ""
        )
    return f"{names[-1]} is not called" if re.match(r"to[A-Z]", names[-1]) else ""


def _describe_late_assertion(node: Node, body: Node) -> str:
    """Why an assertion in a callback comes too late."""
    names = [link.name for link in read_chain(node)]
    if len(names) > 1 and names[-1] in ("then", "catch", "finally"):
        return _NOBODY_WAITS if re.search(r"\bexpect\(|\bassert\b", read_text(node)) else ""
    if names in (["setTimeout"], ["setImmediate"]) and "expect(" in read_text(node):
        waits = re.search(
            r"useFakeTimers|advanceTimers|runAllTimers|resolve|await", read_text(body)
        )
        return "" if waits else "the test ends before its assertion runs"
    return ""


def _takes_done(body: Node) -> bool:
    outer = body.parent if body.type == "statement_block" else body
    given = find_field(outer, "parameters", "parameter") if outer is not None else None
    return (
        given is not None and re.search(r"\b(done|cb|next|resolve)\b", read_text(given)) is not None
    )
