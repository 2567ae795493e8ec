"""A full disk is detected and reported."""

import errno
from pathlib import Path
from types import SimpleNamespace

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.repository import disk_space
from gitlab_nightshift.repository.disk_space import Disks, DiskWatch, is_full_disk, report_full_disk
from gitlab_nightshift.repository.git import GitError, build_isolated_git
from tests.support.disks import fill, small_disk


def test_a_disk_without_free_bytes_or_inodes_is_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "a") as full, small_disk(tmp_path / "b", "9m", 50) as crowded:
        disks = Disks((tmp_path, full, crowded))
        assert disks.find_full() is None
        disks.check()
        filling = fill(full)
        assert disks.find_full() == full
        filling.unlink()
        assert disks.find_full() is None
        for number in range(45):
            (crowded / str(number)).touch()
        assert disks.find_full() == crowded
        with pytest.raises(NightshiftError, match="no space left on the disk of") as raised:
            disks.check()
        assert raised.value.code is Code.CONFIG


def test_a_full_disk_is_recognized_by_gits_message(tmp_path: Path) -> None:
    git = build_isolated_git(tmp_path / "home", "/usr/bin:/bin")
    with small_disk(tmp_path / "disk") as disk:
        git.run("init", "-q", "--bare", "r", cwd=disk)
        fill(disk)
        with pytest.raises(GitError) as raised:
            git.run("hash-object", "-w", "--stdin", cwd=disk / "r", stdin=b"x" * 9999)
        assert is_full_disk(raised.value)
        raises = pytest.raises(NightshiftError, match=f"no space left on the disk of {disk}")
        with raises, report_full_disk(disk):
            raise raised.value


def test_other_errors_are_no_full_disk(tmp_path: Path) -> None:
    git = build_isolated_git(tmp_path / "home", "/usr/bin:/bin")
    with pytest.raises(GitError) as raised:
        git.run("cat-file", "-e", "HEAD", cwd=tmp_path)
    assert not is_full_disk(raised.value)
    assert not is_full_disk(PermissionError(errno.EACCES, "no"))
    assert is_full_disk(OSError(errno.EDQUOT, "quota"))
    with pytest.raises(PermissionError), report_full_disk(tmp_path):
        raise PermissionError(errno.EACCES, "no")


def test_quotas_are_checked_every_few_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check of quotas makes a file; a full disk is detected by every check."""
    now, looks, full = [0.0], [0], [False]

    def look(_folder: Path) -> bool:
        looks[0] += 1
        return full[0]

    monkeypatch.setattr(disk_space, "_is_quota_exceeded", look)
    monkeypatch.setattr(disk_space, "time", SimpleNamespace(monotonic=lambda: now[0]))
    watch = DiskWatch(Disks((tmp_path,)))
    assert [watch.find_full() for _ in range(50)] == [None] * 50
    assert looks == [0]
    now[0] += disk_space.QUOTA_S
    assert [watch.find_full() for _ in range(50)] == [None] * 50
    assert looks == [1]
    full[0] = True
    now[0] += disk_space.QUOTA_S
    assert watch.find_full() == tmp_path
    monkeypatch.setattr(disk_space, "FULL_BYTES", 1 << 62)
    assert watch.find_full() == tmp_path
