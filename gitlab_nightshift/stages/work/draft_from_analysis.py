"""Fallback texts for the merge request if the MR bead failed, so that verified work is not lost."""

from gitlab_nightshift.records.handoffs import AnalysisCandidate, AnalysisResult, Draft

LONGEST_TITLE = 72
LONGEST_REJECTED = 4_000
"""Characters of a rejected alternative."""


def draft_from_analysis(analysis: AnalysisResult) -> Draft:
    """A plain draft from the analysis."""
    selected = analysis.selected
    assert selected is not None, "only a selected candidate is ever proposed"
    return Draft(
        title=_format_title(selected.description) or f"Improve {selected.files[0][:200]}",
        summary=selected.description,
        commit_message="",
        reasoning=selected.rationale,
        rejected_alternatives=tuple(
            _format_rejected(c) for c in analysis.candidates if c != selected
        ),
    )


def _format_rejected(candidate: AnalysisCandidate) -> str:
    parts = (candidate.description, candidate.rationale)
    return ": ".join(part for part in parts if part)[:LONGEST_REJECTED]


def _format_title(text: str) -> str:
    """The first sentence, cut at a word."""
    first = " ".join(text.split()).partition(". ")[0].rstrip(".")
    if len(first) <= LONGEST_TITLE:
        return first
    return first[:LONGEST_TITLE].rsplit(" ", 1)[0] + "…"
