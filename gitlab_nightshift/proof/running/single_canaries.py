"""Plants faults one at a time: a change's tests must notice those that the base's tests noticed."""

import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gitlab_nightshift.proof.evidence.evidence_records import (
    MOST_NAMED,
    Evidence,
    EvidenceSubject,
    NoticedFault,
    format_names,
    raise_flag,
    refuse,
    report_check,
)
from gitlab_nightshift.proof.evidence.selected_tests import (
    FocusedCommand,
    ProjectTests,
    SelectedTests,
    build_focused_commands,
)
from gitlab_nightshift.proof.proof_commands import CommandRun
from gitlab_nightshift.proof.reports.report_readers import CollectedTests
from gitlab_nightshift.proof.reports.report_request import build_text_reader
from gitlab_nightshift.proof.running import fault_choice
from gitlab_nightshift.proof.running.fault_choice import ProductCode, take_in_turn
from gitlab_nightshift.proof.running.faults import Fault
from gitlab_nightshift.proof.running.trial import (
    PlantedTree,
    RunTests,
    SuiteOutcome,
    TestRun,
    TreeFiles,
    Trial,
    TrialCheckout,
    build_environment,
    is_any_reported,
    plant,
)
from gitlab_nightshift.proof.syntax.definitions import Test
from gitlab_nightshift.records.verdicts import CheckOutcome
from gitlab_nightshift.registry.flag_registry import Level

MOST_CANARIES = 10  # with twelve or more, an experiment found no more cheats
MOST_TIME_SHARE = 1.5  # of the suite's duration, in which canaries are looked for
FEWEST_TRIES, MOST_TRIES = 14, 20  # faults that are tried however long that takes, and at most
LONG_S, FEWEST_LONG_TRIES = 3.0, 6  # the fewest tries, if each takes more than so many seconds
IN_JOB = {"CI": "1"}  # as in a job: a test that is skipped there protects nobody
CONFIRMATIONS = 2  # further runs of the base that must notice a lost canary
MOST_TESTS = 40  # tests named on a command line; with more, whole files are run


@dataclass(frozen=True)
class Canary:
    """A fault that tests of the base noticed; ``found_by`` are their reported names, empty if only
    the exit status showed it."""

    fault: Fault
    found_by: frozenset[str]


@dataclass(frozen=True)
class JudgedCanary:
    """A canary with the change applied. ``still_noticed`` is None if unknown. ``silent`` are the
    tests that noticed it on the base, and now run and pass; none if another test notices it
    instead. ``noticed_by`` are those of the chosen tests that fail. ``elsewhere``: the chosen tests
    missed it, and the whole suite was asked."""

    canary: Canary
    still_noticed: bool | None
    silent: frozenset[str] = frozenset()
    noticed_by: frozenset[str] = frozenset()
    elsewhere: bool = False


@dataclass(frozen=True)
class FoundCanaries:
    """Canaries, and the base's tree with their switches; None if no fault could be planted."""

    planted: PlantedTree | None
    canaries: tuple[Canary, ...]


def plant_singles(
    trial: Trial, tree: str, tests: Sequence[Test], faults: Sequence[Fault]
) -> PlantedTree | None:
    """Plant faults behind switches in a tree on which these tests pass; None if that fails."""
    return plant(trial, tree, faults, _list_runs(trial, tests))


def find_canaries(
    trial: Trial,
    planted: PlantedTree | None,
    tests: Sequence[Test],
    faults: Sequence[Fault],
    usual_s: float,
) -> FoundCanaries:
    """The faults that these tests notice on the base, each tried by a run of its own. If there are
    too many, they are chosen in turn: one that covers many tests, and one that few tests notice,
    which is lost most easily. ``usual_s`` are the seconds of the whole suite."""
    if planted is None:
        return FoundCanaries(None, ())
    trial.check_out(planted.tree)
    canaries: list[Canary] = []
    spent_s: list[float] = []  # by each try
    for fault in faults:
        are_long = bool(spent_s) and statistics.median(spent_s) > LONG_S
        fewest = FEWEST_LONG_TRIES if are_long else FEWEST_TRIES
        is_late = len(spent_s) >= fewest and sum(spent_s) > usual_s * MOST_TIME_SHARE
        if is_late or len(spent_s) >= MOST_TRIES or trial.checkout.compute_left_s() <= 0:
            break
        outcome = _run_with(trial, planted, fault, planted.run)
        spent_s.append(outcome.duration_s)
        by_tests = is_any_reported(outcome.failed, tests) or not planted.run.reports
        if outcome.noticed and by_tests:
            canaries.append(Canary(fault, outcome.failed))
    rarest = sorted(canaries, key=lambda canary: len(canary.found_by))
    chosen = dict.fromkeys(take_in_turn([list(_spread_over_tests(rarest)), rarest]))
    return FoundCanaries(planted, tuple(chosen)[:MOST_CANARIES])


def _spread_over_tests(canaries: Sequence[Canary]) -> Iterator[Canary]:
    """Greedy cover: each time the canary that most of the tests not yet covered notice."""
    remaining, covered = list(canaries), set[str]()
    while remaining:
        best = max(remaining, key=lambda canary: len(canary.found_by - covered))
        remaining.remove(best)
        covered |= best.found_by
        yield best


def judge_canaries(
    trial: Trial,
    subject: EvidenceSubject,
    tests: Sequence[Test],
    base: FoundCanaries,
    in_change: Mapping[Fault, Fault],
    planted: PlantedTree | None = None,
) -> list[JudgedCanary]:
    """Try each canary with the change applied, in ``planted`` if given.

    It is tried on ``tests``, as they are after the change. If these do not notice it, it is tried
    on the whole suite, then on the old product code with the new tests: the change may have made a
    function unreachable. A canary that is lost nevertheless must be noticed on the base again, or
    is dropped: flaky tests do not count.
    """
    canaries = base.canaries
    faults = [in_change[canary.fault] for canary in canaries]
    if planted is None:
        planted = plant_singles(trial, subject.tree, tests, faults)
    if planted is None:
        return [JudgedCanary(canary, None) for canary in canaries]
    trial.check_out(planted.tree)
    judged = [_judge(trial, planted, canary, in_change[canary.fault]) for canary in canaries]
    if planted.run.narrow:
        judged = _try_whole_suite(trial, planted, judged, in_change)
    noticed = next((each for each in judged if each.still_noticed and not each.elsewhere), None)
    judged = _try_old_product(trial, subject, tests, judged)
    if noticed is not None:
        # Tests that notice a fault behind its switch, but not without one, detect the switch.
        fault = in_change[noticed.canary.fault]
        trial.check_out(trial.checkout.build_faulty(subject.tree, [fault]))
        outcome = trial.repeat(planted.run, IN_JOB)
        if outcome.ended and not outcome.red:
            missed = replace(noticed, still_noticed=False)
            judged = [missed if each == noticed else each for each in judged]
    return _confirm(trial, base, judged)


def _confirm(
    trial: Trial, base: FoundCanaries, judged: Sequence[JudgedCanary]
) -> list[JudgedCanary]:
    """Drop lost canaries that the same tests do not notice on the base again: flaky tests do not
    count."""
    confirmed = list(judged)
    for _ in range(CONFIRMATIONS):
        if base.planted is None or not any(map(_is_missed, confirmed)):
            break
        trial.check_out(base.planted.tree)
        faultless = trial.repeat(base.planted.run, _build_env(base.planted))
        repeated = [_repeat_on_base(trial, base.planted, each, faultless) for each in confirmed]
        confirmed = [each for each in repeated if each is not None]
    return confirmed


def _is_missed(judged: JudgedCanary) -> bool:
    """True if no test notices a canary any more, or a test that noticed it misses it."""
    return judged.still_noticed is False or bool(judged.silent)


def _repeat_on_base(
    trial: Trial, planted: PlantedTree, judged: JudgedCanary, faultless: SuiteOutcome
) -> JudgedCanary | None:
    """A missed canary after another run on the base; None if the same tests do not notice it there
    again. Tests that fail in the ``faultless`` run notice nothing."""
    if not _is_missed(judged):
        return judged
    canary = judged.canary
    outcome = _run_with(trial, planted, canary.fault, planted.run)
    steady = canary.found_by & outcome.failed - faultless.failed
    if not steady and (canary.found_by or faultless.red or not outcome.noticed):
        return None
    return replace(judged, silent=judged.silent & steady)


def _judge(trial: Trial, planted: PlantedTree, canary: Canary, fault: Fault) -> JudgedCanary:
    if fault not in planted.numbers or trial.checkout.compute_left_s() <= 0:
        return JudgedCanary(canary, None)
    return _judge_outcome(canary, _run_with(trial, planted, fault, planted.run))


def _judge_outcome(canary: Canary, outcome: SuiteOutcome) -> JudgedCanary:
    silent = (canary.found_by & outcome.ran) - outcome.failed
    if outcome.noticed and (outcome.failed or not canary.found_by):
        by_others = outcome.failed - canary.found_by
        return JudgedCanary(canary, True, frozenset() if by_others else silent, outcome.failed)
    crashed = outcome.red and not canary.found_by & outcome.ran
    return JudgedCanary(canary, None if crashed or not outcome.ended else False, silent)


def _try_whole_suite(
    trial: Trial,
    planted: PlantedTree,
    judged: Sequence[JudgedCanary],
    in_change: Mapping[Fault, Fault],
) -> list[JudgedCanary]:
    """Try the canaries that the chosen tests miss on the whole suite."""
    if all(each.still_noticed is not False for each in judged):
        return list(judged)
    whole_run, _ = trial.find_whole_run(_build_env(planted))
    results: list[JudgedCanary] = []
    for each in judged:
        if each.still_noticed is not False:
            results.append(each)
        elif whole_run is None:
            results.append(JudgedCanary(each.canary, None, each.silent))
        else:
            outcome = _run_with(trial, planted, in_change[each.canary.fault], whole_run)
            noticed = outcome.noticed if outcome.ended else None
            results.append(replace(each, still_noticed=noticed, elsewhere=True))
    return results


def _try_old_product(
    trial: Trial, subject: EvidenceSubject, tests: Sequence[Test], judged: Sequence[JudgedCanary]
) -> list[JudgedCanary]:
    """Try lost canaries on the old product code: those that new tests notice there are not lost."""
    lost = [each for each in judged if each.still_noticed is False]
    tree = trial.build_old_product(subject) if lost else None
    if tree is None:
        return list(judged)
    planted = plant_singles(trial, tree, tests, [each.canary.fault for each in lost])
    if planted is None:
        return list(judged)
    tried = (_judge(trial, planted, each.canary, each.canary.fault) for each in lost)
    noticed = {each.canary: each for each in tried if each.still_noticed}
    return [noticed.get(each.canary, each) for each in judged]


def _run_with(trial: Trial, planted: PlantedTree, fault: Fault, run: TestRun) -> SuiteOutcome:
    return trial.repeat(run, _build_env(planted, [fault]))


def _build_env(planted: PlantedTree, faults: Sequence[Fault] = ()) -> dict[str, str]:
    return {**build_environment(planted, faults), **IN_JOB}


def _list_runs(trial: Trial, tests: Sequence[Test]) -> tuple[RunTests, ...]:
    """Two ways to run these tests: alone, if need be without those that fail although no fault is
    on, such as a test of code size; or by the project's own commands."""

    def run_passing(planted: PlantedTree) -> tuple[TestRun | None, str]:
        env = _build_env(planted)
        run, output = trial.find_run(list_focused(trial, tests), env)
        passing = [test for test in tests if not is_any_reported(trial.failed, [test])]
        if run is None and 0 < len(passing) < len(tests):
            run, _ = trial.find_run(list_focused(trial, passing), env)
        return run, output

    return run_passing, lambda planted: trial.find_whole_run(_build_env(planted))


def list_focused(trial: Trial, tests: Sequence[Test]) -> Iterator[FocusedCommand]:
    """Commands that run these tests alone, the most likely first."""
    folder = trial.checkout.folder
    project = ProjectTests(trial.checkout.commands, lambda path: (folder / path).exists())
    for language in dict.fromkeys(test.language.name for test in tests):
        in_language = [test for test in tests if test.language.name == language]
        files = tuple(dict.fromkeys(test.path for test in in_language))
        names = tuple(dict.fromkeys(test.name for test in in_language))
        qualified = tuple((test.path, test.qualified) for test in in_language)
        qualified = qualified if len(qualified) <= MOST_TESTS else ()
        chosen = SelectedTests(files, names, qualified)
        yield from build_focused_commands(language, chosen, project)


# --- verdicts -------------------------------------------------------------------------------------


TITLE = "Planted faults (canaries)"
FLAG = "suite-weakened"
FEWEST_SILENT = 3
"""Misses by tests that refuse a change; fewer may be due to an assertion that was replaced."""


@dataclass(frozen=True)
class CanaryInputs:
    """What the canaries of one attempt need: the files of the base (``before``) and of the change
    (``after``), and ``code``, the base's product code. ``faultless_run`` is the run of the
    project's own commands on the change without faults, ``reported_tests`` are the names that it
    reported, ``tests_before`` the names that were reported on the base."""

    subject: EvidenceSubject
    trial: Trial
    before: TreeFiles
    after: TreeFiles
    code: ProductCode
    rng: random.Random
    faultless_run: TestRun
    reported_tests: frozenset[str]
    tests_before: frozenset[str]

    def run_suite(self) -> SuiteOutcome:
        """Run the project's own commands on the tree that is checked out, as in a job."""
        return self.trial.repeat(self.faultless_run, IN_JOB)


def collect_inputs(
    subject: EvidenceSubject,
    trial_checkout: TrialCheckout,
    before: Sequence[CollectedTests],
    runs: Sequence[CommandRun],
) -> CanaryInputs:
    """The inputs of an attempt: ``before`` are the tests that ran on the base, ``runs`` the
    commands on the change, which passed."""
    repository = trial_checkout.checkout.repository
    old, new = trial_checkout.open_files(subject.base), trial_checkout.open_files(subject.tree)
    faultless_run = TestRun(
        trial_checkout.commands, sum(run.result.duration_s for run in runs), narrow=False
    )
    return CanaryInputs(
        subject,
        Trial(trial_checkout, build_text_reader(repository, subject.base), "canary"),
        old,
        new,
        ProductCode(old),
        fault_choice.draw_seed(),
        faultless_run,
        frozenset(name for run in runs for name in run.collection.counts),
        frozenset(name for collection in before for name in collection.counts),
    )


def format_tests(tests: frozenset[str]) -> str:
    """The names of the first tests, and how many more there are."""
    return format_names(sorted(tests), "the tests")


def report_unknown(why: str) -> Evidence:
    """The check if nothing is known because of the base: the change is not refused for that."""
    return report_check(TITLE, CheckOutcome.NOT_CHECKED, why)


def fail_unknown(inputs: CanaryInputs, why: str) -> Evidence:
    """The check if nothing is known because of the change: a night fails, people are warned."""
    level: Level = "warn" if inputs.subject.context.by_people else "fail"
    findings = raise_flag(FLAG, inputs.subject.context, "", f"{why[0].upper()}{why[1:]}.", level)
    return report_check(TITLE, CheckOutcome.NOT_CHECKED, why, findings)


def judge_singles(inputs: CanaryInputs, judged: Sequence[JudgedCanary]) -> Evidence:
    """Judge canaries that were tried one at a time; record which tests noticed each."""
    noticed = tuple(NoticedFault(each.canary.fault.by_value, each.noticed_by) for each in judged)
    by_test = [(name, each.still_noticed) for each in judged for name in each.canary.found_by]
    return Evidence(canaries=tuple(by_test), noticed=noticed) + judge_noticed(inputs, judged)


def judge_noticed(
    inputs: CanaryInputs, judged: Sequence[JudgedCanary], where: str = "near the change"
) -> Evidence:
    """The check of all canaries. One that no test notices any more refuses the change. If others
    notice them, tests that miss them are a warning; ``FEWEST_SILENT`` misses or more refuse a
    night's change. ``where`` are the faults, for the message."""
    if not judged:
        return report_unknown("the tests that notice faults had two results on the same code")
    lost = [each for each in judged if each.still_noticed is False]
    unknown = [each for each in judged if each.still_noticed is None]
    number = f"{len(judged)} planted fault{'s' * (len(judged) > 1)} {where}"
    if lost:
        text = _describe_lost(lost, len(judged))
        return refuse(inputs.subject, TITLE, FLAG, text, lost[0].canary.fault.path)
    if len(unknown) == len(judged):
        return fail_unknown(inputs, f"{number} were noticed before; now this is unknown")
    text = f"{len(judged) - len(unknown)} of {number} noticed as before"
    silent = [name for each in judged for name in each.silent]
    if silent:
        text += f", but not by {format_tests(frozenset(silent))}"
        if len(silent) >= FEWEST_SILENT and not inputs.subject.context.by_people:
            return refuse(inputs.subject, TITLE, FLAG, f"{text}.")
        findings = raise_flag(FLAG, inputs.subject.context, "", f"{text}.", "warn")
        return report_check(TITLE, CheckOutcome.UNDECIDED, text, findings)
    return report_check(TITLE, CheckOutcome.PASSED, f"{text} (a sample, no proof)")


def _describe_lost(lost: Sequence[JudgedCanary], number: int) -> str:
    faults = [each.canary.fault for each in lost]
    where = dict.fromkeys(f"{f.function} ({f.path})" if f.function else f.path for f in faults)
    tests = frozenset(name for each in lost for name in each.canary.found_by)
    text = f"{len(lost)} of {number} planted faults, in code that the change leaves alone"
    text += f", which {format_tests(tests)} noticed before, are noticed by no test now"
    return f"{text}: in {', '.join(list(where)[:MOST_NAMED])}."
