"""The documentation names what there is: every key, every code, every command."""

import re
from pathlib import Path

from gitlab_nightshift.arguments import parser
from gitlab_nightshift.errors import EXIT_STATUS
from gitlab_nightshift.records import Outcome
from gitlab_nightshift.settings import load_settings, waits_for

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = (*sorted(DOCS.glob("*.md")), ROOT / "README.md", ROOT / "SECURITY.md")
CONFIGURATION = (DOCS / "configuration.md").read_text(encoding="utf-8")
ERRORS = (DOCS / "errors.md").read_text(encoding="utf-8")


def is_documented(key: str) -> bool:
    """One row, which says whether the key is in force."""
    rows = [line for line in CONFIGURATION.splitlines() if line.startswith(f"| `{key}` |")]
    after = CONFIGURATION.partition("## Accepted, not yet in force")[2]
    said = [("Not yet in force" in row or row in after) for row in rows]
    return said == [bool(waits_for(key))]


def test_every_key_is_documented_with_whether_it_is_in_force() -> None:
    keys = load_settings({}).values()
    assert [key for key in keys if not is_documented(key)] == []
    assert keys


def test_every_code_is_documented_with_its_exit_status() -> None:
    rows = [f"| `{code}` | {status} |" for code, status in EXIT_STATUS.items()]
    assert [row for row in rows if row not in ERRORS] == []


def test_every_outcome_is_documented() -> None:
    assert [outcome for outcome in Outcome if f"| `{outcome}` |" not in ERRORS] == []


def test_every_named_command_exists() -> None:
    words = {
        match[1]
        for page in PAGES
        for match in re.finditer(r"`nightshift ([a-z]+)", page.read_text(encoding="utf-8"))
    }
    known = set(re.findall(r"^    (\w+)(?: |$)", parser().format_help(), re.MULTILINE))
    assert words
    assert words <= known


def test_every_link_leads_somewhere() -> None:
    links = [
        (page.name, target)
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert links == []
