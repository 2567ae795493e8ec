"""The index of a night's logs."""

from pathlib import Path

from gitlab_nightshift.stages.report.log_index import format_log_index, write_log_index


def test_each_log_is_told_by_its_name() -> None:
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
