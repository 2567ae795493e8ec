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
    """The tests that a command ran on the base (``old``) and on the change (``new``)."""

    old: CollectedTests
    new: CollectedTests

    @cached_property
    def lost(self) -> list[str]:
        return [name for name in self.old.counts if name not in self.new.counts]

    @cached_property
    def added(self) -> list[str]:
        return [name for name in self.new.counts if name not in self.old.counts]

    @cached_property
    def renamed(self) -> dict[str, str]:
        """The new name of each lost test: the same name elsewhere, or another one in its place."""
        found: dict[str, str] = {}
        for part in (2, 0):  # of ``place::name``: first tests that moved, then renamed ones
            free = {name: None for name in self.added if name not in found.values()}
            for name in self.lost:
                key = name.rpartition("::")[part]
                to = next((other for other in free if other.rpartition("::")[part] == key), None)
                if name not in found and to is not None:
                    found[name] = to
                    del free[to]
        return found

    @cached_property
    def gone(self) -> list[str]:
        return [name for name in self.lost if name not in self.renamed]

    @cached_property
    def skipped(self) -> list[str]:
        new = self.new
        return [n for n in new.counts if self.old.count_run(n) and not new.count_run(n)]

    @cached_property
    def fewer(self) -> list[str]:
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
    known = {collection.command: collection for collection in before}
    found = Evidence()
    for run in runs:
        if old := known.get(run.collection.command):
            found += _compare_command(subject, old, run, excused)
    return found + _find_unrun_tests(subject, [run.collection for run in runs])


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
    subject: EvidenceSubject, seen: _Difference, excused: frozenset[str]
) -> Evidence:
    # Whether tests may be deleted from the source is judged by reading that (test-deleted).
    deleted = _list_deleted_tests(subject)
    gone = [n for n in seen.gone if not n.endswith(deleted) and n not in excused]
    fewer = [name for name in seen.fewer if name not in excused]
    shadowed = list(_find_shadowed(subject, seen.new))
    # Explained by deleted product code; in a person's change, by any change of it.
    changed = any(s.is_product for file in subject.change.files for s in read_sides(file))
    explained = find_removed_names(subject.change) or (subject.context.by_people and changed)
    level: Level | None = "warn" if explained else None
    # Skips without a condition are found by reading. With one, a test may be right to skip here.
    skipping: Level | None = "warn" if subject.context.by_people else None
    rules = [
        ("test-deleted", gone, "ran before the change, but {do} not now", level),
        ("test-deleted", shadowed, "{are} defined more often than {they} ran", None),
        ("test-skipped", seen.skipped, "ran before the change, but {are} skipped now", skipping),
        ("test-loosened", fewer, "ran more often before the change", level),
    ]
    found: list[Finding] = []
    for flag, names, text, own in rules:
        if names:
            words = ("does", "is", "it") if len(names) == 1 else ("do", "are", "they")
            sentence = text.format(**dict(zip(("do", "are", "they"), words, strict=True)))
            detail = f"{format_names(names)} {sentence}."
            first = names[0].partition("::")[0]
            changed = any(first in (f.path, f.old_path) for f in subject.change.files)
            found += raise_flag(flag, subject.context, first if changed else "", detail, own)
    return Evidence((_build_check(seen, failed=bool(found)),), tuple(found))


def _build_check(seen: _Difference, *, failed: bool) -> Check:
    old, new = seen.old.count_cases(), seen.new.count_cases()
    text = f"`{seen.new.command}`: {old} test{'s' * (old != 1)} before, {new} with the change"
    parts = (
        (len(seen.added) - len(seen.renamed), "new"),
        (len(seen.renamed), "moved or renamed"),
        (len(seen.gone), "gone"),
        (len(seen.skipped), "skipped now"),
        (len(seen.fewer), "fewer times"),
    )
    some = ", ".join(f"{number} {what}" for number, what in parts if number)
    text += f" ({some})" if some else ""
    if seen.renamed:
        shown = list(seen.renamed.items())[:MOST_NAMED]
        text += "; " + ", ".join(f"{a} is {b.rpartition('::')[2]}" for a, b in shown)
    return Check(TITLE, CheckOutcome.FAILED if failed else CheckOutcome.PASSED, text)


def _list_deleted_tests(subject: EvidenceSubject) -> tuple[str, ...]:
    """The names of the tests that the change deletes from the source."""
    sides = [read_sides(file) for file in subject.change.files]
    before = {test.name for old, _ in sides for test in old.tests}
    after = {test.name for _, new in sides for test in new.tests}
    return tuple(before - after)


def _find_shadowed(subject: EvidenceSubject, new: CollectedTests) -> Iterator[str]:
    """Tests of which the change adds a second definition, which hides the first."""
    by_end: dict[str, list[str]] = {}
    for name in new.counts:
        by_end.setdefault(name.rpartition("::")[2], []).append(name)
    for file in subject.change.files:
        before, after = read_sides(file)
        old = Counter(test.qualified for test in before.tests)
        for name, times in Counter(test.qualified for test in after.tests).items():
            # Reports end with the bare name; a qualified one is "Class.name" or "suite name".
            for full in by_end.get(name.split(".")[-1].split(" ")[-1], ()):
                here = full.startswith(f"{file.path}::")
                if here and old[name] < 2 <= times and new.count_run(full) < times:
                    yield full


def _find_unrun_tests(subject: EvidenceSubject, after: Sequence[CollectedTests]) -> Evidence:
    """A check that names the new tests in the source that no report contains."""
    known = [collection for collection in after if not collection.unknown]
    if not known or len(known) < len(after):
        return Evidence()
    names = "\n".join(name for collection in known for name in collection.counts) + "\n"
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
