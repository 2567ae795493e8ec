"""Records from JSON that somebody else may have written: exact fields and types, all bounded.

Standard library alone, for processes that load nothing else. Dataclasses of texts, numbers, truth
values, enumerations, literals, tuples and each other.
"""

import dataclasses
import json
import types
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from gitlab_nightshift.records.field_bounds import Between, Length

LONGEST_TEXT, MOST_MEMBERS = 1_000_000, 100_000
"""Characters of a text, and members of a tuple, that say no smaller bound themselves."""
LARGEST_INT, LARGEST_FLOAT = 1 << 53, 1e15

Kind = TypeVar("Kind")
Read = Callable[[Any], Any]


class InvalidRecordError(ValueError):
    """The data is no such record; the text says where and why, without quoting it."""


def decode_record(kind: type[Kind], data: bytes) -> Kind:
    """The record of this kind that JSON holds. Raises InvalidRecordError."""
    made: Kind = make_record(kind, decode_json(data))
    return made


def decode_json(data: bytes) -> Any:
    """A JSON value without repeated keys, NaN or infinity. Raises InvalidRecordError."""
    try:
        text = data.decode("utf-8", "surrogatepass")
        return json.loads(text, object_pairs_hook=_refuse_repeated_keys, parse_constant=_refuse)
    except InvalidRecordError:
        raise
    except (ValueError, RecursionError):
        raise InvalidRecordError("it is not JSON") from None


def make_record(kind: Any, value: Any) -> Any:
    """A record, or a part of one, from its JSON value. Raises InvalidRecordError."""
    return _build_reader(kind)(value)


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise InvalidRecordError("a key stands twice")
    return made


def _refuse(_constant: str) -> Any:
    raise InvalidRecordError("a number is none")


@cache
def _build_reader(kind: Any) -> Read:
    """What reads a kind, made once."""
    if origin := get_origin(kind):
        return _COMPOUND[origin](get_args(kind))
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _build_record_reader(kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _build_choice_reader(tuple(kind))
    return _PLAIN[kind]


def _build_bounded_reader(parts: tuple[Any, ...]) -> Read:
    read, bounds = _build_reader(parts[0]), parts[1:]

    def read_bounded(value: Any) -> Any:
        made = read(value)
        for bound in bounds:
            size = len(made) if isinstance(bound, Length) else made
            if isinstance(bound, Length | Between) and not bound.least <= size <= bound.most:
                raise InvalidRecordError("it is too long, too short or out of range")
        return made

    return read_bounded


def _build_choice_reader(known: tuple[Any, ...]) -> Read:
    def choose(value: Any) -> Any:
        for each in known:
            if value == each and type(value) is (str if isinstance(each, StrEnum) else type(each)):
                return each
        raise InvalidRecordError("it is none of the known values")

    return choose


def _build_union_reader(parts: tuple[Any, ...]) -> Read:
    readers = [_build_reader(part) for part in parts]

    def try_each(value: Any) -> Any:
        errors = []
        for read in readers:
            try:
                return read(value)
            except InvalidRecordError as error:
                errors.append(error)
        raise errors[0]

    return try_each


def _build_tuple_reader(parts: tuple[Any, ...]) -> Read:
    same = len(parts) == 2 and parts[1] is Ellipsis
    readers = [_build_reader(part) for part in parts if part is not Ellipsis]

    def read_all(value: Any) -> Any:
        if type(value) is not list or len(value) > MOST_MEMBERS:
            raise InvalidRecordError("it is no list, or too long")
        each = readers * len(value) if same else readers
        if len(each) != len(value):
            raise InvalidRecordError("it has another number of members")
        return tuple(read(member) for read, member in zip(each, value, strict=True))

    return read_all


def _build_record_reader(kind: type[Any]) -> Read:
    hints = get_type_hints(kind, include_extras=True)
    readers = {field.name: _build_reader(hints[field.name]) for field in dataclasses.fields(kind)}

    def read_fields(value: Any) -> Any:
        if type(value) is not dict or value.keys() != readers.keys():
            raise InvalidRecordError("its fields are others")
        return kind(
            **{name: _read_field(name, read, value[name]) for name, read in readers.items()}
        )

    return read_fields


def _read_field(name: str, read: Read, value: Any) -> Any:
    try:
        return read(value)
    except InvalidRecordError as error:
        raise InvalidRecordError(f"{name}: {error}") from None


def _read_text(value: Any) -> str:
    if type(value) is not str or len(value) > LONGEST_TEXT:
        raise InvalidRecordError("it is no text, or too long")
    return value


def _read_bool(value: Any) -> bool:
    if type(value) is not bool:
        raise InvalidRecordError("it is not true or false")
    return value


def _read_int(value: Any) -> int:
    if type(value) is not int or abs(value) > LARGEST_INT:
        raise InvalidRecordError("it is no whole number, or too large")
    return value


def _read_float(value: Any) -> float:
    if type(value) not in (int, float) or not abs(value) <= LARGEST_FLOAT:  # NaN is not, either
        raise InvalidRecordError("it is no number, or too large")
    return float(value)


def _read_none(value: Any) -> None:
    if value is not None:
        raise InvalidRecordError("it is not null")


_PLAIN: dict[Any, Read] = {
    str: _read_text,
    bool: _read_bool,
    int: _read_int,
    float: _read_float,
    types.NoneType: _read_none,
}
_COMPOUND: dict[Any, Callable[[tuple[Any, ...]], Read]] = {
    Annotated: _build_bounded_reader,
    Literal: _build_choice_reader,
    Union: _build_union_reader,
    types.UnionType: _build_union_reader,
    tuple: _build_tuple_reader,
}
