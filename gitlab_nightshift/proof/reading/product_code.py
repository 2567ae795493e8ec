"""Names that product code declared before a change, and no code declares after it."""

from collections import Counter
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from gitlab_nightshift.proof.reading.matched_tests import (
    MOST_PAIRS,
    compute_similarity,
    count_words,
)
from gitlab_nightshift.proof.reviewed_change import Changeset
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.proof.syntax.functions import Function
from gitlab_nightshift.proof.syntax.nodes import find_field, read_text, walk

_TABLE = RuleTable(__file__)

_SAME, _TOO_SHORT = 0.8, 6
"""Similarity of a renamed function's body, and the words of one too short to tell."""
_REMOVED: WeakKeyDictionary[Changeset, frozenset[str]] = WeakKeyDictionary()
_DECLARING = _TABLE.get_words("declaring")


def find_removed_names(change: Changeset) -> frozenset[str]:
    """Names that product code no longer declares, without those of renamed functions."""
    if change not in _REMOVED:
        _REMOVED[change] = _compute_removed_names(change)
    return _REMOVED[change]


def _compute_removed_names(change: Changeset) -> frozenset[str]:
    both = [read_sides(file) for file in change.files if read_sides(file)[0].is_product]
    after = {name for file in change.files for name in _list_declared_names(read_sides(file)[1])}
    lost = {name for old, _ in both for name in _list_declared_names(old)} - after
    gone = [function for old, _ in both for function in old.functions if function.name in lost]
    before = {function.qualified for old, _ in both for function in old.functions}
    new = [
        count_words(function.body)
        for file in change.files
        for function in read_sides(file)[1].functions
        if function.qualified not in before
    ]
    if len(gone) * len(new) > MOST_PAIRS:
        return frozenset()
    renamed = {function.name for function in gone if _is_renamed(function, new)}
    # Short names such as "id" or "i" are declared too often to mean anything.
    return frozenset(name for name in lost - renamed if len(name) > 2)


def _is_renamed(function: Function, new: list[Counter[str]]) -> bool:
    """True if a new function has nearly the same body."""
    bag = count_words(function.body)
    return bag.total() >= _TOO_SHORT and any(
        compute_similarity(bag, other) >= _SAME for other in new
    )


def _list_declared_names(side: Side) -> Iterator[str]:
    """Functions, classes, parameters and fields. No constants, as a renamed one is not recognized:
    it has no body."""
    for function in side.functions:
        yield function.name
    for node in walk(side.root) if side.root is not None else ():
        if node.type in _DECLARING:
            named = find_field(node, "name", "pattern") or next(iter(node.named_children), None)
            if named is not None and named.child_count == 0:
                yield read_text(named)
