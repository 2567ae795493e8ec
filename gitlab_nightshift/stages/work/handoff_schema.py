"""The JSON Schema of a bead's hand-off, as agents are given it.

It has no upper limits, and no lower ones in lists: a CLI that enforces the schema would refuse what
``handoff_fitting.py`` cuts or drops.
"""

import dataclasses
import functools
import inspect
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from gitlab_nightshift.records.codec import Between, Length
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
    made: JsonSchema = _COMPOUND[get_origin(kind)](get_args(kind), shared)
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


_COMPOUND: Mapping[Any, Any] = {
    Annotated: _describe_bounded,
    Literal: lambda parts, _: {"type": "string", "enum": list(parts)},
    tuple: _describe_list,
    types.UnionType: lambda parts, shared: {
        "anyOf": [_describe_kind(part, shared) for part in parts]
    },
}
