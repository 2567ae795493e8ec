"""What the product code of a change declares, before and after."""

from collections import Counter
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from gitlab_nightshift.verdict.change import Change
from gitlab_nightshift.verdict.flags.tests_seen import MOST_PAIRS, alike, bag_of
from gitlab_nightshift.verdict.syntax.functions import Function
from gitlab_nightshift.verdict.syntax.nodes import field, text, walk
from gitlab_nightshift.verdict.syntax.side import Side, sides

_SAME, _TOO_SHORT = 0.8, 6
_GONE: WeakKeyDictionary[Change, frozenset[str]] = WeakKeyDictionary()
_DECLARING = frozenset(
    "public_field_definition field_declaration enum_constant enum_variant default_parameter"
    " typed_parameter typed_default_parameter required_parameter optional_parameter"
    " keyword_parameter field_definition enum_assignment enum_member_declaration".split()
)


def gone_names(change: Change) -> frozenset[str]:
    """Names that product code declared before and nowhere after; what is renamed is not gone."""
    if change not in _GONE:
        _GONE[change] = _gone(change)
    return _GONE[change]


def _gone(change: Change) -> frozenset[str]:
    both = [sides(file) for file in change.files if sides(file)[0].is_product]
    after = {name for file in change.files for name in _declared(sides(file)[1])}
    lost = {name for old, _ in both for name in _declared(old)} - after
    gone = [function for old, _ in both for function in old.functions if function.name in lost]
    before = {function.qualified for old, _ in both for function in old.functions}
    new = [
        bag_of(function.body)
        for file in change.files
        for function in sides(file)[1].functions
        if function.qualified not in before
    ]
    if len(gone) * len(new) > MOST_PAIRS:
        return frozenset()
    renamed = {function.name for function in gone if _lives_on(function, new)}
    return frozenset(name for name in lost - renamed if len(name) > 2)


def _lives_on(function: Function, new: list[Counter[str]]) -> bool:
    """True where something new has nearly the same body."""
    bag = bag_of(function.body)
    return bag.total() >= _TOO_SHORT and any(alike(bag, other) >= _SAME for other in new)


def _declared(side: Side) -> Iterator[str]:
    """Functions, classes, parameters, fields; no constants, which a rename makes look gone."""
    for function in side.functions:
        yield function.name
    for node in walk(side.root) if side.root is not None else ():
        if node.type in _DECLARING:
            named = field(node, "name", "pattern") or next(iter(node.named_children), None)
            if named is not None and named.child_count == 0:
                yield text(named)
