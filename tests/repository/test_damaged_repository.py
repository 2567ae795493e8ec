"""Missing or damaged objects of a clone give one line with what to do."""

import os
from collections.abc import Callable

import pytest

from gitlab_nightshift.commands.change_check import CheckRequest, check
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.repository import git as verbs
from gitlab_nightshift.repository.changed_files import list_changed_files
from gitlab_nightshift.repository.git import GitError, list_recent_files
from gitlab_nightshift.run.session_opening import read_config_file
from gitlab_nightshift.run_folder import Invocation
from tests.repository.conftest import Box
from tests.repository.tools import commit, git, write

ADVICE = r"^the git repository is damaged or lacks a part \(.*\): clone it anew$"


def remove_object(box: Box, name: str, spoil: bytes = b"") -> None:
    """Remove an object, or put something else in its place."""
    found = git(box.root, "rev-parse", name).strip()
    file = box.root / ".git/objects" / found[:2] / found[2:]
    file.unlink()
    if spoil:
        file.write_bytes(spoil)


def refusal(ask: Callable[[], object]) -> str:
    with pytest.raises(NightshiftError, match=ADVICE) as caught:
        ask()
    assert caught.value.code is Code.CONFIG
    return caught.value.message


def test_a_missing_commit_is_damage(box: Box) -> None:
    remove_object(box, "HEAD")
    call = Invocation({}, box.root, None, {}, False)
    for ask in (
        lambda: verbs.read_head(box.git, box.root),
        lambda: verbs.find_paths_and_head(box.git, box.root),
        lambda: read_config_file(call, box.root, box.git),
        lambda: check(CheckRequest(box.root, os.environ)),
    ):
        assert f"HEAD is {box.base[:12]}, which is not there" in refusal(ask)


@pytest.mark.parametrize("spoil", [b"", b"garbage"])
def test_an_unreadable_tree_is_damage(box: Box, spoil: bytes) -> None:
    remove_object(box, "HEAD^{tree}", spoil)
    refusal(lambda: list_changed_files(box.git, box.root))
    with pytest.raises(GitError):  # it can still be caught as a failure of git
        verbs.list_revision_files(box.git, box.root, "HEAD")


def test_a_missing_parent_is_damage(box: Box) -> None:
    write(box.root, "src/new.py", "x = 1\n")
    commit(box.root)
    remove_object(box, "HEAD~1")
    refusal(lambda: list_recent_files(box.git, box.root, 10))
    assert f"{box.base[:12]} is not there" in refusal(
        lambda: check(CheckRequest(box.root, os.environ))
    )
