"""Does one assertion demand less than another?"""

import re

from tree_sitter import Node

from gitlab_nightshift.verdict.flags.matched_tests import TestVersion
from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax.assertion import Assertion
from gitlab_nightshift.verdict.syntax.assertion_words import BROAD, RAISES
from gitlab_nightshift.verdict.syntax.variable_values import find_origin_calls

_TABLE = RuleTable(__file__)


def is_weaker(old: Assertion, new: Assertion, version: TestVersion | None) -> bool:
    if old.word in RAISES and new.word in RAISES:
        return _raises_less(old, new)
    if new.rank < old.rank:
        return True
    if "inlinesnapshot" in new.word and new.word == old.word and new.subject == old.subject:
        return True
    if new.rank == old.rank and old.word == new.word:
        return _wider(old, new) or _computed(old, new, version)
    return new.rank == old.rank and _computed(old, new, version)


def _raises_less(old: Assertion, new: Assertion) -> bool:
    if new.rank < old.rank:
        return True
    was, now = _list_types(old), _list_types(new)
    return (bool(was) and was < now) or (bool(now & BROAD) and not was & BROAD)


def _list_types(assertion: Assertion) -> frozenset[str]:
    said = ",".join(each for each in assertion.expected if "=" not in each)
    return frozenset(re.findall(r"[A-Z][\w.:]*", said))


def _wider(old: Assertion, new: Assertion) -> bool:
    """A bound or a tolerance that moved away, or fewer decimal places."""
    side = _BOUND.search(old.word)
    if side and not old.negated and old.subject == new.subject:
        limits = [_parse_number(a.expected[0]) if a.expected else None for a in (old, new)]
        if limits[0] is None or limits[1] is None:
            return False
        return limits[1] > limits[0] if side[1] else limits[1] < limits[0]
    was, now = _find_tolerance(old), _find_tolerance(new)
    if was is None and now is not None and old.subject == new.subject:
        return "tol" in " ".join(new.key) and abs(now) > _USUAL_TOLERANCE
    if was is None or now is None:
        return False
    said = " ".join(new.key)
    if re.search(r"toBeCloseTo|places|[aA]lmost_?[eE]qual", said) and "delta" not in said:
        return now < was
    return abs(now) > abs(was)


_BOUND = _TABLE.get_pattern("bound")


def _parse_number(said: str) -> float | None:
    plain = said.replace("_", "").strip("()").rstrip("fFdDlL")
    return float(plain) if re.fullmatch(r"-?\d+(\.\d+)?([eE]-?\d+)?", plain) else None


_NUMBER = r"-?\d[\d_]*(?:\.\d+)?(?:[eE]-?\d+)?"


_USUAL_TOLERANCE = 1e-5
"""More than any library has where a test names none."""


def _find_tolerance(assertion: Assertion) -> float | None:
    said = " ".join(assertion.key)
    for pattern in (
        rf"(?:rel|abs|delta|places|rtol|atol|rel_tol|abs_tol|tolerance|epsilon|within|offset|Offset\.offset)\W*?({_NUMBER})",
    ):
        if found := re.search(pattern, said):
            return float(found[1].replace("_", ""))
    if len(assertion.expected) > 1 and re.fullmatch(rf"{_NUMBER}[fFdD]?", assertion.expected[-1]):
        return float(assertion.expected[-1].rstrip("fFdD").replace("_", ""))
    return None


def _computed(old: Assertion, new: Assertion, version: TestVersion | None) -> bool:
    """An expected value that was spelled out is now what the same code gives."""
    from gitlab_nightshift.verdict.syntax.conditions import is_literal

    if version is None or min(len(old.parts), len(new.parts)) < 2:
        return False
    if not old.expected or not new.expected:
        return False
    was = [part for part in old.parts if _is_text(part, old.expected[0])]
    now = [part for part in new.parts if _is_text(part, new.expected[0])]
    if not was or not now or not is_literal(was[0]) or is_literal(now[0]):
        return False
    return _is_computed(now[0], new, version)


_HARMLESS = _TABLE.get_words("harmless")


def _is_computed(expected: Node, assertion: Assertion, version: TestVersion) -> bool:
    """True where an expected value comes from the function that is tested."""
    behind = find_origin_calls(expected, version.origins) - _HARMLESS
    subject = [part for part in assertion.parts if part != expected][:1]
    return any(behind & find_origin_calls(part, version.origins) for part in subject)


def _is_text(node: object, said: str) -> bool:
    return getattr(node, "text", b"") == said.encode()
