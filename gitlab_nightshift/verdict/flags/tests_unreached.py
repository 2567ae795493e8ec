"""Assertions that are never reached, not waited for, or whose failure is hidden."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.flags.tests_seen import Seen
from gitlab_nightshift.verdict.syntax.nodes import CALLS, chain, field, kids, line, text, walk

if TYPE_CHECKING:
    from tree_sitter import Node


_BROAD_CATCH = re.compile(
    r"\b(AssertionError|AssertionFailedError|Exception|BaseException|Throwable|Error|StandardError"
    r"|ExpectationNotMetError|Minitest::Assertion|TestFailedException|NonFatal)\b"
)


_LONGEST_BODY = 20_000


def swallowed(seen: Seen, body: "Node") -> Iterator[tuple[str, int]]:
    """Assertions whose failure a handler around them hides."""
    lines = [a.line for a in seen.assertions if a.word not in ("fail", "succeeds")]
    fails = [a.line for a in seen.assertions if a.word == "fail"]
    for node in walk(body):
        for handler in _handlers(node):
            tried = field(node, "body") or node
            first, last = line(tried), tried.end_point[0] + 1
            inside = [
                at
                for at in lines
                if first <= at <= last and not line(handler) <= at <= handler.end_point[0] + 1
            ]
            again = [at for at in lines + fails if line(handler) <= at <= handler.end_point[0] + 1]
            if inside and not again and _hides(handler):
                yield "a handler around it hides the failure of its assertion", inside[0]
        if node.type in ("with_statement",) and re.match(
            r"with (contextlib\.)?suppress\([^)]*(AssertionError|Exception|BaseException)\b",
            text(node)[:120],
        ):
            inside = [at for at in lines if line(node) <= at <= node.end_point[0] + 1]
            if inside:
                yield "suppress() around it hides the failure of its assertion", inside[0]


def _handlers(node: "Node") -> "list[Node]":
    if node.type not in (
        "try_statement",
        "try_expression",
        "begin",
        "body_statement",
        "do_block",
        "try_with_resources_statement",
    ):
        return []
    return [
        child
        for child in node.named_children
        if child.type in ("except_clause", "catch_clause", "rescue", "catch_block")
    ]


def _hides(handler: "Node") -> bool:
    code = text(handler)
    head, _, rest = (
        code.partition("\n") if handler.type in ("except_clause", "rescue") else code.partition("{")
    )
    if re.search(r"\b(raise|throw|fail|done|reject|next)\b", rest):
        return False
    typed = re.search(r"[A-Z]\w+", head)
    return not typed or bool(_BROAD_CATCH.search(head))


def not_reached(seen: Seen, body: "Node") -> Iterator[tuple[str, int]]:
    """Assertions in a loop over nothing."""
    lines = {a.line for a in seen.assertions}
    for node in walk(body):
        loops = (node.type in _LOOPS and _is_over_nothing(node, body)) or (
            node.type in CALLS and _is_each_of_nothing(node, body)
        )
        if loops and lines & set(range(line(node), node.end_point[0] + 2)):
            yield "its loop runs over nothing", line(node)


_LOOPS = frozenset("for_statement for_in_statement for enhanced_for_statement".split())
_NOTHING = re.compile(
    r"(\[\]|\(\)|\{\}|range\(0\)|set\(\)|dict\(\)|list\(\)|List\.of\(\)|List\(\)|Array\(0\)"
    r"|new \w+\[\]|new ArrayList<>\(\)|Collections\.emptyList\(\)|vec!\[\]|Nil)$"
)


def _is_over_nothing(node: "Node", body: "Node") -> bool:
    over = field(node, "right", "value") or (kids(node)[1] if len(kids(node)) > 2 else None)
    if over is None:
        return False
    if over.type == "identifier":
        return _is_never_filled(text(over), body)
    return bool(_NOTHING.match(text(over)[:60]))


def _is_each_of_nothing(node: "Node", body: "Node") -> bool:
    looped = re.match(r"([^.]{1,40})\.(forEach|each|map|foreach)\b", text(node)[:60])
    if looped is None:
        return False
    return bool(_NOTHING.match(looped[1])) or _is_never_filled(looped[1], body)


def _is_never_filled(name: str, body: "Node") -> bool:
    """A list that is made empty, and named once more only, where it is gone through."""
    code = text(body) if body.end_byte - body.start_byte < _LONGEST_BODY else ""
    word = re.escape(name)
    made = re.search(rf"\b{word}\b[^=\n]*=\s*([^;\n]+)", code)
    if made is None or not _NOTHING.match(made[1].strip()):
        return False
    return len(re.findall(rf"\b{word}\b", code)) == 2


def not_awaited(_seen: Seen, body: "Node") -> Iterator[tuple[str, int]]:
    """Assertions on promises that nobody waits for; ``expect(x)`` without a matcher."""
    waits_for_callback = _takes_done(body)
    for node in walk(body):
        parent = node.parent
        if node.type not in ("call_expression", "member_expression") or parent is None:
            continue
        if parent.type == "expression_statement" and (
            why := _unchecked(node) or ("" if waits_for_callback else _unawaited(node, body))
        ):
            yield why, line(node)


_NOBODY_WAITS = "nobody waits for its promise (await or return it)"


def _unchecked(node: "Node") -> str:
    """Why a statement with ``expect`` or ``assert`` checks nothing yet."""
    links = chain(node)
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


def _unawaited(node: "Node", body: "Node") -> str:
    """Why an assertion in a callback comes too late."""
    names = [link.name for link in chain(node)]
    if len(names) > 1 and names[-1] in ("then", "catch", "finally"):
        return _NOBODY_WAITS if re.search(r"\bexpect\(|\bassert\b", text(node)) else ""
    if names in (["setTimeout"], ["setImmediate"]) and "expect(" in text(node):
        waits = re.search(r"useFakeTimers|advanceTimers|runAllTimers|resolve|await", text(body))
        return "" if waits else "the test ends before its assertion runs"
    return ""


def _takes_done(body: "Node") -> bool:
    outer = body.parent if body.type == "statement_block" else body
    given = field(outer, "parameters", "parameter") if outer is not None else None
    return given is not None and re.search(r"\b(done|cb|next|resolve)\b", text(given)) is not None
