"""The hand-off of a bead: its JSON Schema, the stub that the agent replaces, and how it is read.

It is hostile data: bounded, validated, and never a pass when in doubt. But an agent that says too
much has not failed: too long a text is cut, and an invalid member of a list dropped. So the schema
has no upper limits, and no lower ones in lists: a CLI would enforce them and refuse the report.
"""

import contextlib
import dataclasses
import functools
import inspect
import json
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from gitlab_nightshift.agents.agent import BeadReport
from gitlab_nightshift.records.bead_results import (
    AnalysisResult,
    BeadStatus,
    Draft,
    Handoff,
    Verdict,
)
from gitlab_nightshift.records.codec import Between, InvalidRecordError, Length, make_record
from gitlab_nightshift.records.storage import replace_surrogates
from gitlab_nightshift.stages.work.cited_files import PathResolver, resolve_paths
from gitlab_nightshift.system.openat import RefusedFileError, read_regular

HANDOFF_TYPES: dict[str, type[AnalysisResult] | type[Verdict] | type[Draft]] = {
    "analyze": AnalysisResult,
    "verify": Verdict,
    "mr": Draft,
}
"""The beads with a hand-off; Implement's change is read from the tree."""
_JSON_TYPES = {str: "string", int: "integer", bool: "boolean", types.NoneType: "null"}
JsonSchema = dict[str, Any]

# --- the schema: ``definitions`` collects the schemas of nested records ---------------------------


@functools.cache
def build_schema(bead: str) -> JsonSchema | None:
    """The JSON Schema of a bead's hand-off; None for a bead without one."""
    if bead not in HANDOFF_TYPES:
        return None
    definitions: JsonSchema = {}
    schema = _describe_record(HANDOFF_TYPES[bead], definitions)
    return {"$defs": definitions, **schema} if definitions else schema


def _describe_record(record_type: Any, definitions: JsonSchema) -> JsonSchema:
    fields = dataclasses.fields(record_type)
    return {
        "type": "object",
        "description": inspect.cleandoc(record_type.__doc__ or ""),
        "properties": {each.name: _describe_field(each, definitions) for each in fields},
        "required": [each.name for each in fields if each.default is dataclasses.MISSING],
    }


def _describe_field(field: "dataclasses.Field[Any]", definitions: JsonSchema) -> JsonSchema:
    schema = _describe_type(field.type, definitions)
    if field.default is dataclasses.MISSING:
        return schema
    default = list(field.default) if isinstance(field.default, tuple) else field.default
    return {**schema, "default": default}


def _describe_type(hint: Any, definitions: JsonSchema) -> JsonSchema:
    if hint in _JSON_TYPES:
        return {"type": _JSON_TYPES[hint]}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        definitions[hint.__name__] = _describe_record(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    schema: JsonSchema = _DESCRIBERS[get_origin(hint)](get_args(hint), definitions)
    return schema


def _describe_bounded(args: tuple[Any, ...], definitions: JsonSchema) -> JsonSchema:
    hint, *bounds = args
    schema = _describe_type(hint, definitions)
    for bound in bounds:
        if isinstance(bound, Between):
            schema |= {"minimum": bound.least, "maximum": bound.most}
        elif isinstance(bound, Length) and bound.least:
            schema["minLength"] = bound.least
    return schema


def _describe_list(args: tuple[Any, ...], definitions: JsonSchema) -> JsonSchema:
    items = _describe_type(args[0], definitions)
    items.pop("minLength", None)  # an invalid member is dropped, so it need not be refused
    return {"type": "array", "items": items}


_DESCRIBERS: Mapping[Any, Any] = {
    Annotated: _describe_bounded,
    Literal: lambda args, _: {"type": "string", "enum": list(args)},
    tuple: _describe_list,
    types.UnionType: lambda args, definitions: {
        "anyOf": [_describe_type(arg, definitions) for arg in args]
    },
}
"""JSON Schemas by the origin of a type hint; ``args`` are its arguments (typing.get_args)."""

# --- reading --------------------------------------------------------------------------------------


def fit_record(record_type: Any, data: Any) -> Any:
    """The record of a JSON object. Unknown keys and invalid optional values are left out. Raises
    InvalidRecordError for a required key that is missing or invalid; RecursionError."""
    if not isinstance(data, dict):
        raise InvalidRecordError("it is not an object")
    values = {}
    for field in dataclasses.fields(record_type):
        required = field.default is dataclasses.MISSING
        try:
            if field.name in data:
                values[field.name] = _fit(field.type, data[field.name])
            elif required:
                raise InvalidRecordError("it is missing")
        except InvalidRecordError as error:
            if required:
                raise InvalidRecordError(error.why, (field.name, *error.path)) from None
    return record_type(**values)


def _fit(hint: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        return fit_record(hint, value)
    fit = _FITTERS.get(get_origin(hint))
    return fit(get_args(hint), value) if fit else make_record(hint, value)


def _fit_bounded(args: tuple[Any, ...], value: Any) -> Any:
    hint, *bounds = args
    most = next((bound.most for bound in bounds if isinstance(bound, Length)), None)
    fitted = _fit(hint, value[:most] if isinstance(value, str) else value)
    if isinstance(fitted, tuple):  # cut only now that the invalid members are gone
        fitted = fitted[:most]
    for bound in bounds:
        if not bound.holds(fitted):
            raise InvalidRecordError(bound.error)
    return fitted


def _fit_list(args: tuple[Any, ...], value: Any) -> Any:
    if not isinstance(value, list):
        raise InvalidRecordError("it is not a list")
    members = []
    for each in value:
        with contextlib.suppress(InvalidRecordError):
            members.append(_fit(args[0], each))
    return tuple(members)


_FITTERS: Mapping[Any, Any] = {
    Annotated: _fit_bounded,
    tuple: _fit_list,
    types.UnionType: lambda args, value: None if value is None else _fit(args[0], value),
}


# An agent that ends early leaves its stub, so none of them is a pass.
STUBS: dict[str, dict[str, Any]] = {
    "analyze": {"result": "NO_IMPROVEMENT", "reason": "pending"},
    "verify": {"passed": False, "error_details": "pending"},
    "mr": {},
}
LARGEST = 2 * 1024 * 1024
"""Bytes of a report."""
LONGEST_NUMBER = 300
"""Digits of a number; longer ones are dropped. Python refuses to parse 4,301
(sys.set_int_max_str_digits)."""


class HandoffError(Exception):
    """Why a hand-off cannot be used, as a text for the log and the next attempt."""


@dataclass(frozen=True)
class HandoffResult:
    """How a bead ended and why, its hand-off if that is valid, and a ``note`` of what was dropped
    from the hand-off."""

    status: BeadStatus
    error: str = ""
    handoff: Handoff | None = None
    note: str = ""


def write_stub(bead: str, file: Path) -> None:
    """Write the stub that the agent replaces."""
    if bead in STUBS:
        file.write_text(json.dumps(STUBS[bead]), encoding="utf-8")


def accept_handoff(bead: str, report: BeadReport, file: Path, paths: PathResolver) -> HandoffResult:
    """Read the hand-off of a bead that ended well, and resolve its paths."""
    try:
        resolved = resolve_paths(read_handoff(bead, report.structured, file), paths)
        dropped = resolved.describe_dropped()
        problem = f"selected: none of its files is one of this project: {dropped}"
        _check_selection(resolved.handoff, problem)
    except HandoffError as error:
        status = BeadStatus.DENIED if report.denied else BeadStatus.NO_HANDOFF
        return HandoffResult(status, str(error))
    note = f"no files of this project, so left out: {dropped}" if dropped else ""
    return HandoffResult(BeadStatus.OK, handoff=resolved.handoff, note=note)


def read_handoff(bead: str, structured: object, file: Path) -> Handoff:
    """The validated hand-off: the CLI's structured output if there is one, else the file.

    Its paths are unverified. Raises :class:`HandoffError` for a leftover stub, bad JSON or invalid
    data.
    """
    data = structured if structured is not None else _read_file(file)
    if data == STUBS[bead]:
        raise HandoffError("the report file still holds the stub: the agent reported nothing")
    if not isinstance(data, dict):
        raise HandoffError("the report is not a JSON object")
    if structured is not None and len(json.dumps(structured)) > 2 * LARGEST:  # json.dumps escapes
        raise HandoffError(f"the report is larger than {LARGEST} bytes")
    handoff = _validate_handoff(bead, data)
    _check_selection(handoff, "selected: files and description are required")
    return handoff


def _read_file(file: Path) -> object:
    try:
        data = read_regular(file.parent, file.name, LARGEST)
        return json.loads(data, parse_int=lambda n: int(n) if len(n) <= LONGEST_NUMBER else None)
    except RefusedFileError as refused:
        raise HandoffError(f"the report file cannot be read: {refused}") from None
    except (ValueError, RecursionError) as error:
        raise HandoffError(f"the report is not JSON: {error}") from None


def _validate_handoff(bead: str, data: dict[str, Any]) -> Handoff:
    # The only field whose error says what is expected, as a pass is never guessed.
    if bead == "verify" and not isinstance(data.get("passed"), bool):
        raise HandoffError("passed: expected true or false")
    try:
        # JSON may escape half a surrogate pair (RFC 8259, 8.2), which UTF-8 cannot encode.
        data = json.loads(replace_surrogates(json.dumps(data, ensure_ascii=False)))
        handoff: Handoff = fit_record(HANDOFF_TYPES[bead], data)
    except RecursionError:
        raise HandoffError("the report is nested too deeply") from None
    except InvalidRecordError as error:
        raise HandoffError(str(error)) from None
    return handoff


def _check_selection(handoff: Handoff, problem: str) -> None:
    """Raise HandoffError with the text ``problem`` for an improvement that names no file."""
    if isinstance(handoff, AnalysisResult) and handoff.result == "IMPROVEMENT_FOUND":
        files = handoff.selected.files if handoff.selected else ()
        if not files:
            raise HandoffError(problem)
