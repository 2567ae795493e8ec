"""The tables of docs/configuration.md, held to the settings themselves: ``make docs``.

Where a row stands, and what it says beyond the key's own text, is written by hand. That each key
has a row, and the default in it, comes from the model.
"""

import json
import re
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.settings.schema import build_schema

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
NOTHING = "–"


def complete_tables(text: str) -> str:
    """The page with a row for each key; a new one comes after the key before it in the model."""
    lines, before = text.splitlines(), ""
    for key, value in load_settings({}).flatten_values().items():
        at = find_row(lines, key)
        if at is None:
            after = find_row(lines, before)
            assert after is not None
            meaning = " ".join(find_text(key).split())
            lines.insert(after + 1, f"| `{key}` | {format_default(value)} | {meaning} |")
        else:
            _, cell, rest = lines[at].split(" | ", 2)
            if not is_default(key, cell, value):
                lines[at] = f"| `{key}` | {format_default(value)} | {rest}"
        before = key
    return "\n".join(lines) + "\n"


def find_row(lines: list[str], key: str) -> int | None:
    """The number of a key's row, None where there is none."""
    found = [n for n, line in enumerate(lines) if line.startswith(f"| `{key}` | ")]
    assert len(found) < 2, f"two rows of {key}"
    return found[0] if found else None


def is_default(key: str, cell: str, value: Any) -> bool:
    """True where what the cell shows, set as a user would set it, is the default."""
    if cell == NOTHING or not re.fullmatch("`.+`", cell):
        return cell == format_default(value)
    try:
        return bool(load_settings({}, None, {key: cell[1:-1]}).flatten_values()[key] == value)
    except NightshiftError:
        return False


def format_default(value: Any) -> str:
    """A default as a user would set it."""
    if value is None or value in ([], {}):
        return NOTHING
    listed = isinstance(value, list) and not any("*" in each for each in value)
    plain = ", ".join(value) if listed else value
    return f"`{plain if isinstance(plain, str) else json.dumps(plain)}`"


def find_text(key: str) -> str:
    """The text under a key, as the schema shows it."""
    schema = build_schema()
    part = schema
    for name in key.split("."):
        part = part["properties"][name]
        if "$ref" in part:
            part = schema["$defs"][part["$ref"].rpartition("/")[2]]
    return str(part["description"])


if __name__ == "__main__":
    PAGE.write_text(complete_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
