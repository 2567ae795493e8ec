"""Assertions with the subject first, then a matcher: ``expect(x).toBe(y)``, ``x shouldBe y``."""

from collections.abc import Iterator, Sequence

from tree_sitter import Node

from gitlab_nightshift.proof.syntax.assertion import (
    ALONE,
    EQUAL,
    RAISES,
    WORDS,
    Assertion,
    build_assertion,
    is_condition,
    normalize_name,
    parse_assertion_name,
    read_condition,
)
from gitlab_nightshift.proof.syntax.nodes import (
    CALLS,
    STRINGS,
    Link,
    find_field,
    list_children,
    read_chain,
    read_text,
    unwrap_node,
)

FLUENT = frozenset(
    "expect assertthat that assertthatcode assertthatobject assertthatjson then expectasync given"
    " isexpected verifythat expecttypeof asserttype inorder ω 𝔼".split()
)
THROWN = frozenset(
    "assertthatthrownby thenthrownby assertthatexceptionoftype assertthatexception"
    " assertthatnoexception assertthatillegalargumentexception assertthatnullpointerexception"
    " assertthatioexception".split()
)
_NEGATES = frozenset("not never nottobe tonot notto shouldnot wont neverto".split())
_TAKES_MATCHER = frozenset("to tonot notto should shouldnot must andexpect".split())
_NO_MATCHER = frozenset("expect describedas as withmessage".split())
_FILLERS = ("not", "be", "have", "not be")
# A matcher: its word, whether it is negated, and what it expects.
_Found = tuple[str, bool, tuple[Node, ...]]


def find_should_index(words: list[str], links: tuple[Link, ...]) -> int | None:
    """The link with ``should`` in ``x.should eq(y)``, ``x shouldBe y``, ``x.must_equal y``."""
    for at, word in enumerate(words):
        called = links[at].args is not None or at + 1 < len(words)
        if at and called and word.startswith(("should", "must", "wont", "canequal")):
            return at
    return None


def find_left_operand(node: Node) -> Node:
    """The subject, ``x`` in ``x should contain (3)``."""
    fields = ("left", "receiver", "object", "function", "expression", "value")
    for _ in range(20):
        inside = find_field(node, *fields) or next(iter(list_children(node)), None)
        if inside is None:
            break
        node = unwrap_node(inside)
        names = (normalize_name(link.name) for link in read_chain(node)[1:])
        if not any(name.startswith(("should", "must", "wont")) for name in names):
            break
    return node


def read_fluent(node: Node, links: tuple[Link, ...]) -> Iterator[Assertion]:
    """``expect(x).not.toBe(y)``, ``assertThat(x).isEqualTo(y)``, ``expect(x).to eq(y)``."""
    first, args = normalize_name(links[0].name), links[0].args or ()
    if first in ("assertthat", "that") and len(links) == 1:
        yield from read_assert_that(node, args)
    elif first in THROWN:
        yield build_assertion(node, "raises", args)
    elif links[-1].name not in ("assertions", "hasAssertions"):
        yield from read_matchers(node, links[1:], args[:1])


def read_assert_that(node: Node, args: Sequence[Node]) -> Iterator[Assertion]:
    """``assertThat(x, is(3))``, perhaps with a message first, and ``assertThat(x > 3)``."""
    args = args[1:] if len(args) > 2 and args[0].type in STRINGS else args
    if len(args) > 1:
        word, negated, expected = _read_passed_matcher(args[1])
        yield build_assertion(node, word, (args[0], *expected), negated)
    elif args and is_condition(args[0]):
        yield from read_condition(node, args[0])


def read_matchers(
    node: Node, links: tuple[Link, ...], subject: tuple[Node, ...]
) -> Iterator[Assertion]:
    """The first matcher of a chain that demands an exact value, or else the last one."""
    negated, best = False, None
    for link in links:
        name = normalize_name(link.name)
        passed = read_text(link.args[0]) if link.args and name in _TAKES_MATCHER else ""
        negated = negated or name in _NEGATES or passed in ("not", "not be")
        found = _read_link(link, negated)
        if found and (best is None or best[0] not in EQUAL):
            best = found
    if best:
        yield build_assertion(node, best[0], (*subject, *best[2]), best[1])


def _read_link(link: Link, negated: bool) -> _Found | None:
    """The matcher of one link; None without one."""
    args, name = link.args or (), normalize_name(link.name)
    if name in _TAKES_MATCHER and args:
        if read_text(args[0]) in _FILLERS:
            return None
        word, inner, expected = _read_passed_matcher(args[0])
        return word, inner != negated, expected
    word, flipped = parse_assertion_name(link.name)
    if word in WORDS | RAISES and (link.args is not None or word in ALONE):
        return word, negated != flipped, args
    unknown = word not in WORDS and link.args is not None and name not in _NO_MATCHER
    return ("helper", negated, args) if unknown else None


def _read_passed_matcher(node: Node) -> _Found:
    """``is(not(equalTo(3)))``, ``eq(3)``, ``be_nil``, ``raise_error(X)``."""
    negated, word = False, "helper"
    expected: tuple[Node, ...] = ()
    current = unwrap_node(node)
    for _ in range(6):
        links = read_chain(current)
        if not links:
            break
        name, flipped = parse_assertion_name(links[-1 if len(links) < 3 else 0].name)
        negated ^= flipped or normalize_name(links[-1].name) in _NEGATES
        args = links[-1].args or links[0].args or ()
        if name in WORDS | RAISES:
            word, expected = name, args
        wraps = name in ("is", "not", "that", "be") or name not in WORDS | RAISES
        if not wraps or not args or args[0].type not in CALLS:
            break
        current = args[0]
    return word, negated, expected
