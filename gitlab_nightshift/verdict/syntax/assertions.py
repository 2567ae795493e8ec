"""Assertions: what a test demands of its subject, and how strongly."""

import re
from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax.assertion import (
    Assertion,
    Helpers,
    build_assertion,
    read_condition,
    read_texts,
)
from gitlab_nightshift.verdict.syntax.assertion_calls import (
    GO_FAILS,
    find_assert_index,
    is_go_test,
    read_assertion_call,
    read_go_failure,
)
from gitlab_nightshift.verdict.syntax.assertion_words import (
    CLOSE,
    EXACT,
    PARTIAL,
    PRESENT,
    TRUTHY,
    normalize_name,
)
from gitlab_nightshift.verdict.syntax.handles_of_tests import find_handles
from gitlab_nightshift.verdict.syntax.languages import Language
from gitlab_nightshift.verdict.syntax.matchers import (
    FLUENT,
    find_left_operand,
    find_should_index,
    read_fluent,
    read_matcher,
)
from gitlab_nightshift.verdict.syntax.nodes import (
    CALLS,
    LAMBDAS,
    Link,
    find_field,
    list_arguments,
    list_children,
    read_chain,
    read_text,
    unwrap_node,
)
from gitlab_nightshift.verdict.syntax.variable_values import read_assignment

_TABLE = RuleTable(__file__)
_PASSED = _TABLE.get_words("passed")


_CALLED = _TABLE.get_words("called")
_FAILS = frozenset("fail flunk unreachable! panic! failnow".split())


def list_assertions(
    body: Node, language: Language, helpers: Helpers | None = None
) -> tuple[Assertion, ...]:
    """Every assertion in a piece of code, in the order of the text."""
    found: list[Assertion] = []
    stack, handles = [body], find_handles(body, language)
    while stack:
        node = stack.pop()
        if node is not body and _is_never_called(node, body):
            continue
        made = tuple(_recognize(node, language, helpers or {}, handles))
        found += made
        if made and node.type in CALLS:
            stack.extend(reversed(_list_inner_functions(node)))
        elif not made or node.type not in ("assert_statement",):
            stack.extend(reversed(node.named_children))
    return tuple(found)


def _is_never_called(node: Node, body: Node) -> bool:
    """A function inside a test that gets a name by which nothing calls it or hands it on."""
    if node.type in LAMBDAS and node.parent is not None:
        outer = node.parent.parent if node.parent.type == "expression_list" else node.parent
        pair = read_assignment(outer) if outer is not None else None
        name = read_text(pair[0]) if pair else ""
    else:
        named = node.type in ("function_definition", "function_declaration")
        name = read_text(find_field(node, "name")) if named and node.parent is body else ""
    if not name.isidentifier():
        return False
    used = rf"\b{name}\s*[(.]|[({{,:\[>]\s*{name}\s*[,)\]}};\n]|\breturn\s+{name}\b"
    said = read_text(body).replace(read_text(node), "")
    return not re.search(rf"{used}|(?<!_ )=\s*{name}\b", said)


def _list_inner_functions(node: Node) -> list[Node]:
    """Functions among all arguments of a chain: they may assert as well."""
    found: list[Node] = []
    current = node
    for _ in range(40):
        found += [
            arg for arg in list_arguments(current) if arg.type in LAMBDAS or arg.type == "block"
        ]
        found += [
            inner
            for arg in list_arguments(current)
            if arg.type in CALLS
            for inner in list_arguments(arg)
            if inner.type in LAMBDAS
        ]
        inside = find_field(
            current, "function", "object", "receiver", "left", "expression", "value", "operand"
        )
        if inside is None:
            break
        current = unwrap_node(inside)
    return found


def _recognize(
    node: Node, language: Language, helpers: Helpers, handles: frozenset[str]
) -> Iterator[Assertion]:
    kind = node.type
    if kind == "assert_statement":
        yield from read_condition(node, list_children(node)[:1])
    elif kind in CALLS:
        yield from _read_call(node, language, helpers, handles)
    elif kind in ("member_expression", "field_expression") and _is_statement(node):
        yield from read_fluent(node, read_chain(node))
    elif kind in ("throw_statement", "raise_statement") and not _in_function_argument(node):
        yield build_assertion(node, "fail", TRUTHY, (), ())
    elif kind == "identifier" and language.name == "ruby" and read_text(node) in helpers:
        yield build_assertion(node, "helper", helpers[read_text(node)], (), ())


_STATEMENTS = _TABLE.get_words("statements")


def _is_statement(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.type in _STATEMENTS


def _in_function_argument(node: Node) -> bool:
    """True inside a function that is passed on: a stub that throws asserts nothing."""
    current = node.parent
    for _ in range(12):
        if current is None or current.type == "if_statement":
            return False
        if current.type in _PASSED:
            return True
        current = current.parent
    return False


def _read_call(
    node: Node, language: Language, helpers: Helpers, handles: frozenset[str]
) -> Iterator[Assertion]:
    links = read_chain(node)
    if not links:
        return
    first, last = links[0], links[-1]
    words = [normalize_name(link.name) for link in links]
    if language.name == "go" and last.name in GO_FAILS and is_go_test(links):
        yield from read_go_failure(node)
    elif words[0] in ("assertwithmessage", "expect") and "that" in words[1:3]:
        yield from read_fluent(node, links[words.index("that") :])
    elif words[0] in FLUENT and (first.args is not None or words[0] in ("that", "isexpected")):
        yield from read_fluent(node, links)
    elif words[-1] == "expect" and len(links) > 1 and last.args and language.calls:
        expecting = (link.args for link in links[1:] if link.name == "expect" and link.args)
        yield from (_read_response_expectation(node, args) for args in expecting)
    elif words[0] == "thrown" and last.args and len(links) == 2:
        yield build_assertion(node, "raises", CLOSE, (), read_texts(last.args))
    elif any(word in _FAILS for word in (words[0], words[-1])) and last.args is not None:
        if len(links) <= 2:
            yield build_assertion(node, "fail", TRUTHY, (), ())
    else:
        yield from _read_named_call(node, links, words, language, helpers, handles)


def _read_response_expectation(node: Node, args: tuple[Node, ...]) -> Assertion:
    """``.expect(200, "ok", done)`` of supertest: each in a chain is one, about a side of the answer
    of its own; a status alone is less."""
    said = read_texts([arg for arg in args if arg.type not in LAMBDAS]) or read_texts(args)
    expected = tuple(text for text in said if text not in ("done", "next", "cb"))
    rank = EXACT if len(expected) > 1 else PARTIAL
    subject = (f"response {expected[0]}" if expected else "response",)
    return build_assertion(node, "equal", rank, subject, expected, key=("expect", *expected))


def _read_named_call(
    node: Node,
    links: tuple[Link, ...],
    words: list[str],
    language: Language,
    helpers: Helpers,
    handles: frozenset[str],
) -> Iterator[Assertion]:
    last = links[-1]
    at = find_assert_index(words, links, handles)
    if at is not None:
        yield from read_assertion_call(node, links, at, language, helpers)
    elif any(word in _CALLED for word in words) and _is_verify(words, links):
        yield _read_mock_verification(node, links)
    elif (should := find_should_index(words, links)) is not None:
        yield from read_matcher(node, links, should, read_text(find_left_operand(node)))
    elif language.name == "rust" and words[-1] in ("unwrap", "expect", "unwraperr", "expecterr"):
        if node.parent is not None and node.parent.type == "expression_statement":
            yield build_assertion(node, "succeeds", TRUTHY, (read_text(node),), ())
    elif last.args is not None and last.name.rstrip("!") in helpers:
        yield build_assertion(
            node, "helper", helpers[last.name.rstrip("!")], read_texts(last.args), ()
        )
    elif _is_helper_name(words[-1]) and last.args is not None:
        yield build_assertion(node, "helper", EXACT, read_texts(last.args), ())


def _is_helper_name(word: str) -> bool:
    return word.startswith(
        ("assert", "expect", "shouldhave", "verifythat", "andexpect", "mustassert")
    ) and (word not in ("expect", "assertions", "expectassertions", "expecterr", "expected"))


def _is_verify(words: list[str], links: tuple[Link, ...]) -> bool:
    if words[0] in _CALLED or words[0] in ("mockito", "bddmockito", "sinon", "td"):
        return bool(links[0].args) or len(links) > 1
    return words[-1] in _CALLED and any("mock" in word for word in words[:-1])


def _read_mock_verification(node: Node, links: tuple[Link, ...]) -> Assertion:
    said = " ".join(read_text(arg) for link in links for arg in link.args or ())
    rank = PARTIAL if "any" in said or "atLeast" in said else EXACT
    subject = ".".join([*read_texts(links[0].args)[:1], *(link.name for link in links[1:])])
    return build_assertion(node, "verify", rank, (subject,), read_texts(links[-1].args))


__all__ = ["PRESENT", "Assertion", "Helpers", "list_assertions"]
