"""New and changed tests: run alone, against the code before and after, and against mutants."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from gitlab_nightshift.records import Check, CommandResult, Finding, Level, Seen
from gitlab_nightshift.verdict.evidence.focus import Chosen, Focused, Surroundings, focused
from gitlab_nightshift.verdict.evidence.lab import Evidence, Lab, Subject
from gitlab_nightshift.verdict.evidence.mutants import Mutant, mutants
from gitlab_nightshift.verdict.evidence.raised import raised
from gitlab_nightshift.verdict.syntax.functions import Function
from gitlab_nightshift.verdict.syntax.nodes import names_in
from gitlab_nightshift.verdict.syntax.side import Side, sides
from gitlab_nightshift.verdict.syntax.tests import Test

MOST_MUTANTS = 8
FEWEST_MUTANTS = 3
"""Of fewer nothing can be said."""
FAR_TOO_FEW = 4
"""Tests that notice less than one fault in four are a red flag, less than half are told."""
MOST_FILES = 30
SPARE_S = 5.0
"""What a run with a fault in the code may take besides four times its usual time."""
BEFORE, MUTANTS = "New tests on the code before", "Mutants"
_BUG = re.compile(
    r"\b(bug|fix(es|ed)?|regression|wrong(ly)?|incorrect(ly)?|broken|crash(es)?|off.by.one"
    r"|race condition|fails? (to|when|if|for)|mishandle[sd]?)\b",
    re.I,
)
_NOT_COMPILED = re.compile(
    r"\[build failed\]|COMPILATION ERROR|could not compile|error\[E\d+\]|compilation failed"
    r"|Compilation failed|SyntaxError|IndentationError|syntax error|error TS\d+"
)


@dataclass(frozen=True)
class _Tests:
    """The tests of one language that a change adds or rewrites."""

    language: str
    tests: tuple[Test, ...]

    @cached_property
    def chosen(self) -> Chosen:
        files = tuple(dict.fromkeys(test.path for test in self.tests))
        names = tuple(dict.fromkeys(test.name for test in self.tests))
        return Chosen(files, names, tuple((test.path, test.qualified) for test in self.tests))

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(name for test in self.tests for name in names_in(test.node))


@dataclass(frozen=True)
class _Way:
    """A command that runs the tests alone, and the seconds that it took on the change."""

    focused: Focused
    duration_s: float


def new_tests(subject: Subject, lab: Lab) -> Evidence:
    """What the tests that a change adds or rewrites are worth."""
    found = Evidence()
    for tests in _by_language(subject):
        found += _of_one_language(subject, lab, tests)
    return found


def _by_language(subject: Subject) -> Iterator[_Tests]:
    groups: dict[str, list[Test]] = {}
    for file in subject.change.files:
        before, after = sides(file)
        old = {test.qualified: test.node.text for test in before.tests}
        for test in after.tests:
            if after.language and old.get(test.qualified) != test.node.text:
                groups.setdefault(after.language.name, []).append(test)
    for language, tests in groups.items():
        yield _Tests(language, tuple(tests))


def _of_one_language(subject: Subject, lab: Lab, tests: _Tests) -> Evidence:
    way, why = _way(subject, lab, tests)
    if way is None:
        return Evidence((Check("New tests alone", Seen.NOT_CHECKED, why),))
    return _before(subject, lab, tests, way) + _against_mutants(subject, lab, tests, way)


def _way(subject: Subject, lab: Lab, tests: _Tests) -> tuple[_Way | None, str]:
    """A command that runs these tests and passes on the change; else why there is none."""
    around = Surroundings(lab.commands, lambda path: (lab.folder / path).exists())
    tried: list[str] = []
    for number, each in enumerate(focused(tests.language, tests.chosen, around), 1):
        log = f"{tests.language}-alone-{number}"
        result = lab.run(subject.tree, each.argv, log)
        if result.ok and each.count(lab.output(log)):
            return _Way(each, result.duration_s), ""
        tried.append(f"`{' '.join(each.argv[:4])} …` {_ended(result)}")
    if not tried:
        return None, f"no way to run single {tests.language} tests is known"
    return None, f"they could not be run alone ({'; '.join(tried)})"


def _ended(result: CommandResult) -> str:
    return result.error or ("ran no test" if result.ok else f"exit {result.exit_status}")


# --- before the change ------------------------------------------------------------------------


def _before(subject: Subject, lab: Lab, tests: _Tests, way: _Way) -> Evidence:
    """The new tests with the product code as it was: a test that catches a bug fails there."""
    product = {
        file.difference.path: file.difference.old
        for file in subject.change.files
        if file.difference.path not in tests.chosen.files and sides(file)[1].is_product
    }
    if not product:
        return Evidence()
    renamed = {
        f.difference.old_path: f.difference.old for f in subject.change.files if f.status == "R"
    }
    tree = lab.variant(subject.tree, {**product, **renamed})
    result = lab.run(tree, way.focused.argv, f"{tests.language}-before", _patience(way))
    if not result.ok:
        text = "they fail with the product code as it was, and pass with the change"
        return Evidence((Check(BEFORE, Seen.PASSED, text),))
    text = "they pass with the product code as it was, too"
    if not _claims_a_bug(subject, tests):
        return Evidence((Check(BEFORE, Seen.TOLD, text),))
    detail = f"The change claims to mend a fault, but its tests catch none: {text}."
    return Evidence(
        (Check(BEFORE, Seen.FAILED, text),), _raised(subject, "test-passes-before", tests, detail)
    )


def _claims_a_bug(subject: Subject, tests: _Tests) -> bool:
    said = [subject.claim, *(test.name.replace("_", " ") for test in tests.tests)]
    return any(_BUG.search(text) for text in said)


# --- mutants ----------------------------------------------------------------------------------


def _against_mutants(subject: Subject, lab: Lab, tests: _Tests, way: _Way) -> Evidence:
    planted = _mutants(subject, tests)
    if not planted:
        text = "no function was found that the new tests name and that a fault can be put into"
        return Evidence((Check(MUTANTS, Seen.NOT_CHECKED, text),))
    killed, survived = 0, []
    for mutant in planted:
        if lab.left_s() < way.duration_s:
            break
        outcome = _is_killed(subject, lab, mutant, way, f"{tests.language}-mutant")
        killed += outcome is True
        survived += [mutant] if outcome is False else []
    return _judged(subject, tests, killed, survived)


def _is_killed(subject: Subject, lab: Lab, mutant: Mutant, way: _Way, log: str) -> bool | None:
    """Whether the tests notice it; None where it does not compile, which proves nothing."""
    tree = lab.variant(subject.tree, {mutant.path: mutant.data})
    result = lab.run(tree, way.focused.argv, log, _patience(way))
    if not result.ok and _NOT_COMPILED.search(lab.output(log)):
        return None
    return not result.ok


def _patience(way: _Way) -> float:
    """Seconds for a run that may never end: an endless loop is noticed, too."""
    return way.duration_s * 4 + SPARE_S


def _judged(subject: Subject, tests: _Tests, killed: int, survived: list[Mutant]) -> Evidence:
    tried = killed + len(survived)
    if not tried:
        text = "there was no time for one, or none of them compiled"
        return Evidence((Check(MUTANTS, Seen.NOT_CHECKED, text),))
    names = ", ".join(f"{mutant.path}:{mutant.line} {mutant.what}" for mutant in survived[:5])
    text = f"the new tests kill {killed} of {tried} mutants"
    if survived:
        text += f"; they do not notice {names}" + (" …" if len(survived) > 5 else "")
    few = tried < FEWEST_MUTANTS or killed * 2 >= tried
    if few:
        return Evidence((Check(MUTANTS, Seen.PASSED if killed else Seen.TOLD, text),))
    level: Level = "warn" if killed * FAR_TOO_FEW >= tried else "fail"
    detail = f"The tests hardly check what they call: {text}."
    found = _raised(subject, "mutants-survive", tests, detail, level)
    return Evidence((Check(MUTANTS, Seen.FAILED, text),), found)


def _mutants(subject: Subject, tests: _Tests) -> list[Mutant]:
    found: list[list[Mutant]] = []
    for side, lines in _product_files(subject, tests):
        named = [each for each in side.functions if _is_named(each, tests)]
        found.append(mutants(side, named, lines, MOST_MUTANTS))
    rounds = max(map(len, found), default=0)
    spread = [row[n] for n in range(rounds) for row in found if n < len(row)]
    return spread[:MOST_MUTANTS]


def _is_named(function: Function, tests: _Tests) -> bool:
    return not function.is_class and function.name in tests.words


def _product_files(subject: Subject, tests: _Tests) -> Iterator[tuple[Side, frozenset[int]]]:
    """Files that the tests may be about, changed ones first, each with its changed lines."""
    changed = {file.path: file for file in subject.change.files}
    stems = {_stem(path) for path in tests.chosen.files} | tests.words
    others = [
        path
        for path in (*subject.context.selected, *sorted(subject.change.paths()))
        if path not in changed and (path in subject.context.selected or _stem(path) in stems)
    ]
    for path in list(dict.fromkeys((*changed, *others)))[:MOST_FILES]:
        side = sides(changed[path])[1] if path in changed else Side(path, subject.change.read(path))
        if side.is_product and side.language and side.language.name == tests.language:
            lines = changed[path].difference.added if path in changed else ()
            yield side, frozenset(lines)


def _stem(path: str) -> str:
    """``test_cart.py``, ``cart.test.ts``, ``CartTest.java`` and ``cart.go`` are all of cart."""
    stem = PurePosixPath(path).name.split(".")[0]
    return re.sub(r"^[Tt]est_?|_?([Tt]ests?|[Ss]pec|IT|Suite)$", "", stem)


def _raised(
    subject: Subject, name: str, tests: _Tests, detail: str, own: Level | None = None
) -> tuple[Finding, ...]:
    first = tests.tests[0]
    return raised(name, subject.context, first.path, first.line, detail, own)
