"""Where the results end up, also where the disk has no space for all of them."""

import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.stages.report.killed_run import recover_results
from gitlab_nightshift.stages.report.result_files import (
    OUTPUT,
    format_log_index,
    place_results,
    set_aside,
    write_log_index,
)
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


def test_a_folder_that_takes_no_results_is_reported(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        with pytest.raises(NightshiftError, match=f"no space left on the disk of {disk}"):
            place_results(results(tmp_path / "private", 3_000_000), disk / "nightshift")
        assert list(disk.iterdir()) == []


def test_a_folder_that_may_not_be_written_is_not_told_as_a_full_disk(tmp_path: Path) -> None:
    with pytest.raises(PermissionError):
        place_results(results(tmp_path / "private", 1000), Path("/sys/nightshift"))


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


def test_an_existing_gitignore_is_kept(tmp_path: Path) -> None:
    private = results(tmp_path / "private", 1)
    (private / "results/.gitignore").write_text("logs/\n")
    place_results(private, tmp_path / "nightshift")
    assert (tmp_path / "nightshift/.gitignore").read_text() == "logs/\n"


def test_each_log_is_described_by_its_name() -> None:
    sizes = {
        "01-analyze-tests-1.out": 1200,
        "01-analyze-tests-1.err": 0,
        "baseline-2.out.gz": 7,
        "checks-own-words-1-2.err": 5,
        "evidence-d-1-new-9.out": 4,
        "evidence-docs-2-canary-3.out": 4,
        "evidence-tests-1-old-1.out": 4,
        "notary-1.out": 3,
        "traceback.txt": 2,
        "of-a-later-version.out": 1,
    }
    head, rows, last = format_log_index(sizes).split("\n\n")
    assert "zcat" in head
    assert [" ".join(row.split()) for row in rows.splitlines()] == [
        "01-analyze-tests-1.out 1200 stdout of the agent of bead analyze, tests, attempt 1",
        "baseline-2.out.gz 7 stdout of command 2 on the untouched checkout",
        "checks-own-words-1-2.err 5 stderr of command 2 on the change: own-words, attempt 1",
        "evidence-d-1-new-9.out 4 stdout of the new tests against faults, run 9: d, attempt 1",
        "evidence-docs-2-canary-3.out 4 stdout of faults planted at once, run 3: docs, attempt 2",
        "evidence-tests-1-old-1.out 4 stdout of what running shows, old-1: tests, attempt 1",
        "notary-1.out 3 stdout of command 1 once more, on the change alone",
        "traceback.txt 2 where a defect of nightshift was noticed",
        "of-a-later-version.out 1",
    ]
    assert last == "Nothing was printed to 01-analyze-tests-1.err\n"


def test_an_index_of_an_earlier_stage_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "notary-1.out").write_text("x")
    write_log_index(tmp_path)
    write_log_index(tmp_path)
    text = (tmp_path / "index.txt").read_text()
    assert text.count("notary-1.out") == 1 and "index.txt" not in text


def test_without_logs_there_is_no_index(tmp_path: Path) -> None:
    write_log_index(tmp_path)
    write_log_index(tmp_path / "gone")
    assert list(tmp_path.iterdir()) == []
