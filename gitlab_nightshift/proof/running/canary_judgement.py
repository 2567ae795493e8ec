"""Judges whether the tests still notice canaries: the same tests, others, or none."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from gitlab_nightshift.proof.evidence.workbench import (
    MOST_NAMED,
    Evidence,
    EvidenceSubject,
    NoticedFault,
    Workbench,
    format_names,
    raise_flag,
    refuse,
    report_check,
)
from gitlab_nightshift.proof.proof_commands import CommandRun
from gitlab_nightshift.proof.reports.command_expansion import build_text_reader
from gitlab_nightshift.proof.reports.report_readers import Collection
from gitlab_nightshift.proof.running import fault_choice
from gitlab_nightshift.proof.running.fault_choice import ProductCode
from gitlab_nightshift.proof.running.single_canaries import JudgedCanary
from gitlab_nightshift.proof.running.tree_files import TreeFiles
from gitlab_nightshift.proof.running.trial import TestRun, Trial
from gitlab_nightshift.records.verdicts import CheckOutcome
from gitlab_nightshift.registry.flag_registry import Level

TITLE = "Planted faults (canaries)"
FLAG = "suite-weakened"
FEWEST_SILENT = 3
"""Missed faults that count; fewer may be due to an assertion that was replaced by another."""


@dataclass(frozen=True)
class CanaryInputs:
    """What one attempt is judged by: the base (``before``) and the change (``after``). ``code`` is
    the base's product code, ``usual`` the run of the project's own commands on the change,
    ``usual_tests`` the names that it reported, ``tests_before`` those on the base."""

    subject: EvidenceSubject
    trial: Trial
    before: TreeFiles
    after: TreeFiles
    code: ProductCode
    rng: random.Random
    usual: TestRun
    usual_tests: frozenset[str]
    tests_before: frozenset[str]


def collect_inputs(
    subject: EvidenceSubject,
    workbench: Workbench,
    before: Sequence[Collection],
    runs: Sequence[CommandRun],
) -> CanaryInputs:
    """``runs`` are the commands on the change, which passed, ``before`` the tests of the base."""
    repository = workbench.checkout.repository
    old, new = workbench.open_files(subject.base), workbench.open_files(subject.tree)
    usual = TestRun(workbench.commands, sum(run.result.duration_s for run in runs), narrow=False)
    return CanaryInputs(
        subject,
        Trial(workbench, build_text_reader(repository, subject.base), "canary"),
        old,
        new,
        ProductCode(old),
        fault_choice.draw_seed(),
        usual,
        frozenset(name for run in runs for name in run.collection.counts),
        frozenset(name for collection in before for name in collection.counts),
    )


def count_faults(number: int) -> str:
    """A number of simultaneous faults, as text."""
    return f"{number} planted faults at once" if number > 1 else "a planted fault"


def format_tests(tests: frozenset[str]) -> str:
    """The names of the first tests, and how many more."""
    return format_names(sorted(tests), "the tests")


def report_unknown(why: str) -> Evidence:
    """Not checked, because of the base: the change is not refused for that."""
    return report_check(TITLE, CheckOutcome.NOT_CHECKED, why)


def fail_unknown(inputs: CanaryInputs, why: str) -> Evidence:
    """Not checked, because of the change: this fails a night's attempt, and warns people."""
    level: Level = "warn" if inputs.subject.context.by_people else "fail"
    found = raise_flag(FLAG, inputs.subject.context, "", f"{why[0].upper()}{why[1:]}.", level)
    return report_check(TITLE, CheckOutcome.NOT_CHECKED, why, found)


def judge_singles(inputs: CanaryInputs, judged: Sequence[JudgedCanary]) -> Evidence:
    """Judge canaries that were tried one at a time; record which tests noticed each."""
    noticed = tuple(NoticedFault(e.canary.fault.by_value, e.noticed_by) for e in judged)
    by_test = [(name, each.still_noticed) for each in judged for name in each.canary.found_by]
    seen = Evidence(canaries=tuple(by_test), noticed=noticed)
    return seen + judge_noticed(inputs, judged)


def judge_noticed(
    inputs: CanaryInputs, judged: Sequence[JudgedCanary], where: str = "near the change"
) -> Evidence:
    """A canary that no test notices any more refuses the change. If others notice it now, tests
    that miss it are a warning; ``FEWEST_SILENT`` misses or more refuse a night's change."""
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
        found = raise_flag(FLAG, inputs.subject.context, "", f"{text}.", "warn")
        return report_check(TITLE, CheckOutcome.UNDECIDED, text, found)
    return report_check(TITLE, CheckOutcome.PASSED, f"{text} (a sample, no proof)")


def _describe_lost(lost: Sequence[JudgedCanary], number: int) -> str:
    faults = [each.canary.fault for each in lost]
    where = dict.fromkeys(f"{f.function} ({f.path})" if f.function else f.path for f in faults)
    tests = frozenset(name for each in lost for name in each.canary.found_by)
    text = f"{len(lost)} of {number} planted faults, in code that the change leaves alone"
    text += f", which {format_tests(tests)} noticed before, are noticed by no test now"
    return f"{text}: in {', '.join(list(where)[:MOST_NAMED])}."
