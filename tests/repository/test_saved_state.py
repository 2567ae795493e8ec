"""What was saved of a checkout, read again after a kill: as it was, or not at all."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from gitlab_nightshift.repository.saved_state import read_saved, save, write_saved
from tests.repository.conftest import Box
from tests.repository.tools import write

Change = Callable[[dict[str, Any]], object]
CHANGES: dict[str, Change] = {
    "no object": lambda _data: [],
    "an earlier version": lambda data: {**data, "version": data["version"] - 1},
    "a later version": lambda data: {**data, "version": data["version"] + 1},
    "no version": lambda data: {key: data[key] for key in data if key != "version"},
    "a part is missing": lambda data: {key: data[key] for key in data if key != "lists"},
    "a part of another kind": lambda data: {**data, "blobs": []},
    "an entry is cut off": lambda data: {**data, "entries": {"README.md": [33188]}},
    "a copy without a number": lambda data: {**data, "copies": {"mine": "../mine"}},
    "a list that is no list": lambda data: {**data, "lists": {"mine": {"posix": "no hex"}}},
    "above": lambda data: {**data, "entries": {"../mine": data["entries"]["mine"]}},
    "absolute": lambda data: {**data, "entries": {"/etc/mine": data["entries"]["mine"]}},
    "in .git": lambda data: {**data, "entries": {".git/config": data["entries"]["mine"]}},
}


def test_what_was_saved_is_read_as_it_was(box: Box) -> None:
    write(box.root, "mine", "untracked")
    folder = box.private / "copies"
    saved = save(box.git, box.root, folder)
    write_saved(box.private / "saved.json", saved)
    assert read_saved(box.private / "saved.json", folder) == saved


@pytest.mark.parametrize("about", CHANGES)
def test_what_another_program_or_hand_has_written_is_refused(box: Box, about: str) -> None:
    write(box.root, "mine", "untracked")
    path = box.private / "saved.json"
    write_saved(path, save(box.git, box.root, box.private / "copies"))
    path.write_text(json.dumps(CHANGES[about](json.loads(path.read_text()))))
    with pytest.raises(ValueError, match=r"version|damaged|int|hex"):
        read_saved(path, box.private / "copies")
