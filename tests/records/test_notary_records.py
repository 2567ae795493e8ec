"""Which notary records allow publishing a change."""

import dataclasses
from typing import Any

import pytest

from gitlab_nightshift.errors import Code
from gitlab_nightshift.records.notary_records import (
    NotarizedCommand,
    NotarizedRun,
    NotaryRecord,
    find_refusal,
)

CHANGE: dict[str, Any] = {"run_id": "4711", "base_sha": "b" * 40, "tree_id": "a" * 40}
PASSED, FAILED = NotarizedRun(0, 1.0), NotarizedRun(1, 1.0)
TIMED_OUT = NotarizedRun(None, 60.0, "ended by this program: timeout")
GOOD = NotarizedCommand("make test", (PASSED,))


def find_code(*commands: NotarizedCommand, **fields: Any) -> Code | None:
    record = NotaryRecord(**CHANGE, asked=("make test",), commands=commands)
    refusal = find_refusal(dataclasses.replace(record, **fields), **CHANGE)
    return refusal.code if refusal else None


@pytest.mark.parametrize(
    ("runs", "base", "code"),
    [
        ((PASSED,), None, None),
        ((FAILED,), None, Code.TEST_FAILED),
        ((FAILED, PASSED), None, None),
        ((PASSED, FAILED), None, Code.TEST_FAILED),
        ((FAILED,), FAILED, None),
        ((FAILED,), PASSED, Code.TEST_FAILED),
        # Work may claim a duration so short that both runs time out.
        ((TIMED_OUT,), TIMED_OUT, Code.TEST_FAILED),
        ((FAILED,), TIMED_OUT, Code.TEST_FAILED),
    ],
)
def test_results_that_allow_or_refuse_a_change(
    runs: tuple[NotarizedRun, ...], base: NotarizedRun | None, code: Code | None
) -> None:
    assert find_code(NotarizedCommand("make test", runs, base)) is code


def test_a_record_has_the_results_of_all_requested_commands() -> None:
    assert find_code() is Code.PARSE_ERROR
    assert find_code(GOOD, NotarizedCommand("make fields", (PASSED,))) is Code.PARSE_ERROR
    assert find_code(NotarizedCommand("true", (PASSED,))) is Code.PARSE_ERROR
    assert find_code(why="it died") is Code.INCOMPLETE
    assert find_code(asked=()) is None


@pytest.mark.parametrize("name", CHANGE)
def test_a_record_of_another_run_base_or_tree_is_refused(name: str) -> None:
    assert find_code(GOOD) is None
    assert find_code(GOOD, **{name: "c" * 40}) is Code.PUBLISH
    assert find_code(GOOD, **{name: ""}) is Code.PUBLISH
