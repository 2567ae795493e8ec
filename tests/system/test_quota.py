"""A used-up quota counts as a full disk, although the file system reports free space."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.repository import state_folder
from gitlab_nightshift.repository.checkout import open_checkout
from gitlab_nightshift.repository.disk_space import Disks
from gitlab_nightshift.system import disk_reserve
from tests.repository.tools import git, repository
from tests.support.disks import fill

BIG = b"x" * 2_000_000


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Path]:
    """A folder with a quota of 12 MB, on a disk with space for more."""
    image, disk = tmp_path / "image", tmp_path / "disk"
    image.touch()
    os.truncate(image, 120_000_000)
    disk.mkdir()
    steps = (
        ("mkfs.btrfs", "-q", str(image)),
        ("mount", "-o", "loop", str(image), str(disk)),
        ("btrfs", "quota", "enable", str(disk)),
        ("btrfs", "subvolume", "create", str(disk / "limited")),
        ("btrfs", "qgroup", "limit", "12M", str(disk / "limited")),
    )
    try:
        for argv in steps:
            program = shutil.which(argv[0])
            if not program or subprocess.run(argv, check=False, capture_output=True).returncode:
                pytest.skip(f"quotas do not work here: {argv[0]} {argv[1]}")
        yield disk / "limited"
    finally:
        subprocess.run(["umount", str(disk)], check=False, capture_output=True)


def test_a_used_up_quota_is_a_full_disk(limited: Path) -> None:
    before = limited.stat().st_mtime_ns
    assert Disks((limited,)).find_full() is None
    assert (list(limited.iterdir()), limited.stat().st_mtime_ns) == ([], before), "no trace"
    filling = fill(limited)
    status = os.statvfs(limited)
    assert status.f_bavail * status.f_frsize > 10 * disk_reserve.FULL_BYTES, "the control"
    assert Disks((limited,)).find_full() == limited
    filling.unlink()
    os.sync()
    assert Disks((limited,)).find_full() is None


@pytest.mark.parametrize("name", ["tracked", "new", ".git/junk"])
def test_a_checkout_is_restored_with_a_used_up_quota(
    limited: Path, tmp_path: Path, name: str
) -> None:
    root, private = limited / "shop", Path(tempfile.mkdtemp(dir=tmp_path))
    repository(root, {"tracked": BIG, "src/deep/a": "a"})
    (root / "untracked").write_bytes(BIG)
    path = os.environ["PATH"]
    with open_checkout(
        root, output_dir="nightshift", private=private, search_path=path, run_id="1", warn=print
    ) as checkout:
        (root / "untracked").write_bytes(b"")
        shutil.rmtree(root / "src")
        fill(root, name)
        assert checkout.restore() == ()
        names = [".git", "src", "tracked", "untracked"]
        assert sorted(path.name for path in root.iterdir()) == names
        assert (root / "src/deep/a").read_text() == "a"
        assert (root / "tracked").read_bytes() == (root / "untracked").read_bytes() == BIG
        fill(root, name)
    assert git(root, "status", "--porcelain", "-uno") == ""
    assert list(limited.iterdir()) == [root]


def test_without_a_reserve_the_real_git_is_not_restored(
    limited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: with a used-up quota nothing can be renamed either."""
    monkeypatch.setattr(state_folder, "RESERVE_BYTES", 0)
    root, warnings = limited / "shop", list[str]()
    repository(root, {"tracked": BIG})
    with open_checkout(
        root,
        output_dir="nightshift",
        private=Path(tempfile.mkdtemp(dir=tmp_path)),
        search_path=os.environ["PATH"],
        run_id="1",
        warn=warnings.append,
    ):
        fill(root, ".git/junk")
    assert any("the real .git is still in" in line for line in warnings)
