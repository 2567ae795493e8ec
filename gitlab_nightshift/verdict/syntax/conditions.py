"""Conditions that are asserted: what they demand, and how strongly."""

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax.assertion_words import (
    CLOSE,
    EXACT,
    PARTIAL,
    PRESENT,
    RANKS,
    TRUTHY,
    TYPE,
    normalize_name,
    parse_assertion_name,
)
from gitlab_nightshift.verdict.syntax.nodes import (
    LITERALS,
    STRINGS,
    find_field,
    list_children,
    read_chain,
    read_text,
    split_binary,
    unwrap_node,
    walk,
)

_TABLE = RuleTable(__file__)

_EQUAL = frozenset(("==", "===", "is", "eq", "equals", "=~="))
_UNEQUAL = frozenset(("!=", "!==", "is not", "ne", "<>", "=!="))
_AND, _OR = frozenset(("and", "&&")), frozenset(("or", "||"))
_NOTHING = frozenset(("None", "nil", "null", "undefined"))
_BOUNDS = frozenset(("<", "<=", ">", ">="))
_DEEPEST = 20


@dataclass(frozen=True)
class Demand:
    """What a condition says about its subject."""

    word: str
    rank: int
    negated: bool
    subject: Node | None
    expected: tuple[Node, ...]


def is_condition(node: Node) -> bool:
    """True for a comparison or a negation, false for a plain value."""
    return split_binary(node) is not None or _read_negation(unwrap_node(node)) is not None


def list_demands(node: Node, flip: bool = False, depth: int = 0) -> Iterator[Demand]:
    """The demands of a condition, or of its opposite; a conjunction has several."""
    node = unwrap_node(node)
    inner = _read_negation(node)
    if inner is not None and depth < _DEEPEST:
        yield from list_demands(inner, not flip, depth + 1)
        return
    parts = split_binary(node)
    if parts is None:
        *others, last = _list_equals(node) if not flip else [node]
        yield from (_read_comparison("==", each, last, flip) for each in others)
        if not others:
            yield _read_plain_condition(node, flip)
        return
    operator, left, right = parts
    if operator in _AND | _OR and depth < _DEEPEST:
        both = (*list_demands(left, flip, depth + 1), *list_demands(right, flip, depth + 1))
        if (operator in _AND) != flip:
            yield from both
        elif both:
            decided = {read_text(unwrap_node(side)).lower() for side in (left, right)}
            yield (
                min(both, key=lambda demand: demand.rank)
                if all(demand.rank for demand in both) and str(not flip).lower() not in decided
                else Demand("always", 0, False, node, ())
            )
    else:
        yield _read_comparison(operator, left, right, flip)


def _list_equals(node: Node) -> list[Node]:
    """What ``a == b == 1`` says is equal; else the node alone."""
    signs = node.children[1::2] if node.type == "comparison_operator" else []
    equal = len(signs) > 1 and all(read_text(sign) == "==" for sign in signs)
    return node.children[::2] if equal else [node]


def _read_negation(node: Node) -> Node | None:
    inside = list_children(node)
    if node.type == "not_operator" and inside:
        return inside[0]
    is_not = node.type in _UNARY and read_text(node).startswith(("!", "not "))
    return inside[-1] if is_not and inside else None


_UNARY = _TABLE.get_words("unary")


def _read_comparison(operator: str, left: Node, right: Node, flip: bool) -> Demand:
    subject, expected = split_subject([left, right])
    if operator in _EQUAL | _UNEQUAL:
        return _read_equality(operator, subject, expected, negated=(operator in _EQUAL) == flip)
    if operator in ("in", "not in"):
        return Demand("in", PARTIAL, (operator == "not in") != flip, right, (left,))
    if operator in ("instanceof", "is_a", "!is"):
        return Demand("instance", TYPE, flip, left, (right,))
    if operator in _BOUNDS:
        below = (operator in ("<", "<=")) != flip
        below = below if subject is left else not below
        return Demand("below" if below else "above", PARTIAL, False, subject, expected)
    return Demand("matches", PARTIAL, flip, subject, expected)


def _read_equality(
    operator: str, subject: Node | None, expected: tuple[Node, ...], *, negated: bool
) -> Demand:
    said = "".join(read_text(each) for each in expected)
    if said in _NOTHING:
        is_error = read_text(subject) in ("err", "error") or read_text(subject).endswith(
            ("Err", "err")
        )
        rank = TRUTHY if is_error else PRESENT if negated else EXACT
        return Demand("null", rank, negated, subject, expected)
    if said in ("true", "True", "false", "False") and operator != "is":
        return Demand("true", EXACT if operator == "===" else TRUTHY, negated, subject, expected)
    rank = TRUTHY if negated else _rank_equality(subject, expected)
    return Demand("equal", rank, negated, subject, expected)


def _rank_equality(subject: Node | None, expected: tuple[Node, ...]) -> int:
    if any("approx(" in read_text(each) for each in expected) or "round(" in read_text(subject)[:6]:
        return CLOSE
    return PARTIAL if is_partial(subject) else EXACT


def is_partial(subject: Node | None) -> bool:
    """True for a size: ``len(x)``, ``x.length``, ``x.size()``, ``x.count``."""
    links = read_chain(subject) if subject else ()
    if not links:
        return False
    first, last = links[0].name, normalize_name(links[-1].name)
    if first in ("len", "count", "sizeof", "type") and len(links) == 1 and links[0].args:
        return True
    return len(links) > 1 and last in ("length", "size", "count", "len", "getsize")


def _read_plain_condition(node: Node, flip: bool) -> Demand:
    links = read_chain(node)
    last = normalize_name(links[-1].name) if links else ""
    args = links[-1].args if links else None
    if last in ("isinstance",) and args:
        return Demand("instance", TYPE, flip, args[0], tuple(args[1:]))
    if last in ("matches!", "matches") and links[-1].name.endswith("!") and args:
        return Demand("matches", CLOSE, flip, args[0], tuple(args[1:]))
    word, rank, negated = parse_assertion_name(links[-1].name) if links else ("", None, False)
    if args and rank is not None and rank > TRUTHY and word in _RANKED and not flip:
        whole = args[0] if len(links) == 1 or links[0].name in _MODULES else node
        return Demand(
            word, min(rank, PARTIAL) if negated else rank, negated, whole, tuple(args[-1:])
        )
    if args and rank is not None and rank >= PARTIAL and flip:
        return Demand(word, PARTIAL if rank < EXACT else TRUTHY, True, node, tuple(args[-1:]))
    if args and last in ("all", "every", "forall", "allmatch"):
        return Demand("all", PARTIAL, flip, node, ())
    return Demand("true", TRUTHY, flip, node, ())


_RANKED = RANKS.keys() - {"len", "length", "size", "count"}  # a size alone is no demand of it
_MODULES = _TABLE.get_words("modules")


def is_literal(node: Node | None) -> bool:
    """True where a piece of code is spelled out: no name in it but those of constants, types and
    keys."""
    if node is None:
        return False
    for each in walk(node):
        if each.child_count or not each.is_named or each.type in LITERALS:
            continue
        if each.type.endswith("identifier") or each.type in ("name", "variable_name"):
            if each.type == "property_identifier" or (each.parent is not None and _is_key(each)):
                continue
            if not read_text(each)[:1].isupper() and read_text(each) not in _BUILDERS:
                return False
    return True


_BUILDERS = _TABLE.get_words("builders")


def _is_key(node: Node) -> bool:
    parent = node.parent
    return (
        parent is not None
        and parent.type in ("pair", "keyword_argument", "keyed_element", "field_initializer")
        and (find_field(parent, "key", "name", "field") == node)
    )


def split_subject(args: list[Node]) -> tuple[Node | None, tuple[Node, ...]]:
    """What is looked at, then what it is compared with, whichever comes first."""
    if len(args) < 2:
        return (args[0] if args else None), ()
    first, second = args[0], args[1]
    third = tuple(arg for arg in args[2:3] if arg.type not in STRINGS and is_literal(arg))
    if _is_plain(first) != _is_plain(second):
        return (second, (first, *third)) if _is_plain(first) else (first, (second, *third))
    if is_literal(first) and not is_literal(second):
        return second, (first, *third)
    if not is_literal(second) and _is_named_expected(first) and not _is_named_expected(second):
        return second, (first, *third)
    return first, (second, *third)


def _is_plain(node: Node) -> bool:
    """A literal without any name in it."""
    return not any(
        each.is_named and not each.child_count and each.type not in LITERALS and read_text(each)
        for each in walk(node)
        if not (each.parent and each.parent.type in LITERALS)
    )


def _is_named_expected(node: Node) -> bool:
    word = normalize_name(read_text(node)) if node.end_byte - node.start_byte < 80 else ""
    return word.startswith(("expect", "want", "exp")) or word.endswith(
        ("want", "expected", "wanted")
    )
