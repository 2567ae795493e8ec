"""What a bead reports. Sizes are bounded: a hand-off is hostile data."""

from dataclasses import dataclass
from typing import Annotated, Literal

from gitlab_nightshift.records.codec import Between, Length

Line = Annotated[str, Length(500)]
Text = Annotated[str, Length(20_000)]
FilePath = Annotated[str, Length(4096, least=1)]
Paths = Annotated[tuple[FilePath, ...], Length(200)]


@dataclass(frozen=True)
class AnalysisCandidate:
    """One possible improvement; ``files`` are paths relative to the checkout.

    ``value`` is from 3 (wrong results or a security hole) to 1 (nice to have), 0 for unknown;
    ``evidence`` are citations such as ``src/a.py:12: `the text there` ``.
    """

    files: Paths
    description: Annotated[str, Length(20_000, least=1)]
    rank: int = 1
    rationale: Text = ""
    value: int = 0
    evidence: Annotated[tuple[Text, ...], Length(20)] = ()


@dataclass(frozen=True)
class AnalysisResult:
    """The result of Analyze. ``selected`` is required for an improvement."""

    result: Literal["IMPROVEMENT_FOUND", "NO_IMPROVEMENT"]
    category_used: Line = ""
    reason: Text = ""
    files_scanned: int = 0
    candidates: Annotated[tuple[AnalysisCandidate, ...], Length(5)] = ()
    selected: AnalysisCandidate | None = None


@dataclass(frozen=True)
class Verdict:
    """Verify's verdict on a change: what it ran, what it checked, and its remaining doubts."""

    passed: bool
    error_details: Text = ""
    commands_run: Annotated[tuple[Line, ...], Length(200)] = ()
    checked: Annotated[tuple[Line, ...], Length(50)] = ()
    doubts: Annotated[tuple[Line, ...], Length(50)] = ()


@dataclass(frozen=True)
class ThreadAnswer:
    """The answer to one of the threads that gave the task: ``thread`` is its number, from 1,
    ``files`` were changed for it."""

    thread: Annotated[int, Between(1, 100)]
    text: Annotated[str, Length(2000, least=1)]
    files: Paths = ()


Answers = Annotated[tuple[ThreadAnswer, ...], Length(100)]


@dataclass(frozen=True)
class Draft:
    """The texts of a merge request by the MR bead: untrusted, to be checked and escaped."""

    title: Annotated[str, Length(500, least=1)]
    summary: Annotated[str, Length(20_000, least=1)]
    branch_slug: Line = ""
    commit_message: Text = ""
    reasoning: Text = ""
    changes: Text = ""
    rejected_alternatives: Annotated[tuple[Text, ...], Length(20)] = ()
    answers: Answers = ()


Handoff = AnalysisResult | Verdict | Draft
