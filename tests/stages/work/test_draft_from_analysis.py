"""Texts from the analysis, where the MR bead gave none."""

import pytest

from gitlab_nightshift.records.handoffs import AnalysisCandidate, AnalysisResult
from gitlab_nightshift.stages.work.draft_from_analysis import LONGEST_TITLE, draft_from_analysis


def analysis(description: str, *others: AnalysisCandidate) -> AnalysisResult:
    selected = AnalysisCandidate(("a.py",), description, 1, "It matters.")
    return AnalysisResult("IMPROVEMENT_FOUND", candidates=(selected, *others), selected=selected)


@pytest.mark.parametrize(
    ("description", "title"),
    [
        ("Test the discount of total().", "Test the discount of total()"),
        ("Test it. Use the fixture.", "Test it"),
        ("Test\n  it", "Test it"),
        ("Move v1.2 of a.b.c to x", "Move v1.2 of a.b.c to x"),
        ("word " * 40, "word " * 13 + "word…"),
        ("x" * 100, "x" * 72 + "…"),
    ],
)
def test_the_title_is_the_first_sentence(description: str, title: str) -> None:
    made = draft_from_analysis(analysis(description))
    assert made.title == title
    assert len(made.title) <= LONGEST_TITLE + 1
    assert made.summary == description


def test_reasons_come_from_the_candidates() -> None:
    others = (AnalysisCandidate(("b",), "B", 2, "Rare."), AnalysisCandidate(("c",), "C", 3))
    made = draft_from_analysis(analysis("A", *others))
    assert made.reasoning == "It matters."
    assert made.rejected_alternatives == ("B: Rare.", "C")
    assert made.commit_message == ""
