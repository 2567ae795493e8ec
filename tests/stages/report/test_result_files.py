"""Where the results end up, also where the disk has no space for all of them."""

import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.stages.report.killed_run import recover_results
from gitlab_nightshift.stages.report.result_files import OUTPUT, place_results, set_aside
from tests.support.disks import small_disk
from tests.support.kills import killed_at_each_place


def results(private: Path, size: int) -> Path:
    (private / "results/logs").mkdir(parents=True)
    (private / "results/result.json").write_text("{}")
    (private / "results/bundle").mkdir()
    (private / "results/bundle/change.patch").write_bytes(bytes(size))
    (private / "results/logs/1.out").write_bytes(bytes(5_000_000))
    return private


def test_raw_logs_are_left_out_where_the_checkouts_disk_is_too_small(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        place_results(results(tmp_path / "private", 1000), disk / "nightshift")
        names = sorted(path.name for path in (disk / "nightshift").rglob("*"))
        assert names == [".gitignore", "bundle", "change.patch", "result.json"]


def test_where_nothing_can_be_put_that_is_said(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        with pytest.raises(NightshiftError, match=f"no space left on the disk of {disk}"):
            place_results(results(tmp_path / "private", 3_000_000), disk / "nightshift")
        assert list(disk.iterdir()) == []


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_kill_loses_nothing_on_the_way_to_another_disk(tmp_path: Path) -> None:
    """Results are there whole or not at all, and the next start puts them there."""
    private = tmp_path / "private"
    with small_disk(tmp_path / "disk", "12m") as disk:
        output = disk / "nightshift"

        def prepare() -> None:
            for folder in (private, output):
                shutil.rmtree(folder, ignore_errors=True)
            results(private, 1000)
            (private / OUTPUT).write_bytes(os.fsencode(output))

        prepare()
        place_results(private, output)
        whole = content(output)
        logs = {"logs/1.out", "logs/index.txt"}
        assert whole.keys() == {"result.json", "bundle/change.patch", ".gitignore", *logs}
        place = partial(place_results, private, output)
        for where in killed_at_each_place(place, tmp_path / "none", last=True, prepare=prepare):
            assert not output.exists() or content(output) == whole, where
            recover_results(private)
            assert content(output) == whole, where
            assert list(disk.iterdir()) == [output], where


def test_a_kill_loses_nothing_of_earlier_stages(tmp_path: Path) -> None:
    private, output = tmp_path / "private", tmp_path / "shop/nightshift"

    def prepare() -> None:
        for folder in (private, output):
            shutil.rmtree(folder, ignore_errors=True)
        results(output, 1000)
        (private / "results").mkdir(parents=True)
        (private / OUTPUT).write_bytes(os.fsencode(output))

    prepare()
    whole = {**content(output), ".gitignore": b"*\n"}
    act = partial(set_aside, private, output)
    for where in killed_at_each_place(act, tmp_path / "none", last=True, prepare=prepare):
        recover_results(private)
        assert {**content(output), ".gitignore": b"*\n"} == whole, where
        assert list(output.parent.iterdir()) == [output], where


def test_what_a_folder_of_results_says_of_itself_stays(tmp_path: Path) -> None:
    private = results(tmp_path / "private", 1)
    (private / "results/.gitignore").write_text("logs/\n")
    place_results(private, tmp_path / "nightshift")
    assert (tmp_path / "nightshift/.gitignore").read_text() == "logs/\n"
