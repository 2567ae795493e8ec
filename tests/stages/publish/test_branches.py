"""Branch names are safe for git, whatever was suggested."""

import re
import subprocess
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitlab_nightshift.gitlab.project import find_matching_pattern
from gitlab_nightshift.stages.publish.branches import (
    EXTREME_SLUGS,
    LONGEST_SLUG,
    build_slug,
    list_branch_names,
)


@given(st.text(max_size=200))
def test_any_slug_is_a_name(text: str) -> None:
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,58}[a-z0-9])?", build_slug(text))


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=80))
def test_git_accepts_every_slug(text: str) -> None:
    name = next(list_branch_names("night-shift/", build_slug(text)))
    command = ["git", "check-ref-format", "--branch", name]
    subprocess.run(command, capture_output=True, check=True)


@pytest.mark.parametrize(
    ("suggestions", "expected"),
    [
        (("Add tests for Parser",), "add-tests-for-parser"),
        (("../../main",), "main"),
        (("-rf --force",), "rf-force"),
        (("x.lock",), "x-lock"),
        (("Größe prüfen",), "groe-prufen"),
        (("日本", "the title"), "the-title"),
        (("", "  ", "!!"), "change"),
        (("refs/heads/a..b~1^{}@{0}:x?*[\\",), "refs-heads-a-b-1-0-x"),
        (("a" * 80,), "a" * 60),
        (("word " * 20,), "-".join(["word"] * 12)),
    ],
)
def test_slug(suggestions: tuple[str, ...], expected: str) -> None:
    assert build_slug(*suggestions) == expected


def test_suffixes() -> None:
    assert list(islice(list_branch_names("n/", "x"), 3)) == ["n/x", "n/x-2", "n/x-3"]


@pytest.mark.parametrize(
    ("branch", "patterns", "found"),
    [
        ("night-shift/x", ("main",), None),
        ("night-shift/x", ("main", "night-*"), "night-*"),
        ("night-shift/x/y", ("night-shift/*",), "night-shift/*"),
        ("night-shift/x", ("*",), "*"),
        ("night-shift/x", ("night.shift/x",), None),
        ("night-shift/x", ("night-shift/x",), "night-shift/x"),
        ("night-shift/x", ("shift/*",), None),
    ],
)
def test_protected(branch: str, patterns: tuple[str, ...], found: str | None) -> None:
    assert find_matching_pattern(branch, patterns) == found


def test_no_name_is_shorter_or_longer_than_those_that_push_rules_are_tried_with() -> None:
    shortest, longest = EXTREME_SLUGS
    assert build_slug(shortest) == shortest
    *_, last = list_branch_names("", build_slug("improve it " * 20))
    assert len(list(list_branch_names("", "a" * LONGEST_SLUG))[-1]) == len(longest) >= len(last)
