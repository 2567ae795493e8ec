"""The JSON Schema of a bead's hand-off, as agents are given it, and how a report is fitted to it.

An agent that says too much has not failed: the schema has no upper limits, and no lower ones in
lists, as a CLI that enforces it would refuse what this program only cuts or drops.
"""

import dataclasses
import functools
import inspect
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from gitlab_nightshift.records.codec import InvalidRecordError, make_record
from gitlab_nightshift.records.field_bounds import Between, Length
from gitlab_nightshift.records.handoffs import AnalysisResult, Draft, Verdict

KINDS: dict[str, type[AnalysisResult] | type[Verdict] | type[Draft]] = {
    "analyze": AnalysisResult,
    "verify": Verdict,
    "mr": Draft,
}
"""The beads with a hand-off; Implement's change is read from the tree."""
_NAMES = {str: "string", int: "integer", bool: "boolean", types.NoneType: "null"}
JsonSchema = dict[str, Any]


@functools.cache
def build_schema(bead: str) -> JsonSchema | None:
    """The schema; None for a bead without a hand-off."""
    if bead not in KINDS:
        return None
    shared: JsonSchema = {}
    whole = _describe_record(KINDS[bead], shared)
    return {"$defs": shared, **whole} if shared else whole


def _describe_record(kind: Any, shared: JsonSchema) -> JsonSchema:
    fields = dataclasses.fields(kind)
    return {
        "type": "object",
        "description": inspect.cleandoc(kind.__doc__ or ""),
        "properties": {each.name: _describe_field(each, shared) for each in fields},
        "required": [each.name for each in fields if each.default is dataclasses.MISSING],
    }


def _describe_field(field: "dataclasses.Field[Any]", shared: JsonSchema) -> JsonSchema:
    made = _describe_kind(field.type, shared)
    if field.default is dataclasses.MISSING:
        return made
    default = list(field.default) if isinstance(field.default, tuple) else field.default
    return {**made, "default": default}


def _describe_kind(kind: Any, shared: JsonSchema) -> JsonSchema:
    if kind in _NAMES:
        return {"type": _NAMES[kind]}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        shared[kind.__name__] = _describe_record(kind, shared)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    made: JsonSchema = _DESCRIBERS[get_origin(kind)](get_args(kind), shared)
    return made


def _describe_bounded(parts: tuple[Any, ...], shared: JsonSchema) -> JsonSchema:
    made = _describe_kind(parts[0], shared)
    for bound in parts[1:]:
        if isinstance(bound, Between):
            made |= {"minimum": bound.least, "maximum": bound.most}
        elif isinstance(bound, Length) and bound.least:
            made["minLength"] = bound.least
    return made


def _describe_list(parts: tuple[Any, ...], shared: JsonSchema) -> JsonSchema:
    items = {**_describe_kind(parts[0], shared)}
    items.pop("minLength", None)
    return {"type": "array", "items": items}


_DESCRIBERS: Mapping[Any, Any] = {
    Annotated: _describe_bounded,
    Literal: lambda parts, _: {"type": "string", "enum": list(parts)},
    tuple: _describe_list,
    types.UnionType: lambda parts, shared: {
        "anyOf": [_describe_kind(part, shared) for part in parts]
    },
}


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
    fit = _FITTERS.get(get_origin(kind))
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


_FITTERS: Mapping[Any, Any] = {
    Annotated: _fit_bounded,
    tuple: _fit_list,
    types.UnionType: _fit_optional,
}
