"""A checkout that one process prepares and another opens: the second has no say in its end."""

import json
import os
from pathlib import Path

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.repository.checkout import open_prepared
from gitlab_nightshift.repository.git_mask import move_git
from gitlab_nightshift.repository.prepared_checkout import PreparedCheckout, prepare_checkout
from gitlab_nightshift.repository.repair import repair
from gitlab_nightshift.repository.state_folder import LockedStateFolder, hold
from tests.repository.conftest import Box
from tests.repository.tools import git, gone, listing, write


def prepared(box: Box) -> tuple[LockedStateFolder, PreparedCheckout]:
    held = hold(box.root, box.private.parent)
    made = prepare_checkout(
        held, box.root, git=box.git, machine=box.git, output_dir="nightshift", run_id="4711"
    )
    return held, made


def restore(box: Box, held: LockedStateFolder) -> list[str]:
    """What whoever has prepared it does, and what that reports."""
    told: list[str] = []
    held.close()
    repair(
        box.root,
        private=box.private.parent / "private",
        search_path=os.environ["PATH"],
        just_now=True,
        warn=told.append,
    )
    return told


@pytest.mark.parametrize("way", ["mounted", "moved by who opens it", "moved before"])
def test_it_is_opened_from_what_is_told(box: Box, way: str) -> None:
    write(box.root, "build/kept", "ignored")
    write(box.root, "mine", "untracked")
    before = listing(box.root, git_too=True)
    held, made = prepared(box)
    if way == "moved before":
        move_git(box.root, held.folder)
    data = json.loads(json.dumps(made.to_data()))
    again = PreparedCheckout.from_data(data, moved=way == "moved before")
    assert again.saved == made.saved
    assert (again.place, again.config, again.base_sha) == (made.place, made.config, box.base)

    with open_prepared(
        again,
        private=box.private,
        search_path=os.environ["PATH"],
        warn=box.warnings.append,
        mounting=way == "mounted",
    ) as checkout:
        write(box.root, "README.md", "agent\n")
        write(box.root, "build/kept", "agent")
        gone(box.root, "mine")
        captured = checkout.capture()
        assert b"+agent" in captured.patch
        assert checkout.apply_change(captured) == ()
        assert (box.root / "build/kept").read_text() == "ignored"
        assert (held.folder / "git/HEAD").exists() == (way != "mounted")
        write(box.root, "new", "left behind")
    assert (box.root / "new").exists(), "who opens it puts nothing back"
    assert box.warnings == restore(box, held) == []
    assert listing(box.root, git_too=True) == before
    assert box.beside == set()


def test_what_cannot_be_put_back_is_told(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitlab_nightshift.repository.saved_state.COPIED_BYTES", 10)
    write(box.root, "build/large", "x" * 100)
    held, made = prepared(box)
    with open_prepared(
        made, private=box.private, search_path=os.environ["PATH"], warn=box.warnings.append
    ):
        write(box.root, "build/large", "agent")
    assert restore(box, held) == ["could not be put back: build/large"]
    assert git(box.root, "status", "--porcelain") == ""
    assert box.beside == set()


def test_only_a_clean_checkout_is_taken(box: Box) -> None:
    write(box.root, "README.md", "mine\n")
    held = hold(box.root, box.private.parent)
    with pytest.raises(NightshiftError, match="local changes") as caught:
        prepare_checkout(
            held, box.root, git=box.git, machine=box.git, output_dir="nightshift", run_id="1"
        )
    assert caught.value.code is Code.WORKSPACE_DIRTY
    held.close()
    assert box.beside == set()


def test_what_nobody_has_opened_is_let_go(box: Box, tmp_path: Path) -> None:
    before = listing(box.root, git_too=True)
    held, _ = prepared(box)
    held.close()
    held.close()
    assert box.beside == set()
    assert listing(box.root, git_too=True) == before
    assert not list(tmp_path.glob("gitlab-nightshift-*"))
