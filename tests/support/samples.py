"""Events of every kind, with odd texts, and a record of each stage."""

from gitlab_nightshift.records.bead_results import (
    AnalysisCandidate,
    AnalysisResult,
    BeadResult,
    BeadStatus,
    CommandResult,
    Draft,
    Verdict,
)
from gitlab_nightshift.records.events import (
    ArtifactWritten,
    BeadEnded,
    BoundaryChosen,
    BoundaryProven,
    CommandEnded,
    Event,
    GateApproved,
    GateDenied,
    GateRequired,
    Note,
    ProgramEnded,
    ProgramStarted,
    Progress,
    RunEnded,
    RunStarted,
    StepEnded,
    StepStarted,
)
from gitlab_nightshift.records.products import (
    Bundle,
    KnownMergeRequest,
    Outcome,
    Plan,
    Proposal,
    ProposedChange,
    Publication,
    SkippedCategory,
)
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.registry.sandbox_guarantees import GuaranteeState, ProbeSummary, Strength

ODD = "two\nlines \u2028 \x1b[31m \ud800 ü"
BEAD = BeadResult(
    "verify", "tests", 1, "m", BeadStatus.OK, Usage(None, 5), 1.0, ODD, Verdict(True, ODD), (ODD,)
)
EVENTS: list[Event] = [
    RunStarted("acme/shop", (ODD,)),
    StepStarted("plan", ODD),
    StepEnded("plan", True, ODD),
    Progress(ODD, 1.5, None, 7),
    BeadEnded(BEAD),
    CommandEnded(CommandResult("make test", None, 1.0, ODD)),
    Note(ODD, warning=True),
    BoundaryChosen(
        *("auto", "uid", ((ODD, ODD),), (Strength("files", GuaranteeState.PARTIAL, ODD),), ODD),
        *((ODD,), (ODD,), (ODD,)),
    ),
    BoundaryProven((), (ProbeSummary(ODD, 2, GuaranteeState.BROKEN, ODD),)),
    RunEnded(RunResult("1", Outcome.FAILED, reason=ODD, beads=(BEAD,))),
    StepStarted("Apply", ODD, phase=True, attempt=2),
    StepEnded("Apply", False, ODD, phase=True),
    ProgramStarted(ODD),
    ProgramEnded(ODD, None, 1.0),
    ArtifactWritten("patch_file", ODD),
    GateRequired("write", ODD),
    GateApproved("network", ODD),
    GateDenied("exec", ODD),
]

SELECTED = AnalysisCandidate(("src/a.py", "bä.py", "odd\\xff"), "Fold the rule", 1, "It is twice.")
ANALYSIS = AnalysisResult("IMPROVEMENT_FOUND", "tests", "", 12, (SELECTED,), SELECTED)
VERDICT = Verdict(True, "", ("make test",))
DRAFT = Draft("Fold", "Why", "fold", "Fold\n\nBody", "Rank", "- one", ("Rename",))
BEADS = (
    BeadResult("analyze", "tests", 1, "opus", BeadStatus.OK, Usage(0.5, 10), 1.5, handoff=ANALYSIS),
    BeadResult("verify", "tests", 1, "m", BeadStatus.OK, Usage(None, 3), 2.0, handoff=VERDICT),
    BeadResult("mr", "tests", 1, "m", BeadStatus.OK, Usage(0.1, None), 2.0, handoff=DRAFT),
    BeadResult("implement", "tests", 2, "m", BeadStatus.IDLE, Usage(), 9.0, "no output", None,
               ("curl x",), ("logs/1.out", "logs/1.err")),
)  # fmt: skip
PROPOSAL = Proposal(
    ProposedChange(("src/a.py",), 3, 4, "a" * 40), "tests", False, ANALYSIS, DRAFT, VERDICT,
    (CommandResult("make test", 0, 1.0), CommandResult("x", None, 1.0, "timeout")), ("a note",),
)  # fmt: skip
PLAN = Plan(
    "4711", "Monday 2025-11-24", "b" * 40, "main", "tests", ("tests", "docs"),
    50, 2.5, (SkippedCategory("security", "public"),), "", (7, 6),
    (KnownMergeRequest(7, "T", "https://g/7", "docs", "n/x"),),
    (KnownMergeRequest(6, "U", "https://g/6", "docs", "n", ("a",), ("f",), ("No",), "2025-11-20"),),
    (), (), ("src/b.py",), False, ("a note",), ("open merge requests",), 1000,
)  # fmt: skip
BUNDLE = Bundle(
    "4711", "2025-11-24T02:00:00+00:00", "b" * 40, "main", Outcome.MR_READY, "ready", "", "sum",
    "tests", False, 12, PROPOSAL, Usage(None, 13), 14.5, "none", BEADS,
)  # fmt: skip
PUBLISHED = Publication(
    "4711", Outcome.MR_CREATED, "", "", "https://g/7", 7, "n/x", "c" * 40, "T", ("w",)
)
RESULT = RunResult("4711", Outcome.FAILED, "E_PUBLISH", "why\nnot", beads=BEADS)
QUIET = Bundle("4711", "2025", "b" * 40, "main", Outcome.NO_IMPROVEMENT, "All tried")
