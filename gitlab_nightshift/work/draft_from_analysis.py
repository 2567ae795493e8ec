"""Texts for the merge request where the MR bead gave none, so that verified work is not lost."""

from gitlab_nightshift.records.handoffs import AnalysisCandidate, AnalysisResult, Draft

LONGEST_TITLE = 72


def draft_from_analysis(analysis: AnalysisResult) -> Draft:
    """A plain draft from what Analyze said."""
    selected = analysis.selected
    assert selected is not None, "only a selected candidate is ever proposed"
    return Draft(
        title=_format_title(selected.description),
        summary=selected.description,
        commit_message="",
        reasoning=selected.rationale,
        rejected_alternatives=tuple(
            _format_rejected(c) for c in analysis.candidates if c != selected
        ),
    )


def _format_rejected(candidate: AnalysisCandidate) -> str:
    return ": ".join(part for part in (candidate.description, candidate.rationale) if part)


def _format_title(text: str) -> str:
    """The first sentence, cut at a word."""
    first = " ".join(text.split()).partition(". ")[0].rstrip(".")
    if len(first) <= LONGEST_TITLE:
        return first
    return first[:LONGEST_TITLE].rsplit(" ", 1)[0] + "…"
