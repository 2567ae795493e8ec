"""Functions that no test reaches, from a report of this commit."""

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.stages.work.brief import uncovered
from gitlab_nightshift.stages.work.brief.uncovered import (
    UnreadableReportError,
    list_uncovered,
    parse_report,
)
from tests.support.tables import each

NOW = 1_700_000_000.0
SOURCE = """import os


def used(a):
    if a:
        return 1
    return 2


class Price:
    def never(self, b):
        c = b + 1
        return c


def never_either(x):
    return x
"""
TRACKED = ["shop/price.py", "tests/test_price.py", "other/util.py", "pyproject.toml"]
MISSED = {12: 0, 13: 0, 17: 0, 7: 0}
RUN = {1: 1, 4: 1, 5: 1, 6: 1, 10: 1, 11: 1, 16: 1}
FOUND = ["shop/price.py:11 Price.never (2 lines)", "shop/price.py:16 never_either (1 lines)"]


def cobertura(name: str, hits: dict[int, int], created: float = NOW + 60) -> str:
    lines = "".join(f'<line number="{n}" hits="{count}"/>' for n, count in hits.items())
    return (
        f'<coverage timestamp="{created * 1000:.0f}"><class filename="{name}">'
        f"<lines>{lines}</lines></class></coverage>"
    )


def checkout(top: Path, **reports: str) -> Path:
    for path in TRACKED:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(SOURCE if path == "shop/price.py" else "x = 1\n")
    for name, text in reports.items():
        file = top / name.replace("__", "/").replace("_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return top


def test_functions_whose_body_was_never_run(tmp_path: Path) -> None:
    top = checkout(tmp_path, coverage_xml=cobertura("price.py", {**MISSED, **RUN}))
    assert list_uncovered(top, TRACKED, NOW) == FOUND


def test_a_report_may_name_files_by_other_paths(tmp_path: Path) -> None:
    text = cobertura("/builds/acme/shop/price.py", {**MISSED, **RUN})
    assert list_uncovered(checkout(tmp_path, coverage_xml=text), TRACKED, NOW) == FOUND


def test_without_a_parser_the_functions_that_the_report_names_count(tmp_path: Path) -> None:
    top = checkout(tmp_path)
    (top / "calc.pl").write_text("sub a {\n 1;\n}\nsub b {\n 2;\n}\n")
    lcov = "SF:calc.pl\nFN:1,a\nFN:4,b\nFNDA:1,a\nFNDA:0,b\nDA:2,1\nDA:5,0\nend_of_record\n"
    (top / "coverage").mkdir()
    (top / "coverage/lcov.info").write_text(lcov)
    os.utime(top / "coverage/lcov.info", (NOW + 1, NOW + 1))
    assert list_uncovered(top, [*TRACKED, "calc.pl"], NOW) == ["calc.pl:4 b (1 lines)"]


def test_reports_are_searched_beside_build_files(tmp_path: Path) -> None:
    top = checkout(tmp_path, web__coverage_xml=cobertura("price.py", {**MISSED, **RUN}))
    assert list_uncovered(top, TRACKED, NOW) == []
    assert list_uncovered(top, [*TRACKED, "web/package.json"], NOW) == FOUND


@each(
    ("name", "created", "hits", "why"),
    [
        ("price.py", NOW - 1, {**MISSED, **RUN}, "it is older than this commit"),
        ("price.py", NOW + 60, {**MISSED, 18: 0}, "it covers other files than this commit's"),
        ("elsewhere.py", NOW + 60, MISSED, "it covers other files than this commit's"),
    ],
)
def test_a_report_of_another_commit(
    name: str, created: float, hits: dict[int, int], why: str, tmp_path: Path
) -> None:
    top = checkout(tmp_path, coverage_xml=cobertura(name, hits, created))
    assert list_uncovered(top, TRACKED, NOW) == [f"coverage.xml: not used: {why}"]


def test_nothing_is_listed_if_every_function_ran(tmp_path: Path) -> None:
    top = checkout(tmp_path, coverage_xml=cobertura("price.py", RUN))
    assert list_uncovered(top, TRACKED, NOW) == []


def test_a_report_that_is_part_of_the_commit_is_not_used(tmp_path: Path) -> None:
    top = checkout(tmp_path, coverage_xml=cobertura("price.py", {**MISSED, **RUN}))
    [line] = list_uncovered(top, [*TRACKED, "coverage.xml"], NOW)
    assert line.startswith("coverage.xml: not used: it is part of the commit")


def test_a_report_of_200_mb_is_not_read(tmp_path: Path) -> None:
    top = checkout(tmp_path)
    with (top / "coverage.xml").open("wb") as file:
        file.write(b"<coverage>")
        file.truncate(200_000_000)
    [line] = list_uncovered(top, TRACKED, NOW)
    assert line.startswith("coverage.xml: not used: it is larger than")


def test_no_link_is_followed(tmp_path: Path) -> None:
    outside = tmp_path / "coverage.xml"
    outside.write_text(cobertura("price.py", {**MISSED, **RUN}))
    top = checkout(tmp_path / "top")
    (top / "coverage.xml").symlink_to(outside)
    (top / "coverage").symlink_to(tmp_path)
    lines = list_uncovered(top, TRACKED, NOW)
    assert len(lines) == 2
    assert all("not used: it" in line for line in lines)


def test_the_number_of_functions_is_bounded(tmp_path: Path) -> None:
    top = checkout(tmp_path)
    many = "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(100))
    (top / "shop/price.py").write_text(many)
    hits = {4 * n + 2: 0 for n in range(100)}
    (top / "coverage.xml").write_text(cobertura("shop/price.py", hits))
    assert len(list_uncovered(top, TRACKED, NOW)) == uncovered.MOST_FUNCTIONS


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


def test_when_a_report_was_created() -> None:
    assert parse_report(COBERTURA).created_at == 1700000000.123
    assert parse_report(COBERTURA.replace(b"1700000000123", b"1700000000")).created_at == 1700000000
    assert parse_report(JACOCO).created_at == 1700000000
    assert parse_report(LCOV).created_at is None


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
def test_unreadable_reports(data: bytes, why: str) -> None:
    with pytest.raises(UnreadableReportError, match=why):
        parse_report(data)


def test_a_block_of_a_million_lines_is_ignored() -> None:
    assert not parse_report(b"mode: set\na.go:1.1,999999.1 1 0\n").files


@given(
    st.sampled_from((b"", b"mode: set\n", b"<coverage>", b"SF:a\n", LCOV, GO, COBERTURA, JACOCO)),
    st.binary(max_size=200),
    st.integers(0, 200),
)
def test_any_bytes_are_read_or_refused(start: bytes, data: bytes, at: int) -> None:
    with contextlib.suppress(UnreadableReportError):
        parse_report(start[:at] + data + start[at:])
