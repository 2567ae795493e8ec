"""New and changed tests: run alone, against the code before and after, and against mutants."""

import re
from collections.abc import Iterator

from gitlab_nightshift.flag_entry import Level
from gitlab_nightshift.lazy_patterns import compile_lazily
from gitlab_nightshift.records.verdicts import Check, CheckOutcome, Finding
from gitlab_nightshift.verdict.evidence.control_run import build_control_files, is_text_recognised
from gitlab_nightshift.verdict.evidence.evidence_flags import raise_flag
from gitlab_nightshift.verdict.evidence.lab import Evidence, EvidenceSubject, Lab
from gitlab_nightshift.verdict.evidence.mutant_runs import (
    ChosenTests,
    TimedCommand,
    compute_timeout,
    find_timed_command,
    is_mutant_found,
    plant_mutants,
)
from gitlab_nightshift.verdict.evidence.mutants import Mutant
from gitlab_nightshift.verdict.syntax.collected_tests import Test
from gitlab_nightshift.verdict.syntax.file_side import read_sides

FEWEST_MUTANTS = 3
"""Fewer mutants show nothing."""
FAR_TOO_FEW = 4
"""Tests that notice less than one fault in four are a red flag; less than half is reported."""
BEFORE, MUTANTS = "The new tests without the change", "The new tests"
_BUG = compile_lazily(
    r"\b(bug|fix(es|ed)?|regression|wrong(ly)?|incorrect(ly)?|broken|crash(es)?|off.by.one"
    r"|race condition|fails? (to|when|if|for)|mishandle[sd]?)\b",
    re.I,
)


def evaluate_new_tests(subject: EvidenceSubject, lab: Lab) -> Evidence:
    """What the tests that a change adds or rewrites are worth."""
    found = Evidence()
    for tests in _group_by_language(subject):
        found += _evaluate_language(subject, lab, tests)
    return found


def _group_by_language(subject: EvidenceSubject) -> Iterator[ChosenTests]:
    groups: dict[str, list[Test]] = {}
    for file in subject.change.files:
        before, after = read_sides(file)
        old = {test.qualified: test.node.text for test in before.tests}
        for test in after.tests:
            if after.language and old.get(test.qualified) != test.node.text:
                groups.setdefault(after.language.name, []).append(test)
    for language, tests in groups.items():
        yield ChosenTests(language, tuple(tests))


def _evaluate_language(subject: EvidenceSubject, lab: Lab, tests: ChosenTests) -> Evidence:
    way, why = find_timed_command(lab, subject.tree, tests, "alone")
    if way is None:
        return Evidence((Check("New tests alone", CheckOutcome.NOT_CHECKED, why),))
    return _run_on_old_code(subject, lab, tests, way) + _run_against_mutants(
        subject, lab, tests, way
    )


# --- before the change ------------------------------------------------------------------------


def _run_on_old_code(
    subject: EvidenceSubject, lab: Lab, tests: ChosenTests, way: TimedCommand
) -> Evidence:
    """The new tests with the product code as it was: a test that catches a bug fails there."""
    product = {
        file.raw_path: file.old
        for file in subject.change.files
        if file.raw_path not in tests.chosen.files and read_sides(file)[1].is_product
    }
    if not product:
        return Evidence()
    fresh = _choose_fresh_tests(subject, tests)
    if not fresh.tests:
        text = "expectations that are edited together with the code say nothing about it"
        return Evidence((Check(BEFORE, CheckOutcome.UNDECIDED, text),))
    if len(fresh.tests) < len(tests.tests):
        fresh_way, why = find_timed_command(lab, subject.tree, fresh, "fresh")
        if fresh_way is None:
            return Evidence((Check(BEFORE, CheckOutcome.NOT_CHECKED, why),))
        way = fresh_way
    renamed = {f.raw_old_path: f.old for f in subject.change.files if f.status == "R"}
    tree = lab.build_variant(subject.tree, {**product, **renamed})
    result = lab.run(tree, way.focused.argv, f"{tests.language}-before", compute_timeout(way))
    if not result.ok:
        text = "the new tests fail without the change, and pass with it"
        return Evidence((Check(BEFORE, CheckOutcome.PASSED, text),))
    text = "the new tests pass without the change, too"
    if not _claims_a_bug(subject, tests):
        return Evidence((Check(BEFORE, CheckOutcome.UNDECIDED, text),))
    detail = f"The change claims to mend a fault, but its tests catch none: {text}."
    return Evidence(
        (Check(BEFORE, CheckOutcome.FAILED, text),),
        _raise_flag(subject, "test-passes-before", tests, detail),
    )


def _choose_fresh_tests(subject: EvidenceSubject, tests: ChosenTests) -> ChosenTests:
    """Those that were not there before in other words."""
    known = {test.qualified for file in subject.change.files for test in read_sides(file)[0].tests}
    fresh = tuple(test for test in tests.tests if test.qualified not in known)
    return ChosenTests(tests.language, fresh)


def _claims_a_bug(subject: EvidenceSubject, tests: ChosenTests) -> bool:
    said = [subject.claim, *(test.name.replace("_", " ") for test in tests.tests)]
    return any(_BUG.search(text) for text in said)


# --- mutants ----------------------------------------------------------------------------------


def _run_against_mutants(
    subject: EvidenceSubject, lab: Lab, tests: ChosenTests, way: TimedCommand
) -> Evidence:
    planted = plant_mutants(subject, tests)
    if not planted:
        text = "no function was found that the new tests name and that a fault can be put into"
        return Evidence((Check(MUTANTS, CheckOutcome.NOT_CHECKED, text),))
    files = build_control_files(subject, planted)
    if is_text_recognised(lab, subject.tree, files, way, f"{tests.language}-control"):
        text = "they fail on code that does the same, but is written otherwise"
        detail = f"The tests look at the text of the code, not at what it does: {text}."
        found = _raise_flag(subject, "test-reads-source", tests, detail)
        return Evidence((Check(MUTANTS, CheckOutcome.FAILED, text),), found)
    killed, survived = 0, []
    for number, mutant in enumerate(planted, 1):
        if lab.compute_left_s() < way.duration_s:
            break
        outcome = is_mutant_found(
            lab, subject.tree, mutant, way, f"{tests.language}-mutant-{number}"
        )
        killed += outcome is True
        survived += [mutant] if outcome is False else []
    return _judge_mutants(subject, tests, killed, survived)


def _judge_mutants(
    subject: EvidenceSubject, tests: ChosenTests, killed: int, survived: list[Mutant]
) -> Evidence:
    tried = killed + len(survived)
    if not tried:
        text = "there was no time for one, or none of them compiled"
        return Evidence((Check(MUTANTS, CheckOutcome.NOT_CHECKED, text),))
    names = ", ".join(f"{mutant.path}:{mutant.line} {mutant.what}" for mutant in survived[:5])
    text = f"{killed} of {tried} planted mistakes found"
    if survived:
        text += f"; not noticed: {names}" + (" …" if len(survived) > 5 else "")
    few = tried < FEWEST_MUTANTS or killed * 2 >= tried
    if few:
        return Evidence(
            (Check(MUTANTS, CheckOutcome.PASSED if killed else CheckOutcome.UNDECIDED, text),)
        )
    level: Level = "warn" if killed * FAR_TOO_FEW >= tried else "fail"
    detail = f"The tests hardly check what they call: {text}."
    found = _raise_flag(subject, "mutants-survive", tests, detail, level)
    return Evidence((Check(MUTANTS, CheckOutcome.FAILED, text),), found)


def _raise_flag(
    subject: EvidenceSubject, name: str, tests: ChosenTests, detail: str, own: Level | None = None
) -> tuple[Finding, ...]:
    first = tests.tests[0]
    return raise_flag(name, subject.context, first.path, first.line, detail, own)
