"""What is set aside for a full disk."""

import subprocess
from pathlib import Path

from gitlab_nightshift.system.disk_reserve import FULL_BYTES, RESERVE_BYTES, Reserve
from tests.support.disks import fill, small_disk


def test_the_reserve_is_real_space_and_can_be_given_up_once(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "12m") as disk:
        reserve = Reserve(disk / "reserve")
        reserve.allocate()
        reserve.allocate()
        used = subprocess.run(["du", "-B1", reserve.path], check=True, capture_output=True).stdout
        assert int(used.split()[0]) >= RESERVE_BYTES
        fill(disk)
        assert (reserve.release(), reserve.release()) == (True, False)
        (disk / "result").write_bytes(bytes(RESERVE_BYTES - FULL_BYTES))


def test_a_disk_without_room_for_a_reserve_goes_without(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        Reserve(disk / "reserve").allocate()
        assert list(disk.iterdir()) == []
