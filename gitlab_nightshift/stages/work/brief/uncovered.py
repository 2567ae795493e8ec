"""Lists functions that no test reaches, if the checkout has a coverage report of this commit."""

import itertools
import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from xml.parsers import expat

from gitlab_nightshift.proof.syntax.languages import LARGEST, find_language, is_product, parse
from gitlab_nightshift.system.openat import RefusedFileError, read_regular
from gitlab_nightshift.text.lazy_patterns import compile_lazily

LARGEST_REPORT = 8_000_000
"""Bytes. A larger report is not read: the brief may take one second."""
MOST_REPORTS, MOST_FUNCTIONS = 3, 12
"""Reports that are read, and functions of each that are listed."""
_MOST_PARSED = 8
"""Source files that are parsed, those with the most missed lines first."""
_MOST_FOLDERS = 30
"""Folders in which reports are searched, outer ones first."""
_BUILD_FILES = frozenset(
    """build.gradle build.gradle.kts build.sbt Cargo.toml go.mod package.json pom.xml
    pyproject.toml setup.py""".split()
)
_REPORT_PATHS = (
    *("coverage.xml", "cobertura.xml", "coverage.info", "lcov.info", "coverage.out"),
    *("cover.out", "coverage.txt", "coverage/lcov.info", "coverage/cobertura-coverage.xml"),
    *("coverage/coverage.xml", "target/site/jacoco/jacoco.xml", "target/coverage/cobertura.xml"),
    *("build/reports/jacoco/test/jacocoTestReport.xml", "coverage/cobertura.xml"),
    "target/scala-*/coverage-report/cobertura.xml",
)
"""Where coverage tools write their reports by default."""
# name.go:line.column,line.column statements count (golang.org/x/tools/cover/profile.go)
_BLOCK = compile_lazily(rb"(.+):(\d{1,7})\.\d{1,7},(\d{1,7})\.\d{1,7} \d{1,7} (\d{1,18})$")
_LONGEST_BLOCK = 5_000
"""Lines that one block of a Go profile may span."""


class UnreadableReportError(Exception):
    """A report that cannot be read; the text is the reason."""


@dataclass
class _FileCoverage:
    """What a report says of one file, by line numbers from 1: lines that ran (``hit``) or did not
    (``missed``), and by name and first known line whether a function was ever called."""

    hit: set[int] = field(default_factory=set)
    missed: set[int] = field(default_factory=set)
    functions: dict[tuple[str, int], bool] = field(default_factory=dict)


@dataclass
class _CoverageReport:
    """A coverage report: the coverage of files, by the names that the report gives them, and when
    it was created (seconds since 1970, None if it does not say)."""

    files: dict[str, _FileCoverage] = field(default_factory=lambda: defaultdict(_FileCoverage))
    created_at: float | None = None


class _XmlReport:
    """Parses the XML of Cobertura and of JaCoCo, in which no element's name has two meanings."""

    def __init__(self) -> None:
        self._report = _CoverageReport()
        self._package = self._file = self._method = ""
        self._lines: list[int] = []
        self._called = False

    def parse(self, data: bytes) -> _CoverageReport:
        parser = expat.ParserCreate()
        # Entities that expand to entities fill the memory (the "billion laughs").
        parser.EntityDeclHandler = _refuse_entity
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            raise UnreadableReportError(f"it is not well-formed XML: {error}") from None
        if not self._report.files:
            raise UnreadableReportError("its format is unknown, or empty")
        return self._report

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        get = attributes.get
        match name:
            case "coverage":
                # coverage.py writes milliseconds, gcovr seconds: 1e11 seconds are the year 5138.
                created = float(get("timestamp") or 0)
                self._report.created_at = (created / 1000 if created > 1e11 else created) or None
            case "sessioninfo":
                # When JaCoCo dumped a session (report.dtd), in milliseconds.
                created = float(get("dump") or 0) / 1000
                self._report.created_at = max(created, self._report.created_at or 0.0) or None
            case "package":
                self._package = get("name", "")
            case "class":
                source = get("sourcefilename")
                path = f"{self._package}/{source}" if source else get("filename", "")
                self._file = path.replace("\\", "/")
            case "sourcefile":
                self._file = f"{self._package}/{get('name', '')}"
            case "method":
                self._method, self._called = get("name", ""), False
                # JaCoCo gives a method its first line only; a counter says if it was called.
                self._lines = [int(line)] if (line := get("line")) else []
            case "line":
                self._read_line(get)
            case "counter" if get("type") == "METHOD" and int(get("covered") or 0):
                self._called = True

    def _end(self, name: str) -> None:
        if name == "method":
            if self._lines:
                key = (self._method, min(self._lines))
                self._report.files[self._file].functions[key] = self._called
            self._method, self._lines = "", []

    def _read_line(self, get: Callable[[str], str | None]) -> None:
        # Cobertura's number and hits; JaCoCo's nr and ci, covered instructions (report.dtd).
        number = int(get("number") or get("nr") or 0)
        hit = int(get("hits") or get("ci") or 0) > 0
        covered = self._report.files[self._file]
        (covered.hit if hit else covered.missed).add(number)
        if self._method:
            self._lines.append(number)
            self._called |= hit


class _Function(NamedTuple):
    """A function that was never called; ``missed`` is the number of its lines that did not run."""

    path: str
    name: str
    line: int
    missed: int


@dataclass(frozen=True)
class _Source:
    """A tracked file, its text, and what a report says of it."""

    path: str
    text: bytes
    covered: _FileCoverage


def list_uncovered(checkout: Path, tracked: Sequence[str], committed_at: float) -> list[str]:
    """A line for each function that was never called, the longest first, and a line for each report
    that cannot be used, with the reason. Empty without a report.

    ``committed_at`` is the commit's time (seconds since 1970): an older report is of another
    commit. No link is followed.
    """
    lines: list[str] = []
    tracked_set = frozenset(tracked)
    for path in itertools.islice(_find_reports(checkout, tracked), MOST_REPORTS):
        try:
            report = _read_report(checkout, path, tracked_set, committed_at)
            functions = _find_functions(checkout, report, tracked)
        except (RefusedFileError, UnreadableReportError) as error:
            lines.append(f"{path}: not used: {error}")
            continue
        lines += [f"{f.path}:{f.line} {f.name} ({f.missed} lines)" for f in functions]
    return lines


def _find_reports(checkout: Path, tracked: Iterable[str]) -> Iterator[str]:
    """Existing reports, below the top folder and below those with a build file."""
    folders = {
        path.rpartition("/")[0] for path in tracked if posixpath.basename(path) in _BUILD_FILES
    }
    ordered = sorted({"", *folders}, key=lambda folder: (folder.count("/"), folder))
    for folder in ordered[:_MOST_FOLDERS]:
        for path in _REPORT_PATHS:
            for report in sorted((checkout / folder).glob(path)):
                yield report.relative_to(checkout).as_posix()


def _read_report(
    checkout: Path, path: str, tracked: frozenset[str], committed_at: float
) -> _CoverageReport:
    """A report of this commit. Raises UnreadableReportError, RefusedFileError."""
    if path in tracked:
        raise UnreadableReportError("it is part of the commit, so it describes an earlier one")
    report = parse_report(read_regular(checkout, path, LARGEST_REPORT))
    created_at = report.created_at or (checkout / path).lstat().st_mtime
    if int(created_at) < int(committed_at):
        raise UnreadableReportError("it is older than this commit")
    return report


def _find_functions(
    checkout: Path, report: _CoverageReport, tracked: Sequence[str]
) -> list[_Function]:
    """The longest functions that were never called. Raises UnreadableReportError if the report
    does not fit the files."""
    paths: dict[str, list[str]] = defaultdict(list)
    for path in tracked:
        paths[posixpath.basename(path)].append(path)
    matched = {_match_path(name, paths): covered for name, covered in report.files.items()}
    matched.pop("", None)
    sources = list(_read_sources(checkout, matched))
    # A report of another version names lines that a file does not have.
    mismatched = [
        each
        for each in sources
        if max(each.covered.missed | each.covered.hit) > len(each.text.splitlines())
    ]
    if not matched or len(mismatched) * 2 > len(sources):
        raise UnreadableReportError("it covers other files than this commit's")
    matching = (source for source in sources if source not in mismatched)
    functions = [function for source in matching for function in _list_uncalled(source)]
    return sorted(functions, key=lambda f: (-f.missed, f.path, f.line))[:MOST_FUNCTIONS]


def _read_sources(checkout: Path, matched: Mapping[str, _FileCoverage]) -> Iterator[_Source]:
    """The product files that have the most missed lines."""
    ranked = sorted(matched, key=lambda path: (-len(matched[path].missed), path))
    missed = [path for path in ranked if matched[path].missed and is_product(path)]
    for path in missed[:_MOST_PARSED]:
        try:
            yield _Source(path, read_regular(checkout, path, LARGEST), matched[path])
        except RefusedFileError:
            continue


def _match_path(name: str, paths: dict[str, list[str]]) -> str:
    """The tracked file that a report's name means, by the longest common end; "" if several match,
    or none does. ``paths`` are those of the tracked files by their base names."""
    parts = name.replace("\\", "/").split("/")

    def count_common(path: str) -> int:
        pairs = zip(reversed(parts), reversed(path.split("/")), strict=False)
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))

    matches = paths.get(parts[-1], [])
    best = max(map(count_common, matches), default=0)
    likely = [path for path in matches if count_common(path) == best]
    return likely[0] if len(likely) == 1 else ""


def _list_uncalled(source: _Source) -> Iterator[_Function]:
    """The functions that were never called: by syntax if the language has a parser, else those that
    the report names."""
    # Imported here, since few repositories have a report.
    from gitlab_nightshift.proof.syntax.definitions import list_functions

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
    starts = [line for _, line in covered.functions]
    for (name, first), called in covered.functions.items():
        # A report gives no last line: a function ends where the next one begins.
        end = min((line for line in starts if line > first), default=None)
        lines = [line for line in covered.missed if line >= first and (not end or line < end)]
        if not called:
            yield _Function(source.path, name, first, len(lines))


def parse_report(data: bytes) -> _CoverageReport:
    """Read a report of any known kind. Raises UnreadableReportError."""
    try:
        if data.startswith(b"mode:"):
            return _parse_go_profile(data)
        # A byte order mark may precede the XML.
        if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
            return _XmlReport().parse(data)
        return _parse_lcov(data)
    except (ValueError, OverflowError, IndexError):
        raise UnreadableReportError("a number in it cannot be read") from None


def _parse_go_profile(data: bytes) -> _CoverageReport:
    report = _CoverageReport()
    for line in data.splitlines()[1:]:
        if (match := _BLOCK.match(line)) and int(match[3]) - int(match[2]) < _LONGEST_BLOCK:
            covered = report.files[match[1].decode("utf-8", "replace")]
            lines = range(int(match[2]), int(match[3]) + 1)
            (covered.hit if int(match[4]) else covered.missed).update(lines)
    for covered in report.files.values():
        covered.missed -= covered.hit  # a block ends on the line on which the next one begins
    return report


def _parse_lcov(data: bytes) -> _CoverageReport:
    report, current = _CoverageReport(), _FileCoverage()
    starts: dict[str, int] = {}
    for raw in data.decode("utf-8", "replace").splitlines():
        key, _, value = raw.partition(":")
        if key == "SF":
            current, starts = report.files[value], {}
        elif key in ("DA", "FN", "FNDA", "FNL", "FNA"):
            _parse_lcov_record(current, starts, key, value.split(","))
    if not report.files:
        raise UnreadableReportError("its format is unknown")
    return report


def _parse_lcov_record(
    current: _FileCoverage, starts: dict[str, int], key: str, fields: list[str]
) -> None:
    """Read a record of a file, of a kind that geninfo(1) describes: a line (DA), a function's first
    line (FN) or its calls (FNDA). ``starts`` are the first lines of functions by name, or in the
    records of LCOV 2.2 (FNL, FNA) by number."""
    if key == "DA":
        (current.hit if int(fields[1]) else current.missed).add(int(fields[0]))
    elif key == "FN":
        starts[fields[-1]] = int(fields[0])
    elif key == "FNL":
        starts[fields[0]] = int(fields[1])
    else:
        calls, index = (fields[0], fields[-1]) if key == "FNDA" else (fields[1], fields[0])
        if index in starts:
            current.functions[fields[-1], starts[index]] = int(calls) > 0


def _refuse_entity(*_: Any) -> None:
    raise UnreadableReportError("it declares entities, which no coverage report needs")
