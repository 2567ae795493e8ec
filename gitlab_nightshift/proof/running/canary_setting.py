"""The input for judging the canaries of one attempt, and the texts of the judgement."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from gitlab_nightshift.proof.evidence.evidence_flags import raise_flag
from gitlab_nightshift.proof.evidence.lab import Evidence, EvidenceSubject, Lab
from gitlab_nightshift.proof.proof_commands import CommandRun
from gitlab_nightshift.proof.reports.command_expansion import build_text_reader
from gitlab_nightshift.proof.reports.reported_cases import Collection
from gitlab_nightshift.proof.running import fault_choice
from gitlab_nightshift.proof.running.fault_choice import ProductCode
from gitlab_nightshift.proof.running.tree_files import TreeFiles
from gitlab_nightshift.proof.running.trial import TestRun, Trial
from gitlab_nightshift.records.verdicts import Check, CheckOutcome
from gitlab_nightshift.registry.flag_entry import Level

TITLE = "Planted faults (canaries)"
FLAG = "suite-weakened"
MOST_NAMED = 5


@dataclass(frozen=True)
class Setting:
    """The input for judging one attempt. ``tests_before`` and ``usual_tests`` are the names of the
    tests that the project's own commands reported before the change and with it."""

    subject: EvidenceSubject
    trial: Trial
    before: TreeFiles
    after: TreeFiles
    code: ProductCode
    rng: random.Random
    usual: TestRun
    usual_tests: frozenset[str]
    tests_before: frozenset[str]


def build_setting(
    subject: EvidenceSubject, lab: Lab, before: Sequence[Collection], runs: Sequence[CommandRun]
) -> Setting:
    """``runs`` are the commands on the change, which passed, ``before`` the tests of the base."""
    repository = lab.checkout.repository
    old, new = lab.open_files(subject.base), lab.open_files(subject.tree)
    usual = TestRun(lab.commands, sum(run.result.duration_s for run in runs), narrow=False)
    return Setting(
        subject,
        Trial(lab, build_text_reader(repository, subject.base), "canary"),
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
    """The first names, and how many more."""
    names = sorted(tests)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return (", ".join(names[:MOST_NAMED]) or "the tests") + more


def tell_unknown(why: str) -> Evidence:
    """Not checked: if the base cannot tell, the change is not refused."""
    return Evidence((Check(TITLE, CheckOutcome.NOT_CHECKED, why),))


def fail_unknown(setting: Setting, why: str) -> Evidence:
    """Not checked although the base could tell: fails a night's attempt, and warns people."""
    level: Level = "warn" if setting.subject.context.by_people else "fail"
    found = raise_flag(FLAG, setting.subject.context, "", 0, f"{why[0].upper()}{why[1:]}.", level)
    return Evidence((Check(TITLE, CheckOutcome.NOT_CHECKED, why),), found)


def refuse(setting: Setting, flag: str, file: str, text: str) -> Evidence:
    """A finding that refuses the change."""
    found = raise_flag(flag, setting.subject.context, file, 0, text)
    return Evidence((Check(TITLE, CheckOutcome.FAILED, text.rstrip(".")),), found)


def warn(setting: Setting, text: str) -> Evidence:
    """A finding that warns the reviewer."""
    found = raise_flag(FLAG, setting.subject.context, "", 0, f"{text}.", "warn")
    return Evidence((Check(TITLE, CheckOutcome.UNDECIDED, text),), found)
