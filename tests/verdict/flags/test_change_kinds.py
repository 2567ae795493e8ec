"""Rules that are not loaded for a change would have had nothing to say of it."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import DataObject, data, from_regex

from gitlab_nightshift.flag_registry import FLAGS
from gitlab_nightshift.verdict.flags import load_rule
from gitlab_nightshift.verdict.flags.change_kinds import ABOUT_TESTS, touches_tests, touches_tools
from gitlab_nightshift.verdict.flags.skipped_tests import find_skipped_tests
from gitlab_nightshift.verdict.flags.weaker_tests import find_loosened_tests
from gitlab_nightshift.verdict.reviewed_change import Changeset, Context, read_change
from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.tooling import line_settings, pipeline_jobs
from gitlab_nightshift.verdict.tooling.ci_checks import find_loosened_pipelines
from gitlab_nightshift.verdict.tooling.looser_settings import find_loosened_settings
from tests.support.changes import corpus_repository, read_corpus
from tests.support.pairs import change_of

RULES_ABOUT_TESTS = (
    *(load_rule(flag) for flag in FLAGS.values() if flag.rule.partition(":")[0] in ABOUT_TESTS),
    find_skipped_tests,
    find_loosened_tests,
)


def list_corpus_changes(folder: Path) -> Iterator[tuple[Changeset, Context]]:
    """Every change of the corpus, whole and file by file."""
    corpus = read_corpus()
    repository = corpus_repository(folder, corpus)
    for recorded in corpus:
        refs = (f"refs/changes/{recorded.name}/{side}" for side in ("before", "after"))
        change = read_change(repository, *refs)
        for files in (change.files, *((file,) for file in change.files)):
            yield Changeset(files, change.read, change.paths), recorded.context


def test_rules_about_tests_and_tools_say_nothing_of_what_they_are_not_loaded_for(
    tmp_path: Path,
) -> None:
    without_tests = without_tools = 0
    for change, context in list_corpus_changes(tmp_path):
        if not touches_tests(change):
            without_tests += 1
            assert not [found for rule in RULES_ABOUT_TESTS for found in rule(change, context)]
        if not touches_tools(change):
            without_tools += 1
            assert not [*find_loosened_settings(change.files), *find_loosened_pipelines(change)]
    assert min(without_tests, without_tools) > 100


def test_every_module_about_tests_has_a_rule() -> None:
    for name in ABOUT_TESTS:
        importlib.import_module(f"gitlab_nightshift.verdict.flags.{name}")
        assert any(flag.rule.startswith(f"{name}:") for flag in FLAGS.values())


@pytest.mark.parametrize(
    "path",
    [
        *("tests/test_shop.py", "shop_test.go", "shop.spec.ts", "src/lib.rs", "shop.bats"),
        *("test/helper.py", "approvals/shop.py", "snapshots/shop.js", "a.test.helper.js"),
        *("conftest.py", "README.md", "shop.c"),
    ],
)
def test_a_file_that_may_hold_tests_is_looked_at_for_tests(path: str) -> None:
    assert touches_tests(change_of({path: "a = 1\n"}, {path: "a = 2\n"}))
    assert touches_tests(change_of({path: "a = 1\n" * 9}, {"shop.py": "a = 1\n" * 9}))


@pytest.mark.parametrize("path", ["eslint.config.js", "jest.config.ts", "tox.ini", "noxfile.py"])
def test_settings_that_are_moved_away_are_looked_at(path: str) -> None:
    text = "a = 1\n" * 9
    moved = change_of({path: text}, {"src/old.js": text})
    assert touches_tools(moved)


def test_a_source_file_is_looked_at_for_what_it_says_to_a_tool() -> None:
    remarks = {
        "a.py": "# pyright: strict\n",
        "a.rb": "# typed: strict\n",
        "a.php": "<?php declare(strict_types=1);\n",
        "a.js": "// @ts-check\n",
        "b.js": "/* @flow */\n",
    }
    for path, remark in remarks.items():
        assert touches_tools(change_of({path: remark + "a = 1\n"}, {path: "a = 1\n"}))
        assert touches_tools(change_of({path: "a = 1\n"}, {path: remark + "a = 1\n"}))
        assert not touches_tools(change_of({path: "a = 1\n"}, {path: "a = 2\n"}))


@pytest.mark.parametrize(
    "file", RuleTable(line_settings.__file__).entries["file"], ids=lambda file: file["path"]
)
@settings(max_examples=20, deadline=None)
@given(data())
def test_every_file_with_a_tools_settings_is_looked_at(
    file: dict[str, Any], made: DataObject
) -> None:
    """A new row of the table may need a word in ``change_kinds.py``."""
    path, text = made.draw(from_regex(file["path"])), "a = 1\n"
    if all("raw" in row[4] for row in file["settings"]):
        text = made.draw(from_regex(re.compile(file["settings"][0][3], re.MULTILINE)))
    assert touches_tools(change_of({path: ""}, {path: text}))


@settings(max_examples=200, deadline=None)
@given(from_regex("|".join(pattern.pattern for pattern, _ in pipeline_jobs._READERS)))
def test_every_recipe_of_ci_is_looked_at(path: str) -> None:
    assert touches_tools(change_of({path: "a = 1\n"}, {path: "a = 2\n"}))
