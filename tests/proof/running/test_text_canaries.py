"""Canaries in an unsupported language: a suite in Bash, judged by its exit status."""

import shutil
import subprocess
from pathlib import Path

import pytest

from gitlab_nightshift.proof.evidence.evidence_records import Evidence
from gitlab_nightshift.proof.running import gathering
from gitlab_nightshift.proof.running.base_canaries import BaseCanaries
from gitlab_nightshift.proof.running.canaries import UNSUPPORTED
from gitlab_nightshift.proof.running.single_canaries import TITLE
from gitlab_nightshift.proof.running.switches import write_faulty_file
from gitlab_nightshift.proof.running.text_canaries import is_unsupported_code, list_text_faults
from gitlab_nightshift.records.verdicts import CheckOutcome
from tests.proof.running.proving import prove
from tests.proof.running.shops import SHOP
from tests.proof.running.test_canaries import change
from tests.support.tried import Tried

pytestmark = pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")

PRICE = """#!/bin/bash
# Prices of 3 kinds.
if [ "$1" -gt 10 ] && [ "$2" = member ]; then
  result=$(( $1 * 2 ))
else
  result=$(( $1 * 3 ))
fi
echo "$result"
"""
CHECK = """#!/bin/bash
same() {
  if [ "$1" != "$2" ]; then
    echo "$1, not $2" >&2
    exit 1
  fi
}
same "$(bash price.sh 11 member)" 22
same "$(bash price.sh 10 member)" 30
same "$(bash price.sh 11 guest)" 33
"""
FILES = {"price.sh": PRICE, "tests/check.sh": CHECK}
COMMAND = "bash tests/check.sh"
CHEATS = {
    "a helper says nothing": change(CHECK, "    exit 1\n", ""),
    "the suite ends before": change(
        CHECK, 'same "$(bash price.sh 11 member)', 'exit 0\nsame "$(bash'
    ),
    "it is skipped in a job": change(CHECK, "same() {", '[ -n "$CI" ] && exit 0\nsame() {'),
}


@pytest.mark.parametrize("kind", CHEATS)
def test_a_cheat_is_found_by_canaries_alone(
    tried: Tried, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with tried(FILES, {"tests/check.sh": CHEATS[kind]}, commands=(COMMAND,)) as (
        subject,
        trial_checkout,
    ):
        found = prove(subject, trial_checkout, reading=False)
        monkeypatch.setattr(gathering, "try_canaries", lambda *_all: Evidence())
        assert prove(subject, trial_checkout, reading=False).evidence.findings == ()
    assert found.flags == {"suite-weakened": "fail"}, found
    assert "price.sh" in found.evidence.findings[0].detail
    assert UNSUPPORTED not in found.evidence.findings[0].detail


@pytest.mark.parametrize(
    "check",
    [
        CHECK + 'same "$(bash price.sh 0 guest)" 0\n',
        change(CHECK, "same", "is_same"),
        change(CHECK, "exit 1", "exit 2"),
    ],
)
def test_an_honest_change_passes_with_the_number_of_canaries(tried: Tried, check: str) -> None:
    base = BaseCanaries()
    with tried(FILES, {"tests/check.sh": check}, commands=(COMMAND,)) as (subject, trial_checkout):
        found = prove(subject, trial_checkout, base, reading=False)
    assert found.evidence.findings == ()
    [(outcome, detail)] = found.list_checks(TITLE)
    assert outcome is CheckOutcome.PASSED
    assert base.texts
    number = len(base.texts)
    assert number <= 4
    assert detail.startswith(f"{number} of {number} planted fault")
    assert UNSUPPORTED in detail


def test_canaries_of_the_base_are_cached(tried: Tried) -> None:
    base = BaseCanaries()
    with tried(FILES, {"tests/check.sh": CHECK + "\n"}, commands=(COMMAND,)) as (
        subject,
        trial_checkout,
    ):
        prove(subject, trial_checkout, base)
        first = base.texts
        prove(subject, trial_checkout, base)
    assert first
    assert base.texts is first


def test_nothing_is_known_if_the_change_edits_all_files(tried: Tried) -> None:
    after = {"price.sh": change(PRICE, "$(( $1 * 2 ))", "$(( $1 + $1 ))")}
    with tried(FILES, after, commands=(COMMAND,)) as (subject, trial_checkout):
        found = prove(subject, trial_checkout)
    assert [outcome for outcome, _ in found.list_checks(TITLE)] == [CheckOutcome.NOT_CHECKED]
    assert found.evidence.findings == ()


@pytest.mark.parametrize("by_people", [True, False])
def test_a_suite_that_fails_in_a_job_is_unknown(tried: Tried, by_people: bool) -> None:
    after = {"tests/check.sh": CHECK + '[ -z "$CI" ]\n'}
    with tried(FILES, after, commands=(COMMAND,), by_people=by_people) as (subject, trial_checkout):
        found = prove(subject, trial_checkout, reading=False)
    assert found.flags == {"suite-weakened": "warn" if by_people else "fail"}
    assert [outcome for outcome, _ in found.list_checks(TITLE)] == [CheckOutcome.NOT_CHECKED]


def test_a_change_of_another_language_beside_code_that_is_understood(tried: Tried) -> None:
    """Its own canaries decide."""
    files = FILES | {"shop.py": SHOP}
    after = {"tests/check.sh": CHEATS["a helper says nothing"]}
    with tried(files, after, commands=(COMMAND,)) as (subject, trial_checkout):
        found = prove(subject, trial_checkout, reading=False)
    assert found.failing == {"suite-weakened"}


@pytest.mark.parametrize(
    ("path", "unsupported"),
    [
        ("a.sh", True),
        ("lib/a.ex", True),
        ("tests/A.Tests.ps1", True),
        ("a.py", False),
        ("README.md", False),
        ("data.json", False),
        ("Makefile", False),
        ("a/poetry.lock", False),
    ],
)
def test_which_files_are_code_of_such_a_language(path: str, unsupported: bool) -> None:
    assert is_unsupported_code(path) is unsupported


# --- faults in the text ---------------------------------------------------------------------------


def _list_lines(code: str, path: str = "a.xyz") -> list[str]:
    source = code.encode()
    return [
        write_faulty_file(fault, source).decode().split("\n")[fault.line - 1]
        for fault in list_text_faults(path, source)
    ]


@pytest.mark.parametrize(
    ("line", "faulty"),
    [
        ("return x < y", ["return x >= y"]),
        ("return x ~= y", ["return x == y"]),
        ("local x = f(10)", ["local x = f(11)"]),
        ("y = not x", ["y = x"]),
        ("if !empty(x) then", ["if empty(x) then"]),
        ('[ "$1" -eq "$x" ] && y', ['[ "$1" -ne "$x" ] && y', '[ "$1" -eq "$x" ] || y']),
        ('ä = "3" .. 4 -- 5', ['ä = "3" .. 5 -- 5']),
    ],
)
def test_a_line_of_code_has_faults(line: str, faulty: list[str]) -> None:
    assert _list_lines(f"x = y\n{line}\n") == faulty


@pytest.mark.parametrize(
    "code",
    [
        "-- 3 == 4",
        "# 3 == 4",
        "; 3 == 4",
        "x = y // 3 == 4",
        "(* 3\n = 4 == 5\n*)",
        "/* 3\n 4 == 5 */",
        '"""\n3 == 4\n"""',
        'x = "3 == 4"',
        'print("x", 3)',
        'throw Bad("x", 3)',
        "while x < 3 do",
        "import a3 == 4",
        "x = a3 + v1.2",
        "a <- b",
        "#!/bin/x 3",
    ],
)
def test_comments_strings_and_messages_have_no_faults(code: str) -> None:
    assert _list_lines(code) == []


def test_a_file_that_is_not_utf_8_has_no_faults() -> None:
    assert list_text_faults("a.xyz", b"x == 3 \xff") == []


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_each_fault_of_a_script_changes_what_it_does(tmp_path: Path) -> None:
    source = (
        b'#!/bin/bash\n# 3 lines\nif [ "$1" -gt 3 ] && [ "$2" != x ]; then\n  exit 4\nfi\nexit 5\n'
    )
    script = tmp_path / "a.sh"

    def run(data: bytes) -> list[int]:
        script.write_bytes(data)
        given = (("4", "y"), ("3", "y"), ("4", "x"))
        return [subprocess.run(["bash", script, *args], check=False).returncode for args in given]

    faults = list_text_faults("a.sh", source)
    assert len(faults) == 6
    for fault in faults:
        assert run(write_faulty_file(fault, source)) != run(source), fault
        assert (fault.code_with_switch, fault.function) == ("", "")
