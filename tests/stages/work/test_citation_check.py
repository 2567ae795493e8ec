"""Quoted places are looked at: a candidate that quotes what is not there is none."""

from pathlib import Path

import pytest

from gitlab_nightshift.records.bead_results import AnalysisCandidate, AnalysisResult
from gitlab_nightshift.repository.tree_snapshot import scan
from gitlab_nightshift.stages.work.citation_check import drop_unfounded
from gitlab_nightshift.stages.work.named_paths import PathResolver
from tests.support.tables import each

TEXT = 'def total(prices):\n    return  sum(prices)\n# `x` and "y"\n'


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/shop.py").write_text(TEXT)
    return tmp_path


def tree(top: Path) -> PathResolver:
    return PathResolver((str(top),), scan(top))


def candidate(name: str, *evidence: str, rank: int = 1) -> AnalysisCandidate:
    return AnalysisCandidate(("src/shop.py",), name, rank, "", 2, evidence)


def found(*candidates: AnalysisCandidate) -> AnalysisResult:
    return AnalysisResult("IMPROVEMENT_FOUND", "tests", "", 3, candidates, candidates[0])


@each(
    "evidence",
    [
        "src/shop.py:1",
        "./src/shop.py:3",
        "`src/shop.py:2`",
        "src/shop.py:2: `return sum(prices)`",
        "src/shop.py:2: `return sum(...)`",
        "src/shop.py:1-2: `def total(prices): return sum(prices)`",
        'src/shop.py:3: `# `x` and "y"`',
        "src/shop.py:1: `def total` returns `sum(prices)`",
        "src/shop.py:2: no test calls it",
        "src/shop.py:2:11: `sum`",
    ],
)
def test_right_evidence(evidence: str, top: Path) -> None:
    given = found(candidate("a", evidence))
    assert drop_unfounded(given, top, tree(top)) == (given, [])


@each(
    ("evidence", "why"),
    [
        ("src/gone.py:1: `x`", "src/gone.py:1 is quoted, but there is no such file"),
        ("src:1", "src:1 is quoted, but there is no such file"),
        ("../top/src/shop.py:1", "../top/src/shop.py:1 is quoted, but there is no such file"),
        ("/etc/passwd:1", "/etc/passwd:1 is quoted, but there is no such file"),
        ("a\0b:1", "a\\x00b:1 is quoted, but there is no such file"),
        ("src/shop.py:4", "src/shop.py:4 is quoted, but the file has 3 lines"),
        ("src/shop.py:0", "src/shop.py:0 is quoted, but the file has 3 lines"),
        (
            "src/shop.py:2: `return max(prices)`",
            "src/shop.py:2 is quoted, but the quoted text is not in that file",
        ),
        ("it is obvious", "evidence does not name a file and line: it is obvious"),
        ("", "evidence does not name a file and line: "),
    ],
)
def test_wrong_evidence(evidence: str, why: str, top: Path) -> None:
    analysis, dropped = drop_unfounded(found(candidate("a", evidence)), top, tree(top))
    assert dropped == [why]
    assert analysis == AnalysisResult("NO_IMPROVEMENT", "tests", why, 3)


def test_a_name_longer_than_any_file_has(top: Path) -> None:
    [why] = drop_unfounded(found(candidate("a", f"{'x' * 4000}:1")), top, tree(top))[1]
    assert why.endswith(":1 is quoted, but there is no such file")


def test_the_next_best_with_right_evidence_takes_its_place(top: Path) -> None:
    wrong, silent = candidate("wrong", "src/gone.py:1"), candidate("silent", rank=2)
    fourth, third = candidate("4", "src/shop.py:1", rank=4), candidate("3", "src/shop.py:1", rank=3)
    analysis, dropped = drop_unfounded(found(wrong, silent, fourth, third), top, tree(top))
    assert len(dropped) == 1
    assert analysis.selected == third
    assert analysis.candidates == (silent, fourth, third)


def test_a_terse_model_quotes_nothing_and_is_believed(top: Path) -> None:
    given = found(candidate("a"))
    assert drop_unfounded(given, top, tree(top)) == (given, [])
    nothing = AnalysisResult("NO_IMPROVEMENT", reason="all is well")
    assert drop_unfounded(nothing, top, tree(top)) == (nothing, [])


def test_no_link_is_followed(top: Path) -> None:
    (top / "link").symlink_to("/etc/hostname")
    given = found(candidate("a", "link:99999"))
    assert drop_unfounded(given, top, tree(top)) == (given, []), "not read, so not held against it"
