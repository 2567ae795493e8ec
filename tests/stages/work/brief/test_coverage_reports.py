"""The four kinds of coverage report, and hostile ones."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.stages.work.brief.coverage_reports import UnreadableReportError, parse_report
from tests.support.tables import each

LCOV = b"""TN:
SF:src/a.js
FN:1,first
FN:5,9,second
FNDA:3,first
FNDA:0,second
DA:1,3
DA:2,3
DA:6,0
DA:7,0
end_of_record
"""
LCOV_2 = b"SF:a.c\nFNL:0,4,8\nFNA:0,0,never\nDA:5,0\nend_of_record\n"
GO = b"""mode: set
example.org/shop/price/price.go:3.20,5.2 1 1
example.org/shop/price/price.go:7.20,9.2 2 0
example.org/shop/price/price.go:9.2,9.9 1 1
nonsense
"""
COBERTURA = b"""<?xml version="1.0" ?>
<!DOCTYPE coverage SYSTEM "http://cobertura.sourceforge.net/xml/coverage-04.dtd">
<coverage timestamp="1700000000123"><packages><package name="p"><classes>
<class name="A" filename="src/a.scala"><methods>
<method name="used" signature="()"><lines><line number="3" hits="2"/></lines></method>
<method name="unused" signature="()"><lines><line number="8" hits="0"/><line number="7" hits="0"/>
</lines></method></methods>
<lines><line number="3" hits="2"/><line number="7" hits="0"/><line number="8" hits="0"/></lines>
</class></classes></package></packages></coverage>
"""
JACOCO = b"""<?xml version="1.0"?>
<!DOCTYPE report PUBLIC "-//JACOCO//DTD Report 1.1//EN" "report.dtd">
<report name="shop"><sessioninfo id="x" start="1699999990000" dump="1700000000000"/>
<package name="org/shop"><class name="org/shop/A" sourcefilename="A.java">
<method name="used" desc="()V" line="4"><counter type="LINE" missed="0" covered="2"/>
<counter type="METHOD" missed="0" covered="1"/></method>
<method name="unused" desc="()V" line="9"><counter type="LINE" missed="2" covered="0"/>
<counter type="METHOD" missed="1" covered="0"/></method></class>
<sourcefile name="A.java"><line nr="4" mi="0" ci="3"/><line nr="9" mi="2" ci="0"/></sourcefile>
</package></report>
"""
BOMB = b"""<?xml version="1.0"?><!DOCTYPE c [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>
<coverage>&b;</coverage>"""
OUTSIDE = b"""<?xml version="1.0"?><!DOCTYPE c [<!ENTITY a SYSTEM "file:///etc/passwd">]>
<coverage><class filename="&a;"><line number="1" hits="0"/></class></coverage>"""


@each(
    ("data", "name", "hit", "missed", "functions"),
    [
        (LCOV, "src/a.js", {1, 2}, {6, 7}, {("first", 1): True, ("second", 5): False}),
        (LCOV_2, "a.c", set(), {5}, {("never", 4): False}),
        (GO, "example.org/shop/price/price.go", {3, 4, 5, 9}, {7, 8}, {}),
        (COBERTURA, "src/a.scala", {3}, {7, 8}, {("used", 3): True, ("unused", 7): False}),
        (JACOCO, "org/shop/A.java", {4}, {9}, {("used", 4): True, ("unused", 9): False}),
    ],
)
def test_lines_and_functions(
    data: bytes,
    name: str,
    hit: set[int],
    missed: set[int],
    functions: dict[tuple[str, int], bool],
) -> None:
    report = parse_report(data)
    assert list(report.files) == [name]
    covered = report.files[name]
    assert (covered.hit, covered.missed, covered.functions) == (hit, missed, functions)


def test_when_it_was_made() -> None:
    assert parse_report(COBERTURA).made_at == 1700000000.123
    assert parse_report(COBERTURA.replace(b"1700000000123", b"1700000000")).made_at == 1700000000
    assert parse_report(JACOCO).made_at == 1700000000
    assert parse_report(LCOV).made_at is None


@each(
    ("data", "why"),
    [
        (BOMB, "declares entities"),
        (OUTSIDE, "declares entities"),
        (b"<coverage><class", "not well-formed XML"),
        (b"<html></html>", "its format is unknown"),
        (b"hello\n", "its format is unknown"),
        (b"", "its format is unknown"),
        (b"SF:a\nDA:x,y\n", "a number in it cannot be read"),
        (b"SF:a\nDA:1\n", "a number in it cannot be read"),
        (b"SF:a\nDA:" + b"9" * 5000 + b",0\n", "a number in it cannot be read"),
    ],
)
def test_what_cannot_be_read(data: bytes, why: str) -> None:
    with pytest.raises(UnreadableReportError, match=why):
        parse_report(data)


def test_a_block_of_a_million_lines_is_not_believed() -> None:
    assert not parse_report(b"mode: set\na.go:1.1,999999.1 1 0\n").files


@given(
    st.sampled_from((b"", b"mode: set\n", b"<coverage>", b"SF:a\n", LCOV, GO, COBERTURA, JACOCO)),
    st.binary(max_size=200),
    st.integers(0, 200),
)
def test_any_bytes_are_read_or_refused(start: bytes, data: bytes, at: int) -> None:
    with contextlib.suppress(UnreadableReportError):
        parse_report(start[:at] + data + start[at:])
