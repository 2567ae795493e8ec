"""Assertions that are functions of what they look at: ``assertEquals(a, b)``, ``assert a == b``."""

from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax import conditions
from gitlab_nightshift.verdict.syntax.assertion import (
    Assertion,
    Helpers,
    build_assertion,
    build_demand_assertion,
    rank_exception,
    rank_expected,
    read_condition,
    read_texts,
)
from gitlab_nightshift.verdict.syntax.assertion_words import (
    CLOSE,
    EXACT,
    PARTIAL,
    RAISES,
    TRUTHY,
    normalize_name,
    parse_assertion_name,
    rank_opposite,
)
from gitlab_nightshift.verdict.syntax.languages import Language
from gitlab_nightshift.verdict.syntax.matchers import read_hamcrest
from gitlab_nightshift.verdict.syntax.nodes import (
    LAMBDAS,
    STRINGS,
    Link,
    find_field,
    list_children,
    list_tokens,
    read_text,
    split_binary,
)

_TABLE = RuleTable(__file__)
_RAISERS = _TABLE.get_words("raisers")

GO_FAILS = frozenset("Error Errorf Fatal Fatalf Fail FailNow".split())


def is_go_test(links: tuple[Link, ...]) -> bool:
    """``t.Errorf(…)``, ``suite.T().Fatal(…)``: not ``fmt.Errorf(…)``, ``log.Fatal(…)``."""
    return links[-1].args is not None and len(links) > 1 and (
        links[-2].name in ("t", "b", "tb", "f", "c", "tt", "test", "tc", "T", "TB", "s")
    )  # fmt: skip


def find_assert_index(
    words: list[str], links: tuple[Link, ...], handles: frozenset[str]
) -> int | None:
    """Where in a chain the assertion is: ``assertEquals(…)``, ``assert.equal(…)``, ``t.is(…)``."""
    for at, word in enumerate(words[:4]):
        named = word in ("assert", "require", "t", "is", "qt", "check")
        if (named or links[at].name in handles) and (
            links[at].args is None and at + 1 < len(words) and links[at + 1].args is not None
        ):
            if parse_assertion_name(links[at + 1].name)[1] is not None or words[at + 1] in RAISES:
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
    return at == 0 or links[at - 1].name in _RAISERS


_PLAIN = frozenset("assert refute debugassert propassert assertthat".split())


_GROUPING = frozenset(("all", "multiple", "softly", "that"))


def read_assertion_call(
    node: Node, links: tuple[Link, ...], at: int, language: Language, helpers: Helpers
) -> Iterator[Assertion]:
    """``assertEquals(a, b)``, ``assert.equal(a, b)``, ``assert(a == b)``, ``assertRaises(X)``."""
    link = links[at]
    word, rank, negated = parse_assertion_name(link.name)
    name = normalize_name(link.name)
    args = list(link.args or ())
    if language.name == "go":
        args = _drop_test_argument(args)
    elif language.name in ("java", "kotlin"):
        args = _drop_message(args, 1 if word in _OF_ONE else 2)
    if rank is None and word and word not in RAISES | _GROUPING and name not in _PLAIN:
        yield build_assertion(node, "helper", helpers.get(link.name, EXACT), read_texts(args), ())
    elif at and word.startswith(("called", "awaited", "hascalls")) and "assert" in name:
        owner = read_text(node).rsplit("." + link.name, 1)[0]
        yield build_assertion(node, word, rank or EXACT, (owner,), read_texts(args), negated)
    elif word in RAISES:
        yield _read_exception_assertion(node, word, link, args, negated, language)
    elif word == "that" or name == "that":
        yield from read_hamcrest(node, args)
    elif word in _TRUE or name in _PLAIN:
        yield from read_condition(node, args[:1], flip=name == "refute" or negated)
        if not args:
            yield build_assertion(node, word, EXACT, (), ())
    elif word in _FALSE:
        yield from read_condition(node, args[:1], flip=not negated)
    elif word not in _GROUPING:
        yield _read_comparison(node, word, rank, negated, args)


_TRUE, _FALSE = frozenset(("true", "truthy", "ok", "")), frozenset(("false", "falsy", "falsey"))
_OF_ONE = _TRUE | _FALSE | {"null"}


def _drop_test_argument(args: list[Node]) -> list[Node]:
    """Go's assertions get the test first."""
    first = (
        read_text(args[0]) if len(args) > 1 and args[0].end_byte - args[0].start_byte < 12 else ""
    )
    return args[1:] if first in ("t", "b", "tb", "f", "c") or first.endswith(".T()") else args


def _drop_message(args: list[Node], needed: int) -> list[Node]:
    """JUnit 4's assertions get a text first, where the newer ones and TestNG have it at the end."""
    said = len(args) > needed and _is_text(args[0]) and not _is_text(args[-1])
    return args[1:] if said and args[-1].type not in LAMBDAS else args


def _is_text(node: Node) -> bool:
    """A text, or a sum that begins with one."""
    while (pair := split_binary(node)) and pair[0] == "+":
        node = pair[1]
    return node.type in STRINGS


def _read_comparison(
    node: Node, word: str, rank: int | None, negated: bool, args: list[Node]
) -> Assertion:
    subject, expected = conditions.split_subject(args)
    said = read_texts(expected)
    rank = PARTIAL if rank is None else rank_opposite(word, rank) if negated else rank
    if rank == EXACT and len(said) > 1 and word.startswith(("equal", "areequal", "eq")):
        rank = CLOSE
    if word in ("null", "none", "nil") and read_text(subject).lower().endswith("err"):
        rank = TRUTHY
    if rank == EXACT and conditions.is_partial(subject):
        rank = PARTIAL
    return build_assertion(
        node,
        word,
        min(rank, rank_expected(said)),
        (read_text(subject),),
        said,
        negated,
        tuple(args),
    )


def _read_exception_assertion(
    node: Node, word: str, link: Link, args: list[Node], negated: bool, language: Language
) -> Assertion:
    """``assertThrows(X.class, () -> f())``, ``pytest.raises(X)``, ``intercept[X] { f }``,
    ``t.throwsAsync(promise, X)``."""
    first = args[:1] if language.name in ("javascript", "typescript", "tsx") else []
    code = [arg for arg in args if arg in first or arg.type in LAMBDAS or arg.type == "block"]
    said = tuple(read_text(arg) for arg in args if arg not in code)
    said = (link.types, *said) if link.types else said
    return build_assertion(
        node, word, rank_exception(said), read_texts(code), said, negated, tuple(args)
    )


def read_go_failure(node: Node) -> Iterator[Assertion]:
    """``if got != want { t.Errorf(…) }`` demands the opposite of its condition, a case as well."""
    current: Node | None = node.parent
    child: Node = node
    for _ in range(12):
        if current is None or current.type in ("func_literal", "function_declaration"):
            break
        if current.type == "if_statement":
            yield from _read_guarded_condition(
                node, current, in_else=find_field(current, "alternative") == child
            )
            return
        said = find_field(current, "value") if current.type == "expression_case" else None
        if said is not None and find_field(current.parent or current, "value") is None:
            yield from read_condition(node, list_children(said), flip=True)
            return
        child = current
        current = current.parent
    yield build_assertion(node, "fail", TRUTHY, (), ())


def _read_guarded_condition(node: Node, guard: Node, *, in_else: bool) -> Iterator[Assertion]:
    condition, before = find_field(guard, "condition"), find_field(guard, "initializer")
    if condition is None:
        return
    head = (list_tokens(before) if before else ()) + list_tokens(condition)
    for demand in conditions.list_demands(condition, not in_else):
        yield build_demand_assertion(node, demand, head)
