"""Writes records as JSON, and reads them from untrusted JSON: fields and types must match exactly,
and all sizes are limited.

Standard library only, for processes that load nothing else. Records are dataclasses of strings,
numbers, booleans, enumerations, literals, tuples, lists, mappings with string keys, paths, bytes
(as hex), dates, and other records. A type with its own JSON form has ``to_data`` and
``from_data``."""

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

# --- bounds of annotated types: Annotated[str, Length(100)] ---------------------------------------


@dataclass(frozen=True)
class Length:
    """Bound for a string or a tuple: ``least`` to ``most`` characters or members."""

    most: int
    least: int = 0
    error: ClassVar = "it is too long or too short"
    # For the published schemas. pydantic replaces metadata with this attribute by its items
    # (annotated_types.GroupedMetadata; to inherit from that would load another library).
    __is_annotated_types_grouped_metadata__: ClassVar[Literal[True]] = True

    def __iter__(self) -> Iterator[Any]:
        from annotated_types import MaxLen, MinLen

        if self.least:
            yield MinLen(self.least)
        yield MaxLen(self.most)

    def holds(self, value: Any) -> bool:
        """True for a value within the bounds."""
        return self.least <= len(value) <= self.most


@dataclass(frozen=True)
class Between:
    """Bound for a number: ``least`` to ``most``, both included."""

    least: int
    most: int
    error: ClassVar = "it is out of range"
    __is_annotated_types_grouped_metadata__: ClassVar[Literal[True]] = True

    def __iter__(self) -> Iterator[Any]:
        from annotated_types import Ge, Le

        yield Ge(self.least)
        yield Le(self.most)

    def holds(self, value: float) -> bool:
        """True for a value within the bounds."""
        return self.least <= value <= self.most


@dataclass(frozen=True)
class Pattern:
    """Bound for a string: it must fully match a regular expression."""

    expression: str
    error: ClassVar = "it has the wrong format"

    def holds(self, value: str) -> bool:
        """True for a string that matches."""
        return re.fullmatch(self.expression, value) is not None


# --- records --------------------------------------------------------------------------------------

LOCAL: Mapping[str, bool] = {"local": True}
"""Metadata of a field that is not written to JSON: the caller of ``make_record`` supplies it."""
LONGEST_TEXT, MOST_MEMBERS = 1_000_000, 100_000
"""Default limits: characters of a string, members of a list."""
# Up to 2**53 all JSON parsers agree on integers (RFC 8259, 6). Below that, 1e15 also keeps whole
# numbers exact that arrive as floats.
LARGEST_INT, LARGEST_FLOAT = 1 << 53, 1e15

Kind = TypeVar("Kind")
Reader = Callable[..., Any]
"""Builds a value of one type from JSON data. Raises InvalidRecordError."""


class InvalidRecordError(ValueError):
    """The data is not a valid record. The message has the ``path`` to the value (fields and
    indices, joined by dots) and the reason, and never quotes the data."""

    def __init__(self, why: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(f"{'.'.join(path)}: {why}" if path else why)
        self.why, self.path = why, path


def to_data(value: Any) -> Any:
    """Convert a record, or anything that a record may contain, to JSON data."""
    # Checked first: settings are dataclasses, but have their own JSON form.
    if hasattr(value, "to_data"):
        return value.to_data()
    if dataclasses.is_dataclass(value):
        return to_fields(value)
    if isinstance(value, Mapping):
        return {str(key): to_data(member) for key, member in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return list(map(to_data, value))
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, date | Path | StrEnum) else value


def to_fields(record: Any) -> dict[str, Any]:
    """The fields of a record as JSON data, without those that are LOCAL."""
    kind: Any = type(record)
    return {name: to_data(getattr(record, name)) for name in _list_fields(kind)}


def encode_record(value: Any) -> bytes:
    """A record as compact ASCII JSON."""
    return json.dumps(to_data(value), separators=(",", ":")).encode()


def decode_record(kind: type[Kind], data: bytes) -> Kind:
    """A record of this kind from JSON. Raises InvalidRecordError."""
    return make_record(kind, decode_json(data))


def decode_json(data: bytes) -> Any:
    """Parse JSON strictly. Raises InvalidRecordError, also for repeated keys, NaN and infinity."""
    try:
        # Decoded here: json.loads would also accept bytes in UTF-16 and UTF-32.
        text = data.decode("utf-8", "surrogatepass")
        return json.loads(
            text,
            object_pairs_hook=_refuse_repeated_keys,
            # Python reads NaN and Infinity, which are not JSON (RFC 8259, 6).
            parse_constant=_refuse_constant,
            parse_float=_parse_finite,
        )
    except InvalidRecordError:
        raise
    except (ValueError, RecursionError):
        raise InvalidRecordError("it is not JSON") from None


def make_record(kind: type[Kind], value: Any, **local: Any) -> Kind:
    """Build a value of type ``kind`` from JSON data. If it is a record, ``local`` are its LOCAL
    fields. Raises InvalidRecordError."""
    record: Kind = _find_reader(kind)(value, **local)
    return record


def make_older_record(kind: Any, value: Any) -> Any:
    """Build a record of another version: missing fields get their defaults, unknown ones are
    ignored. Raises InvalidRecordError."""
    return _find_reader(kind, exact=False)(value)


def make_fields(kind: type[Kind], value: Any) -> Kind:
    """Build a record from the result of ``to_fields``. Raises InvalidRecordError.

    For a record's own ``from_data``, which ``make_record`` would call again.
    """
    record: Kind = _build_record_reader(kind, exact=True)(value)
    return record


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Python keeps the last of equal keys, another parser perhaps the first (RFC 8259, 4).
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise InvalidRecordError("a key is repeated")
    return mapping


def _refuse_constant(_name: str) -> NoReturn:
    raise InvalidRecordError("NaN and Infinity are not allowed")


def _parse_finite(text: str) -> float:
    """Refuse ``1e999``: Python reads it as infinity, which JSON cannot express."""
    number = float(text)
    return number if math.isfinite(number) else _refuse_constant(text)


@cache
def _list_fields(kind: Any) -> tuple[str, ...]:
    """The names of a record's fields, without those that are LOCAL."""
    fields = dataclasses.fields(kind)
    return tuple(field.name for field in fields if not field.metadata.get("local"))


def _find_reader(kind: Any, *, exact: bool = True) -> Reader:
    # Annotated types are not cached: metadata of other libraries need not be hashable.
    if get_origin(kind) is not Annotated:
        return _build_reader(kind, exact)
    inner, *metadata = get_args(kind)
    bounds = [bound for bound in metadata if isinstance(bound, Length | Between | Pattern)]
    read = _find_reader(inner, exact=exact)
    return partial(_read_bounded, read, bounds) if bounds else read


@cache
def _build_reader(kind: Any, exact: bool) -> Reader:
    if kind in _PLAIN_READERS:
        return _PLAIN_READERS[kind]
    if origin := get_origin(kind):
        return _GENERIC_READERS[origin](get_args(kind), exact)
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
    result = read(value)
    for bound in bounds:
        if not bound.holds(result):
            raise InvalidRecordError(bound.error)
    return result


def _build_choice_reader(choices: tuple[Any, ...], _exact: bool = True) -> Reader:
    names = ", ".join(map(str, choices))

    def choose(value: Any) -> Any:
        for choice in choices:
            json_type = str if isinstance(choice, StrEnum) else type(choice)
            if value == choice and type(value) is json_type:  # True == 1, but True is no integer
                return choice
        raise InvalidRecordError(f"it is not one of {names}")

    return choose


def _build_union_reader(kinds: tuple[Any, ...], exact: bool) -> Reader:
    readers = [_find_reader(kind, exact=exact) for kind in kinds]

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


def _build_tuple_reader(kinds: tuple[Any, ...], exact: bool) -> Reader:
    any_length = len(kinds) == 2 and kinds[1] is Ellipsis  # tuple[int, ...]
    readers = [_find_reader(kind, exact=exact) for kind in kinds if kind is not Ellipsis]

    def read_all(value: Any) -> Any:
        members = _check_list(value)
        member_readers = readers * len(members) if any_length else readers
        if len(member_readers) != len(members):
            raise InvalidRecordError("it has the wrong length")
        pairs = enumerate(zip(member_readers, members, strict=True))
        return tuple(_read_member(str(index), read, member) for index, (read, member) in pairs)

    return read_all


def _build_collection_reader(collect: Callable[[Any], Any]) -> Callable[..., Reader]:
    def build(kinds: tuple[Any, ...], exact: bool) -> Reader:
        read = _find_reader(kinds[0], exact=exact)
        return lambda value: collect(map(read, _check_list(value)))

    return build


def _build_mapping_reader(kinds: tuple[Any, ...], exact: bool) -> Reader:
    read_key, read_value = (_find_reader(kind, exact=exact) for kind in kinds)

    def read_all(value: Any) -> Any:
        if type(value) is not dict:
            raise InvalidRecordError("it is not an object")
        # "a value", not the key: a message never quotes the data.
        return {
            read_key(key): _read_member("a value", read_value, member)
            for key, member in value.items()
        }

    return read_all


def _check_list(value: Any) -> list[Any]:
    if type(value) is not list or len(value) > MOST_MEMBERS:
        raise InvalidRecordError("it is not a list, or too long")
    return value


def _build_record_reader(kind: Any, *, exact: bool) -> Reader:
    kinds = _find_field_kinds(kind)
    readers = {name: _find_reader(kinds[name], exact=exact) for name in _list_fields(kind)}
    required = [
        field.name
        for field in dataclasses.fields(kind)
        if field.name in readers
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]

    def read_fields(value: Any, **local: Any) -> Any:
        if type(value) is not dict or (exact and value.keys() != readers.keys()):
            raise InvalidRecordError("it has missing or unknown fields")
        fields = {
            name: _read_member(name, read, value[name])
            for name, read in readers.items()
            if name in value
        }
        for name in required:
            if name not in fields:
                raise InvalidRecordError("it is missing", (name,))
        return kind(**fields, **local)

    return read_fields


def _find_field_kinds(kind: Any) -> dict[str, Any]:
    """The type of each field, by name."""
    kinds = {field.name: field.type for field in dataclasses.fields(kind)}
    # A string is an unresolved annotation (PEP 563, or in quotes). Those of LOCAL fields stay
    # unresolved: their types may not be importable here.
    if any(isinstance(kinds[name], str) for name in _list_fields(kind)):
        return get_type_hints(kind, include_extras=True)
    return kinds


def _read_member(name: str, read: Reader, value: Any) -> Any:
    """Read a value inside another; its errors get ``name`` in front of their path."""
    try:
        return read(value)
    except InvalidRecordError as error:
        raise InvalidRecordError(error.why, (name, *error.path)) from None


def _read_text(value: Any) -> str:
    if type(value) is not str or len(value) > LONGEST_TEXT:
        raise InvalidRecordError("it is not a string, or too long")
    return value


def _read_bool(value: Any) -> bool:
    if type(value) is not bool:
        raise InvalidRecordError("it is not true or false")
    return value


def _read_int(value: Any) -> int:
    # Not isinstance: True is an int, too.
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


def _read_converted(convert: Callable[[str], Any], value: Any) -> Any:
    """Read a value of a type that JSON does not have, and stores as a string."""
    text = _read_text(value)
    try:
        return convert(text)
    except ValueError:
        raise InvalidRecordError("it has the wrong format") from None


_PLAIN_READERS: dict[Any, Reader] = {
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
_GENERIC_READERS: dict[Any, Callable[..., Reader]] = {
    Literal: _build_choice_reader,
    Union: _build_union_reader,
    types.UnionType: _build_union_reader,
    tuple: _build_tuple_reader,
    list: _build_collection_reader(list),
    frozenset: _build_collection_reader(frozenset),
    dict: _build_mapping_reader,
    Mapping: _build_mapping_reader,
}
