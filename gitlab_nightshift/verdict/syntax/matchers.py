"""Assertions whose words come after their subject: ``expect(x).toBe(y)``, ``x shouldBe y``."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.syntax import conditions
from gitlab_nightshift.verdict.syntax.assertion import (
    Assertion,
    bare_condition,
    limit,
    made,
    raise_rank,
    texts,
)
from gitlab_nightshift.verdict.syntax.nodes import CALLS, Link, bare, chain, field, kids, text
from gitlab_nightshift.verdict.syntax.words import (
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


FLUENT = frozenset(
    "expect assertthat that assertthatthrownby assertthatcode assertthatexceptionoftype"
    " thenthrownby"
    " then assertthatobject assertthatjson assertthatnoexception expectasync isexpected ω 𝔼"
    " assertthatillegalargumentexception assertthatnullpointerexception assertthatioexception"
    " verifythat given expecttypeof asserttype inorder".split()
)


_FLIPS = frozenset("not never nottobe tonot notto shouldnot wont neverto".split())


def should_at(words: list[str], links: tuple[Link, ...]) -> int | None:
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


def left_of(node: "Node") -> "Node | None":
    current = node
    for _ in range(20):
        inside = field(
            current, "left", "receiver", "object", "function", "expression", "value"
        ) or (kids(current)[0] if kids(current) else None)
        if inside is None:
            return current
        inside = bare(inside)
        if not any(
            normal(link.name).startswith(("should", "must", "wont")) for link in chain(inside)[1:]
        ):
            return inside
        current = inside
    return current


def fluent(node: "Node", links: tuple[Link, ...]) -> Iterator[Assertion]:
    """``expect(x).not.toBe(y)``, ``assertThat(x).isEqualTo(y)``, ``expect(x).to eq(y)``."""
    first = links[0]
    args = list(first.args or ())
    if normal(first.name) == "expect" and links[-1].name in ("assertions", "hasAssertions"):
        return
    if normal(first.name) in ("assertthat", "that") and len(links) == 1:
        yield from hamcrest(node, args)
        return
    if normal(first.name) in _THROWN:
        yield _thrown(node, links)
        return
    subject = text(args[0]) if args else first.name
    yield from matcher(node, links, 0, subject)


_THROWN = frozenset(
    "assertthatthrownby thenthrownby assertthatexceptionoftype assertthatexception".split()
)


def _thrown(node: "Node", links: tuple[Link, ...]) -> Assertion:
    """``assertThatThrownBy(() -> f()).isInstanceOf(X.class).hasMessageContaining(m)``."""
    types = [links[0]] if normal(links[0].name) == "assertthatexceptionoftype" else []
    types += [
        link for link in links[1:] if strength(link.name)[0] in ("instance", "instanceof", "oftype")
    ]
    said = [each for link in (*types, *links[1:]) for each in texts(link.args)]
    plain = tuple(dict.fromkeys(each for each in said if "->" not in each))
    return made(node, "raises", raise_rank(plain), (), plain)


def hamcrest(node: "Node", args: "list[Node]") -> Iterator[Assertion]:
    args = args[1:] if len(args) > 2 and args[0].type in ("string_literal", "string") else args
    if len(args) < 2:
        if args and conditions.is_condition(args[0]):
            yield from bare_condition(node, args)
        return
    word, rank, negated, expected = _matcher_of(args[1])
    rank = negative(word, rank) if negated and word not in RAISES else rank
    yield made(node, word, rank, (text(args[0]),), expected, negated, tuple(args))


def _matcher_of(node: "Node") -> tuple[str, int, bool, tuple[str, ...]]:
    """``is(not(equalTo(3)))``, ``eq(3)``, ``be_nil``, ``raise_error(X)``."""
    negated, word, rank = False, "helper", EXACT
    expected: tuple[str, ...] = ()
    current: Node | None = bare(node)
    for _ in range(6):
        links = chain(current) if current else ()
        if not links:
            break
        said, found, flipped = strength(links[-1].name if len(links) < 3 else links[0].name)
        negated ^= flipped or normal(links[-1].name) in _FLIPS
        args = links[-1].args or links[0].args or ()
        if said in RAISES:
            return said, raise_rank(texts(args)), negated, texts(args)
        if found is not None:
            word, rank, expected = said, found, texts(args)
        if not args or args[0].type not in CALLS:
            break
        if said not in ("is", "not", "that", "be") and found is not None:
            break
        current = args[0]
    return word, rank, negated, expected


def matcher(node: "Node", links: tuple[Link, ...], start: int, subject: str) -> Iterator[Assertion]:
    """The strongest matcher among the links of a chain after ``start``."""
    negated = False
    best: _Best | None = None
    for link in links[start:] if start else links[1:]:
        negated = negated or _turns(link)
        found = _of_link(link, negated, links[0].types)
        best = _stronger(best, found) if found else best
    if best:
        word, rank, flip, expected, parts = best
        rank = max(min(rank, limit(expected)), _inner_rank(word, flip, links[0].args))
        yield made(node, word, rank, (subject,), expected, flip, (*(links[0].args or ()), *parts))


_TAKES_MATCHER = frozenset("to tonot notto should shouldnot must andexpect".split())
_ALONE = frozenset("null empty undefined nan nil calledonce calledtwice exist".split())


def _turns(link: Link) -> bool:
    name = normal(link.name)
    if name in _TAKES_MATCHER and link.args and text(link.args[0]).startswith("not"):
        return text(link.args[0]) in ("not", "not be")
    return name in _FLIPS


def _of_link(link: Link, negated: bool, types: str) -> "_Best | None":
    """The matcher of one link; None where it says nothing."""
    name, args = normal(link.name), link.args or ()
    word, rank, flipped = strength(link.name)
    if name in _TAKES_MATCHER and args:
        return _handed_over(args, negated)
    if name == "thrownby":
        said = (types,) if types else ()
        return "raises", raise_rank(said), negated, said, args
    if word in RAISES:
        return word, raise_rank(texts(args)), negated, texts(args), args
    flip = negated != flipped
    if rank is not None and (
        link.args is not None or (word != "be" and _may_stand_alone(word, rank))
    ):
        return word, negative(word, rank) if flip else rank, flip, texts(args), args
    if rank is None and link.args is not None and name not in _SAYS_NOTHING:
        return "helper", PARTIAL, negated, texts(args), args
    return None


def _handed_over(args: "tuple[Node, ...]", negated: bool) -> "_Best | None":
    """The matcher in ``to(eq(3))``, ``should(be_nil)``."""
    if text(args[0]) in ("not", "be", "have", "not be"):
        return None
    word, rank, inner, expected = _matcher_of(args[0])
    flip = inner != negated
    rank = negative(word, rank) if flip and word not in RAISES else rank
    return word, rank, flip, expected, args


_SAYS_NOTHING = frozenset("expect describedas as withmessage".split())


def _may_stand_alone(word: str, rank: int) -> bool:
    """``.to.be.true``, ``.not.toBeNull``: a property and no call."""
    return rank <= TRUTHY or word in _ALONE


def _inner_rank(word: str, flip: bool, args: "tuple[Node, ...] | None") -> int:
    """``assertThat(list.contains(x)).isTrue()`` demands what the condition inside demands."""
    if not args or word not in ("true", "false", "truthy", "falsy"):
        return 0
    inner = next(conditions.demands(args[0], flip != (word in ("false", "falsy"))), None)
    return inner.rank if inner and inner.rank < EXACT else 0


_Best = tuple[str, int, bool, tuple[str, ...], "tuple[Node, ...]"]


def _stronger(best: "_Best | None", other: "_Best") -> "_Best":
    if best is None or best[0] == "helper" or (other[0] != "helper" and other[1] >= best[1]):
        return other
    return best
