"""Runs that only read a checkout hold its state folder together; any other has to wait."""

import fcntl
import os
from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.repository.delegated_repository import (
    is_checkout_shared,
    restore_modes,
    restrict_access,
    share_state_folder,
)
from gitlab_nightshift.repository.state_folder import hold_state_folder, take_over


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "shop/.git").mkdir(parents=True)
    return tmp_path / "shop"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_folder_is_shared_until_the_last_run_ends(checkout: Path, tmp_path: Path) -> None:
    file, folder = checkout / ".git/config", checkout / ".git/logs"
    file.touch(0o644)
    folder.mkdir(0o755)
    first, second = share_state_folder(checkout, tmp_path), share_state_folder(checkout, tmp_path)
    for each in (first, second):
        held = each.__enter__()
        restrict_access(held.folder, [file, tmp_path / "none", folder])
        assert (mode(file), mode(folder)) == (0o600, 0o700)
    first.__exit__(None, None, None)
    assert (mode(file), mode(folder)) == (0o600, 0o700)
    for exclusive in (hold_state_folder, take_over):
        with pytest.raises(NightshiftError, match="another night runs"):
            exclusive(checkout, tmp_path)
    assert is_checkout_shared(checkout, tmp_path)
    second.__exit__(None, None, None)
    assert (mode(file), mode(folder)) == (0o644, 0o755)
    assert list(tmp_path.iterdir()) == [checkout]


def test_nobody_joins_an_exclusive_run(checkout: Path, tmp_path: Path) -> None:
    held = hold_state_folder(checkout, tmp_path)
    with (
        pytest.raises(NightshiftError, match="another night runs"),
        share_state_folder(checkout, tmp_path),
    ):
        pass
    held.close()


def test_the_next_start_after_a_kill_restores_modes(checkout: Path, tmp_path: Path) -> None:
    file = checkout / ".git/config"
    file.touch(0o644)
    held = hold_state_folder(checkout, tmp_path, shared=True)
    restrict_access(held.folder, [file])
    fcntl.flock(held.lock, fcntl.LOCK_UN)
    os.close(held.lock)
    state = take_over(checkout, tmp_path)
    assert state
    restore_modes(state.folder)
    assert mode(file) == 0o644
    os.close(state.lock)
