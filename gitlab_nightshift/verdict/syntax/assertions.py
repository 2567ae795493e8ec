"""Assertions: what a test demands of its subject, and how strongly."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.syntax.asserting import (
    GO_FAILS,
    assert_at,
    assertion_function,
    go_failure,
    is_go_test,
)
from gitlab_nightshift.verdict.syntax.assertion import (
    Assertion,
    Helpers,
    bare_condition,
    made,
    texts,
)
from gitlab_nightshift.verdict.syntax.languages import Language
from gitlab_nightshift.verdict.syntax.matchers import FLUENT, fluent, left_of, matcher, should_at
from gitlab_nightshift.verdict.syntax.nodes import (
    CALLS,
    LAMBDAS,
    Link,
    arguments,
    bare,
    chain,
    field,
    kids,
    text,
)
from gitlab_nightshift.verdict.syntax.words import (
    CLOSE,
    EXACT,
    PARTIAL,
    PRESENT,
    TRUTHY,
    normal,
)

if TYPE_CHECKING:
    from tree_sitter import Node


_CALLED = frozenset(
    "verify verifynomoreinteractions verifyzerointeractions verifynointeractions".split()
)
_FAILS = frozenset("fail flunk unreachable! panic! failnow".split())


def assertions_of(
    body: "Node", language: Language, helpers: Helpers | None = None
) -> tuple[Assertion, ...]:
    """Every assertion in a piece of code, in the order of the text."""
    found: list[Assertion] = []
    stack = [body]
    while stack:
        node = stack.pop()
        made = tuple(_recognize(node, language, helpers or {}))
        found += made
        if made and node.type in CALLS:
            stack.extend(reversed(_inside(node)))
        elif not made or node.type not in ("assert_statement",):
            stack.extend(reversed(node.named_children))
    return tuple(found)


def _inside(node: "Node") -> "list[Node]":
    """Functions among all arguments of a chain: they may assert as well."""
    found: list[Node] = []
    current = node
    for _ in range(40):
        found += [arg for arg in arguments(current) if arg.type in LAMBDAS or arg.type == "block"]
        found += [
            inner
            for arg in arguments(current)
            if arg.type in CALLS
            for inner in arguments(arg)
            if inner.type in LAMBDAS
        ]
        inside = field(
            current, "function", "object", "receiver", "left", "expression", "value", "operand"
        )
        if inside is None:
            break
        current = bare(inside)
    return found


def _recognize(node: "Node", language: Language, helpers: Helpers) -> Iterator[Assertion]:
    kind = node.type
    if kind == "assert_statement":
        yield from bare_condition(node, kids(node)[:1])
    elif kind in CALLS:
        yield from _call(node, language, helpers)
    elif kind in ("member_expression", "field_expression") and _is_statement(node):
        yield from fluent(node, chain(node))
    elif kind in ("throw_statement", "raise_statement") and not _in_function_argument(node):
        yield made(node, "fail", TRUTHY, (), ())
    elif kind == "identifier" and language.name == "ruby" and text(node) in helpers:
        yield made(node, "helper", helpers[text(node)], (), ())


_STATEMENTS = frozenset(
    "expression_statement block body_statement block_body template_body indented_block"
    " await_expression arrow_function".split()
)


def _is_statement(node: "Node") -> bool:
    parent = node.parent
    return parent is not None and parent.type in _STATEMENTS


def _in_function_argument(node: "Node") -> bool:
    """True inside a function that is passed on: a stub that throws asserts nothing."""
    current = node.parent
    for _ in range(12):
        if current is None or current.type == "if_statement":
            return False
        if current.type in (
            "arguments",
            "argument_list",
            "variable_declarator",
            "pair",
            "assignment",
        ):
            return True
        current = current.parent
    return False


def _call(node: "Node", language: Language, helpers: Helpers) -> Iterator[Assertion]:
    links = chain(node)
    if not links:
        return
    first, last = links[0], links[-1]
    words = [normal(link.name) for link in links]
    if language.name == "go" and last.name in GO_FAILS and is_go_test(links):
        yield from go_failure(node)
    elif words[0] in ("assertwithmessage", "expect") and "that" in words[1:3]:
        yield from fluent(node, links[words.index("that") :])
    elif words[0] in FLUENT and (first.args is not None or words[0] in ("that", "isexpected")):
        yield from fluent(node, links)
    elif words[-1] == "expect" and len(links) > 1 and last.args and language.calls:
        yield made(node, "equal", EXACT, ("response",), texts(last.args))
    elif words[0] == "thrown" and last.args and len(links) == 2:
        yield made(node, "raises", CLOSE, (), texts(last.args))
    elif any(word in _FAILS for word in (words[0], words[-1])) and last.args is not None:
        if len(links) <= 2:
            yield made(node, "fail", TRUTHY, (), ())
    else:
        yield from _named(node, links, words, language, helpers)


def _named(
    node: "Node", links: tuple[Link, ...], words: list[str], language: Language, helpers: Helpers
) -> Iterator[Assertion]:
    last = links[-1]
    at = assert_at(words, links)
    if at is not None:
        yield from assertion_function(node, links, at, language, helpers)
    elif any(word in _CALLED for word in words) and _is_verify(words, links):
        yield _verified(node, links)
    elif (should := should_at(words, links)) is not None:
        yield from matcher(node, links, should, text(left_of(node)))
    elif language.name == "rust" and words[-1] in ("unwrap", "expect", "unwraperr", "expecterr"):
        if node.parent is not None and node.parent.type == "expression_statement":
            yield made(node, "succeeds", TRUTHY, (text(node),), ())
    elif last.args is not None and last.name.rstrip("!") in helpers:
        yield made(node, "helper", helpers[last.name.rstrip("!")], texts(last.args), ())
    elif _is_helper_name(words[-1]) and last.args is not None:
        yield made(node, "helper", EXACT, texts(last.args), ())


def _is_helper_name(word: str) -> bool:
    return word.startswith(
        ("assert", "expect", "shouldhave", "verifythat", "andexpect", "mustassert")
    ) and (word not in ("expect", "assertions", "expectassertions", "expecterr", "expected"))


def _is_verify(words: list[str], links: tuple[Link, ...]) -> bool:
    if words[0] in _CALLED or words[0] in ("mockito", "bddmockito", "sinon", "td"):
        return bool(links[0].args) or len(links) > 1
    return words[-1] in _CALLED and any("mock" in word for word in words[:-1])


def _verified(node: "Node", links: tuple[Link, ...]) -> Assertion:
    said = " ".join(text(arg) for link in links for arg in link.args or ())
    rank = PARTIAL if "any" in said or "atLeast" in said else EXACT
    subject = ".".join([*texts(links[0].args)[:1], *(link.name for link in links[1:])])
    return made(node, "verify", rank, (subject,), texts(links[-1].args))


__all__ = ["PRESENT", "Assertion", "Helpers", "assertions_of"]
