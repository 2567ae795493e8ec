"""Every key of the contract's table with its default, and what is set but not in force."""

import datetime
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from pydantic import ValidationError

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.guidance import CATEGORY_GUIDANCE, FALLBACK_ORDER, TASK, TASK_GUIDANCE
from gitlab_nightshift.records import Outcome
from gitlab_nightshift.settings import NOT_IN_FORCE, ConfigFile, Settings, load_settings
from gitlab_nightshift.settings.load import schema
from tests.support.tables import each

OPUS, SONNET = "claude-opus-4-6", "claude-sonnet-4-6"
DEFAULTS: dict[str, Any] = {
    "enabled": True,
    "quiet_dates": [],
    "category_schedule": {
        "mon": "tests",
        "tue": "refactoring",
        "wed": "docs",
        "thu": "security",
        "fri": "performance",
    },
    "timezone": "UTC",
    "category": None,
    "categories": {},
    "security_on_public": False,
    "task": None,
    "dry_run": False,
    "paths": [],
    "exclude_paths": [],
    "agent": "auto",
    "agent_executable": None,
    "agent_env": [],
    "agent_paths": [],
    "models.analyze": OPUS,
    "models.implement": OPUS,
    "models.verify": SONNET,
    "models.mr": SONNET,
    "model_endpoint": None,
    "prices": {},
    "prompts.analyze": None,
    "prompts.implement": None,
    "prompts.verify": None,
    "prompts.mr": None,
    "variables": {},
    "allowed_commands": None,
    "verify_commands": [],
    "baseline": "required",
    "reviewer": None,
    "reviewers": [],
    "labels": None,
    "branch_prefix": "night-shift/",
    "title_template": "[night-shift/{{category}}] {{title}}",
    "commit_template": None,
    "commit_author": "host",
    "target_branch": None,
    "draft": False,
    "max_diff_lines": 100,
    "avoid_recent_commits": 10,
    "max_open_mrs.per_category": 1,
    "max_open_mrs.total": 3,
    "max_budget_usd": 10,
    "max_tokens": None,
    "bead_timeout": None,
    "idle_timeout": 600,
    "run_timeout": None,
    "max_implement_retries": 2,
    "profile": "production",
    "isolation": "auto",
    "accept_partial": [],
    "policy.gates.write": "auto_allow",
    "policy.gates.exec": "deny",
    "policy.gates.network": "deny",
    "policy.writable_paths": ["**"],
    "policy.sensitive_paths": [],
    "policy.test_commands": {},
    "policy.providers": {},
    "policy.orchestrators": [],
    "policy.confidential_issues": False,
    "policy.flags": {},
    "policy.egress_hosts": [],
    "notify": [],
    "notify_on": [outcome.value for outcome in Outcome if outcome is not Outcome.SKIPPED],
    "confluence_page_id": None,
    "log_issue": None,
    "throttle": True,
    "output_dir": "nightshift",
    "max_output": 2_000_000_000,
    "repo_url": None,
}
OUR_OWN = {"replay_dir", "record_dir", "task_test"}
"""Keys that the contract's table does not have: where a recorded night is, the test of a task."""


def test_every_key_of_the_contract_has_its_default() -> None:
    values = load_settings({}).values()
    assert {key: values[key] for key in values.keys() - OUR_OWN} == DEFAULTS
    assert {values[key] for key in OUR_OWN} == {None}


def test_all_defaults_come_from_nowhere_else() -> None:
    settings = load_settings({})
    assert {settings.source(key) for key in settings.values()} == {"default"}
    assert settings.waiting == ()


def test_the_schema_shows_every_key_and_its_meaning() -> None:
    shown = schema()
    keys = {key.partition(".")[0] for key in DEFAULTS}
    assert set(shown["properties"]) == keys | OUR_OWN | {"code_agent"}
    assert shown["additionalProperties"] is False
    groups = [shown, *shown["$defs"].values()]
    parts = [part for group in groups for part in group["properties"].values()]
    assert all("description" in part or "$ref" in part for part in parts)


FILES = [
    "idle_timeout: 10m\nmax_output: 500MB\nbead_timeout: 90",
    "code_agent: {models: {verify: x}}",
    "category_schedule: {mon: docs}\nquiet_dates: ['2025-12-24']",
    "policy: {test_commands: {unit: {command: [make]}}}",
]


@each("text", FILES)
def test_what_the_schema_takes_is_taken(text: str) -> None:
    jsonschema.validate(yaml.safe_load(text), schema())
    load_settings({}, ConfigFile("nightshift.yaml", text))


@each("text", ["max_diff: 3", "agent: gpt", "code_agent: {max_diff: 3}"])
def test_what_the_schema_refuses_is_refused(text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), schema())
    with pytest.raises(NightshiftError):
        load_settings({}, ConfigFile("nightshift.yaml", text))


def test_settings_do_not_change() -> None:
    settings = load_settings({})
    with pytest.raises(ValidationError, match="frozen"):
        settings.dry_run = True
    with pytest.raises(ValidationError, match="frozen"):
        settings.models.verify = "x"


def test_categories_are_the_fixed_five_and_the_teams_own() -> None:
    settings = Settings(categories={"a11y": "Look for missing labels."})
    assert settings.known_categories == (*FALLBACK_ORDER, "a11y", TASK)
    own = {"a11y": "Look for missing labels."}
    assert settings.guidance == {**CATEGORY_GUIDANCE, TASK: TASK_GUIDANCE, **own}


NOT_YET: dict[str, str] = {
    "notify": "notify: ['ntfys://topic']",
    "notify_on": "notify_on: [FAILED]",
    "confluence_page_id": "confluence_page_id: 12345",
    "log_issue": "log_issue: 7",
    "throttle": "throttle: false",
}


@each(("key", "text"), NOT_YET.items())
def test_a_key_that_waits_is_told_when_it_is_set(key: str, text: str) -> None:
    assert load_settings({}, ConfigFile("nightshift.yaml", text)).waiting == (key,)


def test_every_waiting_key_is_tried_above() -> None:
    assert NOT_YET.keys() == NOT_IN_FORCE.keys()


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
    ("flags", "told"),
    [
        ("binary-files: off", "no red flag has this name; did you mean binary-file?"),
        ("nonsense: off", "no red flag has this name; docs/checks.md lists them"),
        ("binary-file: false-ish", "policy.flags.binary-file: should be 'fail', 'warn' or 'off'"),
        ("binary-file: yes", "policy.flags.binary-file: should be 'fail', 'warn' or 'off'"),
    ],
)
def test_a_mistake_in_a_flag_is_told_with_its_line(flags: str, told: str) -> None:
    text = f"policy:\n  flags:\n    {flags}\n"
    with pytest.raises(NightshiftError) as error:
        load_settings({}, ConfigFile("nightshift.yaml", text))
    assert error.value.message.startswith("nightshift.yaml:3: policy.flags.")
    assert told in error.value.message


def test_a_waiting_key_is_told_wherever_it_was_set() -> None:
    settings = load_settings(
        {"NIGHTSHIFT_THROTTLE": "false", "NIGHTSHIFT_CATEGORY": "docs"}, None, {"log_issue": "7"}
    )
    assert settings.waiting == ("log_issue", "throttle")
    assert load_settings({"NIGHTSHIFT_THROTTLE": ""}).waiting == ()


def test_dates_are_dates() -> None:
    file = ConfigFile("f", "quiet_dates: [2025-12-24, '2026-01-01']")
    days = [datetime.date(2025, 12, 24), datetime.date(2026, 1, 1)]
    assert load_settings({}, file).quiet_dates == days
    in_variable = {"NIGHTSHIFT_QUIET_DATES": "2025-12-24,2026-01-01"}
    assert load_settings(in_variable).quiet_dates == days
