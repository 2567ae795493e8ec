"""Changed tests held against what they were: a mistake that they found is still to be found."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gitlab_nightshift.records.verdicts import Check, CheckOutcome
from gitlab_nightshift.verdict.evidence.evidence_flags import raise_flag
from gitlab_nightshift.verdict.evidence.lab import Evidence, EvidenceSubject, Lab
from gitlab_nightshift.verdict.evidence.mutant_runs import (
    ChosenTests,
    TimedCommand,
    find_timed_command,
    is_mutant_found,
    plant_mutants,
)
from gitlab_nightshift.verdict.evidence.mutants import Mutant
from gitlab_nightshift.verdict.syntax.file_side import Side, read_sides

TITLE = "The changed tests compared with the old ones"
MOST_LISTED = 5


@dataclass(frozen=True)
class _ChangedTests:
    """All tests of the changed files of one language, on both sides, and those of the old ones that
    are not there word for word any more. ``back`` makes the files what they were."""

    old: ChosenTests
    touched: ChosenTests
    new: ChosenTests
    back: Mapping[str, bytes | None]


def compare_strength(subject: EvidenceSubject, lab: Lab) -> Evidence:
    """Run the old tests on those mistakes that the new ones miss, both on the new product code.

    Tests are taken with all others of their files, and what these miss is tried on the whole
    suite: a check that moved elsewhere is not lost.
    """
    found = Evidence()
    for changed in _group_changed_tests(subject):
        found += _compare_language(subject, lab, changed)
    return found


def _group_changed_tests(subject: EvidenceSubject) -> Iterator[_ChangedTests]:
    files = [
        (file, *read_sides(file))
        for file in subject.change.files
        if file.status in "MRD" and file.deleted and read_sides(file)[0].is_test_file
    ]
    if not files:
        return
    back: dict[str, bytes | None] = {f.raw_path: None for f, *_ in files if f.status == "R"}
    back |= {file.raw_old_path: file.old for file, *_ in files}
    for language in dict.fromkeys(old.language.name for _, old, _ in files if old.language):
        before = _choose_tests(language, [old for _, old, _ in files])
        if before.tests:
            after = [new for _, new in map(read_sides, subject.change.files) if new.is_test_file]
            now = _choose_tests(language, after)
            yield _ChangedTests(before, _leave_out(before, now), now, back)


def _leave_out(before: ChosenTests, now: ChosenTests) -> ChosenTests:
    """All tests where none is touched itself: then it is what they stand on."""
    same = {test.node.text for test in now.tests}
    touched = tuple(test for test in before.tests if test.node.text not in same)
    return ChosenTests(before.language, touched or before.tests)


def _choose_tests(language: str, sides: list[Side]) -> ChosenTests:
    mine = [side for side in sides if side.language and side.language.name == language]
    return ChosenTests(language, tuple(test for side in mine for test in side.tests))


def _compare_language(subject: EvidenceSubject, lab: Lab, changed: _ChangedTests) -> Evidence:
    planted = plant_mutants(subject, changed.touched)
    if not planted:
        return Evidence()
    before = lab.build_variant(subject.tree, changed.back)
    old_way, why = find_timed_command(lab, before, changed.old, "old")
    if old_way is None:
        return _tell(f"the old tests do not pass on the new code: {why}")
    new_way = None
    if changed.new.tests:
        new_way, why = find_timed_command(lab, subject.tree, changed.new, "new")
        if new_way is None:
            return _tell(why)
    tried, lost = 0, []
    for number, mutant in enumerate(planted, 1):
        if lab.compute_left_s() < old_way.duration_s * 3:
            break
        tried += 1
        if _is_lost(subject, lab, (before, old_way, new_way), mutant, number):
            lost.append(mutant)
    return _judge_loss(subject, changed, tried, lost)


def _is_lost(
    subject: EvidenceSubject,
    lab: Lab,
    ways: tuple[str, TimedCommand, TimedCommand | None],
    mutant: Mutant,
    number: int,
) -> bool:
    """True where the old tests find it, and neither the new ones nor any other do."""
    before, old_way, new_way = ways
    log = f"strength-{number}"
    if new_way and is_mutant_found(lab, subject.tree, mutant, new_way, f"{log}-new") is not False:
        return False
    if not is_mutant_found(lab, before, mutant, old_way, f"{log}-old"):
        return False
    tree = lab.build_variant(subject.tree, {mutant.path: mutant.data})
    runs = (
        lab.run(tree, tuple(shlex.split(command)), f"{log}-all-{n}")
        for n, command in enumerate(lab.commands, 1)
    )
    return all(result.ok for result in runs)


def _judge_loss(
    subject: EvidenceSubject, changed: _ChangedTests, tried: int, lost: list[Mutant]
) -> Evidence:
    if not tried:
        return _tell("there was no time for it")
    if not lost:
        text = f"of {tried} planted mistakes they miss none that the old ones found"
        return Evidence((Check(TITLE, CheckOutcome.PASSED, text),))
    names = ", ".join(f"{mutant.path}:{mutant.line} {mutant.what}" for mutant in lost[:MOST_LISTED])
    text = f"they miss {len(lost)} of {tried} planted mistakes that the old ones found: {names}"
    first = changed.old.tests[0].path
    found = raise_flag("test-loosened", subject.context, first, 0, f"{text}.")
    return Evidence((Check(TITLE, CheckOutcome.FAILED, text),), found)


def _tell(why: str) -> Evidence:
    return Evidence((Check(TITLE, CheckOutcome.NOT_CHECKED, why),))
