"""Compares the tests that ran before a change and with it, by the runners' reports."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from gitlab_nightshift.proof.evidence.evidence_records import (
    MOST_NAMED,
    Evidence,
    EvidenceSubject,
    format_names,
    raise_flag,
    refuse,
    report_check,
)
from gitlab_nightshift.proof.proof_commands import CommandRun
from gitlab_nightshift.proof.reading.deleted_or_skipped_tests import find_removed_names
from gitlab_nightshift.proof.reports.report_readers import CaseOutcome, CollectedTests
from gitlab_nightshift.proof.syntax.file_side import read_sides
from gitlab_nightshift.proof.syntax.languages import is_test_file
from gitlab_nightshift.records.verdicts import Check, CheckOutcome, Finding
from gitlab_nightshift.registry.flag_registry import Level

TITLE = "The tests that ran"


@dataclass(frozen=True)
class _Difference:
    """The tests that a command ran on the base (``old``) and on the change (``new``), by name."""

    old: CollectedTests
    new: CollectedTests

    @cached_property
    def added(self) -> list[str]:
        return [name for name in self.new.counts if name not in self.old.counts]

    @cached_property
    def renamed(self) -> dict[str, str]:
        """New names by old name: the same name in another place, or another name in the same."""
        renamed: dict[str, str] = {}
        missing = [name for name in self.old.counts if name not in self.new.counts]
        for part in (2, 0):  # of ``place::name``: first tests that moved, then renamed ones
            free = {name: None for name in self.added if name not in renamed.values()}
            for name in missing:
                key = name.rpartition("::")[part]
                to = next((other for other in free if other.rpartition("::")[part] == key), None)
                if name not in renamed and to is not None:
                    renamed[name] = to
                    del free[to]
        return renamed

    @cached_property
    def gone(self) -> list[str]:
        known = self.new.counts.keys() | self.renamed.keys()
        return [name for name in self.old.counts if name not in known]

    @cached_property
    def skipped(self) -> list[str]:
        """Tests that ran on the base, and are now only reported."""
        new = self.new
        return [n for n in new.counts if self.old.count_run(n) and not new.count_run(n)]

    @cached_property
    def run_less(self) -> list[str]:
        """Tests that ran more often on the base, such as with more parameters."""
        new = self.new
        return [n for n in new.counts if 0 < new.count_run(n) < self.old.count_run(n)]


def compare_collections(
    subject: EvidenceSubject,
    before: Sequence[CollectedTests],
    runs: Sequence[CommandRun],
    excused: frozenset[str] = frozenset(),
) -> Evidence:
    """Compare the tests that commands ran on the change with those that ran ``before`` it.
    ``excused`` are tests that may be gone: running showed that others replace them.
    """
    by_command = {collection.command: collection for collection in before}
    evidence = Evidence()
    for run in runs:
        if old := by_command.get(run.collection.command):
            evidence += _compare_command(subject, old, run, excused)
    return evidence + _find_unrun_tests(subject, [run.collection for run in runs])


def _compare_command(
    subject: EvidenceSubject, old: CollectedTests, run: CommandRun, excused: frozenset[str]
) -> Evidence:
    new, command = run.collection, f"`{run.collection.command}`"
    if old.unknown:
        return _report_unknown(subject, f"{command}: not known: {old.unknown}")
    if new.unknown:
        text = f"{command} reported {old.count_cases()} tests before the change; now {new.unknown}."
        return refuse(subject, TITLE, "unreliable-report", text)
    if not old.count_cases() and not new.count_cases():
        return _report_unknown(subject, f"{command} ran no test, before the change and with it")
    return _check_exit_status(subject, old, run) + _compare_tests(
        subject, _Difference(old, new), excused
    )


def _report_unknown(subject: EvidenceSubject, why: str) -> Evidence:
    number = sum(map(is_test_file, subject.change.paths()))
    text = f"{why}; test files in the change: {number}" if number else why
    return report_check(TITLE, CheckOutcome.NOT_CHECKED, text)


def _check_exit_status(subject: EvidenceSubject, old: CollectedTests, run: CommandRun) -> Evidence:
    failed = run.collection.count_cases(CaseOutcome.FAILED)
    if not (failed and run.result.ok):
        return Evidence()
    text = f"`{run.collection.command}` ends with 0, and its report has {failed} failed tests"
    if old.count_cases(CaseOutcome.FAILED):
        return report_check(TITLE, CheckOutcome.UNDECIDED, f"{text}, as before the change")
    text += ": failures do not stop the pipeline."
    return refuse(subject, TITLE, "unreliable-report", text)


# --- before and after -----------------------------------------------------------------------------


def _compare_tests(
    subject: EvidenceSubject, difference: _Difference, excused: frozenset[str]
) -> Evidence:
    # Whether tests may be deleted from the source is judged by reading that (test-deleted).
    deleted = _list_deleted_tests(subject)
    gone = [n for n in difference.gone if not n.endswith(deleted) and n not in excused]
    run_less = [name for name in difference.run_less if name not in excused]
    shadowed = list(_find_shadowed_tests(subject, difference.new))
    # Explained by deleted product code; in a person's change, by any change of it.
    changed = any(s.is_product for file in subject.change.files for s in read_sides(file))
    explained = find_removed_names(subject.change) or (subject.context.by_people and changed)
    usual: Level | None = "warn" if explained else None
    # Skips without a condition are found by reading. With one, a test may be right to skip here.
    skips: Level | None = "warn" if subject.context.by_people else None
    rules = [
        ("test-deleted", gone, "ran before the change, but {do} not now", usual),
        ("test-deleted", shadowed, "{are} defined more often than {they} ran", None),
        ("test-skipped", difference.skipped, "ran before the change, but {are} skipped now", skips),
        ("test-loosened", run_less, "ran more often before the change", usual),
    ]
    findings: list[Finding] = []
    for flag, names, text, level in rules:
        if names:
            words = ("does", "is", "it") if len(names) == 1 else ("do", "are", "they")
            sentence = text.format(**dict(zip(("do", "are", "they"), words, strict=True)))
            detail = f"{format_names(names)} {sentence}."
            path = names[0].partition("::")[0]
            changed = any(path in (f.path, f.old_path) for f in subject.change.files)
            findings += raise_flag(flag, subject.context, path if changed else "", detail, level)
    return Evidence((_build_check(difference, failed=bool(findings)),), tuple(findings))


def _build_check(difference: _Difference, *, failed: bool) -> Check:
    old, new = difference.old.count_cases(), difference.new.count_cases()
    tests = "test" if old == 1 else "tests"
    text = f"`{difference.new.command}`: {old} {tests} before, {new} with the change"
    numbers = (
        (len(difference.added) - len(difference.renamed), "new"),
        (len(difference.renamed), "moved or renamed"),
        (len(difference.gone), "gone"),
        (len(difference.skipped), "skipped now"),
        (len(difference.run_less), "fewer times"),
    )
    details = ", ".join(f"{number} {what}" for number, what in numbers if number)
    text += f" ({details})" if details else ""
    if difference.renamed:
        pairs = list(difference.renamed.items())[:MOST_NAMED]
        text += "; " + ", ".join(f"{a} is {b.rpartition('::')[2]}" for a, b in pairs)
    return Check(TITLE, CheckOutcome.FAILED if failed else CheckOutcome.PASSED, text)


def _list_deleted_tests(subject: EvidenceSubject) -> tuple[str, ...]:
    """The names of the tests that the change deletes from the source."""
    sides = [read_sides(file) for file in subject.change.files]
    before = {test.name for old, _ in sides for test in old.tests}
    after = {test.name for _, new in sides for test in new.tests}
    return tuple(before - after)


def _find_shadowed_tests(subject: EvidenceSubject, new: CollectedTests) -> Iterator[str]:
    """Tests of which the change adds a second definition, which hides the first."""
    by_bare_name: dict[str, list[str]] = {}
    for name in new.counts:
        by_bare_name.setdefault(name.rpartition("::")[2], []).append(name)
    for file in subject.change.files:
        before, after = read_sides(file)
        old = Counter(test.qualified for test in before.tests)
        for name, times in Counter(test.qualified for test in after.tests).items():
            # A reported name ends with the bare one; a qualified is "Class.name" or "suite name".
            for reported in by_bare_name.get(name.split(".")[-1].split(" ")[-1], ()):
                in_file = reported.startswith(f"{file.path}::")
                if in_file and old[name] < 2 <= times and new.count_run(reported) < times:
                    yield reported


def _find_unrun_tests(subject: EvidenceSubject, after: Sequence[CollectedTests]) -> Evidence:
    """A check that names the new tests in the source that no report contains."""
    if not after or any(collection.unknown for collection in after):
        return Evidence()
    names = "\n".join(name for collection in after for name in collection.counts) + "\n"
    new = [
        f"{file.path}::{test.qualified}"
        for file in subject.change.files
        for old, side in [read_sides(file)]
        for test in side.tests
        if test.qualified not in {each.qualified for each in old.tests}
        and f"{test.name}\n" not in names
    ]
    if not new:
        return Evidence()
    text = f"no command ran {format_names(new)}"
    return report_check(TITLE, CheckOutcome.NOT_CHECKED, text)
