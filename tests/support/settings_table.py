"""The tables of docs/configuration.md and docs/settings.md, held to the settings: ``make docs``.

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

DOCS = Path(__file__).parents[2] / "docs"
PAGES = DOCS / "configuration.md", DOCS / "settings.md"


def complete_tables(chosen: str, others: str) -> tuple[str, str]:
    """Both pages with a row for each key. A new one goes to the second page, after the last key
    before it in the model that has its row there."""
    pages = chosen.splitlines(), others.splitlines()
    before = next(n for n, line in enumerate(pages[1]) if line.startswith("|---"))
    for key, value in load_settings({}).flatten_values().items():
        rows = [(lines, n) for lines in pages for n in find_rows(lines, key)]
        assert len(rows) < 2, f"two rows of {key}"
        if not rows:
            before += 1
            meaning = " ".join(find_text(key).split())
            pages[1].insert(before, f"| {format_key(key, value)} | {meaning} |")
            continue
        [(lines, at)] = rows
        cell, rest = lines[at].removeprefix("| ").split(" | ", 1)
        if not is_default(key, cell, value):
            lines[at] = f"| {format_key(key, value)} | {rest}"
        before = at if lines is pages[1] else before
    return "\n".join(pages[0]) + "\n", "\n".join(pages[1]) + "\n"


def find_rows(lines: list[str], key: str) -> list[int]:
    """The numbers of a key's rows."""
    return [n for n, line in enumerate(lines) if line.startswith((f"| `{key}` |", f"| `{key}: "))]


def is_default(key: str, cell: str, value: Any) -> bool:
    """True where what the cell shows, set as a user would set it, is the default."""
    shown = re.fullmatch(f"`{re.escape(key)}: (.+)`", cell)
    if not shown:
        return cell == format_key(key, value)
    try:
        return bool(load_settings({}, None, {key: shown[1]}).flatten_values()[key] == value)
    except NightshiftError:
        return False


def format_key(key: str, value: Any) -> str:
    """A key with its default as a user would set it."""
    if value is None or value in ([], {}):
        return f"`{key}`"
    listed = isinstance(value, list) and not any("*" in each for each in value)
    plain = ", ".join(value) if listed else value
    return f"`{key}: {plain if isinstance(plain, str) else json.dumps(plain)}`"


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
    texts = complete_tables(*(page.read_text(encoding="utf-8") for page in PAGES))
    for page, text in zip(PAGES, texts, strict=True):
        page.write_text(text, encoding="utf-8")
