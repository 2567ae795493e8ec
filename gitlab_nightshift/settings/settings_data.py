"""Settings as JSON, as the processes of a run exchange them."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.setting_groups import Part

Kind = TypeVar("Kind", bound=Part)


def pack_settings(settings: Settings) -> dict[str, Any]:
    """Settings with where each came from."""
    values = asdict(settings)
    values["quiet_dates"] = [day.isoformat() for day in settings.quiet_dates]
    return {"values": values, "sources": dict(settings.sources)}


def unpack_settings(data: Mapping[str, Any]) -> Settings:
    """The same settings again. They were checked where they were loaded, and are not checked again:
    loading what that needs takes longer than some processes run."""
    return _build_part(Settings, data["values"]).with_values(sources=dict(data["sources"]))


def _build_part(kind: type[Kind], values: Mapping[str, Any]) -> Kind:
    kinds = get_type_hints(kind)
    return kind(**{name: _build_value(kinds[name], value) for name, value in values.items()})


def _build_value(kind: Any, value: Any) -> Any:
    """``kind`` is a group of keys, a mapping or list, or something plain."""
    kinds = [each for part in (kind, *get_args(kind)) for each in (part, *get_args(part))]
    if isinstance(value, list):
        return [date.fromisoformat(each) for each in value] if date in kinds else value
    part = next((each for each in kinds if isinstance(each, type) and issubclass(each, Part)), None)
    if part is None or not isinstance(value, dict):
        return value
    if get_origin(kind) is dict:
        return {key: _build_part(part, each) for key, each in value.items()}
    return _build_part(part, value)
