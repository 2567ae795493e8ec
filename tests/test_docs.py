"""The documentation names what there is: every key, every code, every command."""

import re
from pathlib import Path

import pytest

from gitlab_nightshift.arguments import parser
from gitlab_nightshift.errors import EXIT_STATUS
from gitlab_nightshift.records import Outcome
from gitlab_nightshift.settings import load_settings, waits_for

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = (*sorted(DOCS.glob("*.md")), ROOT / "README.md", ROOT / "SECURITY.md")
CONFIGURATION = (DOCS / "configuration.md").read_text(encoding="utf-8")
ERRORS = (DOCS / "errors.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("key", load_settings({}).values())
def test_every_key_is_documented_with_whether_it_is_in_force(key: str) -> None:
    [row] = [line for line in CONFIGURATION.splitlines() if line.startswith(f"| `{key}` |")]
    after = CONFIGURATION.partition("## Accepted, not yet in force")[2]
    said = "Not yet in force" in row or row in after
    assert said == bool(waits_for(key))


@pytest.mark.parametrize(("code", "status"), EXIT_STATUS.items())
def test_every_code_is_documented_with_its_exit_status(code: str, status: int) -> None:
    assert f"| `{code}` | {status} |" in ERRORS


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_is_documented(outcome: str) -> None:
    assert f"| `{outcome}` |" in ERRORS


def test_every_named_command_exists() -> None:
    words = {
        match[1]
        for page in PAGES
        for match in re.finditer(r"`nightshift ([a-z]+)", page.read_text(encoding="utf-8"))
    }
    known = set(re.findall(r"^    (\w+)(?: |$)", parser().format_help(), re.MULTILINE))
    assert words
    assert words <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
