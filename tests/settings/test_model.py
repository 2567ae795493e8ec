"""Every key with its default and its text."""

import datetime
import os
import re
import shutil
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

import gitlab_nightshift
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.registry.categories import (
    CATEGORY_GUIDANCE,
    FALLBACK_ORDER,
    TASK,
    TASK_GUIDANCE,
)
from gitlab_nightshift.settings.config_file import ConfigFile
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.schema import build_schema
from tests.support.settings_table import PAGES, complete_tables
from tests.support.tables import each

PACKAGE = Path(gitlab_nightshift.__file__).parent
NEW_FIELD = """    toy_limit: int = 3
    \"\"\"Toys that a night may leave.\"\"\"
"""


def read_pages() -> tuple[str, str]:
    """The page of the settings that most teams use, and the one of all others."""
    chosen, others = (page.read_text(encoding="utf-8") for page in PAGES)
    return chosen, others


def test_the_pages_show_each_key_with_its_default() -> None:
    texts = read_pages()
    assert complete_tables(*texts) == texts, "make docs mends it"
    rows = re.findall(r"^\| `([a-z_.]+)[:`]", "".join(texts), re.MULTILINE)
    assert sorted(rows) == sorted(load_settings({}).flatten_values())


@pytest.mark.parametrize("wrong", ["20", "–", "ten"])
@pytest.mark.parametrize(
    ("number", "row", "corrected"),
    [
        (0, "| `max_diff_lines: {}` |", "| `max_diff_lines: 100` |"),
        (1, "| `idle_timeout: {}` |", "| `idle_timeout: 600.0` |"),
    ],
)
def test_a_wrong_default_on_a_page_is_corrected(
    number: int, row: str, corrected: str, wrong: str
) -> None:
    texts = list(read_pages())
    right = next(each for each in ("10m", "100") if row.format(each) in texts[number])
    texts[number] = texts[number].replace(row.format(right), row.format(wrong))
    assert corrected in complete_tables(*texts)[number]


def test_a_new_field_is_a_setting(tmp_path: Path) -> None:
    """In a copy of the package, it can be set, and is shown and documented."""
    shutil.copytree(PACKAGE, tmp_path / "gitlab_nightshift", ignore=shutil.ignore_patterns("*.pyc"))
    model = tmp_path / "gitlab_nightshift/settings/model.py"
    field = "    reviewer: Reviewer | None = None\n"
    model.write_text(model.read_text("utf-8").replace(field, NEW_FIELD + field), encoding="utf-8")
    shown = run_copy(
        tmp_path, "from gitlab_nightshift import cli; cli.run(['config', 'show', '--all'], {})"
    )
    assert re.search(r"^toy_limit +3 +default$", shown, re.MULTILINE)
    env = "{'NIGHTSHIFT_TOY_LIMIT': '4'}"
    shown = run_copy(
        tmp_path, f"from gitlab_nightshift import cli; cli.run(['config', 'show'], {env})"
    )
    assert re.search(r"^toy_limit +4 +variable NIGHTSHIFT_TOY_LIMIT$", shown, re.MULTILINE)
    complete = "from tests.support.settings_table import PAGES, complete_tables as complete"
    texts = "(page.read_text('utf-8') for page in PAGES)"
    page = run_copy(tmp_path, f"{complete}; print(complete(*{texts})[1])")
    assert "| `toy_limit: 3` | Toys that a night may leave. |" in page.splitlines()


def run_copy(folder: Path, program: str) -> str:
    """The output of a program that imports the package from ``folder``."""
    env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{PACKAGE.parent}"}
    argv = [sys.executable, "-B", "-c", program]
    process = subprocess.run(argv, env=env, cwd=folder, check=False, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_the_source_of_defaults() -> None:
    settings = load_settings({})
    assert {settings.find_source(key) for key in settings.flatten_values()} == {"default"}


def test_the_schema_shows_every_key_and_its_meaning() -> None:
    schema = build_schema()
    keys = {key.partition(".")[0] for key in load_settings({}).flatten_values()}
    assert set(schema["properties"]) == keys | {"code_agent"}
    assert schema["additionalProperties"] is False
    groups = [schema, *schema["$defs"].values()]
    keys_of_groups = [key for group in groups for key in group["properties"].values()]
    assert all("description" in key or "$ref" in key for key in keys_of_groups)


FILES = [
    "idle_timeout: 10m\nmax_output: 500MB\nbead_timeout: 90",
    "code_agent: {models: {verify: x}}",
    "category_schedule: {mon: docs}\nquiet_dates: ['2025-12-24']",
    "policy: {test_commands: {unit: {command: [make]}}}",
]


@each("text", FILES)
def test_files_that_the_schema_accepts_are_loaded(text: str) -> None:
    jsonschema.validate(yaml.safe_load(text), build_schema())
    load_settings({}, ConfigFile("nightshift.yaml", text))


@each("text", ["max_diff: 3", "agent: gpt", "code_agent: {max_diff: 3}"])
def test_files_that_the_schema_refuses_are_refused(text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), build_schema())
    with pytest.raises(NightshiftError):
        load_settings({}, ConfigFile("nightshift.yaml", text))


def test_settings_are_immutable() -> None:
    settings = load_settings({})
    with pytest.raises(FrozenInstanceError):
        settings.dry_run = True  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        settings.models.verify = "x"  # type: ignore[misc]


def test_categories_are_the_built_in_and_the_teams_own() -> None:
    settings = Settings(categories={"a11y": "Look for missing labels."})
    assert settings.known_categories == (*FALLBACK_ORDER, "a11y", TASK)
    own = {"a11y": "Look for missing labels."}
    assert settings.guidance == {**CATEGORY_GUIDANCE, TASK: TASK_GUIDANCE, **own}


def test_a_flag_is_set_by_its_name() -> None:
    """``off`` without quotes is False in YAML."""
    text = "policy: {flags: {recent-file: off, binary-file: warn, broken-link: 'fail'}}"
    settings = load_settings({}, ConfigFile("nightshift.yaml", text))
    assert settings.policy.flags == {
        "recent-file": "off",
        "binary-file": "warn",
        "broken-link": "fail",
    }
    in_variable = {"NIGHTSHIFT_POLICY__FLAGS": '{"recent-file": "off"}'}
    assert load_settings(in_variable).policy.flags == {"recent-file": "off"}


@each(
    ("flags", "expected"),
    [
        ("binary-files: off", "no red flag has this name; did you mean binary-file?"),
        ("nonsense: off", "no red flag has this name; nightshift check --explain all lists them"),
        ("binary-file: false-ish", "policy.flags.binary-file: should be 'fail', 'warn' or 'off'"),
        ("binary-file: yes", "policy.flags.binary-file: should be 'fail', 'warn' or 'off'"),
    ],
)
def test_a_mistake_in_a_flag_has_its_line(flags: str, expected: str) -> None:
    text = f"policy:\n  flags:\n    {flags}\n"
    with pytest.raises(NightshiftError) as error:
        load_settings({}, ConfigFile("nightshift.yaml", text))
    assert error.value.message.startswith("nightshift.yaml:3: policy.flags.")
    assert expected in error.value.message


@pytest.mark.parametrize(
    ("text", "expected"), [("off", "off"), ("auto", "auto"), ("7", 7), ("'7'", 7)]
)
def test_valid_values_of_log_issue(text: str, expected: str | int) -> None:
    settings = load_settings({}, ConfigFile("nightshift.yaml", f"log_issue: {text}\n"))
    assert settings.log_issue == expected


@pytest.mark.parametrize("text", ["0", "on", "all", "-1"])
def test_invalid_values_of_log_issue(text: str) -> None:
    with pytest.raises(NightshiftError, match="log_issue"):
        load_settings({}, ConfigFile("nightshift.yaml", f"log_issue: {text}\n"))


def test_dates_are_dates() -> None:
    file = ConfigFile("f", "quiet_dates: [2025-12-24, '2026-01-01']")
    days = [datetime.date(2025, 12, 24), datetime.date(2026, 1, 1)]
    assert load_settings({}, file).quiet_dates == days
    in_variable = {"NIGHTSHIFT_QUIET_DATES": "2025-12-24,2026-01-01"}
    assert load_settings(in_variable).quiet_dates == days
