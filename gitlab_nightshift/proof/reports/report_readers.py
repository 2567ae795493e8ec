"""Reads the reports of test runners. A report is hostile data: tests may have written it."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any
from xml.parsers import expat

from gitlab_nightshift.text.lazy_patterns import compile_lazily


class CaseOutcome(StrEnum):
    """The outcome of a test. An expected failure counts as skipped: it proves nothing."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class ReportedCase:
    """One run of a test. ``name`` is qualified by the test's file or class, and has no parameters:
    ``tests/test_cart.py::TestCart::test_total``."""

    name: str
    outcome: CaseOutcome


@dataclass(frozen=True)
class CollectedTests:
    """The tests that a command ran: how often each had which outcome, by name. ``unknown`` says why
    there is no reliable report, and is "" if there is one."""

    command: str
    counts: Mapping[str, Counter[CaseOutcome]] = field(default_factory=dict)
    unknown: str = ""

    def count_cases(self, *outcomes: CaseOutcome) -> int:
        """How many tests had one of these outcomes; all tests if none is named."""
        return sum(
            number
            for by_outcome in self.counts.values()
            for outcome, number in by_outcome.items()
            if not outcomes or outcome in outcomes
        )

    def count_run(self, name: str) -> int:
        """How often a test ran to its end."""
        by_outcome = self.counts.get(name, Counter())
        return by_outcome[CaseOutcome.PASSED] + by_outcome[CaseOutcome.FAILED]

    def list_run(self) -> frozenset[str]:
        """The tests that ran to their end."""
        return frozenset(name for name in self.counts if self.count_run(name))


def build_collection(command: str, cases: Iterable[ReportedCase]) -> CollectedTests:
    """Count the cases of one command, which may come from several reports."""
    counts: dict[str, Counter[CaseOutcome]] = {}
    for case in cases:
        counts.setdefault(case.name, Counter())[case.outcome] += 1
    return CollectedTests(command, counts)


LARGEST_REPORT = 64_000_000  # bytes of one report
MOST_CASES = 200_000  # cases of one command
LONGEST_NAME = 500  # characters
# Suffix that pytest, JUnit and PHPUnit add to a name for its parameters.
_PARAMETERS = compile_lazily(
    r"(?<=\S)\[.*\]$|(?<=\w)\(.*\)$|(?<=\w)\{.*\}$| with data set (?:#\d+|\".*\")$", re.DOTALL
)
# Output of Rust's test harness: ``cargo test -- --list --format=terse``, and a run's.
_LISTED = compile_lazily(r"^(.+?)(?: \(line \d+\))?: test$", re.MULTILINE)
_LISTED_FAILURE = compile_lazily(r"^    (\S.*?)(?: \(line \d+\))?$", re.MULTILINE)
_FAILURES = compile_lazily(r"^failures:\n((?:    \S.*\n)+)\ntest result: ", re.MULTILINE)
_PASSED = compile_lazily(
    r"^test (.+?)(?: \(line \d+\))?(?: - should panic)? \.\.\. ok$", re.MULTILINE
)
_STARTED = compile_lazily(r"^running (\d+) tests?$", re.MULTILINE)
_COUNTED = compile_lazily(
    r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored; (\d+) measured;", re.MULTILINE
)
# TAP (testanything.org, TAP 14): the plan, Tape's comment with the name of a test, a result.
_PLAN = compile_lazily(r"^1\.\.(\d{1,6})\b", re.MULTILINE)
_TAPE_TEST = compile_lazily(r"^# (.+)$", re.MULTILINE)
_RESULT = compile_lazily(
    r"^(not )?ok\b ?(\d*)(?: -)? *(.*?)(?: in \d+ms)?(?: +# *(skip|todo)\b.*)?$", re.M | re.I
)
_JSON_OUTCOMES = {
    **dict.fromkeys(("passed", "pass"), CaseOutcome.PASSED),
    **dict.fromkeys(("failed", "fail"), CaseOutcome.FAILED),
    **dict.fromkeys(("skipped", "skip", "pending", "todo", "disabled"), CaseOutcome.SKIPPED),
}


class UnreadableResultsError(ValueError):
    """An invalid report; the text says why."""


def read_report(name: str, data: bytes) -> list[ReportedCase]:
    """The cases of a report by its file name. Raises UnreadableResultsError."""
    try:
        if name.endswith(".xml"):
            return _JunitReader().parse(data)
        text = data.decode("utf-8", "replace")
        if name.endswith(".jsonl"):
            return [case for line in text.splitlines() for case in _read_line(line)]
        if name.endswith(".tap"):
            return _read_tap(text)
        if name.endswith(".tape"):
            return list(_read_tape(text))
        return list(_read_json(json.loads(text)))
    except UnreadableResultsError:
        raise
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        raise UnreadableResultsError(f"{type(error).__name__}: {error}"[:200]) from None


def read_listing(listed: bytes, ignored: bytes) -> list[ReportedCase]:
    """The tests of a Rust run in which none failed, by the harness's lists of all tests and of the
    ignored ones."""
    skipped = Counter(_LISTED.findall(ignored.decode("utf-8", "replace")))
    passed = Counter(_LISTED.findall(listed.decode("utf-8", "replace"))) - skipped
    cases = [build_case("", name, CaseOutcome.PASSED) for name in passed.elements()]
    return cases + [build_case("", name, CaseOutcome.SKIPPED) for name in skipped.elements()]


def check_results(printed: bytes) -> None:
    """Raise UnreadableResultsError if Rust's harness started more tests than its results count: a
    test that ends the process leaves no results."""
    text = printed.decode("utf-8", "replace")
    started = sum(map(int, _STARTED.findall(text)))
    counted = sum(int(number) for numbers in _COUNTED.findall(text) for number in numbers)
    if started != counted:
        raise UnreadableResultsError(f"{started} tests started, and the results count {counted}")


def read_printed_results(printed: bytes) -> list[ReportedCase]:
    """The failed tests in the output of a Rust run, and those that it names as passed."""
    text = printed.decode("utf-8", "replace")
    failed = dict.fromkeys(_LISTED_FAILURE.findall("".join(_FAILURES.findall(text))))
    if not failed:
        return []
    passed = [name for name in _PASSED.findall(text) if name not in failed]
    cases = [build_case("", name, CaseOutcome.FAILED) for name in failed]
    return cases + [build_case("", name, CaseOutcome.PASSED) for name in passed]


def build_case(qualifier: str, name: str, outcome: CaseOutcome) -> ReportedCase:
    """A case with a bounded, printable name; ``qualifier`` is its file, class or package."""
    parts = filter(None, (qualifier, _PARAMETERS.sub("", name)))
    text = "".join(c if c.isprintable() else "?" for c in "::".join(parts)[:LONGEST_NAME])
    return ReportedCase(text, outcome)


def _read_line(line: str) -> Iterator[ReportedCase]:
    """The case in a line of this program's own hooks (``hooks/``), or of ``go test -json``."""
    if line[:1] == "[":
        name, outcome = json.loads(line)
        yield build_case("", str(name), _JSON_OUTCOMES[outcome])
        return
    try:
        event = json.loads(line)
    except ValueError:  # a test printed it directly, not through the runner
        return
    if isinstance(event, dict) and event.get("Test") and event.get("Action") in _JSON_OUTCOMES:
        package, name = str(event.get("Package", "")), str(event["Test"])
        yield build_case(package, name, _JSON_OUTCOMES[event["Action"]])


def _read_tap(text: str) -> list[ReportedCase]:
    """A run in TAP 13 or 14: a plan, and as many results, numbered in order. Results that a test
    prints itself make it unreadable; indented lines belong to a result."""
    # A result needs no number (TAP 14), but the runners here write one: a line without one was
    # printed by a test.
    plans, results = _PLAN.findall(text), _RESULT.findall(text)
    numbers = [number for _, number, *_ in results]
    if plans != [str(len(results))] or numbers != [str(n) for n in range(1, len(results) + 1)]:
        raise UnreadableResultsError("its results do not match its plan")
    outcomes = {"": CaseOutcome.PASSED, "not ": CaseOutcome.FAILED}
    return [
        build_case("", name, CaseOutcome.SKIPPED if directive else outcomes[negation.lower()])
        for negation, _, name, directive in results
    ]


def _read_tape(text: str) -> Iterator[ReportedCase]:
    """Tape's TAP: results are assertions, below a comment with the name of their test."""
    _read_tap(text)
    for name, body in itertools.pairwise(["", *_TAPE_TEST.split(text)]):
        if results := _RESULT.findall(body):
            has_failed = any(negation and not directive for negation, *_, directive in results)
            yield build_case("", name, CaseOutcome.FAILED if has_failed else CaseOutcome.PASSED)


def _read_json(report: Any) -> Iterator[ReportedCase]:
    """The JSON of Jest and Vitest, or of RSpec."""
    if "examples" in report:
        for example in report["examples"]:
            outcome = _JSON_OUTCOMES[example["status"]]
            path = str(example.get("file_path", ""))
            yield build_case(path, str(example["full_description"]), outcome)
        return
    for suite in report["testResults"]:
        path = str(suite["name"])
        for test in suite["assertionResults"]:
            yield build_case(path, str(test["fullName"]), _JSON_OUTCOMES[test["status"]])
        # A file that cannot be loaded has no tests.
        if suite["status"] == "failed" and not suite["assertionResults"]:
            yield build_case(path, "", CaseOutcome.FAILED)


class _JunitReader:
    """JUnit XML in all dialects: only ``testcase`` and the elements in it count."""

    def __init__(self) -> None:
        self._cases: list[ReportedCase] = []
        self._suites: list[str] = []
        self._current: tuple[str, str] | None = None  # qualifier and name of the open element
        self._outcome = CaseOutcome.PASSED
        self._is_report = False

    def parse(self, data: bytes) -> list[ReportedCase]:
        parser = expat.ParserCreate()
        # Entities that name others grow exponentially ("billion laughs"): expat stops that itself
        # only since 2.4.1 (docs.python.org, "XML vulnerabilities").
        parser.EntityDeclHandler = _refuse_entity
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            raise UnreadableResultsError(f"not well-formed XML: {error}") from None
        if not self._is_report:
            raise UnreadableResultsError("not JUnit XML")
        return self._cases

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name in ("testsuite", "testsuites"):
            self._is_report = True
            self._suites.append(attributes.get("name", "") if name == "testsuite" else "")
        elif name == "testcase":
            class_name = attributes.get("classname", "")
            suites = "::".join(filter(None, self._suites))
            # pytest writes "file" with junit_family=xunit1 alone (_pytest/junitxml.py: families).
            # "test" is Node's class name for tests, which have none.
            outer = suites if class_name in ("", "test") else class_name
            qualifier = _build_qualifier(attributes.get("file") or outer, class_name)
            self._current = qualifier, attributes["name"]
            self._outcome = CaseOutcome.PASSED
            # GoogleTest writes "notrun" for a disabled test (gtest.cc: OutputXmlTestInfo).
            if attributes.get("status") in ("disabled", "notrun") or attributes.get("skipped"):
                self._outcome = CaseOutcome.SKIPPED
        elif self._current and name in ("failure", "error"):
            self._outcome = CaseOutcome.FAILED
        elif self._current and name == "skipped" and self._outcome is not CaseOutcome.FAILED:
            self._outcome = CaseOutcome.SKIPPED

    def _end(self, name: str) -> None:
        if name in ("testsuite", "testsuites"):
            self._suites.pop()
        if name == "testcase" and self._current:
            if len(self._cases) >= MOST_CASES:
                raise UnreadableResultsError(f"more than {MOST_CASES} tests")
            self._cases.append(build_case(*self._current, self._outcome))
            self._current = None


def _build_qualifier(file: str, class_name: str) -> str:
    """A file and, if the class name begins with its module as in pytest's reports, the class."""
    if class_name in (file, "test"):
        return file
    module = PurePosixPath(file).with_suffix("").as_posix().replace("/", ".")
    inner = class_name.removeprefix(module).strip(".") if class_name.startswith(module) else ""
    return "::".join(filter(None, (file, *inner.split("."))))


def _refuse_entity(*_declared: object) -> None:
    raise UnreadableResultsError("it declares entities")
