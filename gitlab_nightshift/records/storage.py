"""Records as JSON files: versioned, written whole or not at all, checked when read."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.stages import VERSION, Bundle, Plan, Published, RunResult

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Record = TypeVar("Record", Plan, Bundle, Published, RunResult)


def to_json(record: Any) -> str:
    """A record as JSON that a person can read; file names keep odd bytes as escapes."""
    return json.dumps(dataclasses.asdict(record), indent=2) + "\n"


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A record with every string in it changed; enumerations, numbers and None stay."""
    if type(value) is str:
        return change(value)
    if isinstance(value, tuple):
        return tuple(map_texts(each, change) for each in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        changed = {name: map_texts(getattr(value, name), change) for name in names}
        return dataclasses.replace(value, **changed)
    return value


def write_record(path: Path, record: Any) -> None:
    """Write a record to ``path`` whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(to_json(record), encoding="utf-8")
    part.replace(path)


def adapter(kind: Any) -> "TypeAdapter[Any]":
    """What checks a kind of record, built once: that takes longer than the check."""
    from pydantic import TypeAdapter

    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


_ADAPTERS: dict[Any, "TypeAdapter[Any]"] = {}


def read_record(kind: type[Record], path: Path) -> Record:
    """Read a record of an earlier stage; :class:`NightshiftError` says what is wrong with it."""
    from pydantic import ValidationError

    what = kind.__name__.lower()
    try:
        data = json.loads(path.read_bytes())
        if not isinstance(data, dict) or data.get("version") != VERSION:
            raise ValueError(f"it is not a version {VERSION} {what}")
        made: Record = adapter(kind).validate_python(data)
        return made
    except FileNotFoundError:
        raise NightshiftError(Code.CONFIG, f"{path}: no such {what}") from None
    except OSError as error:
        raise NightshiftError(Code.CONFIG, f"{path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise _unreadable(path, what, f"{place}: {first['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, what, str(error)) from None


def _unreadable(path: Path, what: str, why: str) -> NightshiftError:
    return NightshiftError(Code.PARSE_ERROR, f"{path}: not a {what} that can be used: {why}")
