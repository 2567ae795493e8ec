"""Reports of test runners, also forged and damaged ones."""

import json

import pytest

from gitlab_nightshift.proof.reports import report_readers
from gitlab_nightshift.proof.reports.report_readers import UnreadableResultsError, read_report
from tests.support.tables import each

# What pytest 9.2, node 20, Surefire 3.2 and CTest 3.25 wrote, without times and messages.
PYTEST = """<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite
 name="pytest" tests="4"><testcase classname="tests.test_a.TestCart" name="test_n[1-x]"
 file="tests/test_a.py" line="3"/><testcase classname="tests.test_a" name="test_later"
 file="tests/test_a.py"><skipped type="pytest.skip" message="x">y</skipped></testcase><testcase
 classname="tests.test_a" name="test_bad" file="tests/test_a.py"><failure message="x">y</failure>
</testcase><testcase classname="" name="tests.test_b"><error message="collection failure">z</error>
</testcase></testsuite></testsuites>"""
NODE = """<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="total" tests="2">
<testcase name="adds" classname="test"/><testcase name="later" classname="test"><skipped
 type="skipped" message="true"/></testcase></testsuite><testcase name="alone" classname="test"/>
</testsuites>"""
SUREFIRE = """<?xml version="1.0" encoding="UTF-8"?><testsuite name="shop.CartTest" tests="2">
<properties><property name="x" value="y"/></properties><testcase name="adds()"
 classname="shop.CartTest"/><testcase name="later" classname="shop.CartTest"><skipped/></testcase>
</testsuite>"""
CTEST = """<testsuite name="Linux-c++" tests="2"><testcase name="adds" classname="adds"
 status="run"/><testcase name="later" classname="later" status="disabled"/></testsuite>"""
# What PHPUnit 9.6 wrote.
PHPUNIT = """<testsuites><testsuite name="a"><testsuite name="ShopTest" file="/b/ShopTest.php">
<testcase name="testLater" classname="ShopTest" file="/b/ShopTest.php"><skipped/></testcase>
<testsuite name="ShopTest::testEach"><testcase name="testEach with data set #0"
 classname="ShopTest" file="/b/ShopTest.php"/><testcase name='testEach with data set "two"'
 classname="ShopTest" file="/b/ShopTest.php"/></testsuite></testsuite></testsuite></testsuites>"""
JEST = {
    "testResults": [
        {
            "name": "/builds/shop/t/shop.test.js",
            "status": "failed",
            "assertionResults": [
                {"fullName": "total adds", "status": "passed"},
                {"fullName": "total later", "status": "pending"},
                {"fullName": "total fails", "status": "failed"},
            ],
        },
        {"name": "/builds/shop/t/broken.test.js", "status": "failed", "assertionResults": []},
    ]
}
GO = "\n".join(
    json.dumps(line)
    for line in (
        {"Action": "run", "Package": "shop", "Test": "TestAdd"},
        {"Action": "output", "Package": "shop", "Test": "TestAdd", "Output": "ok\n"},
        {"Action": "pass", "Package": "shop", "Test": "TestAdd/zero"},
        {"Action": "skip", "Package": "shop", "Test": "TestLater"},
        {"Action": "pass", "Package": "shop"},
    )
)

# What bats 1.8 printed, in the CI as well.
BATS = """1..3
ok 1 adds # one in 12ms
ok 2 later # skip why not
not ok 3 fails
# (in test file a.bats, line 3)
# not ok 9 false
"""


TAPE = (
    "TAP version 13\n# adds\nok 1 one\nok 2 two\n# fails\nok 3 should be equal\nnot ok 4 no\n"
    "  ---\n    operator: equal\n  ...\n# says nothing wrong\nnot ok 5 later # TODO\n"
    "\n1..5\n# tests 5\n# pass  3\n# fail  2\n"
)


@each(
    ("name", "text", "cases"),
    [
        (
            "r.xml",
            PYTEST,
            [
                "tests/test_a.py::TestCart::test_n passed",
                "tests/test_a.py::test_later skipped",
                "tests/test_a.py::test_bad failed",
                "pytest::tests.test_b failed",
            ],
        ),
        ("r.xml", NODE, ["total::adds passed", "total::later skipped", "alone passed"]),
        ("r.xml", SUREFIRE, ["shop.CartTest::adds passed", "shop.CartTest::later skipped"]),
        (
            "r.xml",
            PHPUNIT,
            [
                "/b/ShopTest.php::testLater skipped",
                "/b/ShopTest.php::testEach passed",
                "/b/ShopTest.php::testEach passed",
            ],
        ),
        ("r.xml", CTEST, ["adds::adds passed", "later::later skipped"]),
        (
            "r.json",
            json.dumps(JEST),
            [
                "/builds/shop/t/shop.test.js::total adds passed",
                "/builds/shop/t/shop.test.js::total later skipped",
                "/builds/shop/t/shop.test.js::total fails failed",
                "/builds/shop/t/broken.test.js failed",
            ],
        ),
        (
            "r.jsonl",
            f"noise\n{GO}\n{{noise",
            ["shop::TestAdd/zero passed", "shop::TestLater skipped"],
        ),
        ("r.jsonl", '["test_a.A.test_x", "passed"]\n', ["test_a.A.test_x passed"]),
        ("r.tap", BATS, ["adds # one passed", "later skipped", "fails failed"]),
        ("r.tap", "TAP version 14\n1..1\n    1..1\n    ok 1\nok 1 - a # TODO x\n", ["a skipped"]),
        ("r.tap", "1..0 # no tests\n", []),
        ("r.tape", TAPE, ["adds passed", "fails failed", "says nothing wrong passed"]),
        (
            "r.xml",
            "<testsuite name='a&#10;[1m'><testcase name='x'/></testsuite>",
            ["a?[1m::x passed"],
        ),
    ],
)
def test_reports_of_runners(name: str, text: str, cases: list[str]) -> None:
    assert [f"{case.name} {case.outcome}" for case in read_report(name, text.encode())] == cases


def test_another_encoding() -> None:
    head = '<?xml version="1.0" encoding="utf-16"?>'
    text = f'{head}<testsuite name="ä"><testcase name="ö"/></testsuite>'
    (case,) = read_report("r.xml", text.encode("utf-16"))
    assert case.name == "ä::ö"
    (case,) = read_report("r.jsonl", b'["a\xff", "passed"]')
    assert case.name == "a\ufffd"


@each(
    ("name", "data"),
    [
        ("r.xml", b""),
        ("r.xml", b"<html/>"),
        ("r.xml", PYTEST.encode()[:-20]),
        ("r.xml", b"<testsuite><testcase/></testsuite>"),
        ("r.xml", b'<!DOCTYPE x [<!ENTITY a "b">]><testsuite name="&a;"/>'),
        ("r.xml", b'<?xml version="1.0" encoding="klingon"?><testsuite/>'),
        ("r.xml", b'<?xml version="1.0" encoding="utf-8"?><testsuite name="\xff"/>'),
        ("r.json", b"[" * 100_000),
        ("r.json", b"{}"),
        ("r.json", b'{"testResults": [1]}'),
        ("r.json", b'{"examples": [{"status": "odd"}]}'),
        ("r.jsonl", b'["x", "odd"]'),
        ("r.jsonl", b'["x"'),
        ("r.tap", b""),
        ("r.tape", TAPE.replace("1..5", "1..3").encode()),
        ("r.tap", b"ok 1 a\n"),
        ("r.tap", BATS.encode() + b"ok 4 more\n"),
        ("r.tap", BATS.encode() + b"1..3\n"),
        ("r.tap", BATS.replace("3 fails", "2 fails").encode()),
        ("r.tap", b"1..1\nok one\n"),
        ("r.tap", b"1..2\nok 1 a\nBail out!\n"),
    ],
)
def test_unreadable_reports(name: str, data: bytes) -> None:
    with pytest.raises(UnreadableResultsError):
        read_report(name, data)


def test_too_many_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_readers, "MOST_CASES", 2)
    with pytest.raises(UnreadableResultsError, match="more than 2 tests"):
        read_report("r.xml", b"<testsuite>" + b'<testcase name="x"/>' * 3 + b"</testsuite>")
