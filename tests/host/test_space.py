"""A full disk is noticed, told as that, and met with a reserve."""

import errno
import subprocess
from pathlib import Path

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.host.git import GitError, pristine
from gitlab_nightshift.host.space import (
    FULL_BYTES,
    RESERVE_BYTES,
    Disks,
    Reserve,
    is_full_disk,
    told_where_full,
)
from tests.support.disks import fill, small_disk


def test_a_disk_is_full_by_its_bytes_and_by_its_files(tmp_path: Path) -> None:
    with small_disk(tmp_path / "a") as full, small_disk(tmp_path / "b", "9m", 50) as crowded:
        disks = Disks((tmp_path, full, crowded))
        assert disks.full() is None
        disks.check()
        filling = fill(full)
        assert disks.full() == full
        filling.unlink()
        assert disks.full() is None
        for number in range(45):
            (crowded / str(number)).touch()
        assert disks.full() == crowded
        with pytest.raises(NightshiftError, match="no space left on the disk of") as raised:
            disks.check()
        assert raised.value.code is Code.CONFIG


def test_git_on_a_full_disk_is_known_by_its_words(tmp_path: Path) -> None:
    git = pristine(tmp_path / "home", "/usr/bin:/bin")
    with small_disk(tmp_path / "disk") as disk:
        git.run("init", "-q", "--bare", "r", cwd=disk)
        fill(disk)
        with pytest.raises(GitError) as raised:
            git.run("hash-object", "-w", "--stdin", cwd=disk / "r", stdin=b"x" * 9999)
        assert is_full_disk(raised.value)
        told = pytest.raises(NightshiftError, match=f"no space left on the disk of {disk}")
        with told, told_where_full(disk):
            raise raised.value


def test_other_failures_are_none(tmp_path: Path) -> None:
    git = pristine(tmp_path / "home", "/usr/bin:/bin")
    with pytest.raises(GitError) as raised:
        git.run("cat-file", "-e", "HEAD", cwd=tmp_path)
    assert not is_full_disk(raised.value)
    assert not is_full_disk(PermissionError(errno.EACCES, "no"))
    assert is_full_disk(OSError(errno.EDQUOT, "quota"))
    with pytest.raises(PermissionError), told_where_full(tmp_path):
        raise PermissionError(errno.EACCES, "no")


def test_the_reserve_is_real_space_and_can_be_given_up_once(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "12m") as disk:
        reserve = Reserve(disk / "reserve")
        reserve.hold()
        reserve.hold()
        used = subprocess.run(["du", "-B1", reserve.path], check=True, capture_output=True).stdout
        assert int(used.split()[0]) >= RESERVE_BYTES
        fill(disk)
        assert (reserve.release(), reserve.release()) == (True, False)
        (disk / "result").write_bytes(bytes(RESERVE_BYTES - FULL_BYTES))


def test_a_disk_without_room_for_a_reserve_goes_without(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        Reserve(disk / "reserve").hold()
        assert list(disk.iterdir()) == []
