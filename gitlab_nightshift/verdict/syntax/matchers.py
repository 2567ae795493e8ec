"""Assertions whose words come after their subject: ``expect(x).toBe(y)``, ``x shouldBe y``."""

from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax import conditions
from gitlab_nightshift.verdict.syntax.assertion import (
    Assertion,
    build_assertion,
    rank_exception,
    rank_expected,
    read_condition,
    read_texts,
)
from gitlab_nightshift.verdict.syntax.assertion_words import (
    EXACT,
    PARTIAL,
    RAISES,
    TRUTHY,
    normalize_name,
    parse_assertion_name,
    rank_opposite,
)
from gitlab_nightshift.verdict.syntax.nodes import (
    CALLS,
    Link,
    find_field,
    list_children,
    read_chain,
    read_text,
    unwrap_node,
)

_TABLE = RuleTable(__file__)


FLUENT = _TABLE.get_words("fluent")


_FLIPS = frozenset("not never nottobe tonot notto shouldnot wont neverto".split())


def find_should_index(words: list[str], links: tuple[Link, ...]) -> int | None:
    """The link of ``x.should eq(y)``, ``x shouldBe y``, ``x.must_equal y``, ``x must_== y``."""
    for at, word in enumerate(words):
        if (
            at
            and word.startswith(("should", "must", "wont"))
            and (links[at].args is not None or at + 1 < len(words))
        ):
            return at
        if at and links[at].name in ("===", "mustEqual", "canEqual") and len(links) == at + 1:
            return at if links[at].name != "===" else None
        if at and word in ("assertcalledoncewith",):
            return at
    return None


def find_left_operand(node: Node) -> Node | None:
    current = node
    for _ in range(20):
        inside = find_field(
            current, "left", "receiver", "object", "function", "expression", "value"
        ) or (list_children(current)[0] if list_children(current) else None)
        if inside is None:
            return current
        inside = unwrap_node(inside)
        if not any(
            normalize_name(link.name).startswith(("should", "must", "wont"))
            for link in read_chain(inside)[1:]
        ):
            return inside
        current = inside
    return current


def read_fluent(node: Node, links: tuple[Link, ...]) -> Iterator[Assertion]:
    """``expect(x).not.toBe(y)``, ``assertThat(x).isEqualTo(y)``, ``expect(x).to eq(y)``."""
    first = links[0]
    args = list(first.args or ())
    if normalize_name(first.name) == "expect" and links[-1].name in ("assertions", "hasAssertions"):
        return
    if normalize_name(first.name) in ("assertthat", "that") and len(links) == 1:
        yield from read_hamcrest(node, args)
        return
    if normalize_name(first.name) in _THROWN:
        yield _read_thrown_by(node, links)
        return
    subject = read_text(args[0]) if args else first.name
    yield from read_matcher(node, links, 0, subject)


_THROWN = _TABLE.get_words("thrown")


def _read_thrown_by(node: Node, links: tuple[Link, ...]) -> Assertion:
    """``assertThatThrownBy(() -> f()).isInstanceOf(X.class).hasMessageContaining(m)``."""
    types = [links[0]] if normalize_name(links[0].name) == "assertthatexceptionoftype" else []
    types += [
        link
        for link in links[1:]
        if parse_assertion_name(link.name)[0] in ("instance", "instanceof", "oftype")
    ]
    said = [each for link in (*types, *links[1:]) for each in read_texts(link.args)]
    plain = tuple(dict.fromkeys(each for each in said if "->" not in each))
    return build_assertion(node, "raises", rank_exception(plain), (), plain)


def read_hamcrest(node: Node, args: list[Node]) -> Iterator[Assertion]:
    args = args[1:] if len(args) > 2 and args[0].type in ("string_literal", "string") else args
    if len(args) < 2:
        if args and conditions.is_condition(args[0]):
            yield from read_condition(node, args)
        return
    word, rank, negated, expected = _read_matcher_argument(args[1])
    rank = rank_opposite(word, rank) if negated and word not in RAISES else rank
    yield build_assertion(node, word, rank, (read_text(args[0]),), expected, negated, tuple(args))


def _read_matcher_argument(node: Node) -> tuple[str, int, bool, tuple[str, ...]]:
    """``is(not(equalTo(3)))``, ``eq(3)``, ``be_nil``, ``raise_error(X)``."""
    negated, word, rank = False, "helper", EXACT
    expected: tuple[str, ...] = ()
    current: Node | None = unwrap_node(node)
    for _ in range(6):
        links = read_chain(current) if current else ()
        if not links:
            break
        said, found, flipped = parse_assertion_name(
            links[-1].name if len(links) < 3 else links[0].name
        )
        negated ^= flipped or normalize_name(links[-1].name) in _FLIPS
        args = links[-1].args or links[0].args or ()
        if said in RAISES:
            return said, rank_exception(read_texts(args)), negated, read_texts(args)
        if found is not None:
            word, rank, expected = said, found, read_texts(args)
        if not args or args[0].type not in CALLS:
            break
        if said not in ("is", "not", "that", "be") and found is not None:
            break
        current = args[0]
    return word, rank, negated, expected


def read_matcher(
    node: Node, links: tuple[Link, ...], start: int, subject: str
) -> Iterator[Assertion]:
    """The strongest matcher among the links of a chain after ``start``."""
    negated = False
    best: _Best | None = None
    for link in links[start:] if start else links[1:]:
        negated = negated or _turns(link)
        found = _read_link(link, negated, links[0].types)
        best = _choose_stronger(best, found) if found else best
    if best:
        word, rank, flip, expected, parts = best
        rank = max(
            min(rank, rank_expected(expected)), _rank_inner_condition(word, flip, links[0].args)
        )
        left = find_left_operand(node) if start else None
        looked_at = (left,) if left else links[0].args or ()
        yield build_assertion(node, word, rank, (subject,), expected, flip, (*looked_at, *parts))


_TAKES_MATCHER = frozenset("to tonot notto should shouldnot must andexpect".split())
_ALONE = frozenset("null empty undefined nan nil calledonce calledtwice exist".split())


def _turns(link: Link) -> bool:
    name = normalize_name(link.name)
    if name in _TAKES_MATCHER and link.args and read_text(link.args[0]).startswith("not"):
        return read_text(link.args[0]) in ("not", "not be")
    return name in _FLIPS


def _read_link(link: Link, negated: bool, types: str) -> "_Best | None":
    """The matcher of one link; None where it says nothing."""
    name, args = normalize_name(link.name), link.args or ()
    word, rank, flipped = parse_assertion_name(link.name)
    if name in _TAKES_MATCHER and args:
        return _read_passed_matcher(args, negated)
    if name == "thrownby":
        said = (types,) if types else ()
        return "raises", rank_exception(said), negated, said, args
    if word in RAISES:
        return word, rank_exception(read_texts(args)), negated, read_texts(args), args
    flip = negated != flipped
    if rank is not None and (
        link.args is not None or (word != "be" and _may_stand_alone(word, rank))
    ):
        return word, rank_opposite(word, rank) if flip else rank, flip, read_texts(args), args
    if rank is None and link.args is not None and name not in _SAYS_NOTHING:
        return "helper", PARTIAL, negated, read_texts(args), args
    return None


def _read_passed_matcher(args: tuple[Node, ...], negated: bool) -> "_Best | None":
    """The matcher in ``to(eq(3))``, ``should(be_nil)``."""
    if read_text(args[0]) in ("not", "be", "have", "not be"):
        return None
    word, rank, inner, expected = _read_matcher_argument(args[0])
    flip = inner != negated
    rank = rank_opposite(word, rank) if flip and word not in RAISES else rank
    return word, rank, flip, expected, args


_SAYS_NOTHING = frozenset("expect describedas as withmessage".split())


def _may_stand_alone(word: str, rank: int) -> bool:
    """``.to.be.true``, ``.not.toBeNull``: a property and no call."""
    return rank <= TRUTHY or word in _ALONE


def _rank_inner_condition(word: str, flip: bool, args: tuple[Node, ...] | None) -> int:
    """``assertThat(list.contains(x)).isTrue()`` demands what the condition inside demands."""
    if not args or word not in ("true", "false", "truthy", "falsy"):
        return 0
    inner = next(conditions.list_demands(args[0], flip != (word in ("false", "falsy"))), None)
    return inner.rank if inner and inner.rank < EXACT else 0


_Best = tuple[str, int, bool, tuple[str, ...], tuple[Node, ...]]


def _choose_stronger(best: "_Best | None", other: "_Best") -> "_Best":
    if best is None or best[0] == "helper" or (other[0] != "helper" and other[1] >= best[1]):
        return other
    return best
