"""An assertion, in a form common to all languages, and the code that is read as one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tree_sitter import Node

from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.nodes import (
    CALLS,
    STRINGS,
    Link,
    find_field,
    list_children,
    list_tokens,
    read_chain,
    read_line_number,
    read_text,
    split_binary,
    unwrap_node,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_TABLE = RuleTable(__file__)
EXACT = _TABLE.get_words("exact")  # words that demand an exact value
PROPERTIES = _TABLE.get_words("properties")  # words without an argument, as in ``.to.be.true``
WORDS = EXACT | PROPERTIES | _TABLE.get_words("others")
RAISES = _TABLE.get_words("raises")
_PREFIX = compile_lazily(
    r"^(assert|refute|should|must|wont|expect|verify|to|is|be|have|has|was|are|do|does|only|that)"
)
_NEGATING_PREFIXES = ("doesnot", "not", "wont", "refute")
_ALIASES = {"nullvalue": "null"} | dict.fromkeys(
    ("emptystring", "emptycollection", "emptyiterable", "emptyarray"), "empty"
)


def normalize_name(name: str) -> str:
    """One word for ``assert_equal``, ``assertEqual`` and ``AssertEqual!``."""
    return name.lower().replace("_", "").rstrip("!?").strip()


def parse_assertion_name(name: str) -> tuple[str, bool]:
    """The word of a matcher or assertion, and whether it is negated: ``to_not_be_nil`` → ``nil``,
    True. The word of an unknown name is the name without prefixes."""
    word, negated = normalize_name(name), False
    # Prefixes stack: ``should_not_be_nil``.
    for _ in range(6):
        word = _ALIASES.get(word, word)
        if word in RAISES | WORDS:
            break
        if prefix := next(filter(word.startswith, _NEGATING_PREFIXES), ""):
            negated, word = not negated, word.removeprefix(prefix)
            continue
        shorter = _PREFIX.sub("", word)
        if shorter == word:
            break
        word = shorter
    return word, negated


_EQUAL_OPERATORS = frozenset(("==", "===", "is", "eq", "equals", "=~="))
_UNEQUAL_OPERATORS = frozenset(("!=", "!==", "is not", "ne", "<>", "=!="))
_AND, _OR = frozenset(("and", "&&")), frozenset(("or", "||"))
_NULLS = frozenset(("None", "nil", "null", "undefined"))
_TRUE_LITERALS, _FALSE_LITERALS = frozenset(("true", "True")), frozenset(("false", "False"))
_UNARY_NODES = frozenset(
    "unary_expression unary prefix_expression prefix_unary_expression unary_op_expression".split()
)
_DEEPEST = 20


class _Demand(NamedTuple):
    """Fields of an ``Assertion``. The parts of a matcher are only the expected values."""

    word: str
    negated: bool
    parts: tuple[Node, ...]


def is_condition(node: Node) -> bool:
    """True for a comparison or a negation, False for a plain value."""
    return split_binary(node) is not None or _read_negation(unwrap_node(node)) is not None


def _list_demands(node: Node, *, negate: bool, depth: int = 0) -> Iterator[_Demand]:
    """The demands of a condition, or of its negation if ``negate``: ``a and b`` makes two demands,
    ``a or b`` one."""
    node = unwrap_node(node)
    inner, operation = _read_negation(node), split_binary(node)
    if inner is not None and depth < _DEEPEST:
        yield from _list_demands(inner, negate=not negate, depth=depth + 1)
    elif operation and operation[0] in (_OR if negate else _AND) and depth < _DEEPEST:  # De Morgan
        for side in operation[1:]:
            yield from _list_demands(side, negate=negate, depth=depth + 1)
    elif operation and operation[0] not in _AND | _OR:
        yield _read_comparison(*operation, negate=negate)
    else:
        *others, last = _split_equality_chain(node)
        equalities = [_Demand("equal", False, (operand, last)) for operand in others]
        yield from equalities if equalities and not negate else [_Demand("true", negate, (node,))]


def _split_equality_chain(node: Node) -> list[Node]:
    """The operands of ``a == b == 1``; of another condition only its node."""
    operators = node.children[1::2] if node.type == "comparison_operator" else []
    is_chain = len(operators) > 1 and all(read_text(operator) == "==" for operator in operators)
    return node.children[::2] if is_chain else [node]


def _read_negation(node: Node) -> Node | None:
    """The operand of a negation; None for other nodes."""
    children = list_children(node)
    negates = node.type == "not_operator" or (
        node.type in _UNARY_NODES and read_text(node).startswith(("!", "not "))
    )
    return children[-1] if negates and children else None


def _read_comparison(operator: str, left: Node, right: Node, *, negate: bool) -> _Demand:
    if operator not in _EQUAL_OPERATORS | _UNEQUAL_OPERATORS:
        return _Demand("compare", negate, (left, right))
    negated = negate if operator in _EQUAL_OPERATORS else not negate
    sides, booleans = {read_text(left), read_text(right)}, _TRUE_LITERALS | _FALSE_LITERALS
    if sides & _NULLS:
        of_error = any(side.endswith(("err", "Err", "error")) for side in sides)
        return _Demand("noerror" if of_error else "null", negated, (left, right))
    if sides & booleans and operator != "is":  # == False demands what ``not`` demands
        subject = right if read_text(left) in booleans else left
        return _Demand("true", negated != bool(sides & _FALSE_LITERALS), (subject,))
    return _Demand("equal", negated, (left, right))


@dataclass(frozen=True)
class Assertion:
    """One demand of a test, at a ``line``. ``key`` are the tokens of its code, ``word`` is its kind
    (``equal``, ``raises``, …; ``helper`` for a call of unknown code that may assert). ``parts`` are
    its subject and the values that it compares the subject with."""

    line: int
    key: tuple[str, ...]
    word: str
    negated: bool = False
    parts: tuple[Node, ...] = field(repr=False, compare=False, kw_only=True, default=())

    @property
    def is_exact(self) -> bool:
        """True if it demands an exact value, False if only a property of it."""
        return self.word in EXACT and not self.negated and len(self.parts) > 1

    @property
    def subjects(self) -> frozenset[str]:
        """The code of both sides of a comparison: libraries differ in which one is the subject."""
        return frozenset(map(read_text, self.parts[:2]))


def build_assertion(
    node: Node,
    word: str,
    parts: Sequence[Node] = (),
    negated: bool = False,
    key: tuple[str, ...] = (),
) -> Assertion:
    """The assertion that a node makes. ``key`` are by default the tokens of the node."""
    return Assertion(
        read_line_number(node), key or list_tokens(node), word, negated, parts=tuple(parts)
    )


def read_condition(
    node: Node, condition: Node, *, negate: bool = False, key: tuple[str, ...] = ()
) -> Iterator[Assertion]:
    """The demands of a condition that a node asserts, or of its negation if ``negate``."""
    for word, negated, parts in _list_demands(condition, negate=negate):
        yield build_assertion(node, word, parts, negated, key)


# --- a subject, then a matcher --------------------------------------------------------------------


FLUENT = frozenset(
    "expect assertthat that assertthatcode assertthatobject assertthatjson then expectasync given"
    " isexpected verifythat expecttypeof asserttype inorder ω 𝔼".split()
)
THROWN = frozenset(
    "assertthatthrownby thenthrownby assertthatexceptionoftype assertthatexception"
    " assertthatnoexception assertthatillegalargumentexception assertthatnullpointerexception"
    " assertthatioexception".split()
)
_NEGATING_LINKS = frozenset("not never nottobe tonot notto shouldnot wont neverto".split())
_TAKES_MATCHER = frozenset("to tonot notto should shouldnot must andexpect".split())
_NO_MATCHER = frozenset("expect describedas as withmessage".split())
_FILLERS = ("not", "be", "have", "not be")


def find_should_index(words: list[str], links: tuple[Link, ...]) -> int | None:
    """The index of the link with ``should`` in ``x.should eq(y)``, ``x shouldBe y``, or with
    ``must`` in ``x.must_equal y``; None without one."""
    for index, word in enumerate(words):
        called = links[index].args is not None or index + 1 < len(words)
        if index and called and word.startswith(("should", "must", "wont", "canequal")):
            return index
    return None


def find_left_operand(node: Node) -> Node:
    """The subject of a matcher, such as ``x`` in ``x should contain (3)``."""
    fields = ("left", "receiver", "object", "function", "expression", "value")
    for _ in range(20):
        left = find_field(node, *fields) or next(iter(list_children(node)), None)
        if left is None:
            break
        node = unwrap_node(left)
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
        negated = negated or name in _NEGATING_LINKS or passed in ("not", "not be")
        demand = _read_link(link, negated=negated)
        if demand and (best is None or best.word not in EXACT):
            best = demand
    if best:
        yield build_assertion(node, best.word, (*subject, *best.parts), best.negated)


def _read_link(link: Link, *, negated: bool) -> _Demand | None:
    """The demand of a link with a matcher, which earlier links may have ``negated``, or None."""
    args, name = link.args or (), normalize_name(link.name)
    if name in _TAKES_MATCHER and args:
        if read_text(args[0]) in _FILLERS:
            return None
        matcher = _read_passed_matcher(args[0])
        return matcher._replace(negated=matcher.negated != negated)
    word, negates = parse_assertion_name(link.name)
    if word in WORDS | RAISES and (link.args is not None or word in PROPERTIES):
        return _Demand(word, negated != negates, args)
    unknown = word not in WORDS and link.args is not None and name not in _NO_MATCHER
    return _Demand("helper", negated, args) if unknown else None


def _read_passed_matcher(node: Node) -> _Demand:
    """A matcher that is an argument: ``is(not(equalTo(3)))``, ``eq(3)``, ``be_nil``,
    ``raise_error(X)``."""
    negated, word = False, "helper"
    expected: tuple[Node, ...] = ()
    current = unwrap_node(node)
    for _ in range(6):
        links = read_chain(current)
        if not links:
            break
        first, last = links[0], links[-1]
        name, negates = parse_assertion_name((first if len(links) > 2 else last).name)
        if negates or normalize_name(last.name) in _NEGATING_LINKS:
            negated = not negated
        args = last.args or first.args or ()
        if name in WORDS | RAISES:
            word, expected = name, args
        wraps = name in ("is", "not", "that", "be") or name not in WORDS | RAISES
        if not wraps or not args or args[0].type not in CALLS:
            break
        current = args[0]
    return _Demand(word, negated, expected)
