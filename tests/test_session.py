"""Where the results end up, also where the disk has no space for all of them."""

from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.session import _place
from tests.support.disks import small_disk


def results(private: Path, size: int) -> Path:
    (private / "results/logs").mkdir(parents=True)
    (private / "results/result.json").write_text("{}")
    (private / "results/bundle").mkdir()
    (private / "results/bundle/change.patch").write_bytes(bytes(size))
    (private / "results/logs/1.out").write_bytes(bytes(5_000_000))
    return private


def test_raw_logs_are_left_out_where_the_checkouts_disk_is_too_small(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        _place(results(tmp_path / "private", 1000), disk / "nightshift")
        names = sorted(path.name for path in (disk / "nightshift").rglob("*"))
        assert names == ["bundle", "change.patch", "result.json"]


def test_where_nothing_can_be_put_that_is_said(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        with pytest.raises(NightshiftError, match=f"no space left on the disk of {disk}"):
            _place(results(tmp_path / "private", 3_000_000), disk / "nightshift")
        assert list(disk.iterdir()) == []
