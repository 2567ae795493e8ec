"""The table of fleet.yaml in docs/fleet.md, made from the code: ``make docs``."""

import dataclasses
import datetime as dt
import json
import re
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from gitlab_nightshift.fleet import fleet_settings
from gitlab_nightshift.fleet.fleet_settings import FleetBudget, FleetSettings
from gitlab_nightshift.settings.schema import add_descriptions
from gitlab_nightshift.settings.setting_groups import SettingsGroup

PAGE = Path(__file__).parents[2] / "docs/fleet.md"
BEGIN, END = "<!-- fleet.yaml: made by `make docs` -->", "<!-- /fleet.yaml -->"
REQUIRED = "required"
INNER: dict[str, type[SettingsGroup]] = {"window": fleet_settings.Window, "budget": FleetBudget}


def render_table() -> str:
    """A row for each key, in the order of the code."""
    schema = TypeAdapter(FleetSettings).json_schema()
    kinds = {**schema["$defs"], "FleetSettings": schema}
    add_descriptions(kinds, fleet_settings)
    rows = ["| key and default | meaning |", "|---|---|"]
    for name, shown in schema["properties"].items():
        kind = INNER.get(name)
        for key, text, default in (
            _list_inner(name, kind, kinds) if kind else [_read(name, shown, FleetSettings)]
        ):
            rows.append(f"| {_format_key(key, default)} | {' '.join(text.split())} |")
    return "\n".join(rows)


def _format_key(key: str, default: str) -> str:
    return f"`{key}` ({default})" if default == REQUIRED else f"`{key}{default and ': '}{default}`"


def _list_inner(name: str, kind: type[SettingsGroup], kinds: Any) -> list[tuple[str, str, str]]:
    shown = kinds[kind.__name__]["properties"]
    rows = (_read(key, shown[key], kind) for key in shown)
    return [(f"{name}.{key}", text, default) for key, text, default in rows]


def _read(key: str, shown: Any, kind: type[SettingsGroup]) -> tuple[str, str, str]:
    """The key, its text, and its default as a user would set it."""
    [field] = [each for each in dataclasses.fields(kind) if each.name == key]
    value = field.default
    if value is dataclasses.MISSING:
        made = field.default_factory
        required = made is dataclasses.MISSING
        return key, shown["description"], REQUIRED if required else ""
    if isinstance(value, dt.time):
        return key, shown["description"], f"{value:%H:%M}"
    plain = value if isinstance(value, str) else json.dumps(value)
    return key, shown["description"], plain if value not in (None, "") else ""


def complete_page(text: str) -> str:
    """The page with the table of today."""
    return re.sub(rf"{BEGIN}.*?{END}", f"{BEGIN}\n{render_table()}\n{END}", text, flags=re.S)


if __name__ == "__main__":
    PAGE.write_text(complete_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
