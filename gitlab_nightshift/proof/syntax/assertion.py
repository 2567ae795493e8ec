"""An assertion, in a form common to all languages, and the code that is read as one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

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
EQUAL = _TABLE.get_words("equal")  # words that demand an exact value
ALONE = _TABLE.get_words("alone")  # words without an argument: properties, as in ``.to.be.true``
WORDS = EQUAL | ALONE | _TABLE.get_words("others")
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
    True. The word of an unknown name is what is left of it without prefixes."""
    word, negated = normalize_name(name), False
    # Prefixes stack: ``should_not_be_nil``.
    for _ in range(6):
        word = _ALIASES.get(word, word)
        if word in RAISES | WORDS:
            break
        if found := next(filter(word.startswith, _NEGATING_PREFIXES), ""):
            negated, word = not negated, word.removeprefix(found)
            continue
        shorter = _PREFIX.sub("", word)
        if shorter == word:
            break
        word = shorter
    return word, negated


_EQUAL_OPERATORS = frozenset(("==", "===", "is", "eq", "equals", "=~="))
_UNEQUAL_OPERATORS = frozenset(("!=", "!==", "is not", "ne", "<>", "=!="))
_AND, _OR = frozenset(("and", "&&")), frozenset(("or", "||"))
_NOTHING = frozenset(("None", "nil", "null", "undefined"))
_TRUE, _FALSE = frozenset(("true", "True")), frozenset(("false", "False"))
_UNARY = frozenset(
    "unary_expression unary prefix_expression prefix_unary_expression unary_op_expression".split()
)
_DEEPEST = 20


_Demand = tuple[str, bool, tuple[Node, ...]]
"""The word, negation and parts of an assertion. Of a matcher, parts are only what it expects."""


def is_condition(node: Node) -> bool:
    """True for a comparison or a negation, False for a plain value."""
    return split_binary(node) is not None or _read_negation(unwrap_node(node)) is not None


def _list_demands(node: Node, flip: bool = False, depth: int = 0) -> Iterator[_Demand]:
    """The demands of a condition, or of its negation if ``flip``: ``a and b`` makes two demands,
    ``a or b`` one."""
    node = unwrap_node(node)
    inner, operation = _read_negation(node), split_binary(node)
    if inner is not None and depth < _DEEPEST:
        yield from _list_demands(inner, not flip, depth + 1)
    elif operation and operation[0] in (_OR if flip else _AND) and depth < _DEEPEST:  # De Morgan
        for side in operation[1:]:
            yield from _list_demands(side, flip, depth + 1)
    elif operation and operation[0] not in _AND | _OR:
        yield _read_comparison(*operation, flip)
    else:
        *others, last = _list_equals(node)
        chained: list[_Demand] = [("equal", False, (each, last)) for each in others]
        yield from chained if chained and not flip else [("true", flip, (node,))]


def _list_equals(node: Node) -> list[Node]:
    """The operands of ``a == b == 1``; of another condition only its node."""
    signs = node.children[1::2] if node.type == "comparison_operator" else []
    equal = len(signs) > 1 and all(read_text(sign) == "==" for sign in signs)
    return node.children[::2] if equal else [node]


def _read_negation(node: Node) -> Node | None:
    inside = list_children(node)
    negates = node.type == "not_operator" or (
        node.type in _UNARY and read_text(node).startswith(("!", "not "))
    )
    return inside[-1] if negates and inside else None


def _read_comparison(operator: str, left: Node, right: Node, flip: bool) -> _Demand:
    if operator not in _EQUAL_OPERATORS | _UNEQUAL_OPERATORS:
        return "compare", flip, (left, right)
    negated, sides = (operator in _EQUAL_OPERATORS) == flip, {read_text(left), read_text(right)}
    if sides & _NOTHING:
        of_error = any(each.endswith(("err", "Err", "error")) for each in sides)
        return "noerror" if of_error else "null", negated, (left, right)
    if sides & (_TRUE | _FALSE) and operator != "is":  # == False demands what ``not`` demands
        subject = right if read_text(left) in _TRUE | _FALSE else left
        return "true", negated != bool(sides & _FALSE), (subject,)
    return "equal", negated, (left, right)


@dataclass(frozen=True)
class Assertion:
    """One demand of a test, at a ``line``. ``key`` are the tokens of its code, ``word`` is its kind
    (``equal``, ``raises``, …; ``helper`` is a call of unknown code that may assert), ``parts`` are
    its subject and the values that it compares the subject with."""

    line: int
    key: tuple[str, ...]
    word: str
    negated: bool = False
    parts: tuple[Node, ...] = field(repr=False, compare=False, kw_only=True, default=())

    @property
    def is_exact(self) -> bool:
        """True if it demands an exact value, False if only a property of it."""
        return self.word in EQUAL and not self.negated and len(self.parts) > 1

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
    """The assertion that a node makes. ``key`` is given if it is not the node's own code."""
    return Assertion(
        read_line_number(node), key or list_tokens(node), word, negated, parts=tuple(parts)
    )


def read_condition(
    node: Node, condition: Node, flip: bool = False, key: tuple[str, ...] = ()
) -> Iterator[Assertion]:
    """The demands of a condition that a node asserts, or of its negation if ``flip``."""
    for word, negated, parts in _list_demands(condition, flip):
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
    for at, word in enumerate(words):
        called = links[at].args is not None or at + 1 < len(words)
        if at and called and word.startswith(("should", "must", "wont", "canequal")):
            return at
    return None


def find_left_operand(node: Node) -> Node:
    """The subject of a matcher, such as ``x`` in ``x should contain (3)``."""
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
        negated = negated or name in _NEGATING_LINKS or passed in ("not", "not be")
        found = _read_link(link, negated)
        if found and (best is None or best[0] not in EQUAL):
            best = found
    if best:
        yield build_assertion(node, best[0], (*subject, *best[2]), best[1])


def _read_link(link: Link, negated: bool) -> _Demand | None:
    """The matcher of a link, which the links before it may have ``negated``; None without one."""
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
        name, flipped = parse_assertion_name(links[-1 if len(links) < 3 else 0].name)
        negated ^= flipped or normalize_name(links[-1].name) in _NEGATING_LINKS
        args = links[-1].args or links[0].args or ()
        if name in WORDS | RAISES:
            word, expected = name, args
        wraps = name in ("is", "not", "that", "be") or name not in WORDS | RAISES
        if not wraps or not args or args[0].type not in CALLS:
            break
        current = args[0]
    return word, negated, expected
