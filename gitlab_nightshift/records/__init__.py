"""What passes between the halls: frozen records, versioned, read and written as JSON."""

from gitlab_nightshift.records.beads import BeadResult, BeadStatus, CommandResult, Usage
from gitlab_nightshift.records.handoffs import (
    AnalysisCandidate,
    AnalysisResult,
    Draft,
    Handoff,
    Verdict,
)
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
from gitlab_nightshift.records.storage import map_texts, read_record, to_json, write_record

__all__ = [
    "VERSION",
    "AnalysisCandidate",
    "AnalysisResult",
    "BeadResult",
    "BeadStatus",
    "Bundle",
    "Change",
    "CommandResult",
    "Draft",
    "Handoff",
    "LeftOut",
    "OpenMergeRequest",
    "Outcome",
    "Plan",
    "Proposal",
    "Published",
    "RunResult",
    "Usage",
    "Verdict",
    "map_texts",
    "read_record",
    "to_json",
    "write_record",
]
