"""Space that is reserved for a full disk."""

import subprocess
from pathlib import Path

from gitlab_nightshift.system.disk_reserve import FULL_BYTES, RESERVE_BYTES, Reserve
from tests.support.disks import fill, small_disk


def test_the_reserve_occupies_space_until_it_is_released(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "12m") as disk:
        reserve = Reserve(disk / "reserve")
        reserve.allocate()
        reserve.allocate()
        used = subprocess.run(["du", "-B1", reserve.path], check=True, capture_output=True).stdout
        assert int(used.split()[0]) >= RESERVE_BYTES
        fill(disk)
        assert (reserve.release(), reserve.release()) == (True, False)
        (disk / "result").write_bytes(bytes(RESERVE_BYTES - FULL_BYTES))


def test_a_small_disk_gets_no_reserve(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        Reserve(disk / "reserve").allocate()
        assert list(disk.iterdir()) == []
