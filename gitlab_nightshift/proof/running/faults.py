"""The faults that can be planted into functions, each permanently on, or behind a switch.

Their templates are in the ``faults.toml`` of each language.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gitlab_nightshift.proof.running.fault_kinds import (
    list_decisions,
    list_literals,
    list_omissions,
    list_results,
)
from gitlab_nightshift.proof.running.fault_places import TABLE, is_excluded, list_places
from gitlab_nightshift.proof.running.fault_templates import SWITCH, Mutation, read_templates
from gitlab_nightshift.proof.syntax.file_side import Side
from gitlab_nightshift.proof.syntax.functions import Function

_NOT_PRODUCT = TABLE.get_pattern("not_product", re.IGNORECASE)
_KINDS = (list_decisions, list_results, list_literals, list_omissions)


@dataclass(frozen=True)
class Fault:
    """One fault in one function; spans are bytes of the original file.

    ``path`` is raw, ``line`` counts from 1, ``what`` is for people, ``function`` is the qualified
    name of the function around it. ``plain`` replaces the bytes ``start`` to ``end`` if the fault
    is permanently on. ``switched`` replaces them if a switch turns it on; it has the markers of
    ``fault_templates.py``, and is "" if the language has no switch. ``by_value``: a value or a
    decision is wrong, so an assertion likely fails; otherwise an exception is likely.
    """

    path: str
    line: int
    what: str
    function: str
    start: int
    end: int
    plain: str
    switched: str
    by_value: bool


def list_faults(side: Side, functions: Iterable[Function]) -> list[Fault]:
    """All faults of these functions, in source order; none in tests."""
    templates = read_templates(side.language.name) if side.language and side.is_product else None
    if templates is None or _NOT_PRODUCT.search(side.path):
        return []
    tests = {test.node.start_byte for test in side.tests}
    found: dict[tuple[int, int], Fault] = {}
    for function in functions:
        if function.node.start_byte in tests or is_excluded(side, function):
            continue
        for place in list_places(function):
            for mutation in (each for kind in _KINDS for each in kind(place, templates)):
                # Bytes that are not UTF-8 would be lost in rewriting.
                if "\ufffd" not in mutation.plain:
                    fault = _make_fault(side, function, mutation)
                    found.setdefault((fault.start, fault.end), fault)
    return sorted(found.values(), key=lambda fault: (fault.start, fault.end))


def _make_fault(side: Side, function: Function, mutation: Mutation) -> Fault:
    node = mutation.node
    modules = sum(each.node.type == "mod_item" for each in function.outer)
    switched = mutation.switched.replace(SWITCH, "super::" * modules + SWITCH)
    return Fault(
        side.path,
        node.start_point[0] + 1,
        mutation.what,
        function.qualified,
        node.start_byte,
        node.end_byte,
        mutation.plain,
        switched,
        mutation.by_value,
    )


def move_fault(fault: Fault, before: Side, after: Side) -> Fault | None:
    """The same fault in another version of the file.

    None if its function is gone, was changed, or occurs twice.
    """
    home = next((each for each in before.functions if _holds(each, fault)), None)
    if home is None:
        return None
    same = [each for each in after.functions if _is_same(each, home)]
    if len(same) != 1 or sum(_is_same(each, home) for each in before.functions) != 1:
        return None
    offset = same[0].node.start_byte - home.node.start_byte
    lines = same[0].node.start_point[0] - home.node.start_point[0]
    return replace(
        fault,
        path=after.path,
        line=fault.line + lines,
        start=fault.start + offset,
        end=fault.end + offset,
    )


def _holds(function: Function, fault: Fault) -> bool:
    node = function.node
    return (
        not function.is_class
        and function.qualified == fault.function
        and node.start_byte <= fault.start
        and fault.end <= node.end_byte
    )


def _is_same(function: Function, other: Function) -> bool:
    return (
        function.qualified == other.qualified
        and function.marks == other.marks
        and function.node.text == other.node.text
    )
