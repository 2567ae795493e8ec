"""JSON and YAML that somebody else wrote."""

from typing import Any

import pytest
import yaml

from gitlab_nightshift.text.untrusted_data import (
    as_count,
    as_object,
    as_text,
    construct_documents,
    filter_objects,
    parse_json,
    take_first_line,
)
from tests.support.tables import each


@pytest.mark.parametrize("raw", [b"", "{", b"\xff", "[" * 99_999, '{"a": 1} x', "9" * 5000])
def test_invalid_json_is_none(raw: bytes | str) -> None:
    assert parse_json(raw) is None


def test_strings_may_contain_line_ends_only_without_strict() -> None:
    raw = '{"a": "one\ntwo"}'
    assert (parse_json(raw), parse_json(raw, strict=False)) == (None, {"a": "one\ntwo"})


@pytest.mark.parametrize("value", [None, 1, 1.5, True, "x", [1], ["x"]])
def test_a_value_of_another_type_becomes_an_empty_one(value: Any) -> None:
    assert as_object(value) == {}
    assert filter_objects(value) == []
    assert as_text(value) == (value if isinstance(value, str) else "")


def test_only_the_objects_of_a_list_are_taken() -> None:
    assert filter_objects([{"a": 1}, None, [], "x", {"b": 2}]) == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    ("value", "count"),
    [(0, 0), (7, 7), (10**12, 10**12), (10**12 + 1, 0), (-1, 0), (True, 0), (1.0, 0), ("7", 0)],
)
def test_a_count_is_a_whole_number_in_bounds(value: object, count: int) -> None:
    assert as_count(value) == count


def test_a_first_line_is_bounded() -> None:
    assert take_first_line("  one two\nthree", 5) == "one t"


@each("text", ["a: !!timestamp soon", "a: !!int x", f"a: {'9' * 5000}", "a: &a [*a]"])
def test_an_invalid_yaml_value_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        list(construct_documents(yaml.SafeLoader(text)))
