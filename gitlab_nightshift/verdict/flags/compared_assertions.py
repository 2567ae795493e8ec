"""What took the place of each assertion of code that lives on."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gitlab_nightshift.flag_entry import Level
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.verdict.flags.assertion_strength import is_weaker
from gitlab_nightshift.verdict.flags.matched_tests import MOST_PAIRS, TestVersion
from gitlab_nightshift.verdict.syntax.assertion import Assertion
from gitlab_nightshift.verdict.syntax.assertion_words import (
    EXACT,
    PARTIAL,
    PRESENT,
    RAISES,
    TRUTHY,
    TYPE,
)


@dataclass(frozen=True)
class AssertingCode:
    """Code that asserts, before and after: a test, or a helper that tests call. ``table`` is all
    that a test of many cases says, empty for others."""

    file: ChangedFile
    name: str
    line: int
    old: tuple[Assertion, ...]
    new: tuple[Assertion, ...]
    table: str = ""
    version: TestVersion | None = None


@dataclass(frozen=True)
class WeakerAssertion:
    """An assertion that is gone, with the weaker one in its place, if there is one. ``level`` is
    "warn" where one that stayed seems to demand as much: the test checks less often, perhaps not
    less."""

    subject: AssertingCode
    old: Assertion
    new: Assertion | None
    level: Level | None = None


def compare(
    subject: AssertingCode, elsewhere: Counter[tuple[str, ...]]
) -> Iterator[WeakerAssertion]:
    kept = Counter(a.key for a in subject.old) & Counter(a.key for a in subject.new)
    gone = _list_unmatched(subject.old, kept)
    came = _list_unmatched(subject.new, kept)
    moved = elsewhere - Counter(a.key for a in came)
    free = list(came)
    if len(gone) * len(subject.new) > MOST_PAIRS:
        if sum(a.rank for a in came) < sum(a.rank for a in gone):
            yield WeakerAssertion(subject, gone[0], came[0] if came else None)
        return
    for old in sorted(gone, key=lambda a: (not _is_still_asked(a, came), -a.rank)):
        if moved[old.key]:
            moved[old.key] -= 1
            continue
        yield from _compare_assertion(subject, old, came, free)


def _is_still_asked(old: Assertion, came: list[Assertion]) -> bool:
    """One that came asks the same of the same thing: it takes no other's place."""
    return any(_compute_nearness(old, new) == _SAME for new in came)


def _list_unmatched(
    all_of: tuple[Assertion, ...], kept: Counter[tuple[str, ...]]
) -> list[Assertion]:
    left, kept = [], Counter(kept)
    for assertion in all_of:
        if kept[assertion.key]:
            kept[assertion.key] -= 1
        elif assertion.word != "succeeds":
            left.append(assertion)
    return left


def _compare_assertion(
    subject: AssertingCode, old: Assertion, came: list[Assertion], free: list[Assertion]
) -> Iterator[WeakerAssertion]:
    """Find what took the place of an assertion: about the same thing, else the strongest."""
    kept = [each for each in subject.new if each not in came]
    best = max(
        (new for new in came if _compute_nearness(old, new)),
        key=lambda new: (_compute_nearness(old, new), new in free, min(new.rank, old.rank)),
        default=None,
    ) or max(free, key=lambda new: new.rank, default=None)
    if best not in free and any(
        _is_in_table(old, new, subject) or _is_part(old, new) for new in came
    ):
        return
    if best is None or not (best in free or _is_whole(old, best)):
        if not _is_replaced(old, came):
            yield WeakerAssertion(subject, old, None, _find_level(old, kept, subject))
        return
    if not _is_whole(old, best):
        free.remove(best)
    others = [each for each in came if each is not best]
    if is_weaker(old, best, subject.version) and not _is_replaced(old, others):
        yield WeakerAssertion(subject, old, best, _find_level(old, kept, subject))


def _is_part(old: Assertion, new: Assertion) -> bool:
    """One assertion about several attributes has the name and the value of this one."""
    name = re.findall(r"\w+", old.subject)
    said = " ".join(new.key)
    return (
        new.rank >= PARTIAL
        and len(new.key) > len(old.key)
        and bool(name and old.expected)
        and bool(re.search(rf"\b{re.escape(name[-1])}\b", said))
        and old.expected[0] in said.replace("[ ", "[").replace(" ]", "]")
    )


def _is_in_table(old: Assertion, best: Assertion, subject: AssertingCode) -> bool:
    """The values of an assertion are in the table that a test goes through now."""
    values = [word.strip("\"'`") for word in old.key if word[:1] in "\"'`" or word[:1].isdigit()]
    values = [value for value in values if value]
    if not subject.table or not values or best.rank < old.rank or not _compute_nearness(old, best):
        return False
    return all(value in subject.table for value in values)


_SAME = 4


def _compute_nearness(old: Assertion, new: Assertion) -> int:
    """4 for the same subject and word, 3 for the same subject, 2 where one is part of the other,
    1 where they share a name."""
    if old.subject == new.subject:
        return _SAME if old.word == new.word else 3
    if (old.word in RAISES) and (new.word in RAISES):
        return 3
    if old.subject and new.subject and (old.subject in new.subject or new.subject in old.subject):
        return 2
    one, other = _find_first_name(old.subject), _find_first_name(new.subject)
    return 1 if one and one == other else 0


def _find_first_name(code: str) -> str:
    found = re.search(r"[A-Za-z_$]\w*", code)
    return found[0] if found else ""


def _is_whole(old: Assertion, new: Assertion) -> bool:
    """The new assertion looks at the whole of which the old one looked at a part, or is a helper
    that asserts."""
    if new.word == "helper":
        return True
    return new.rank >= EXACT and old.subject != new.subject and (
        old.subject.startswith(new.subject) or f"({new.subject}" in old.subject
    )  # fmt: skip


def _is_replaced(old: Assertion, came: list[Assertion]) -> bool:
    """One that came demands as much of the same thing or of its whole."""
    if old.word in RAISES and any(new.word in RAISES and _holds(new, old) for new in came):
        return True
    if any(new.rank >= old.rank and _looks_at_same(old, new) for new in came):
        return True
    return (old.rank <= PRESENT or _asks_for_no_error(old)) and _has_more_than_truth(came)


def _find_level(old: Assertion, kept: list[Assertion], subject: AssertingCode) -> Level | None:
    """A question where one that stayed says the same beside it, or demands more of the same thing
    or of its whole."""
    more = any(
        other.rank > old.rank
        and (old.rank <= TYPE or _says(other, old))
        and _looks_at_same(old, other)
        for other in kept
    )
    more = more or _stands_twice(old, subject)
    return "warn" if more or (_asks_for_no_error(old) and _has_more_than_truth(kept)) else None


def _looks_at_same(old: Assertion, other: Assertion) -> bool:
    same = other.subject == old.subject or _is_whole(old, other) or _is_inside(old, other)
    return same and bool(old.subject) and other.word not in RAISES


def _asks_for_no_error(assertion: Assertion) -> bool:
    return assertion.word in ("noerror", "null") and assertion.rank <= TRUTHY


def _has_more_than_truth(assertions: list[Assertion]) -> bool:
    return any(each.rank > TRUTHY for each in assertions)


def _stands_twice(old: Assertion, subject: AssertingCode) -> bool:
    """The same assertion a line or two away, which stays, and nothing stands between."""
    lines = subject.file.old_lines
    return any(new.key == old.key for new in subject.new) and any(
        other is not old
        and other.key == old.key
        and abs(other.line - old.line) <= 2
        and not any(
            line.strip()
            for line in lines[min(other.line, old.line) : max(other.line, old.line) - 1]
        )
        for other in subject.old
    )


def _holds(other: Assertion, old: Assertion) -> bool:
    """Another assertion expects everything that this one expects."""
    said = " ".join(other.key)
    return bool(old.expected) and all(each in said for each in old.expected)


def _says(other: Assertion, old: Assertion) -> bool:
    """What a partial assertion wants is part of what the other one expects, or is its size."""
    wanted = old.expected[0].strip("\"'`") if old.expected else ""
    said = " ".join(other.expected)
    return old.rank == PARTIAL and ((bool(wanted) and wanted in said) or _is_inside(old, other))


def _is_inside(old: Assertion, other: Assertion) -> bool:
    """``len(x) == 2`` adds nothing to ``x == [1, 2]``."""
    return old.rank < EXACT <= other.rank and bool(other.subject) and other.subject in old.subject
