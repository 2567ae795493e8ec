"""Functions that no test reaches, where the checkout holds a coverage report of this commit."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gitlab_nightshift.proof.syntax.languages import LARGEST, find_language, is_product, parse
from gitlab_nightshift.stages.work.brief.coverage_reports import (
    CoverageReport,
    FileCoverage,
    UnreadableReportError,
    parse_report,
)
from gitlab_nightshift.system.openat import RefusedFileError, read_regular

LARGEST_REPORT = 8_000_000
"""Bytes. What is larger is not read: the brief has a second."""
MOST_REPORTS = 3
MOST_FUNCTIONS = 12
_MOST_PARSED = 8
"""Source files that are looked into, those with the most missed lines first."""
_MOST_FOLDERS = 30
_BUILD_FILES = frozenset(
    """build.gradle build.gradle.kts build.sbt Cargo.toml go.mod package.json pom.xml
    pyproject.toml setup.py""".split()
)
_PLACES = (
    *("coverage.xml", "cobertura.xml", "coverage.info", "lcov.info", "coverage.out"),
    *("cover.out", "coverage.txt", "coverage/lcov.info", "coverage/cobertura-coverage.xml"),
    *("coverage/coverage.xml", "target/site/jacoco/jacoco.xml", "target/coverage/cobertura.xml"),
    *("build/reports/jacoco/test/jacocoTestReport.xml", "coverage/cobertura.xml"),
    "target/scala-*/coverage-report/cobertura.xml",
)
"""Where tools for coverage write their reports unless they are told otherwise."""


class _Function(NamedTuple):
    """A function without a call; ``missed`` is how many of its lines were never run."""

    path: str
    name: str
    line: int
    missed: int


@dataclass(frozen=True)
class _Source:
    """A tracked file, its text, and what a report says of it."""

    path: str
    text: bytes
    covered: FileCoverage


def list_uncovered(checkout: Path, tracked: Sequence[str], committed_at: float) -> list[str]:
    """A line for each function without a call, the longest first, and a line for each report that
    cannot be used, with the reason. Empty where there is no report.

    ``committed_at`` is when the commit was made (seconds since 1970): an older report is of another
    one. No link is followed.
    """
    lines: list[str] = []
    known = frozenset(tracked)
    for place in itertools.islice(_find_reports(checkout, tracked), MOST_REPORTS):
        try:
            report = _read_report(checkout, place, known, committed_at)
            found = _find_functions(checkout, report, tracked)
        except (RefusedFileError, UnreadableReportError) as error:
            lines.append(f"{place}: not used: {error}")
            continue
        lines += [f"{f.path}:{f.line} {f.name} ({f.missed} lines)" for f in found]
    return lines


def _find_reports(checkout: Path, tracked: Iterable[str]) -> Iterator[str]:
    """Where builds leave reports: at the top, and in folders that hold a build file."""
    folders = {path.rpartition("/")[0] for path in tracked if _find_name(path) in _BUILD_FILES}
    ordered = sorted({"", *folders}, key=lambda folder: (folder.count("/"), folder))
    for folder in ordered[:_MOST_FOLDERS]:
        for place in _PLACES:
            for found in sorted((checkout / folder).glob(place)):
                yield found.relative_to(checkout).as_posix()


def _find_name(path: str) -> str:
    return path.rpartition("/")[2]


def _read_report(
    checkout: Path, place: str, tracked: frozenset[str], committed_at: float
) -> CoverageReport:
    """A report of this commit. Raises UnreadableReportError, RefusedFileError."""
    if place in tracked:
        raise UnreadableReportError("it is part of the commit, so it describes an earlier one")
    report = parse_report(read_regular(checkout, place, LARGEST_REPORT))
    made_at = report.made_at or (checkout / place).lstat().st_mtime
    if int(made_at) < int(committed_at):
        raise UnreadableReportError("it is older than this commit")
    return report


def _find_functions(
    checkout: Path, report: CoverageReport, tracked: Sequence[str]
) -> list[_Function]:
    """The longest functions without a call. Raises UnreadableReportError where the report does not
    fit the files."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for path in tracked:
        by_name[_find_name(path)].append(path)
    matched = {_match_path(name, by_name): covered for name, covered in report.files.items()}
    matched.pop("", None)
    sources = list(_read_sources(checkout, matched))
    unlike = [source for source in sources if _is_unlike(source)]
    if not matched or len(unlike) * 2 > len(sources):
        raise UnreadableReportError("it covers other files than this commit's")
    found = [f for source in sources if source not in unlike for f in _list_uncalled(source)]
    return sorted(found, key=lambda f: (-f.missed, f.path, f.line))[:MOST_FUNCTIONS]


def _read_sources(checkout: Path, matched: Mapping[str, FileCoverage]) -> Iterator[_Source]:
    """The product files with the most missed lines."""
    ranked = sorted(matched.items(), key=lambda row: (-len(row[1].missed), row[0]))
    missed = [(path, covered) for path, covered in ranked if covered.missed and is_product(path)]
    for path, covered in missed[:_MOST_PARSED]:
        try:
            yield _Source(path, read_regular(checkout, path, LARGEST), covered)
        except RefusedFileError:
            continue


def _match_path(name: str, by_name: dict[str, list[str]]) -> str:
    """The one tracked file that a report's name means, by the longest common end; "" where several
    would do, or none."""
    parts = name.replace("\\", "/").split("/")

    def count_common(path: str) -> int:
        pairs = zip(reversed(parts), reversed(path.split("/")), strict=False)
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))

    matches = by_name.get(parts[-1], [])
    best = max(map(count_common, matches), default=0)
    likely = [path for path in matches if count_common(path) == best]
    return likely[0] if len(likely) == 1 else ""


def _is_unlike(source: _Source) -> bool:
    """True where the report knows lines that the file does not have."""
    lines = len(source.text.splitlines())
    return max(source.covered.missed | source.covered.hit) > lines


def _list_uncalled(source: _Source) -> Iterator[_Function]:
    """By syntax, where the language is understood; else those that the report names."""
    from gitlab_nightshift.proof.syntax.functions import list_functions  # few have a report

    covered = source.covered
    language = find_language(source.path)
    root = parse(language, source.text) if language else None
    if language and root:
        for function in list_functions(root, language):
            body = set(range(function.line + 1, function.end + 1))
            missed = covered.missed & body
            if missed and not function.is_class and not covered.hit & body:
                yield _Function(source.path, function.qualified, function.line, len(missed))
        return
    for (name, line), called in covered.functions.items():
        if not called:
            yield _Function(source.path, name, line, _count_missed(covered, line))


def _count_missed(covered: FileCoverage, first: int) -> int:
    """Missed lines from there to the next function that the report names."""
    others = [line for _, line in covered.functions if line > first]
    end = min(others, default=max(covered.missed, default=first) + 1)
    return sum(first <= line < end for line in covered.missed)
