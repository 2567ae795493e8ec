"""Records are read strictly from JSON."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from gitlab_nightshift.records.codec import (
    LARGEST_INT,
    LONGEST_TEXT,
    MOST_MEMBERS,
    InvalidRecordError,
    decode_json,
    decode_record,
    make_record,
)
from gitlab_nightshift.records.delegation_records import DelegationResult, Payload
from gitlab_nightshift.records.storage import to_json
from tests.support.samples import ANALYSIS, BUNDLE, DRAFT, PLAN, PUBLISHED, QUIET, RESULT, VERDICT
from tests.support.tables import each

RECORDS = [
    *(PLAN, BUNDLE, QUIET, PUBLISHED, RESULT, ANALYSIS, DRAFT, VERDICT),
    *(DelegationResult(ok=True), Payload("Do it")),
]
WRONG: list[Any] = [None, True, 1.5, 3, "x", [], [1], {}, {"a": 1}, "x" * (LONGEST_TEXT + 1)]


@each("record", RECORDS)
def test_a_record_survives_json(record: Any) -> None:
    assert decode_record(type(record), to_json(record).encode()) == record


def list_paths(value: Any, parent: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all values in JSON data."""
    yield parent
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in pairs:
            yield from list_paths(each, (*parent, key))


def replace_at(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    made = value.copy()
    made[path[0]] = replace_at(made[path[0]], path[1:], new)
    return made


def get_at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


@each("record", RECORDS)
def test_wrong_types_are_refused_or_survive_unchanged(record: Any) -> None:
    """No value is converted to fit."""
    data = json.loads(to_json(record))
    for path in list_paths(data):
        for new in WRONG:
            other = replace_at(data, path, new)
            try:
                made = make_record(type(record), other)
            except InvalidRecordError:
                continue
            back = json.loads(to_json(made))
            assert back == other, path
            assert get_at(back, path) == new
            assert isinstance(get_at(back, path), bool) == isinstance(new, bool), path


@each("record", RECORDS)
def test_missing_and_unknown_fields_are_refused(record: Any) -> None:
    data = json.loads(to_json(record))
    objects = [path for path in list_paths(data) if isinstance(get_at(data, path), dict)]
    assert () in objects
    for path in objects:
        found = get_at(data, path)
        for other in ({**found, "x": 1}, dict(list(found.items())[1:])):
            with pytest.raises(InvalidRecordError, match="missing or unknown fields"):
                make_record(type(record), replace_at(data, path, other))


def test_sizes_are_limited() -> None:
    draft = json.loads(to_json(DRAFT))
    cases = [
        (draft | {"title": ""}, "title: it is too long or too short"),
        (draft | {"title": "x" * 501}, "title: it is too long or too short"),
        (draft | {"rejected_alternatives": ["x"] * 21}, "rejected_alternatives: it is too long"),
    ]
    for data, why in cases:
        with pytest.raises(InvalidRecordError, match=why):
            make_record(type(DRAFT), data)
    payload = json.loads(to_json(Payload("x")))
    for seconds in (0, 86_401):
        payload["execution"]["max_runtime_s"] = seconds
        with pytest.raises(InvalidRecordError, match=r"execution.max_runtime_s: .*out of range"):
            make_record(Payload, payload)
    for kind, value in (
        (str, "x" * (LONGEST_TEXT + 1)),
        (tuple[str, ...], ["x"] * (MOST_MEMBERS + 1)),
        (int, LARGEST_INT + 1),
        (int, -LARGEST_INT - 1),
        (float, 10**400),
        (float, math.nan),
        (float, -1e300),
        (tuple[str, int], ["x"]),
        (tuple[str, int], ["x", 1, 1]),
    ):
        with pytest.raises(InvalidRecordError):
            make_record(kind, value)
    assert make_record(tuple[str, int], ["x", 1]) == ("x", 1)


@each(
    ("data", "why"),
    [
        (b'{"a": 1, "a": 2}', "a key is repeated"),
        (b'[{"a": {"b": 1, "b": 1}}]', "a key is repeated"),
        (b"NaN", "NaN and Infinity"),
        (b"[-Infinity]", "NaN and Infinity"),
        (b"{", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"1" * 5000, "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"", "it is not JSON"),
    ],
)
def test_json_is_parsed_strictly(data: bytes, why: str) -> None:
    with pytest.raises(InvalidRecordError, match=why):
        decode_json(data)


def test_an_error_does_not_quote_the_data() -> None:
    with pytest.raises(InvalidRecordError) as raised:
        decode_record(type(VERDICT), b'{"passed": "hunter2", "error_details": 3, "hunter2": 1}')
    assert "hunter2" not in str(raised.value)
