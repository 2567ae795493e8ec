"""A saved state is read completely or refused."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gitlab_nightshift.repository.saved_state import (
    SavedCheckout,
    list_checkout,
    read_saved,
    save_checkout,
    write_saved,
)
from tests.repository.conftest import Box
from tests.repository.tools import git, write


@pytest.fixture
def saved(box: Box, tmp_path: Path) -> SavedCheckout:
    """A tracked, an absent, an ignored and an untracked file, with names that are no text."""
    write(box.root, "sparse", "x")
    git(box.root, "add", "sparse")
    git(box.root, "commit", "-q", "-m", "more")
    git(box.root, "update-index", "--skip-worktree", "sparse")
    (box.root / "sparse").unlink()
    write(box.root, os.fsdecode(b"odd\xff\n"), "untracked")
    write(box.root, "build/kept", "ignored")
    return save_checkout(box.git, box.root, list_checkout(box.git, box.root), tmp_path / "copies")


def test_a_saved_state_is_read_as_written(saved: SavedCheckout, tmp_path: Path) -> None:
    listed = replace(saved, acls={"build": {"system.posix_acl_access": b"\x02\x00"}})
    assert "sparse" in saved.tracked.keys() - saved.entries.keys()
    write_saved(tmp_path / "saved", listed)
    assert read_saved(tmp_path / "saved", saved.folder) == listed


def _change_head(lines: list[str], **changed: object) -> list[str]:
    return [json.dumps({**json.loads(lines[0]), **changed}), *lines[1:]]


def _change_last(lines: list[str], rows: str) -> list[str]:
    folder, names, _ = json.loads(lines[-1])
    return [*lines[:-1], json.dumps([folder, names, rows])]


def _rename(lines: list[str], name: str, other: str) -> list[str]:
    folders = [json.loads(line) for line in lines[1:]]
    for folder in folders:
        folder[1] = "/".join(other if part == name else part for part in folder[1].split("/"))
    return [lines[0], *map(json.dumps, folders)]


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda lines: [], "Expecting value"),
        (lambda lines: lines[:-1], "not complete"),
        (lambda lines: [*lines[:-1], lines[-1][:-3]], "Expecting|delimiter|Unterminated"),
        (lambda lines: _change_head(lines, version=4), "another version"),
        (lambda lines: _change_head(lines, copies=3), "damaged"),
        (lambda lines: ["[]", *lines[1:]], "another version"),
        (lambda lines: [*lines[:-1], "[]"], "damaged"),
        (lambda lines: [*lines[:-1], json.dumps({"a": [1, 2]})], "damaged"),
        (lambda lines: _change_last(lines, "AAAA"), "without a row"),
        (lambda lines: _change_last(lines, "?"), "base64|padding"),
        (lambda lines: _rename(lines, "README.md", ".."), "out of"),
        (lambda lines: _rename(lines, "README.md", ".git"), "out of"),
        (lambda lines: _rename(lines, "app.py", "."), "out of"),
        (lambda lines: [line.replace('["src"', '["../src"') for line in lines], "out of"),
        (lambda lines: [line.replace('["src"', '[".git/hooks"') for line in lines], "out of"),
        (lambda lines: [line.replace('["src"', '["/src"') for line in lines], "out of"),
    ],
)
def test_damage_of_any_kind_is_refused(
    saved: SavedCheckout, tmp_path: Path, damage: Callable[[list[str]], list[str]], why: str
) -> None:
    file = tmp_path / "saved"
    write_saved(file, saved)
    file.write_text("\n".join(damage(file.read_text().splitlines())))
    with pytest.raises(ValueError, match=why):
        read_saved(file, saved.folder)
