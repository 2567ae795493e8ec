"""The walk for private files, in planted trees."""

import os
import socket
from pathlib import Path

import pytest

from gitlab_nightshift.sandbox import private_files
from gitlab_nightshift.sandbox.private_files import PrivatePaths, find_private, is_private

ME, OTHER = 1000, 1001


def plant(path: Path, mode: int = 0o644) -> Path:
    """A file of a mode; the folders above are public."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    path.chmod(mode)
    return path


def found(top: Path, **limits: object) -> tuple[set[str], set[str]]:
    """What is private and what is cut, below ``top``."""
    private = find_private([str(top)], **limits)  # type: ignore[arg-type]
    return tuple({path.removeprefix(f"{top}/") for path in each} for each in vars(private).values())  # type: ignore[return-value]


def test_what_not_everybody_may_read_is_found_at_any_depth(tmp_path: Path) -> None:
    plant(tmp_path / "tool/bin/tool", 0o755)
    plant(tmp_path / "tool/etc/deep/key", 0o600)
    plant(tmp_path / "tool/for-the-group", 0o640)
    plant(tmp_path / "tool/only-run", 0o711)
    plant(tmp_path / "top-key", 0o600)
    plant(tmp_path / "closed/inside").parent.chmod(0o700)
    plant(tmp_path / "to-pass/inside").parent.chmod(0o711)
    private = {"tool/etc/deep/key", "tool/for-the-group", "tool/only-run", "top-key"}
    assert found(tmp_path) == ({*private, "closed", "to-pass"}, set())


def test_a_socket_and_a_pipe_are_private_and_a_link_is_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o666)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        (tmp_path / "link").symlink_to("/root")
        (tmp_path / "loop").symlink_to(".")
        assert found(tmp_path) == ({"pipe", "socket"}, set())


def test_a_second_name_is_private_too(tmp_path: Path) -> None:
    key = plant(tmp_path / "a/key", 0o600)
    (tmp_path / "b").mkdir()
    (tmp_path / "b/name").hardlink_to(key)
    assert found(tmp_path)[0] == {"a/key", "b/name"}


@pytest.mark.parametrize(
    ("mode", "owner", "private"),
    [
        (0o100600, ME, True),
        (0o100000, ME, True),  # its owner may change the mode
        (0o100600, OTHER, False),  # the kernel keeps it closed
        (0o100640, OTHER, True),  # a group of mine, or an access control list
        (0o100644, ME, False),
        (0o104711, ME, True),
        (0o040755, ME, False),
        (0o042775, OTHER, False),
        (0o042770, OTHER, True),
        (0o040751, ME, True),
        (0o040754, ME, True),
        (0o140777, OTHER, True),
    ],
)
def test_private_is_what_i_may_read_and_not_everybody(mode: int, owner: int, private: bool) -> None:
    status = os.stat_result((mode, 0, 0, 1, owner, 0, 0, 0, 0, 0))
    assert is_private(status, ME) is private


def test_a_tree_that_is_too_large_is_cut_as_a_whole(tmp_path: Path) -> None:
    """What was found in it before is no news; small trees are looked through all the same."""
    for number in range(60):
        plant(tmp_path / f"large/{number}/file")
    plant(tmp_path / "small/a/b/key", 0o600)
    assert found(tmp_path, limit=80) == ({"small/a/b/key"}, {"large"})
    assert found(tmp_path, limit=400) == ({"small/a/b/key"}, set())


def test_one_huge_folder_is_not_read_to_its_end(tmp_path: Path) -> None:
    for number in range(300):
        plant(tmp_path / f"flat/{number}")
    assert found(tmp_path, limit=100) == (set(), {"flat"})
    assert find_private([str(tmp_path / "flat")], limit=100) == PrivatePaths(
        (), (f"{tmp_path}/flat",)
    )


def test_a_tree_that_is_needed_is_looked_through_whatever_its_size(tmp_path: Path) -> None:
    for number in range(60):
        plant(tmp_path / f"python/{number}/file")
    plant(tmp_path / "python/lib/key", 0o600)
    needed = [str(tmp_path / "python/lib")]
    assert found(tmp_path, limit=20, whole=needed) == ({"python/lib/key"}, set())


def test_after_the_time_is_up_all_is_cut(tmp_path: Path) -> None:
    plant(tmp_path / "a/key", 0o600)
    assert found(tmp_path, longest_s=-1.0) == (set(), {str(tmp_path)})


def test_a_tree_of_private_files_is_one_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_files, "MOST_IN_A_TREE", 3)
    for number in range(5):
        plant(tmp_path / f"sdk/{number}/key", 0o600)
    for number in range(3):
        plant(tmp_path / f"tool/{number}", 0o600)
    assert found(tmp_path)[0] == {"sdk", "tool/0", "tool/1", "tool/2"}


def test_what_is_skipped_is_not_looked_at(tmp_path: Path) -> None:
    plant(tmp_path / "lib/key", 0o600)
    plant(tmp_path / "src/key", 0o600)
    assert found(tmp_path, skip=[str(tmp_path / "lib")])[0] == {"src/key"}
