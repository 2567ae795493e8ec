"""Makes a hand-off of what an agent reports: too much of it is cut, and what is invalid is dropped,
unless the hand-off needs it.

It is hostile data, but an agent that says too much has not failed.
"""

import dataclasses
import types
from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin

from gitlab_nightshift.records.codec import InvalidRecordError, Length, make_record


def fit_record(kind: Any, data: Any) -> Any:
    """The record of a JSON object. Unknown keys and invalid optional values are left out. Raises
    InvalidRecordError for a key that is needed, and missing or invalid; RecursionError."""
    if not isinstance(data, dict):
        raise InvalidRecordError("it is not an object")
    found = {}
    for field in dataclasses.fields(kind):
        try:
            if field.name in data:
                found[field.name] = _fit(field.type, data[field.name])
            elif field.default is dataclasses.MISSING:
                raise InvalidRecordError("it is missing")
        except InvalidRecordError as error:
            if field.default is dataclasses.MISSING:
                raise InvalidRecordError(error.why, (field.name, *error.place)) from None
    return kind(**found)


def _fit(kind: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(kind):
        return fit_record(kind, value)
    fit = _COMPOUND.get(get_origin(kind))
    return fit(get_args(kind), value) if fit else make_record(kind, value)


def _fit_bounded(parts: tuple[Any, ...], value: Any) -> Any:
    kind, *bounds = parts
    most = next((bound.most for bound in bounds if isinstance(bound, Length)), None)
    made = _fit(kind, value[:most] if isinstance(value, str) else value)
    if isinstance(made, tuple):  # cut once the invalid members are gone
        made = made[:most]
    for bound in bounds:
        if not bound.holds(made):
            raise InvalidRecordError(bound.broken)
    return made


def _fit_list(parts: tuple[Any, ...], value: Any) -> Any:
    if not isinstance(value, list):
        raise InvalidRecordError("it is not a list")
    made = []
    for each in value:
        try:
            made.append(_fit(parts[0], each))
        except InvalidRecordError:
            continue
    return tuple(made)


def _fit_optional(parts: tuple[Any, ...], value: Any) -> Any:
    return None if value is None else _fit(parts[0], value)


_COMPOUND: Mapping[Any, Any] = {
    Annotated: _fit_bounded,
    tuple: _fit_list,
    types.UnionType: _fit_optional,
}
