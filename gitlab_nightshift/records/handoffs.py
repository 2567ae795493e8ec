"""What a bead reports (contract, "Beads"). Sizes are bounded: a hand-off is hostile data."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import MaxLen, MinLen

Line = Annotated[str, MaxLen(500)]
Text = Annotated[str, MaxLen(20_000)]
FilePath = Annotated[str, MinLen(1), MaxLen(4096)]
Paths = Annotated[tuple[FilePath, ...], MaxLen(200)]


@dataclass(frozen=True)
class AnalysisCandidate:
    """One possible improvement; ``files`` are paths relative to the checkout."""

    files: Paths
    description: Annotated[str, MinLen(1), MaxLen(20_000)]
    rank: int = 1
    rationale: Text = ""


@dataclass(frozen=True)
class AnalysisResult:
    """What Analyze found. ``selected`` is required where something was found."""

    result: Literal["IMPROVEMENT_FOUND", "NO_IMPROVEMENT"]
    category_used: Line = ""
    reason: Text = ""
    files_scanned: int = 0
    candidates: Annotated[tuple[AnalysisCandidate, ...], MaxLen(5)] = ()
    selected: AnalysisCandidate | None = None


@dataclass(frozen=True)
class Verdict:
    """What Verify says of a change."""

    passed: bool
    error_details: Text = ""
    commands_run: Annotated[tuple[Line, ...], MaxLen(200)] = ()


@dataclass(frozen=True)
class Draft:
    """The texts of a merge request as the MR bead wrote them: data, to be checked and escaped."""

    title: Annotated[str, MinLen(1), MaxLen(500)]
    summary: Annotated[str, MinLen(1), MaxLen(20_000)]
    branch_slug: Line = ""
    commit_message: Text = ""
    reasoning: Text = ""
    changes: Text = ""
    rejected_alternatives: Annotated[tuple[Text, ...], MaxLen(20)] = ()


Handoff = AnalysisResult | Verdict | Draft
