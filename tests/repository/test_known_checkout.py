"""Git is asked once about a checkout, and again by a new object."""

import subprocess
from dataclasses import replace
from typing import Any

import pytest

from gitlab_nightshift.repository.git import CommitIdentity, find_paths_and_head
from gitlab_nightshift.repository.known_checkout import KnownCheckout
from tests.repository.conftest import FILES, Box
from tests.repository.tools import commit, git, write


def test_git_is_asked_only_once(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    git(box.root, "config", "core.autocrlf", "input")
    git(box.root, "config", "user.name", "Ann")
    git(box.root, "config", "user.email", "ann@example.org")
    known, starts = KnownCheckout(box.git, box.git, box.root), list[object]()
    start = subprocess.Popen.__init__

    def note(self: Any, argv: list[str], **more: Any) -> None:
        starts.append(argv)
        start(self, argv, **more)

    monkeypatch.setattr(subprocess.Popen, "__init__", note)
    for _ in range(2):
        assert known.paths_and_head[1] == box.base
        assert sorted(known.files) == sorted(FILES)
        assert known.config == {"core.autocrlf": "input", "core.fileMode": "true"}
        assert known.identity == CommitIdentity("Ann", "ann@example.org")
    assert len(starts) == 3


def test_a_new_object_sees_another_commit(box: Box) -> None:
    known = KnownCheckout(box.git, box.git, box.root)
    assert (known.paths_and_head[1], len(known.files)) == (box.base, len(FILES))
    write(box.root, "new", "x")
    head = commit(box.root)
    anew = replace(known)
    assert anew.paths_and_head == find_paths_and_head(box.git, box.root)
    assert anew.paths_and_head[1] == head and "new" in anew.files
