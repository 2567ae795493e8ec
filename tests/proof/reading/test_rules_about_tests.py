"""Rules that are not loaded for a change would find nothing in it."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.proof.reading import ABOUT_TESTS, load_rule, touches_tests
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, read_change
from gitlab_nightshift.registry.flag_registry import FLAGS
from tests.support.changes import corpus_repository, read_corpus
from tests.support.pairs import change_of

RULES_ABOUT_TESTS = tuple(
    load_rule(flag) for flag in FLAGS.values() if flag.rule.partition(":")[0] in ABOUT_TESTS
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


def test_rules_about_tests_find_nothing_in_changes_without_tests(tmp_path: Path) -> None:
    without_tests = 0
    for change, context in list_corpus_changes(tmp_path):
        if not touches_tests(change):
            without_tests += 1
            assert not [found for rule in RULES_ABOUT_TESTS for found in rule(change, context)]
    assert without_tests > 100


def test_every_module_about_tests_has_a_rule() -> None:
    for name in ABOUT_TESTS:
        importlib.import_module(f"gitlab_nightshift.proof.reading.{name}")
        assert any(flag.rule.startswith(f"{name}:") for flag in FLAGS.values())


@pytest.mark.parametrize(
    "path",
    [
        *("tests/test_shop.py", "shop_test.go", "shop.spec.ts", "src/lib.rs", "shop.bats"),
        *("test/helper.py", "approvals/shop.py", "snapshots/shop.js", "a.test.helper.js"),
        *("conftest.py", "README.md", "shop.c"),
    ],
)
def test_rules_about_tests_apply_to_files_that_may_contain_tests(path: str) -> None:
    assert touches_tests(change_of({path: "a = 1\n"}, {path: "a = 2\n"}))
    assert touches_tests(change_of({path: "a = 1\n" * 9}, {"shop.py": "a = 1\n" * 9}))
