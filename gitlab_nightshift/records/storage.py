"""Records as JSON files: written atomically, and checked with their version when read. Also changes
all strings or numbers in a record.
"""

import contextlib
import dataclasses
import functools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.codec import (
    LARGEST_FLOAT,
    LARGEST_INT,
    LONGEST_TEXT,
    MOST_MEMBERS,
    InvalidRecordError,
    decode_record,
    make_older_record,
    to_data,
)
from gitlab_nightshift.records.notary_records import NotaryRecord
from gitlab_nightshift.records.products import Bundle, Plan, Publication
from gitlab_nightshift.records.run_results import RunResult

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from gitlab_nightshift.records.fleet_records import FleetPlan

LARGEST_BUNDLE, LARGEST_PATCH = 16 * 1024 * 1024, 8 * 1024 * 1024
"""Bytes of ``bundle.json`` and of ``change.patch``; usual ones are far smaller."""
UPKEEP = "upkeep"
"""The folder in the results with those of the upkeep of an open merge request."""

Record = TypeVar("Record", Plan, Bundle, Publication, NotaryRecord, RunResult, "FleetPlan")
AnyValue = TypeVar("AnyValue")


def to_json(record: Any) -> str:
    """A record as indented JSON; undecodable bytes of file names are escaped."""
    return json.dumps(to_data(record), indent=2) + "\n"


def map_texts(value: AnyValue, change: Callable[[str], str]) -> AnyValue:
    """Apply ``change`` to every string in a record or an event, except enumerations."""
    result: Any = value
    # Not isinstance: a StrEnum is a str, too, and its members must stay members.
    if type(value) is str:
        result = change(result)
    elif isinstance(value, tuple):
        result = tuple(map_texts(each, change) for each in value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        changed = {name: map_texts(getattr(value, name), change) for name in names}
        result = dataclasses.replace(value, **changed)
    return cast(AnyValue, result)


def limit_record(value: Any) -> Any:
    """Cut a record to the limits of ``codec.py``, so that an agent that writes too much does not
    lose its work."""
    if type(value) is str:
        return replace_surrogates(value[:LONGEST_TEXT])
    if type(value) is int:
        return max(-LARGEST_INT, min(value, LARGEST_INT))
    if type(value) is float:
        # NaN is not less than anything, so min and max would let it through.
        return max(-LARGEST_FLOAT, min(value, LARGEST_FLOAT)) if not math.isnan(value) else 0.0
    if isinstance(value, tuple):
        return tuple(map(limit_record, value[:MOST_MEMBERS]))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        limited = {name: limit_record(member) for name, member in fields.items()}
        return dataclasses.replace(value, **limited)
    return value


def replace_surrogates(text: str) -> str:
    """The text with a ``?`` for each surrogate, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def write_record(path: Path, record: Any) -> None:
    """Write a record to ``path`` atomically."""
    # In the same folder: a rename works only within a file system (rename(2), EXDEV).
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(to_json(record), encoding="utf-8")
    unfinished.replace(path)


@functools.cache
def build_adapter(kind: Any) -> "TypeAdapter[Any]":
    """pydantic's adapter for a type, cached: building it takes longer than using it."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def read_record(kind: type[Record], path: Path) -> Record:
    """Read a record that an earlier stage, job or night has written.

    Raises :class:`NightshiftError`: E_CONFIG if it cannot be read, E_PARSE_ERROR if it is invalid.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):  # a device or a pipe may never end
        raise NightshiftError(Code.CONFIG, f"{path}: not a regular file")
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise NightshiftError(
            Code.CONFIG, f"{path}: there is no {_describe_kind(kind)}; the step before writes it"
        ) from None
    except OSError as error:
        raise NightshiftError(Code.CONFIG, f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise build_record_error(kind, str(path), str(error)) from None
    return build_record(kind, data, str(path))


def read_own_record(kind: type[Record], path: Path) -> Record:
    """Read a record that this run has written, which must have all fields. Raises like
    ``read_record``."""
    try:
        return decode_record(kind, path.read_bytes())
    except OSError as error:
        raise NightshiftError(Code.CONFIG, f"{path}: {error.strerror}") from None
    except InvalidRecordError as error:
        raise build_record_error(kind, str(path), str(error)) from None


def read_if_valid(kind: type[Record], path: Path) -> Record | None:
    """Read a record of this version with all its fields; None otherwise."""
    with contextlib.suppress(OSError, InvalidRecordError), path.open("rb") as file:
        record = decode_record(kind, file.read(LARGEST_BUNDLE + 1))
        return record if record.version == kind.version else None
    return None


def build_record(kind: type[Record], data: Any, source: str) -> Record:
    """A record from parsed JSON; ``source`` is for errors. Missing fields get their defaults,
    unknown ones are ignored. Raises NightshiftError ``E_PARSE_ERROR``."""
    _check_version(kind, data, source)
    try:
        record: Record = make_older_record(kind, {**data, "version": kind.version})
    except InvalidRecordError as error:
        raise build_record_error(kind, source, str(error)) from None
    return record


def _check_version(kind: type[Record], data: Any, source: str) -> None:
    """Raise NightshiftError ``E_PARSE_ERROR`` for a version that cannot be read."""
    version = data.get("version") if isinstance(data, dict) else None
    # A result may be of an earlier night, and is read in any version. Other records are of this
    # night, whose stages all run the same program.
    oldest = 1 if kind is RunResult else kind.version
    if version in range(oldest, kind.version + 1):
        return
    if type(version) is not int or not 0 < version < 1000:  # perhaps a date or an id
        text = f"it is not a version {kind.version} {_describe_kind(kind)}"
        raise build_record_error(kind, source, text)
    age = "an older" if version < kind.version else "a newer"
    text = f"it is of version {version}, from {age} nightshift; this one reads version"
    raise build_record_error(
        kind, source, f"{text} {kind.version}: run all stages with the same nightshift"
    )


def _describe_kind(kind: type[Record]) -> str:
    """``fleet plan`` for FleetPlan."""
    return re.sub(r"\B([A-Z])", r" \1", kind.__name__).lower()


def build_record_error(kind: type[Record], source: str, why: str) -> NightshiftError:
    """The error for an invalid record."""
    text = f"{source}: not a {_describe_kind(kind)} that can be used: {why}"
    return NightshiftError(Code.PARSE_ERROR, text)
