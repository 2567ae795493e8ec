"""The records that the stages pass on: frozen, versioned, read and written as JSON.

A module of them is loaded when one of its names is first asked for.
"""

from typing import TYPE_CHECKING

from gitlab_nightshift.flag_entry import Level
from gitlab_nightshift.lazy_names import load_lazily

if TYPE_CHECKING:
    from gitlab_nightshift.records.bead_results import BeadResult, BeadStatus, CommandResult, Usage
    from gitlab_nightshift.records.handoffs import (
        AnalysisCandidate,
        AnalysisResult,
        Draft,
        Handoff,
        ThreadAnswer,
        Verdict,
    )
    from gitlab_nightshift.records.products import (
        VERSION,
        Bundle,
        ChangeSummary,
        FailedAttemptRecord,
        KnownMergeRequest,
        Outcome,
        Plan,
        Proposal,
        Publication,
        SkippedCategory,
    )
    from gitlab_nightshift.records.request import (
        CommentAddress,
        DiffSpot,
        TaskRequest,
        UpkeepKind,
        Where,
    )
    from gitlab_nightshift.records.run_results import (
        RESULT_VERSION,
        AgentStatements,
        AttemptResult,
        ChangeSize,
        CommandFinding,
        EvidenceFinding,
        FlagFinding,
        ResultLevel,
        RunResult,
        UpkeepResult,
        build_command_finding,
        build_evidence_finding,
        build_flag_finding,
    )
    from gitlab_nightshift.records.storage import (
        LARGEST_BUNDLE,
        LARGEST_PATCH,
        build_adapter,
        build_record,
        build_record_error,
        fit_record,
        map_texts,
        read_own,
        read_record,
        replace_surrogates,
        to_json,
        write_record,
    )
    from gitlab_nightshift.records.tool_calls import (
        MOST_CALLS,
        ToolCall,
        ToolUse,
        build_tool_call,
        clean_line,
        unwrap_command,
    )
    from gitlab_nightshift.records.verdicts import (
        Check,
        CheckOutcome,
        Decision,
        Finding,
        GatedFile,
    )

__all__ = [
    "LARGEST_BUNDLE",
    "LARGEST_PATCH",
    "MOST_CALLS",
    "RESULT_VERSION",
    "VERSION",
    "AgentStatements",
    "AnalysisCandidate",
    "AnalysisResult",
    "AttemptResult",
    "BeadResult",
    "BeadStatus",
    "Bundle",
    "ChangeSize",
    "ChangeSummary",
    "Check",
    "CheckOutcome",
    "CommandFinding",
    "CommandResult",
    "CommentAddress",
    "Decision",
    "DiffSpot",
    "Draft",
    "EvidenceFinding",
    "FailedAttemptRecord",
    "Finding",
    "FlagFinding",
    "GatedFile",
    "Handoff",
    "KnownMergeRequest",
    "Level",
    "Outcome",
    "Plan",
    "Proposal",
    "Publication",
    "ResultLevel",
    "RunResult",
    "SkippedCategory",
    "TaskRequest",
    "ThreadAnswer",
    "ToolCall",
    "ToolUse",
    "UpkeepKind",
    "UpkeepResult",
    "Usage",
    "Verdict",
    "Where",
    "build_adapter",
    "build_command_finding",
    "build_evidence_finding",
    "build_flag_finding",
    "build_record",
    "build_record_error",
    "build_tool_call",
    "clean_line",
    "fit_record",
    "map_texts",
    "read_own",
    "read_record",
    "replace_surrogates",
    "to_json",
    "unwrap_command",
    "write_record",
]
__getattr__ = load_lazily(
    __name__,
    {
        "bead_results": "BeadResult BeadStatus CommandResult Usage",
        "handoffs": "AnalysisCandidate AnalysisResult Draft Handoff ThreadAnswer Verdict",
        "products": (
            "VERSION Bundle ChangeSummary FailedAttemptRecord KnownMergeRequest Outcome Plan "
            "Proposal Publication SkippedCategory"
        ),
        "request": "CommentAddress DiffSpot TaskRequest UpkeepKind Where",
        "run_results": (
            "RESULT_VERSION AgentStatements AttemptResult ChangeSize CommandFinding "
            "EvidenceFinding FlagFinding ResultLevel RunResult UpkeepResult "
            "build_command_finding build_evidence_finding build_flag_finding"
        ),
        "storage": (
            "LARGEST_BUNDLE LARGEST_PATCH build_adapter build_record build_record_error "
            "fit_record map_texts read_own read_record replace_surrogates to_json write_record"
        ),
        "tool_calls": "MOST_CALLS ToolCall ToolUse build_tool_call clean_line unwrap_command",
        "verdicts": "Check CheckOutcome Decision Finding GatedFile",
    },
)
