"""What passes between the halls: frozen records, versioned, read and written as JSON."""

from gitlab_nightshift.records.beads import BeadResult, BeadStatus, CommandResult, Usage
from gitlab_nightshift.records.handoffs import (
    AnalysisCandidate,
    AnalysisResult,
    Draft,
    Handoff,
    Verdict,
)
from gitlab_nightshift.records.request import Place, Request, Where
from gitlab_nightshift.records.stages import (
    VERSION,
    Bundle,
    Change,
    LeftOut,
    OpenMergeRequest,
    Outcome,
    Plan,
    Proposal,
    Published,
    RunResult,
)
from gitlab_nightshift.records.storage import adapter, map_texts, read_record, to_json, write_record
from gitlab_nightshift.records.verdicts import Check, Decision, Finding, Gated, Level, Seen

__all__ = [
    "VERSION",
    "AnalysisCandidate",
    "AnalysisResult",
    "BeadResult",
    "BeadStatus",
    "Bundle",
    "Change",
    "Check",
    "CommandResult",
    "Decision",
    "Draft",
    "Finding",
    "Gated",
    "Handoff",
    "LeftOut",
    "Level",
    "OpenMergeRequest",
    "Outcome",
    "Place",
    "Plan",
    "Proposal",
    "Published",
    "Request",
    "RunResult",
    "Seen",
    "Usage",
    "Verdict",
    "Where",
    "adapter",
    "map_texts",
    "read_record",
    "to_json",
    "write_record",
]
