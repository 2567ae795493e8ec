"""Canaries: faults in product code that the untouched tests notice must be noticed still.

That shows what no rule has to know: tests that are gone, skipped, emptied or made to pass, helpers
that swallow, equality that is always true, forced exit statuses, hooks that rewrite reports.
"""

import functools
import random
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gitlab_nightshift.flag_entry import Level
from gitlab_nightshift.proof.running.base_canaries import BaseCanaries
from gitlab_nightshift.proof.running.combined_canaries import (
    CombinedRun,
    is_cut_short,
    keep_steady,
    run_again_on_base,
    run_on_base,
    run_on_change,
)
from gitlab_nightshift.proof.running.fault_choice import (
    ProductCode,
    build_aim,
    choose_far_faults,
    choose_near_faults,
    keep_unchanged,
)
from gitlab_nightshift.proof.running.faults import Fault
from gitlab_nightshift.proof.running.reported_names import is_reported_as
from gitlab_nightshift.proof.running.single_canaries import (
    JudgedCanary,
    find_canaries,
    judge_canaries,
)
from gitlab_nightshift.proof.running.suite_outcome import SuiteOutcome
from gitlab_nightshift.proof.running.text_canaries import (
    find_text_canaries,
    is_foreign_code,
    judge_text_canaries,
)
from gitlab_nightshift.proof.running.touched_tests import TouchedTests, find_touched_tests
from gitlab_nightshift.proof.running.tree_files import TreeFiles
from gitlab_nightshift.proof.running.trial import TestRun, Trial
from gitlab_nightshift.records.verdicts import Check, CheckOutcome
from gitlab_nightshift.verdict.collection.command_expansion import build_text_reader
from gitlab_nightshift.verdict.collection.reported_cases import Collection
from gitlab_nightshift.verdict.evidence.evidence_flags import raise_flag
from gitlab_nightshift.verdict.evidence.lab import Evidence, EvidenceSubject, Lab
from gitlab_nightshift.verdict.executed_code import changes_code
from gitlab_nightshift.verdict.proof_commands import CommandRun
from gitlab_nightshift.verdict.syntax.single_test import Test

TITLE = "Planted faults (canaries)"
FLAG = "suite-weakened"
MOST_PLANTED = 300
"""In one build: most of them no test comes by."""
FOREIGN = "in code of a language that is not understood"
MANY = 8
"""Times as many functions as are wanted, of which some are not changed."""
MOST_NAMED = 5
FEWEST_SILENT = 3


@dataclass(frozen=True)
class _Setting:
    """All that one attempt is judged with."""

    subject: EvidenceSubject
    trial: Trial
    before: TreeFiles
    after: TreeFiles
    code: ProductCode
    rng: random.Random
    usual: TestRun
    usual_tests: frozenset[str]
    tests_before: int


def try_canaries(
    subject: EvidenceSubject,
    lab: Lab,
    before: Sequence[Collection],
    runs: Sequence[CommandRun],
    base: BaseCanaries,
) -> Evidence:
    """Hold the tests after a change against those before it, by faults that these noticed.

    ``runs`` are the commands on the change, which passed, ``before`` the tests of the base. The
    checkout is left as the last run left it.
    """
    if not lab.commands or not changes_code(subject.change):
        return Evidence()
    if base.unable:
        return _tell_unknown(base.unable)
    setting = _build_setting(subject, lab, before, runs)
    found = _try_texts(setting, base) if _is_foreign(setting) else Evidence()
    if setting.before.products:
        found += _try_combined(setting, base)
    for touched in find_touched_tests(subject.change, setting.before, setting.after):
        found += _try_near(setting, touched)
    return found


def _build_setting(
    subject: EvidenceSubject, lab: Lab, before: Sequence[Collection], runs: Sequence[CommandRun]
) -> _Setting:
    repository = lab.checkout.repository
    old, new = (TreeFiles(repository, tree) for tree in (subject.base, subject.tree))
    usual = TestRun(lab.commands, sum(run.result.duration_s for run in runs), narrow=False)
    return _Setting(
        subject,
        Trial(lab, build_text_reader(repository, subject.base), "canary"),
        old,
        new,
        ProductCode(old),
        random.Random(secrets.token_bytes(16)),  # noqa: S311 - a choice, no secret
        usual,
        frozenset(name for run in runs for name in run.collection.counts),
        sum(len(collection.counts) for collection in before),
    )


# --- the whole suite ---------------------------------------------------------------------------


def _try_combined(setting: _Setting, base: BaseCanaries) -> Evidence:
    subject, trial = setting.subject, setting.trial
    if not base.asked:
        base.asked = True
        base.combined = _run_on_base(setting, _choose_far)
    if base.combined is None:
        return _tell_unknown("no fault was found that the tests of the base notice")
    before = _leave_out_changed(setting, base.combined)
    if before is None:
        return _tell_unknown("no fault was found outside of the functions that it edits")
    faults, old = before.faults, before.outcome
    moved = keep_unchanged(subject.change, setting.code, faults)
    new = _run_on_change(setting, moved, faults)
    if new is None or not new.ended or (new.red and not _list_silent(old, new)):
        return _judge_combined(setting, faults, moved, old, new)
    steady = keep_steady(trial, before, faults, old)
    flaky = old.failed - steady.failed
    text = f"{_format_tests(flaky)} had two results on the base: not counted"
    found = _tell_unknown(text) if flaky or not steady.noticed else Evidence()
    return found + _judge_combined(setting, faults, moved, steady, new) if steady.noticed else found


def _leave_out_changed(setting: _Setting, combined: CombinedRun) -> CombinedRun | None:
    """The base's run with those faults alone whose functions the change leaves as they are, or with
    others."""
    moved = keep_unchanged(setting.subject.change, setting.code, combined.faults)
    faults = tuple(fault for fault in combined.faults if fault in moved)
    if faults == combined.faults:
        return combined
    if faults:
        fewer = run_again_on_base(setting.trial, combined, faults)
        if fewer.noticed:
            return CombinedRun(faults, combined.planted, fewer)
    return _run_on_base(setting, _choose_far_unchanged)


def _list_silent(old: SuiteOutcome, new: SuiteOutcome) -> frozenset[str]:
    return (old.failed & new.ran) - new.failed


def _run_on_change(
    setting: _Setting, moved: Mapping[Fault, Fault], faults: Sequence[Fault]
) -> SuiteOutcome | None:
    """Twice where nothing is noticed: a machine may have been too busy."""
    run = functools.partial(run_on_change, setting.trial, setting.subject.tree, moved, faults)
    new = run(setting.after, setting.usual)
    return new if new and new.noticed else run(setting.after, setting.usual)


def _run_on_base(
    setting: _Setting, choose: Callable[[_Setting, int], list[Fault]]
) -> CombinedRun | None:
    chosen = functools.partial(choose, setting)
    trial, tree = setting.trial, setting.subject.base
    return run_on_base(trial, tree, chosen, setting.before, setting.usual, setting.tests_before)


def _choose_far(setting: _Setting, most: int) -> list[Fault]:
    return choose_far_faults(setting.code, setting.rng, most)


def _choose_far_unchanged(setting: _Setting, most: int) -> list[Fault]:
    """In functions that the change leaves as they are."""
    many = choose_far_faults(setting.code, setting.rng, most * MANY)
    return list(keep_unchanged(setting.subject.change, setting.code, many))[:most]


def _judge_combined(
    setting: _Setting,
    faults: tuple[Fault, ...],
    moved: Mapping[Fault, Fault],
    old: SuiteOutcome,
    new: SuiteOutcome | None,
) -> Evidence:
    number = f"{len(faults)} faults planted at once"
    if new is None or not new.ended:
        return _fail_unknown(setting, f"with {number} the suite tells nothing any more")
    if new.disagrees and not old.disagrees:
        text = f"With {number} {len(new.failed)} tests fail, and the command ends with 0."
        return _refuse(setting, "unreliable-report", "", text)
    if not new.red:
        before = f"before the change {_format_tests(old.failed)} noticed"
        text = f"With {number} the suite passes; {before}."
        return _refuse(setting, FLAG, "", text)
    if old.failed & new.ran and not new.failed:
        text = f"With {number} the command fails, and no test is reported to."
        return _refuse(setting, "unreliable-report", "", text)
    if (old.failed and not new.failed) or is_cut_short(new, len(setting.usual_tests)):
        return _fail_unknown(setting, f"with {number} the suite does not run to its end")
    silent = _list_silent(old, new)
    text = (
        f"{number}, the whole suite: {len(old.failed)} tests noticed before, {len(new.failed)} now"
    )
    found = Evidence((Check(TITLE, CheckOutcome.PASSED, text),))
    return found + _look_at_silent(setting, faults, moved, silent) if silent else found


def _look_at_silent(
    setting: _Setting,
    faults: tuple[Fault, ...],
    moved: Mapping[Fault, Fault],
    silent: frozenset[str],
) -> Evidence:
    """Tests that passed with the faults on though they run still: each fault by itself."""
    old, new = (_find_tests(files, silent) for files in (setting.before, setting.after))
    trial, subject = setting.trial, setting.subject
    usual_s = setting.usual.duration_s
    found = find_canaries(trial, subject, old, faults, setting.before, usual_s)
    if not found.canaries:
        return _tell_unknown(f"{_format_tests(silent)} notice none of them by itself")
    judged = judge_canaries(trial, subject, new, found, moved, setting.after)
    return _judge_singles(setting, judged)


def _find_tests(files: TreeFiles, names: frozenset[str]) -> list[Test]:
    return [
        test
        for side in files.tests
        for test in side.tests
        if any(is_reported_as(name, test) for name in names)
    ]


# --- a language that is not understood ----------------------------------------------------------


def _is_foreign(setting: _Setting) -> bool:
    """Whether the product, or code that changes, is in such a language."""
    changed = any(is_foreign_code(file.raw_path) for file in setting.subject.change.files)
    return changed or not setting.before.products


def _try_texts(setting: _Setting, base: BaseCanaries) -> Evidence:
    subject, trial, usual = setting.subject, setting.trial, setting.usual
    if base.texts is None:
        base.texts = find_text_canaries(trial, subject.base, setting.before, setting.rng, usual)
    after = setting.after
    judged = judge_text_canaries(trial, subject, base.texts, setting.before, after, usual)
    if not judged:
        return _tell_unknown(f"none {FOREIGN} that the change leaves alone makes the commands fail")
    return _judge_kept(setting, judged, FOREIGN)


# --- near the change ---------------------------------------------------------------------------


def _try_near(setting: _Setting, touched: TouchedTests) -> Evidence:
    subject, trial = setting.subject, setting.trial
    aim = build_aim(touched.old, touched.named, setting.before.tests)
    chosen = choose_near_faults(setting.code, aim, setting.rng, MOST_PLANTED)
    moved = keep_unchanged(subject.change, setting.code, chosen)
    usual_s = setting.usual.duration_s
    found = find_canaries(trial, subject, touched.old, list(moved), setting.before, usual_s)
    if not found.canaries:
        return _tell_unknown(f"none that the touched {touched.language} tests notice was found")
    tests = _list_run(setting, touched)
    judged = judge_canaries(trial, subject, tests, found, moved, setting.after)
    return _judge_singles(setting, judged)


def _list_run(setting: _Setting, touched: TouchedTests) -> tuple[Test, ...]:
    """Where to find the tests after the change: those that the project's own commands report.
    Others would run by name alone, as those of a file that no runner collects any more."""
    names = setting.usual_tests
    if not names:
        return touched.new or touched.old
    return tuple(test for test in touched.new if any(is_reported_as(n, test) for n in names))


def _judge_singles(setting: _Setting, judged: Sequence[JudgedCanary]) -> Evidence:
    seen = Evidence(canaries=tuple(_list_by_test(judged)))
    return seen + _judge_kept(setting, judged)


def _list_by_test(judged: Sequence[JudgedCanary]) -> Iterator[tuple[str, bool | None]]:
    for each in judged:
        for name in each.canary.found_by:
            yield name, each.kept


def _judge_kept(
    setting: _Setting, judged: Sequence[JudgedCanary], where: str = "near the change"
) -> Evidence:
    if not judged:
        return _tell_unknown("the tests that notice faults had two results on the same code")
    lost = [each for each in judged if each.kept is False]
    unknown = [each for each in judged if each.kept is None]
    number = f"{len(judged)} {where}"
    if lost:
        return _refuse(setting, FLAG, lost[0].canary.fault.path, _describe_lost(lost, len(judged)))
    if len(unknown) == len(judged):
        return _fail_unknown(setting, f"{number} were noticed before; now it cannot be told")
    text = f"{len(judged) - len(unknown)} of {number} that tests noticed before are noticed still"
    silent = frozenset(name for each in judged for name in each.silent)
    if any(_is_hollow(each) for each in judged) or _list_blind(judged):
        return _refuse(
            setting, FLAG, "", f"{text[0].upper()}{text[1:]}, but not by {_format_tests(silent)}."
        )
    if silent:
        return _warn(setting, f"{text}, but not by {_format_tests(silent)}")
    return Evidence((Check(TITLE, CheckOutcome.PASSED, text),))


def _is_hollow(each: JudgedCanary) -> bool:
    """Where most of the tests that noticed run still, and pass: what they share does not look."""
    return len(each.silent) >= FEWEST_SILENT and len(each.silent) * 2 > len(each.canary.found_by)


def _list_blind(judged: Sequence[JudgedCanary]) -> list[str]:
    """Tests that run still and notice nothing of all that they noticed, three faults or more."""
    found = Counter(name for each in judged for name in each.canary.found_by)
    silent = Counter(name for each in judged for name in each.silent)
    return [name for name, times in silent.items() if times == found[name] >= FEWEST_SILENT]


def _describe_lost(lost: Sequence[JudgedCanary], number: int) -> str:
    faults = [each.canary.fault for each in lost]
    where = dict.fromkeys(f"{f.function} ({f.path})" if f.function else f.path for f in faults)
    tests = frozenset(name for each in lost for name in each.canary.found_by)
    text = f"{len(lost)} of {number} faults planted into code that the change leaves alone"
    by = (
        f", which {_format_tests(tests)} noticed before"
        if tests
        else ", which the tests noticed before"
    )
    return f"{text}{by}, are noticed by no test now: in {', '.join(list(where)[:MOST_NAMED])}."


# --- what is said ------------------------------------------------------------------------------


def _format_tests(tests: frozenset[str]) -> str:
    names = sorted(tests)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return (", ".join(names[:MOST_NAMED]) or "the tests") + more


def _tell_unknown(why: str) -> Evidence:
    return Evidence((Check(TITLE, CheckOutcome.NOT_CHECKED, why),))


def _fail_unknown(setting: _Setting, why: str) -> Evidence:
    level: Level = "warn" if setting.subject.context.by_people else "fail"
    found = raise_flag(FLAG, setting.subject.context, "", 0, f"{why[0].upper()}{why[1:]}.", level)
    return Evidence((Check(TITLE, CheckOutcome.NOT_CHECKED, why),), found)


def _refuse(setting: _Setting, flag: str, file: str, text: str) -> Evidence:
    found = raise_flag(flag, setting.subject.context, file, 0, text)
    return Evidence((Check(TITLE, CheckOutcome.FAILED, text.rstrip(".")),), found)


def _warn(setting: _Setting, text: str) -> Evidence:
    found = raise_flag(FLAG, setting.subject.context, "", 0, f"{text}.", "warn")
    return Evidence((Check(TITLE, CheckOutcome.UNDECIDED, text),), found)
