"""Assertions that are function calls: ``assertEquals(a, b)``, ``t.is(a, b)``."""

from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.proof.syntax.assertion import Assertion, build_assertion, read_condition
from gitlab_nightshift.proof.syntax.assertion_words import (
    RAISES,
    WORDS,
    normalize_name,
    parse_assertion_name,
)
from gitlab_nightshift.proof.syntax.languages import Language
from gitlab_nightshift.proof.syntax.matchers import read_that
from gitlab_nightshift.proof.syntax.nodes import (
    LAMBDAS,
    STRINGS,
    Link,
    find_field,
    list_children,
    list_tokens,
    read_text,
    split_binary,
)

_RAISERS = frozenset("pytest t self $this testing assert this".split())
_MODULES = frozenset("assert require t is qt check".split())
_GO_FAILS = frozenset("Error Errorf Fatal Fatalf Fail FailNow".split())
_GO_HANDLES = frozenset("t b tb f c tt test tc T TB s".split())
_PREFIXES = ("assert", "refute", "propassert", "debugassert", "mustpanic")
_PLAIN = frozenset("assert refute debugassert propassert assertthat".split())
_GROUPING = frozenset(("all", "multiple", "softly"))
_TRUE, _FALSE = frozenset(("true", "truthy", "ok", "")), frozenset(("false", "falsy", "falsey"))
_UNARY = _TRUE | _FALSE | {"null"}


def is_go_failure(links: tuple[Link, ...]) -> bool:
    """True for ``t.Errorf(…)``, ``suite.T().Fatal(…)``; not ``fmt.Errorf(…)``, ``log.Fatal(…)``."""
    called = links[-1].args is not None and links[-1].name in _GO_FAILS
    return called and len(links) > 1 and links[-2].name in _GO_HANDLES


def find_assert_index(links: tuple[Link, ...], handles: frozenset[str]) -> int | None:
    """The link of a chain that asserts: ``assertEquals(…)``, ``assert.equal(…)``, ``t.is(…)``."""
    for at, link in enumerate(links[:4]):
        word, after = normalize_name(link.name), links[at + 1 : at + 2]
        owns = link.args is None and (word in _MODULES or link.name in handles)
        if owns and after and after[0].args is not None and _is_assertion_name(after[0].name):
            return at + 1
        if link.args is None or word in ("assertions", "throw", "raise", "fails", "from"):
            continue
        raises = word in RAISES and (at == 0 or links[at - 1].name in _RAISERS)
        if raises or word.startswith(_PREFIXES):
            return at
    return None


def _is_assertion_name(name: str) -> bool:
    known = parse_assertion_name(name)[0] in WORDS or normalize_name(name) in RAISES
    return known or normalize_name(name).startswith(("called", "not", "deep", "is", "throws"))


def read_assertion_call(node: Node, link: Link, language: Language) -> Iterator[Assertion]:
    """``assertEquals(a, b)``, ``assert.equal(a, b)``, ``assert(a == b)``, ``assertRaises(X)``."""
    word, negated = parse_assertion_name(link.name)
    name, args = normalize_name(link.name), list(link.args or ())
    if language.name == "go":
        args = _drop_test_argument(args)
    elif language.name in ("java", "kotlin"):
        args = _drop_message(args, 1 if word in _UNARY else 2)
    if word == "that" or name == "that":
        yield from read_that(node, args)
    elif args and (word in _TRUE | _FALSE or name in _PLAIN):
        flip = name == "refute" or negated
        yield from read_condition(node, args[0], flip != (word in _FALSE))
    elif "assertcalled" in name or "assertawaited" in name or "assertanycall" in name:
        # A mock's own assertion: the arguments are those of the expected call.
        yield build_assertion(node, word, (), negated)
    elif word in WORDS | RAISES or name in _PLAIN:
        yield build_assertion(node, word, args, negated)
    elif word not in _GROUPING:
        yield build_assertion(node, "helper")


def _drop_test_argument(args: list[Node]) -> list[Node]:
    """Without the first argument of Go's assertions, which is the test."""
    first = read_text(args[0]) if len(args) > 1 and len(args[0].text or b"") < 12 else ""
    return args[1:] if first in ("t", "b", "tb", "f", "c") or first.endswith(".T()") else args


def _drop_message(args: list[Node], needed: int) -> list[Node]:
    """Without the message: the first argument in JUnit 4, the last one in JUnit 5 and TestNG."""
    first = len(args) > needed and _is_text(args[0]) and not _is_text(args[-1])
    return args[1:] if first and args[-1].type not in LAMBDAS else args


def _is_text(node: Node) -> bool:
    """True for a string, or a concatenation that begins with one."""
    while (pair := split_binary(node)) and pair[0] == "+":
        node = pair[1]
    return node.type in STRINGS


def read_go_failure(node: Node) -> Iterator[Assertion]:
    """``if got != want { t.Errorf(…) }`` demands the negation of its condition, and so does a case
    of a ``switch`` without a value."""
    child = node
    current = node.parent
    for _ in range(12):
        if current is None or current.type in ("func_literal", "function_declaration"):
            break
        if current.type == "if_statement":
            condition, before = find_field(current, "condition"), find_field(current, "initializer")
            if condition is not None:
                key = (*(list_tokens(before) if before else ()), *list_tokens(condition))
                in_else = find_field(current, "alternative") == child
                yield from read_condition(node, condition, not in_else, key)
            return
        cases = find_field(current, "value") if current.type == "expression_case" else None
        if cases is not None and find_field(current.parent or current, "value") is None:
            for each in list_children(cases):
                yield from read_condition(node, each, True)
            return
        child = current
        current = current.parent
    yield build_assertion(node, "fail")
