"""Finds what a change's tests prove. New tests should fail on the old code, or else notice planted
faults. Old tests should pass on the new code if behaviour must stay; otherwise those that fail show
what the change redefines."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from gitlab_nightshift.proof.evidence.evidence_records import (
    Evidence,
    EvidenceSubject,
    NoticedFault,
    format_names,
    refuse,
    report_check,
)
from gitlab_nightshift.proof.running import fault_choice
from gitlab_nightshift.proof.running.fault_choice import ProductCode, build_aim, choose_near_faults
from gitlab_nightshift.proof.running.faults import Fault
from gitlab_nightshift.proof.running.single_canaries import list_focused
from gitlab_nightshift.proof.running.trial import (
    PlantedTree,
    RunTests,
    SuiteOutcome,
    TestRun,
    Trial,
    build_environment,
    is_any_reported,
    plant,
)
from gitlab_nightshift.proof.syntax.definitions import Test
from gitlab_nightshift.proof.syntax.file_side import read_sides
from gitlab_nightshift.proof.syntax.nodes import list_names
from gitlab_nightshift.records.verdicts import CheckOutcome
from gitlab_nightshift.registry.flag_registry import Level
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.text.lazy_patterns import compile_lazily

BEFORE, FAULTS = "The new tests without the change", "The new tests"  # titles of checks
FEWEST_FAULTS = 3  # fewer faults prove nothing
MOST_FAULTS = 8  # faults that are tried, each by a run
MOST_PLANTED = 100  # faults that are planted, to see which of them the tests reach
ENOUGH_NOTICED = 2  # wrong values that a test must notice to prove that it can fail
LEAST_SHARE = 0.4  # of the tried faults; if tests notice fewer, that is a finding
PROVES_NOTHING = compile_lazily(
    r"""
      (?P<class_>\b(ImportError|ModuleNotFoundError|NameError|NoMethodError)\b)  # NameError: a
    # a is not defined
    | (?P<node>\bERR_MODULE_NOT_FOUND\b|is[ ]not[ ](a[ ](function|constructor)|defined))
    | (?P<export>does[ ]not[ ]provide[ ]an[ ]export)    # './a' does not provide an export named 'b'
    # A has no attribute 'b'
    | (?P<python>(?<!'NoneType'[ ]object[ ])has[ ]no[ ]attribute|unexpected[ ]keyword[ ]argument)
    | (?P<java>cannot[ ]find[ ]symbol|COMPILATION[ ]ERROR)                      # cannot find symbol
    # Cannot find module './a'
    | (?P<types>Cannot[ ]find[ ](module|name|package)|does[ ]not[ ]exist[ ]on[ ]type|error[ ]TS\d+)
    # undefined method
    | (?P<ruby>cannot[ ]load[ ]such[ ]file|uninitialized[ ]constant|undefined[ ]method)
    | (?P<go>undefined:[ ]|\[(build|setup)[ ]failed\])                           # undefined: total
    | (?P<rust>could[ ]not[ ]compile|error\[E\d+\])                             # error[E0425]
    | (?P<syntax>SyntaxError|IndentationError|syntax[ ]error)                    # SyntaxError: b
    """,
    re.VERBOSE,
)
"""Output of failures due to missing names, or to code that does not compile: they prove nothing
about a test."""


def evaluate_new_tests(
    subject: EvidenceSubject, trial: Trial, noticed: Sequence[NoticedFault] = ()
) -> Evidence:
    """Evaluate the tests that a change adds or rewrites. ``noticed`` are planted faults that were
    tried before, with the tests that notice them."""
    evidence = Evidence()
    for tests in _group_by_language(subject):
        evidence += _evaluate(subject, trial, tests, noticed)
    return evidence


def _group_by_language(subject: EvidenceSubject) -> Iterable[list[Test]]:
    groups: dict[str, list[Test]] = {}
    for file in subject.change.files:
        before, after = read_sides(file)
        old = {test.qualified: test.node.text for test in before.tests}
        for test in after.tests:
            if old.get(test.qualified) != test.node.text:
                groups.setdefault(test.language.name, []).append(test)
    return groups.values()


def _evaluate(
    subject: EvidenceSubject, trial: Trial, tests: list[Test], noticed: Sequence[NoticedFault]
) -> Evidence:
    trial.check_out(subject.tree)
    run, _ = trial.find_run(list_focused(trial, tests), {})
    if run is None:
        why = f"the new {tests[0].language.name} tests could not be run alone"
        return report_check(BEFORE, CheckOutcome.NOT_CHECKED, why)
    before = _run_on_old_code(subject, trial, run)
    if before and before.red and before.ended and not PROVES_NOTHING.search(trial.read_output()):
        text = "they fail without the change, and pass with it"
        failed = tests
        if len(tests) > 1:
            failed = [test for test in tests if is_any_reported(before.failed, [test])]
        proven = [(test.path, test.qualified) for test in failed]
        return report_check(BEFORE, CheckOutcome.PASSED, text, proven=proven)
    evidence = _judge_by_canaries(tests, noticed) or _run_against_faults(subject, trial, tests, run)
    return _describe_before(before) + evidence


def _run_on_old_code(subject: EvidenceSubject, trial: Trial, run: TestRun) -> SuiteOutcome | None:
    """Run the new tests on the old product code; None if only tests changed."""
    tree = trial.build_old_product(subject)
    if tree is None:
        return None
    trial.check_out(tree)
    return trial.repeat(run, {})


def _describe_before(before: SuiteOutcome | None) -> Evidence:
    """The check of a run of the new tests on the old code that proves nothing."""
    if before is None:
        return Evidence()
    if not before.ended:
        return report_check(BEFORE, CheckOutcome.NOT_CHECKED, "they did not end")
    text = "they use names that do not exist" if before.red else "they pass without it, too"
    return report_check(BEFORE, CheckOutcome.UNDECIDED, text)


# --- faults ---------------------------------------------------------------------------------------


def _judge_by_canaries(tests: Sequence[Test], noticed: Sequence[NoticedFault]) -> Evidence | None:
    """The evidence from faults that were tried before; None if it is too little."""
    by_tests = [fault for fault in noticed if is_any_reported(fault.tests, tests)]
    if len(noticed) < FEWEST_FAULTS or len(by_tests) < LEAST_SHARE * len(noticed):
        return None
    proven = _list_tests_that_can_fail(tests, [fault.tests for fault in by_tests if fault.by_value])
    text = f"{len(by_tests)} of {len(noticed)} planted faults found"
    return report_check(FAULTS, CheckOutcome.PASSED, text, proven=proven)


def _run_against_faults(
    subject: EvidenceSubject, trial: Trial, tests: Sequence[Test], run: TestRun
) -> Evidence:
    files = trial.checkout.open_files(subject.tree)
    words = {name for test in tests for name in list_names(test.node)}
    rng = fault_choice.draw_seed()
    aim = build_aim(tests, words, files.tests)
    faults = choose_near_faults(ProductCode(files), aim, rng, MOST_PLANTED, deepest=1)
    outcomes: list[SuiteOutcome] = []
    planted = plant(trial, subject.tree, faults, [_build_run(trial, run, outcomes)])
    if planted is None:
        failed = outcomes[-1].failed if outcomes else frozenset[str]()
        without_old = _judge_without_old(subject, trial, tests, failed)
        return without_old or _judge_without_faults(subject, tests, failed)
    if planted.reached == frozenset():
        return _judge_unreached(subject, tests, len(planted.numbers))
    tried: dict[Fault, SuiteOutcome] = {}
    for fault in planted.list_reached()[:MOST_FAULTS]:
        if trial.checkout.compute_left_s() <= 0:
            break
        tried[fault] = trial.repeat(planted.run, build_environment(planted, [fault]))
    red = [(fault, outcome.failed) for fault, outcome in tried.items() if outcome.red]
    noticed = {fault for fault, failed in red if not failed or is_any_reported(failed, tests)}
    survived = [fault for fault in tried if fault not in noticed]
    evidence = _judge_faults(subject, tests, len(noticed), survived)
    by_value = [outcome.failed for fault, outcome in tried.items() if fault.by_value]
    return evidence + Evidence(proven=tuple(_list_tests_that_can_fail(tests, by_value)))


def _judge_unreached(subject: EvidenceSubject, tests: Sequence[Test], number: int) -> Evidence:
    """The check of tests that reach no fault. A person may test code that ends before any, such as
    ``--help``. A night's tests must reach some: they may hide what they reach."""
    text = "they reached none of the faults planted in the code that they name"
    if subject.context.by_people or number < FEWEST_FAULTS:
        return report_check(FAULTS, CheckOutcome.NOT_CHECKED, text)
    return _refuse(subject, tests, text, "fail")


def _list_tests_that_can_fail(
    tests: Sequence[Test], failed: Sequence[frozenset[str]]
) -> Iterator[tuple[str, str]]:
    """Tests that notice several faults of a value, and so can fail: a single fault may have raised
    an exception. ``failed`` are the tests that each such fault made fail."""
    for test in tests:
        if sum(is_any_reported(names, [test]) for names in failed) >= ENOUGH_NOTICED:
            yield test.path, test.qualified


def _build_run(trial: Trial, run: TestRun, outcomes: list[SuiteOutcome]) -> RunTests:
    """A function that runs the tests on code with all switches off, which is equivalent to the
    original, and adds the outcome to ``outcomes``."""

    def run_without_faults(planted: PlantedTree) -> tuple[TestRun | None, str]:
        outcomes.append(trial.repeat(run, build_environment(planted)))
        return (None if outcomes[-1].red else run), trial.read_output()

    return run_without_faults


def _judge_without_old(
    subject: EvidenceSubject, trial: Trial, tests: Sequence[Test], failed: frozenset[str]
) -> Evidence | None:
    """In a person's change, judge without the tests that fail on equivalent code, such as a test of
    code size, if all these existed before. None if none failed, or one is new."""
    if not subject.context.by_people:
        return None
    old = [test for test in tests if is_any_reported(failed, [test])]
    if not old or not _existed_before(subject, old):
        return None
    others = [test for test in tests if test not in old]
    trial.check_out(subject.tree)
    run = trial.find_run(list_focused(trial, others), {})[0] if others else None
    if run is None:
        text = "they read the code's text, as before"
        return report_check(FAULTS, CheckOutcome.NOT_CHECKED, text)
    return _run_against_faults(subject, trial, others, run)


def _existed_before(subject: EvidenceSubject, tests: Sequence[Test]) -> bool:
    """True if tests of the same names existed before the change."""
    old = {t.qualified for file in subject.change.files for t in read_sides(file)[0].tests}
    return all(test.qualified in old for test in tests)


def _judge_without_faults(
    subject: EvidenceSubject, tests: Sequence[Test], failed: frozenset[str]
) -> Evidence:
    """The check if no fault could be planted. Tests that fail on equivalent code read its text."""
    if not is_any_reported(failed, tests):
        text = "no fault can be planted in the functions that they name"
        return report_check(FAULTS, CheckOutcome.NOT_CHECKED, text)
    text = "they fail on equivalent code that is written differently"
    detail = f"The tests check the code's text, not its behaviour: {text}."
    return refuse(subject, FAULTS, "test-reads-source", text, tests[0].path, detail)


def _judge_faults(
    subject: EvidenceSubject, tests: Sequence[Test], noticed: int, survived: Sequence[Fault]
) -> Evidence:
    tried = noticed + len(survived)
    if not tried:
        return report_check(FAULTS, CheckOutcome.NOT_CHECKED, "there was not enough time")
    text = f"{noticed} of {tried} planted faults found"
    if survived:
        shown = ", ".join(f"{fault.path}:{fault.line} {fault.what}" for fault in survived[:5])
        text += f"; not noticed: {shown}" + (" …" if len(survived) > 5 else "")
    if tried < FEWEST_FAULTS or noticed >= LEAST_SHARE * tried:
        outcome = CheckOutcome.PASSED if noticed else CheckOutcome.UNDECIDED
        return report_check(FAULTS, outcome, text)
    level: Level = "warn" if noticed else "fail"
    # In a person's change: many good tests cover a single branch, and an old one that was edited,
    # such as for a renamed import, is compared with what it noticed before (canaries).
    if subject.context.by_people and (noticed or _existed_before(subject, tests)):
        return report_check(FAULTS, CheckOutcome.UNDECIDED, text)
    return _refuse(subject, tests, text, level)


def _refuse(subject: EvidenceSubject, tests: Sequence[Test], text: str, level: Level) -> Evidence:
    detail = f"The tests hardly check what they call: {text}."
    return refuse(subject, FAULTS, "mutants-survive", text, tests[0].path, detail, level)


# --- the old tests on the new code ----------------------------------------------------------------


TITLE = "The tests as they were"
SAME_BEHAVIOUR = frozenset(("refactoring", "performance", "docs"))
"""Categories of changes that must not change behaviour."""


def run_old_tests(subject: EvidenceSubject, trial: Trial) -> Evidence:
    """If a change touches product code and tests, run the old tests on the new product code."""
    files = [
        file
        for file in subject.change.files
        if read_sides(file)[0].is_test_file and file.status in "MRD"
    ]
    strict = subject.context.category in SAME_BEHAVIOUR
    # Without old product code (None) the change has only tests, which may demand anything new.
    if not files or not trial.checkout.commands or not (strict or trial.build_old_product(subject)):
        return Evidence()
    old_files: dict[str, bytes | None] = {f.raw_path: None for f in files if f.status == "R"}
    old_files |= {file.raw_old_path: file.old for file in files}
    trial.check_out(trial.checkout.build_variant(subject.tree, old_files))
    if strict:
        return _judge_strictly(subject, trial)
    outcome = _run_alone(trial, _list_changed(files))
    return _describe_redefined(trial, outcome) if outcome and outcome.red else Evidence()


def _judge_strictly(subject: EvidenceSubject, trial: Trial) -> Evidence:
    outcome = trial.run(trial.checkout.commands, {})
    if outcome.red and outcome.ended:  # once more, as a test may be flaky
        outcome = trial.run(trial.checkout.commands, {})
    if not outcome.red:
        text = "they pass on the changed product code"
        return report_check(TITLE, CheckOutcome.PASSED, text)
    if not outcome.ended or PROVES_NOTHING.search(trial.read_output()):
        return _describe_redefined(trial, outcome)
    text = f"{_format_failed(outcome)} fail on the changed product code"
    detail = f"{text}: it behaves differently."
    return refuse(subject, TITLE, "old-tests-fail", text, detail=detail)


def _list_changed(files: Sequence[ChangedFile]) -> list[Test]:
    """The old tests whose text the change rewrites or deletes."""
    changed: list[Test] = []
    for before, after in map(read_sides, files):
        kept = {test.node.text for test in after.tests}
        changed += [test for test in before.tests if test.node.text not in kept]
    return changed


def _run_alone(trial: Trial, tests: Sequence[Test]) -> SuiteOutcome | None:
    """Run these tests alone; None if none of them can run alone."""
    for focused in list_focused(trial, tests) if tests else ():
        outcome = trial.run([shlex.join(focused.argv)], {})
        if outcome.ran or focused.count_tests(trial.read_output()):
            return outcome
    return None


def _describe_redefined(trial: Trial, outcome: SuiteOutcome) -> Evidence:
    if not outcome.ended:
        return report_check(TITLE, CheckOutcome.NOT_CHECKED, "they did not end")
    text = f"this change redefines what {_format_failed(outcome)} demand"
    if PROVES_NOTHING.search(trial.read_output()):
        text += ", or they use names that no longer exist"
    return report_check(TITLE, CheckOutcome.UNDECIDED, text)


def _format_failed(outcome: SuiteOutcome) -> str:
    return format_names(sorted(outcome.failed), "some of them")
