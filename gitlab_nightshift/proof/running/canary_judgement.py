"""Judges whether canaries are still noticed: by the same tests, by others, or by none."""

from collections.abc import Iterator, Sequence

from gitlab_nightshift.proof.evidence.lab import Evidence, NoticedFault
from gitlab_nightshift.proof.running.canary_setting import (
    FLAG,
    MOST_NAMED,
    TITLE,
    Setting,
    fail_unknown,
    format_tests,
    refuse,
    tell_unknown,
    warn,
)
from gitlab_nightshift.proof.running.single_canaries import JudgedCanary
from gitlab_nightshift.records.verdicts import Check, CheckOutcome

FEWEST_SILENT = 3
"""Missed faults that count; fewer may be an assertion that was replaced by another."""


def judge_singles(setting: Setting, judged: Sequence[JudgedCanary]) -> Evidence:
    """Judge canaries that were tried one at a time; record which tests noticed each."""
    noticed = tuple(NoticedFault(e.canary.fault.by_value, e.noticed_by) for e in judged)
    seen = Evidence(canaries=tuple(_list_by_test(judged)), noticed=noticed)
    return seen + judge_kept(setting, judged)


def _list_by_test(judged: Sequence[JudgedCanary]) -> Iterator[tuple[str, bool | None]]:
    for each in judged:
        for name in each.canary.found_by:
            yield name, each.kept


def judge_kept(
    setting: Setting, judged: Sequence[JudgedCanary], where: str = "near the change"
) -> Evidence:
    """A canary that no test notices any more refuses the change. If others notice it now, the tests
    that miss it are a warning, and refuse a night's change from ``FEWEST_SILENT`` times on."""
    if not judged:
        return tell_unknown("the tests that notice faults had two results on the same code")
    lost = [each for each in judged if each.kept is False]
    unknown = [each for each in judged if each.kept is None]
    number = (
        f"{len(judged)} planted faults {where}" if len(judged) > 1 else f"1 planted fault {where}"
    )
    if lost:
        return refuse(setting, FLAG, lost[0].canary.fault.path, _describe_lost(lost, len(judged)))
    if len(unknown) == len(judged):
        return fail_unknown(setting, f"{number} were noticed before; now it cannot be told")
    text = f"{len(judged) - len(unknown)} of {number} noticed as before"
    silent = [name for each in judged for name in each.silent]
    if silent:
        text += f", but not by {format_tests(frozenset(silent))}"
        often = len(silent) >= FEWEST_SILENT and not setting.subject.context.by_people
        return refuse(setting, FLAG, "", f"{text}.") if often else warn(setting, text)
    return Evidence((Check(TITLE, CheckOutcome.PASSED, f"{text} (a sample, no proof)"),))


def _describe_lost(lost: Sequence[JudgedCanary], number: int) -> str:
    faults = [each.canary.fault for each in lost]
    where = dict.fromkeys(f"{f.function} ({f.path})" if f.function else f.path for f in faults)
    tests = frozenset(name for each in lost for name in each.canary.found_by)
    text = f"{len(lost)} of {number} planted faults, in code that the change leaves alone"
    by = (
        f", which {format_tests(tests)} noticed before"
        if tests
        else ", which the tests noticed before"
    )
    return f"{text}{by}, are noticed by no test now: in {', '.join(list(where)[:MOST_NAMED])}."
