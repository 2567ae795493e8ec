"""Reads coverage reports: LCOV, Go's profile, Cobertura and JaCoCo.

A report is data of unknown origin: it is read as a stream, and its XML may declare no entity.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from gitlab_nightshift.text.lazy_patterns import compile_lazily

_BLOCK = compile_lazily(rb"(.+):(\d{1,7})\.\d{1,7},(\d{1,7})\.\d{1,7} \d{1,7} (\d{1,18})$")
_LONGEST_BLOCK = 5_000
"""Lines that one block of a Go profile may span."""


class UnreadableReportError(Exception):
    """A report that cannot be read; the text is the reason."""


@dataclass
class FileCoverage:
    """What a report says of one file, by line numbers from 1.

    ``functions`` are those that it names: (name, first line known) → was it ever called.
    """

    hit: set[int] = field(default_factory=set)
    missed: set[int] = field(default_factory=set)
    functions: dict[tuple[str, int], bool] = field(default_factory=dict)


@dataclass
class CoverageReport:
    """A report: its files by the names that it has for them, and when it was made (seconds since
    1970, None where it does not say)."""

    files: dict[str, FileCoverage] = field(default_factory=lambda: defaultdict(FileCoverage))
    made_at: float | None = None


def parse_report(data: bytes) -> CoverageReport:
    """Read a report of any known kind. Raises UnreadableReportError."""
    try:
        if data.startswith(b"mode:"):
            return _parse_go_profile(data)
        if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
            return _XmlReport().parse(data)
        return _parse_lcov(data)
    except (ValueError, OverflowError, IndexError):
        raise UnreadableReportError("a number in it cannot be read") from None


def _parse_go_profile(data: bytes) -> CoverageReport:
    report = CoverageReport()
    for line in data.splitlines()[1:]:
        if (match := _BLOCK.match(line)) and int(match[3]) - int(match[2]) < _LONGEST_BLOCK:
            covered = report.files[match[1].decode("utf-8", "replace")]
            lines = range(int(match[2]), int(match[3]) + 1)
            (covered.hit if int(match[4]) else covered.missed).update(lines)
    for covered in report.files.values():
        covered.missed -= covered.hit  # a block ends on the line on which the next one begins
    return report


def _parse_lcov(data: bytes) -> CoverageReport:
    report, current = CoverageReport(), FileCoverage()
    starts: dict[str, int] = {}
    for raw in data.decode("utf-8", "replace").splitlines():
        key, _, value = raw.partition(":")
        if key == "SF":
            current, starts = report.files[value], {}
        elif key in ("DA", "FN", "FNDA", "FNL", "FNA"):
            _take_lcov_row(current, starts, key, value.split(","))
    if not report.files:
        raise UnreadableReportError("its format is unknown")
    return report


def _take_lcov_row(
    current: FileCoverage, starts: dict[str, int], key: str, parts: list[str]
) -> None:
    """A row of a file: a line, or a function's beginning or its calls. ``starts`` are the lines of
    functions by name, or by number where the rows are those of LCOV 2.2."""
    if key == "DA":
        (current.hit if int(parts[1]) else current.missed).add(int(parts[0]))
    elif key == "FN":
        starts[parts[-1]] = int(parts[0])
    elif key == "FNL":
        starts[parts[0]] = int(parts[1])
    else:
        calls, index = (parts[0], parts[-1]) if key == "FNDA" else (parts[1], parts[0])
        if index in starts:
            current.functions[parts[-1], starts[index]] = int(calls) > 0


class _XmlReport:
    """Cobertura and JaCoCo, told apart by their elements."""

    def __init__(self) -> None:
        self._report = CoverageReport()
        self._package = self._file = self._method = ""
        self._lines: list[int] = []
        self._called = False
        self._begin: Mapping[str, Callable[[Mapping[str, str]], None]] = {
            "coverage": self._begin_coverage,
            "sessioninfo": self._begin_session,
            "package": self._begin_package,
            "class": self._begin_class,
            "method": self._begin_method,
            "line": self._begin_line,
            "counter": self._begin_counter,
            "sourcefile": self._begin_source,
        }

    def parse(self, data: bytes) -> CoverageReport:
        parser = expat.ParserCreate()
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

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        if begin := self._begin.get(name):
            begin(attributes)

    def _end(self, name: str) -> None:
        if name == "method":
            if self._lines:
                key = (self._method, min(self._lines))
                self._report.files[self._file].functions[key] = self._called
            self._method, self._lines = "", []

    def _begin_coverage(self, attributes: Mapping[str, str]) -> None:
        stamp = float(attributes.get("timestamp") or 0)
        self._report.made_at = (stamp / 1000 if stamp > 1e11 else stamp) or None

    def _begin_session(self, attributes: Mapping[str, str]) -> None:
        made = float(attributes.get("dump") or 0) / 1000
        self._report.made_at = max(made, self._report.made_at or 0.0) or None

    def _begin_package(self, attributes: Mapping[str, str]) -> None:
        self._package = attributes.get("name", "")

    def _begin_class(self, attributes: Mapping[str, str]) -> None:
        source = attributes.get("sourcefilename")
        path = f"{self._package}/{source}" if source else attributes.get("filename", "")
        self._file = path.replace("\\", "/")

    def _begin_source(self, attributes: Mapping[str, str]) -> None:
        self._file = f"{self._package}/{attributes.get('name', '')}"

    def _begin_method(self, attributes: Mapping[str, str]) -> None:
        self._method = attributes.get("name", "")
        self._called = False
        line = attributes.get("line")  # JaCoCo's: whether it was called a counter says
        self._lines = [int(line)] if line else []

    def _begin_line(self, attributes: Mapping[str, str]) -> None:
        number = int(attributes.get("number") or attributes.get("nr") or 0)
        hit = int(attributes.get("hits") or attributes.get("ci") or 0) > 0
        covered = self._report.files[self._file]
        (covered.hit if hit else covered.missed).add(number)
        if self._method:
            self._lines.append(number)
            self._called |= hit

    def _begin_counter(self, attributes: Mapping[str, str]) -> None:
        if attributes.get("type") == "METHOD" and int(attributes.get("covered") or 0):
            self._called = True


def _refuse_entity(*_: Any) -> None:
    raise UnreadableReportError("it declares entities, which no coverage report needs")
