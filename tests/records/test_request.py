"""A task with its flags, as people write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.request import (
    TaskCommand,
    build_pipeline_variables,
    parse_task_command,
)
from gitlab_nightshift.registry.agent_registry import list_requestable_agents
from gitlab_nightshift.settings.load import load_settings
from tests.support.tables import each


@each(
    ("text", "command"),
    [
        ("round  prices", TaskCommand("round prices")),
        ("round\n\nprices  twice\n", TaskCommand("round\nprices  twice")),
        ("--dry-run round", TaskCommand("round", dry_run=True)),
        ("round --provider codex prices", TaskCommand("round prices", provider="codex")),
        ("round --model gpt-5.2-codex", TaskCommand("round", model="gpt-5.2-codex")),
        ("round --test unit", TaskCommand("round", test_id="unit")),
        ("round --test unit -k a", TaskCommand("round", test_id="unit", test_args=("-k", "a"))),
        ("--test unit -k -- round", TaskCommand("round", test_id="unit", test_args=("-k",))),
        ("--test unit -v --dry-run round", TaskCommand("round", "", "", True, "unit", ("-v",))),
        ("round -- --test and --dry-run", TaskCommand("round --test and --dry-run")),
        ("round\n--dry-run --test x", TaskCommand("round\n--dry-run --test x")),
        ("add --verbose to the list", TaskCommand("add --verbose to the list")),
        ("a - b -k $(reboot) `id` ;", TaskCommand("a - b -k $(reboot) `id` ;")),
    ],
)
def test_words_and_flags_are_parsed(text: str, command: TaskCommand) -> None:
    assert parse_task_command(text) == command


@each(
    ("text", "why"),
    [
        ("", "there is no task"),
        (" \n ", "there is no task"),
        ("--dry-run", "there is no task"),
        ("--test unit round", "there is no task"),
        ("round --provider", "one of auto"),
        ("round --provider --dry-run", "one of auto"),
        ("round --provider gpt", "one of auto"),
        ("round --model", "a model id"),
        ("round --test", "the id of a test"),
        ("round --test --dry-run", "the id of a test"),
        ("round --test --", "the id of a test"),
        ("round --dry-run --dry-run", "twice"),
        ("round --dryrun", "did you mean --dry-run"),
        ("round --Dry-Run", "did you mean --dry-run"),
        ("round --tests unit", "did you mean --test"),
        ("round --provider=codex", "a space before"),
        ("round --model " + "x" * 201, "at most 200"),
        ("round --test a\u202eb", "visible"),
        ("x" * 20_001, "20000"),
        ("a\0b", "NUL"),
    ],
)
def test_mistakes_are_refused(text: str, why: str) -> None:
    with pytest.raises(NightshiftError, match=why) as caught:
        parse_task_command(text)
    assert caught.value.code is Code.CONFIG and "\n" not in caught.value.message


@given(st.text(max_size=300))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        command = parse_task_command(text)
    except NightshiftError:
        return
    assert command.task.strip() and command.provider in ("", *list_requestable_agents())


def test_the_variables_set_the_settings() -> None:
    command = TaskCommand("round", "codex", "big", dry_run=True, test_id="unit", test_args=("-v",))
    read = load_settings(build_pipeline_variables(command))
    assert (read.task, read.agent, read.dry_run) == ("round", "codex", True)
    assert read.task_test == "unit -v"
    assert set(vars(read.models).values()) == {"big"}


def test_only_requested_values_become_variables() -> None:
    sent = build_pipeline_variables(TaskCommand("round"))
    assert sent == {"NIGHTSHIFT": "true", "NIGHTSHIFT_TASK": "round"}
