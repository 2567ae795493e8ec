"""Assertions that are functions of what they look at: ``assertEquals(a, b)``, ``assert a == b``."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.syntax import conditions
from gitlab_nightshift.verdict.syntax.assertion import (
    Assertion,
    Helpers,
    bare_condition,
    demanded,
    limit,
    made,
    raise_rank,
    texts,
)
from gitlab_nightshift.verdict.syntax.languages import Language
from gitlab_nightshift.verdict.syntax.matchers import hamcrest
from gitlab_nightshift.verdict.syntax.nodes import LAMBDAS, Link, field, text, tokens
from gitlab_nightshift.verdict.syntax.words import (
    CLOSE,
    EXACT,
    PARTIAL,
    RAISES,
    TRUTHY,
    negative,
    normal,
    strength,
)

if TYPE_CHECKING:
    from tree_sitter import Node


GO_FAILS = frozenset("Error Errorf Fatal Fatalf Fail FailNow".split())


def is_go_test(links: tuple[Link, ...]) -> bool:
    """``t.Errorf(…)``, ``suite.T().Fatal(…)``: not ``fmt.Errorf(…)``, ``log.Fatal(…)``."""
    return links[-1].args is not None and len(links) > 1 and (
        links[-2].name in ("t", "b", "tb", "f", "c", "tt", "test", "tc", "T", "TB", "s")
    )  # fmt: skip


def assert_at(words: list[str], links: tuple[Link, ...]) -> int | None:
    """Where in a chain the assertion is: ``assertEquals(…)``, ``assert.equal(…)``, ``t.is(…)``."""
    for at, word in enumerate(words[:4]):
        if word in ("assert", "require", "t", "is", "qt", "check") and (
            links[at].args is None and at + 1 < len(words) and links[at + 1].args is not None
        ):
            if strength(links[at + 1].name)[1] is not None or words[at + 1] in RAISES:
                return at + 1
            if words[at + 1].startswith(("called", "not", "deep", "is", "throws")):
                return at + 1
        says = word.startswith(("assert", "refute", "propassert", "debugassert", "mustpanic"))
        if says and word != "assertions" and links[at].args is not None:
            return at
        if (
            word in RAISES
            and word not in ("throw", "raise", "fails", "from")
            and _raises(links, at)
        ):
            return at
    return None


def _raises(links: tuple[Link, ...], at: int) -> bool:
    """``pytest.raises(X)``, ``intercept[X] {}``, ``thrown.expect``: not any call of that name."""
    if links[at].args is None:
        return False
    return at == 0 or links[at - 1].name in (
        "pytest",
        "t",
        "self",
        "$this",
        "testing",
        "assert",
        "this",
    )


_PLAIN = frozenset("assert refute debugassert propassert assertthat".split())


_GROUPING = frozenset(("all", "multiple", "softly", "that"))


def assertion_function(
    node: "Node", links: tuple[Link, ...], at: int, language: Language, helpers: Helpers
) -> Iterator[Assertion]:
    """``assertEquals(a, b)``, ``assert.equal(a, b)``, ``assert(a == b)``, ``assertRaises(X)``."""
    link = links[at]
    args = _without_t(list(link.args or ())) if language.name == "go" else list(link.args or ())
    word, rank, negated = strength(link.name)
    name = normal(link.name)
    if rank is None and word and word not in RAISES | _GROUPING and name not in _PLAIN:
        yield made(node, "helper", helpers.get(link.name, EXACT), texts(args), ())
    elif at and word.startswith(("called", "awaited", "hascalls")) and "assert" in name:
        owner = text(node).rsplit("." + link.name, 1)[0]
        yield made(node, word, rank or EXACT, (owner,), texts(args), negated)
    elif word in RAISES:
        yield _raising(node, word, link, args, negated)
    elif word == "that" or name == "that":
        yield from hamcrest(node, args)
    elif word in _TRUE or name in _PLAIN:
        yield from bare_condition(node, args[:1], flip=name == "refute" or negated)
        if not args:
            yield made(node, word, EXACT, (), ())
    elif word in _FALSE:
        yield from bare_condition(node, args[:1], flip=not negated)
    elif word not in _GROUPING:
        yield _compared(node, word, rank, negated, args)


_TRUE, _FALSE = frozenset(("true", "truthy", "ok", "")), frozenset(("false", "falsy", "falsey"))


def _without_t(args: "list[Node]") -> "list[Node]":
    """Go's assertions get the test first."""
    first = text(args[0]) if len(args) > 1 and args[0].end_byte - args[0].start_byte < 12 else ""
    return args[1:] if first in ("t", "b", "tb", "f", "c") or first.endswith(".T()") else args


def _compared(
    node: "Node", word: str, rank: int | None, negated: bool, args: "list[Node]"
) -> Assertion:
    subject, expected = conditions.subject_first(args)
    said = texts(expected)
    rank = PARTIAL if rank is None else negative(word, rank) if negated else rank
    if rank == EXACT and len(said) > 1 and word.startswith(("equal", "areequal", "eq")):
        rank = CLOSE
    if word in ("null", "none", "nil") and text(subject).lower().endswith("err"):
        rank = TRUTHY
    if rank == EXACT and conditions.is_partial(subject):
        rank = PARTIAL
    return made(node, word, min(rank, limit(said)), (text(subject),), said, negated, tuple(args))


def _raising(node: "Node", word: str, link: Link, args: "list[Node]", negated: bool) -> Assertion:
    """``assertThrows(X.class, () -> f())``, ``pytest.raises(X)``, ``intercept[X] { f }``."""
    code = [arg for arg in args if arg.type in LAMBDAS or arg.type == "block"]
    said = tuple(text(arg) for arg in args if arg not in code)
    said = (link.types, *said) if link.types else said
    return made(node, word, raise_rank(said), texts(code), said, negated, tuple(args))


def go_failure(node: "Node") -> Iterator[Assertion]:
    """``if got != want { t.Errorf(…) }`` demands the opposite of its condition."""
    current: Node | None = node.parent
    child: Node = node
    for _ in range(12):
        if current is None or current.type in ("func_literal", "function_declaration"):
            break
        if current.type == "if_statement":
            yield from _guarded(node, current, in_else=field(current, "alternative") == child)
            return
        child = current
        current = current.parent
    yield made(node, "fail", TRUTHY, (), ())


def _guarded(node: "Node", guard: "Node", *, in_else: bool) -> Iterator[Assertion]:
    condition, before = field(guard, "condition"), field(guard, "initializer")
    if condition is None:
        return
    head = (tokens(before) if before else ()) + tokens(condition)
    for demand in conditions.demands(condition, not in_else):
        yield demanded(node, demand, head)
