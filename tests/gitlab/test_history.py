"""What is believed of an earlier night's result, which its job may have written itself."""

import json
from dataclasses import replace
from typing import Any

from gitlab_nightshift.gitlab.history import LONGEST_REASON, find_cost, read_result
from gitlab_nightshift.records.history_records import PastNight
from tests.support.tables import each

LOST = PastNight("acme/shop", "4711", "https://gitlab.example.org/1", "2026-02-03T01:00:00Z")


@each(
    ("cost", "read"),
    [
        ("0", 0.0),
        ("0.004", 0.004),
        ("12", 12.0),
        ("999999.5", 999999.5),
        ("1000000", None),
        ("-0.01", None),
        ("NaN", None),
        ("Infinity", None),
        ("true", None),
        ('"0.5"', None),
        ("null", None),
    ],
)
def test_only_a_plausible_cost_is_one(cost: str, read: float | None) -> None:
    assert find_cost(json.loads(f'{{"total_cost_usd": {cost}}}')) == read


@each("result", [None, [], "x", 1])
def test_a_result_that_is_none_tells_nothing(result: object) -> None:
    assert (find_cost(result), read_result(result, LOST)) == (None, LOST)


@each(
    ("result", "said"),
    [
        ({}, {}),
        (
            {"outcome": "MR_CREATED", "category_used": "tests", "reason": "none", "error_code": ""},
            {"outcome": "MR_CREATED", "category": "tests"},
        ),
        (
            {"outcome": "FAILED", "error_code": "E_BUDGET", "reason": "too dear"},
            {"outcome": "FAILED", "failure": "E_BUDGET: too dear"},
        ),
        ({"outcome": "FAILED"}, {"outcome": "FAILED", "failure": "no reason given"}),
        ({"error_code": "E_BUDGET"}, {"failure": "E_BUDGET: no reason given"}),
        ({"outcome": "SKIPPED", "reason": "a quiet date"}, {"outcome": "SKIPPED"}),
        ({"outcome": "x" * 41, "category_used": 7}, {"outcome": "x" * 40, "category": "7"}),
        ({"error_code": "E", "reason": "x" * 9999}, {"failure": f"E: {'x' * LONGEST_REASON}"}),
        ({"started_at": "2020-01-01"}, {}),  # GitLab knows better
    ],
)
def test_what_a_result_says_of_its_night(result: object, said: dict[str, Any]) -> None:
    assert read_result(result, LOST) == replace(LOST, **said)


def test_where_gitlab_does_not_know_it_the_result_says_when_it_began() -> None:
    read = read_result({"started_at": "2026-02-03"}, replace(LOST, started=""))
    assert read == replace(LOST, started="2026-02-03")
