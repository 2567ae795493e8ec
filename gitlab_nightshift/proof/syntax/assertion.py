"""One assertion, in a form common to all languages, and how a condition becomes several."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from dataclasses import field as slot

from tree_sitter import Node

from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.nodes import (
    list_children,
    list_tokens,
    read_line_number,
    read_text,
    split_binary,
    unwrap_node,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_TABLE = RuleTable(__file__)
EQUAL = _TABLE.get_words("equal")  # they demand an exact value
ALONE = _TABLE.get_words("alone")  # they need no argument, and may be properties: ``.to.be.true``
WORDS = EQUAL | ALONE | _TABLE.get_words("others")
RAISES = _TABLE.get_words("raises")
_PREFIX = compile_lazily(
    r"^(assert|refute|should|must|wont|expect|verify|to|is|be|have|has|was|are|do|does|only|that)"
)
_NEGATIONS = ("doesnot", "not", "wont", "refute")
_ALIASES = {"nullvalue": "null"} | dict.fromkeys(
    ("emptystring", "emptycollection", "emptyiterable", "emptyarray"), "empty"
)


def normalize_name(name: str) -> str:
    """The same word for ``assert_equal``, ``assertEqual`` and ``AssertEqual!``."""
    return name.lower().replace("_", "").rstrip("!?").strip()


def parse_assertion_name(name: str) -> tuple[str, bool]:
    """The word of a matcher or assertion, and whether it is negated; for an unknown name, the rest
    without prefixes: ``to_not_be_nil`` → ``nil``, True."""
    word, negated = normalize_name(name), False
    for _ in range(6):
        word = _ALIASES.get(word, word)
        if word in RAISES | WORDS:
            break
        if found := next(filter(word.startswith, _NEGATIONS), ""):
            negated, word = not negated, word.removeprefix(found)
            continue
        shorter = _PREFIX.sub("", word)
        if shorter == word:
            break
        word = shorter
    return word, negated


_EQUAL = frozenset(("==", "===", "is", "eq", "equals", "=~="))
_UNEQUAL = frozenset(("!=", "!==", "is not", "ne", "<>", "=!="))
_AND, _OR = frozenset(("and", "&&")), frozenset(("or", "||"))
_NOTHING = frozenset(("None", "nil", "null", "undefined"))
_TRUTHS = frozenset(("true", "True", "false", "False"))
_UNARY = frozenset(
    "unary_expression unary prefix_expression prefix_unary_expression unary_op_expression".split()
)
_DEEPEST = 20


@dataclass(frozen=True)
class _Demand:
    """One demand of a condition; the fields are those of ``Assertion``."""

    word: str
    negated: bool
    parts: tuple[Node, ...]


def is_condition(node: Node) -> bool:
    """True for a comparison or a negation, False for a plain value."""
    return split_binary(node) is not None or _read_negation(unwrap_node(node)) is not None


def _list_demands(node: Node, flip: bool = False, depth: int = 0) -> Iterator[_Demand]:
    """The demands of a condition, or of its negation if ``flip``. ``a and b`` is two demands,
    ``a or b`` is one."""
    node = unwrap_node(node)
    inner, parts = _read_negation(node), split_binary(node)
    if inner is not None and depth < _DEEPEST:
        yield from _list_demands(inner, not flip, depth + 1)
    elif parts and parts[0] in (_OR if flip else _AND) and depth < _DEEPEST:  # De Morgan
        for side in parts[1:]:
            yield from _list_demands(side, flip, depth + 1)
    elif parts and parts[0] not in _AND | _OR:
        yield _read_comparison(*parts, flip)
    else:
        *others, last = _list_equals(node)
        chained = [_Demand("equal", False, (each, last)) for each in others]
        yield from chained if chained and not flip else [_Demand("true", flip, (node,))]


def _list_equals(node: Node) -> list[Node]:
    """The parts of ``a == b == 1``; for other conditions the node alone."""
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
    if operator not in _EQUAL | _UNEQUAL:
        return _Demand("compare", flip, (left, right))
    negated, sides = (operator in _EQUAL) == flip, {read_text(left), read_text(right)}
    if sides & _NOTHING:
        of_error = any(each.endswith(("err", "Err", "error")) for each in sides)
        return _Demand("noerror" if of_error else "null", negated, (left, right))
    if sides & _TRUTHS and operator != "is":
        return _Demand("true", negated, (right if read_text(left) in _TRUTHS else left,))
    return _Demand("equal", negated, (left, right))


@dataclass(frozen=True)
class Assertion:
    """One demand of a test. ``key`` are the words of its code, ``word`` is its kind (``equal``,
    ``raises``, ``helper``, …), ``parts`` are its subject and the values it compares that with."""

    line: int
    key: tuple[str, ...]
    word: str
    negated: bool = False
    parts: tuple[Node, ...] = slot(repr=False, compare=False, kw_only=True, default=())

    @property
    def compares(self) -> bool:
        """True if it demands an exact value, False if only a property of it."""
        return self.word in EQUAL and not self.negated and len(self.parts) > 1

    @property
    def subjects(self) -> frozenset[str]:
        """Both sides of a comparison, as libraries differ in which one is expected."""
        return frozenset(map(read_text, self.parts[:2]))


def build_assertion(
    node: Node,
    word: str,
    parts: Sequence[Node] = (),
    negated: bool = False,
    key: tuple[str, ...] = (),
) -> Assertion:
    """The assertion that a node makes; ``key`` if that is more than its own code."""
    return Assertion(
        read_line_number(node), key or list_tokens(node), word, negated, parts=tuple(parts)
    )


def read_condition(
    node: Node, condition: Node, flip: bool = False, key: tuple[str, ...] = ()
) -> Iterator[Assertion]:
    """The demands of a condition that a node asserts, or of its negation if ``flip``."""
    for each in _list_demands(condition, flip):
        yield build_assertion(node, each.word, each.parts, each.negated, key)
