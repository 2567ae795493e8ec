"""Records to JSON, and from untrusted JSON: with exact fields and types, all bounded.

Standard library only, for processes that load nothing else. Records are dataclasses of strings,
numbers, booleans, enumerations, literals, tuples, lists, mappings with string keys, paths, bytes
(as hex), dates, and other records. A type with ``to_data`` and ``from_data`` has a JSON form of its
own."""

import dataclasses
import json
import math
import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

# --- bounds, as marks of an annotation: Annotated[str, Length(100)] -------------------------------

Grouped = Literal[True]


@dataclass(frozen=True)
class Length:
    """Bound for a string or a tuple: ``least`` to ``most`` characters or members."""

    most: int
    least: int = 0
    error: ClassVar = "it is too long or too short"
    # pydantic, for the published schemas, unpacks a mark with this attribute into the marks that it
    # knows (annotated_types.GroupedMetadata): to inherit from that would load another library.
    __is_annotated_types_grouped_metadata__: ClassVar[Grouped] = True

    def __iter__(self) -> Iterator[Any]:
        from annotated_types import MaxLen, MinLen

        return iter((MinLen(self.least), MaxLen(self.most)) if self.least else (MaxLen(self.most),))

    def holds(self, value: Any) -> bool:
        """True for a value within the bounds."""
        return self.least <= len(value) <= self.most


@dataclass(frozen=True)
class Between:
    """Bound for a number: ``least`` to ``most``, both included."""

    least: int
    most: int
    error: ClassVar = "it is out of range"
    __is_annotated_types_grouped_metadata__: ClassVar[Grouped] = True

    def __iter__(self) -> Iterator[Any]:
        from annotated_types import Ge, Le

        return iter((Ge(self.least), Le(self.most)))

    def holds(self, value: float) -> bool:
        """True for a value within the bounds."""
        return self.least <= value <= self.most


@dataclass(frozen=True)
class Pattern:
    """Bound for a string: the whole of it matches a regular expression."""

    expression: str
    error: ClassVar = "it has the wrong format"

    def holds(self, value: str) -> bool:
        """True for a string that matches."""
        return re.fullmatch(self.expression, value) is not None


# --- records --------------------------------------------------------------------------------------

LOCAL: Mapping[str, bool] = {"local": True}
"""Metadata of a field that stays in its process: it is not written, and the caller of
``make_record`` supplies it."""
LONGEST_TEXT, MOST_MEMBERS = 1_000_000, 100_000
"""Characters of a string and members of a list whose annotation has no bound."""
# Up to 2**53 every reader of JSON has the same integers (RFC 8259, 6). 1e15 is below that too: a
# whole number that arrives as a float is still exact.
LARGEST_INT, LARGEST_FLOAT = 1 << 53, 1e15

Kind = TypeVar("Kind")
Reader = Callable[..., Any]
"""Makes a value of one type from its JSON value. Raises InvalidRecordError."""


class InvalidRecordError(ValueError):
    """The data is not such a record. The message has the place (fields and indices, with dots) and
    the reason, and never quotes the data."""

    def __init__(self, why: str, place: tuple[str, ...] = ()) -> None:
        super().__init__(f"{'.'.join(place)}: {why}" if place else why)
        self.why, self.place = why, place


def to_data(value: Any) -> Any:
    """The JSON value of a record, of a part of one, or of a mapping or list of them."""
    # First, as settings are dataclasses too, but have a JSON form of their own.
    if hasattr(value, "to_data"):
        return value.to_data()
    if dataclasses.is_dataclass(value):
        return to_fields(value)
    if isinstance(value, Mapping):
        return {str(key): to_data(each) for key, each in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return list(map(to_data, value))
    if isinstance(value, bytes | date | Path | StrEnum):
        return value.hex() if isinstance(value, bytes) else str(value)
    return value


def to_fields(record: Any) -> dict[str, Any]:
    """The fields of a record, except those that are LOCAL."""
    kind: Any = type(record)
    return {name: to_data(getattr(record, name)) for name in _list_fields(kind)}


def encode_record(value: Any) -> bytes:
    """A record as compact JSON; surrogates for undecodable bytes of file names are escaped."""
    return json.dumps(to_data(value), separators=(",", ":")).encode()


def decode_record(kind: type[Kind], data: bytes) -> Kind:
    """A record of this kind from JSON. Raises InvalidRecordError."""
    return make_record(kind, decode_json(data))


def decode_json(data: bytes) -> Any:
    """A JSON value without repeated keys, NaN or infinity. Raises InvalidRecordError."""
    try:
        # json.loads takes bytes, but would guess UTF-16 and UTF-32 too.
        text = data.decode("utf-8", "surrogatepass")
        return json.loads(
            text,
            object_pairs_hook=_refuse_repeated_keys,
            # Python reads NaN and Infinity, which are not JSON (RFC 8259, 6).
            parse_constant=_refuse,
            parse_float=_parse_finite,
        )
    except InvalidRecordError:
        raise
    except (ValueError, RecursionError):
        raise InvalidRecordError("it is not JSON") from None


def make_record(kind: type[Kind], value: Any, **local: Any) -> Kind:
    """A record, or a part of one, from its JSON value; ``local`` are the record's LOCAL fields.
    Raises InvalidRecordError."""
    record: Kind = _find_reader(kind)(value, **local)
    return record


def make_older_record(kind: Any, value: Any) -> Any:
    """A record of another version: missing fields get their defaults, unknown ones are ignored.
    Raises InvalidRecordError."""
    return _find_reader(kind, exact=False)(value)


def make_fields(kind: type[Kind], value: Any) -> Kind:
    """A record from the result of ``to_fields``. Raises InvalidRecordError.

    For the ``from_data`` of a record: ``make_record`` would call that again.
    """
    record: Kind = _build_record_reader(kind, exact=True)(value)
    return record


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # json would keep the last of equal keys, another reader perhaps the first (RFC 8259, 4).
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise InvalidRecordError("a key is repeated")
    return mapping


def _refuse(_constant: str) -> NoReturn:
    raise InvalidRecordError("NaN and Infinity are not allowed")


def _parse_finite(text: str) -> float:
    """Refuse ``1e999``: Python reads it as infinity, which JSON cannot express."""
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


@cache
def _list_fields(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in dataclasses.fields(kind) if not each.metadata.get("local"))


def _find_reader(kind: Any, *, exact: bool = True) -> Reader:
    # Annotated does not get to the cache: marks of other libraries need not be hashable.
    if get_origin(kind) is not Annotated:
        return _build_reader(kind, exact)
    inner, *marks = get_args(kind)
    bounds = [mark for mark in marks if isinstance(mark, Length | Between | Pattern)]
    read = _find_reader(inner, exact=exact)
    return partial(_read_bounded, read, bounds) if bounds else read


@cache
def _build_reader(kind: Any, exact: bool) -> Reader:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if origin := get_origin(kind):
        return _COMPOUND[origin](get_args(kind), exact)
    if hasattr(kind, "from_data"):
        return partial(_read_own_form, kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _build_record_reader(kind, exact=exact)
    return _build_choice_reader(tuple(kind))


def _read_own_form(kind: Any, value: Any) -> Any:
    try:
        return kind.from_data(value)
    except (KeyError, TypeError):
        raise InvalidRecordError("it has missing or unknown fields") from None


def _read_bounded(read: Reader, bounds: list[Any], value: Any) -> Any:
    made = read(value)
    for bound in bounds:
        if not bound.holds(made):
            raise InvalidRecordError(bound.error)
    return made


def _build_choice_reader(choices: tuple[Any, ...], _exact: bool = True) -> Reader:
    names = ", ".join(map(str, choices))

    def choose(value: Any) -> Any:
        for each in choices:
            # Equal values may have other types: 1 == True, and a StrEnum is equal to its string.
            if value == each and type(value) is (str if isinstance(each, StrEnum) else type(each)):
                return each
        raise InvalidRecordError(f"it is not one of {names}")

    return choose


def _build_union_reader(parts: tuple[Any, ...], exact: bool) -> Reader:
    readers = [_find_reader(part, exact=exact) for part in parts]

    def try_each(value: Any) -> Any:
        # Raise the first error: unions end with None, whose error says the least.
        errors = []
        for read in readers:
            try:
                return read(value)
            except InvalidRecordError as error:
                errors.append(error)
        raise errors[0]

    return try_each


def _build_tuple_reader(parts: tuple[Any, ...], exact: bool) -> Reader:
    any_length = len(parts) == 2 and parts[1] is Ellipsis  # tuple[int, ...]
    readers = [_find_reader(part, exact=exact) for part in parts if part is not Ellipsis]

    def read_all(value: Any) -> Any:
        members = _read_members(value)
        of_members = readers * len(members) if any_length else readers
        if len(of_members) != len(members):
            raise InvalidRecordError("it has the wrong length")
        pairs = enumerate(zip(of_members, members, strict=True))
        return tuple(_read_part(str(index), read, member) for index, (read, member) in pairs)

    return read_all


def _build_collection_reader(collect: Callable[[Any], Any]) -> Callable[..., Reader]:
    def build(parts: tuple[Any, ...], exact: bool) -> Reader:
        read = _find_reader(parts[0], exact=exact)
        return lambda value: collect(map(read, _read_members(value)))

    return build


def _build_mapping_reader(parts: tuple[Any, ...], exact: bool) -> Reader:
    read_key, read_value = (_find_reader(part, exact=exact) for part in parts)

    def read_all(value: Any) -> Any:
        if type(value) is not dict:
            raise InvalidRecordError("it is not an object")
        # "a value", not the key: a message never quotes the data.
        return {
            read_key(name): _read_part("a value", read_value, each) for name, each in value.items()
        }

    return read_all


def _read_members(value: Any) -> list[Any]:
    if type(value) is not list or len(value) > MOST_MEMBERS:
        raise InvalidRecordError("it is not a list, or too long")
    return value


def _build_record_reader(kind: Any, *, exact: bool) -> Reader:
    kinds = _find_field_kinds(kind)
    names = _list_fields(kind)
    readers = {name: _find_reader(kinds[name], exact=exact) for name in names}
    required = [
        each.name
        for each in dataclasses.fields(kind)
        if each.name in names
        and each.default is dataclasses.MISSING
        and each.default_factory is dataclasses.MISSING
    ]

    def read_fields(value: Any, **local: Any) -> Any:
        if type(value) is not dict or (exact and value.keys() != readers.keys()):
            raise InvalidRecordError("it has missing or unknown fields")
        fields = {
            name: _read_part(name, read, value[name])
            for name, read in readers.items()
            if name in value
        }
        if missing := next((name for name in required if name not in fields), ""):
            raise InvalidRecordError("it is missing", (missing,))
        return kind(**fields, **local)

    return read_fields


def _find_field_kinds(kind: Any) -> dict[str, Any]:
    """The type of each field, by name."""
    kinds = {each.name: each.type for each in dataclasses.fields(kind)}
    # A string is an annotation that is not resolved yet (PEP 563, or in quotes). That of a LOCAL
    # field stays one: its type may not be importable here.
    if any(isinstance(kinds[name], str) for name in _list_fields(kind)):
        return get_type_hints(kind, include_extras=True)
    return kinds


def _read_part(name: str, read: Reader, value: Any) -> Any:
    try:
        return read(value)
    except InvalidRecordError as error:
        raise InvalidRecordError(error.why, (name, *error.place)) from None


def _read_text(value: Any) -> str:
    if type(value) is not str or len(value) > LONGEST_TEXT:
        raise InvalidRecordError("it is not a string, or too long")
    return value


def _read_bool(value: Any) -> bool:
    if type(value) is not bool:
        raise InvalidRecordError("it is not true or false")
    return value


def _read_int(value: Any) -> int:
    # By type: True is an int, too.
    if type(value) is not int or abs(value) > LARGEST_INT:
        raise InvalidRecordError("it is not an integer, or too large")
    return value


def _read_float(value: Any) -> float:
    # "not <=", as every comparison with NaN is false.
    if type(value) not in (int, float) or not abs(value) <= LARGEST_FLOAT:
        raise InvalidRecordError("it is not a number, or too large")
    return float(value)


def _read_none(value: Any) -> None:
    if value is not None:
        raise InvalidRecordError("it is not null")


# All that JSON has no type for is a string in it.
def _read_converted(convert: Callable[[str], Any], value: Any) -> Any:
    try:
        return convert(_read_text(value))
    except InvalidRecordError:
        raise
    except ValueError:
        raise InvalidRecordError("it has the wrong format") from None


_PLAIN: dict[Any, Reader] = {
    Any: lambda value: value,
    str: _read_text,
    bytes: partial(_read_converted, bytes.fromhex),
    Path: partial(_read_converted, Path),
    date: partial(_read_converted, date.fromisoformat),
    bool: _read_bool,
    int: _read_int,
    float: _read_float,
    types.NoneType: _read_none,
}
_COMPOUND: dict[Any, Callable[..., Reader]] = {
    Literal: _build_choice_reader,
    Union: _build_union_reader,
    types.UnionType: _build_union_reader,
    tuple: _build_tuple_reader,
    list: _build_collection_reader(list),
    frozenset: _build_collection_reader(frozenset),
    dict: _build_mapping_reader,
    Mapping: _build_mapping_reader,
}
