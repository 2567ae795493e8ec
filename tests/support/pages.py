"""Results of runs as a page shows them: one with everything in it, and quiet ones."""

import dataclasses

from gitlab_nightshift.records.bead_results import (
    AnalysisCandidate,
    AnalysisResult,
    BeadResult,
    BeadStatus,
    Handoff,
    Verdict,
)
from gitlab_nightshift.records.products import ChangeSize, Outcome
from gitlab_nightshift.records.run_results import (
    AgentStatements,
    AttemptResult,
    CommandFinding,
    EvidenceFinding,
    FlagFinding,
    ResultLevel,
    RunResult,
)
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.records.verdicts import GatedFile

URL = "https://gitlab.example.com/acme/shop/-/merge_requests/7"
PIPELINE = "https://gitlab.example.com/acme/shop/-/pipelines/4711"
LEVELS: tuple[ResultLevel, ...] = ("pass", "warn", "fail", "not_known")
HOSTILE = """</p></title></style></pre>]]>{{ 7*7 }}{% raw %}<script>alert(1)</script>
<img src="http://evil.example/x" onerror='x'>
&amp;&lt; $outcome ${facts} {{x}} "q" 'a' \x00\x1b[31m \u202e \ud800 \uffff javascript:x"""


def build_bead(bead: str, attempt: int, text: str, handoff: Handoff | None = None) -> BeadResult:
    """A bead of the category ``text`` that ended well, or crashed where it has no hand-off."""
    status = BeadStatus.OK if handoff else BeadStatus.CRASHED
    logs = (f"logs/{text}.out.gz",)
    return BeadResult(
        bead, text, attempt, text, status, Usage(0.1, 5_000), 61, text, handoff, (text,), logs
    )


def build_full_result(text: str, url: str = URL) -> RunResult:
    """A run in which every text that is not ours is ``text``, and every part of a page is there."""
    chosen = AnalysisCandidate((text,), text, 1, text)
    verdict = Verdict(False, text)
    return RunResult(
        run_id=text,
        outcome=Outcome.FAILED,
        error_code="E_PUBLISH",
        reason=text,
        summary="3 files scanned\ntests: " + text.replace("\n", " "),
        task=text,
        mr_url=url,
        branch=text,
        base_sha="b" * 40,
        commit_sha=text,
        category_used=text,
        total_cost_usd=None,
        isolation=text,
        beads=(
            build_bead("analyze", 1, text, AnalysisResult("NO_IMPROVEMENT", reason=text)),
            build_bead("implement", 1, text),
            build_bead("verify", 1, text, verdict),
            build_bead("mr", 1, text),
        ),
        project=text,
        pipeline_url=url,
        started_at="2026-11-17T02:00:00+00:00",
        title=text,
        change=ChangeSize((text, "src/a.py"), 3, 4),
        commands=tuple(CommandFinding(text, each, 0, 1.0, text, text) for each in LEVELS),
        reported=tuple(CommandFinding(text, each, None, 1.0, text, text) for each in LEVELS),
        evidence=tuple(EvidenceFinding(text, each, text) for each in LEVELS),
        flags=(FlagFinding(text, "warn", text, 3, text),),
        gates=(GatedFile(text, "draft", text),),
        notes=(text,),
        attempts=(AttemptResult(text, 1, False, "E_TEST_FAILED", text),),
        said=AgentStatements(
            text, text, text, chosen, (chosen, AnalysisCandidate((text,), text, 2, text)),
            (text,), (text, text), (text,),
        ),
    )  # fmt: skip


def build_patch(text: str) -> str:
    """A git patch with every kind of row, in which names and lines are ``text``."""
    line = text.replace("\n", " ")
    return (
        f"diff --git a/{line} b/{line}\nnew file mode 100644\nindex 0..1\n--- a/{line}\n"
        f"+++ b/{line}\n@@ -1,2 +1,2 @@ {line}\n {line}\n-{line}\n+{line}\n"
        "\\ No newline at end of file\n"
        f"diff --git a/x.bin b/x.bin\nindex 0..1\nGIT binary patch\nliteral 5\n{line}\n"
    )


QUIET = RunResult(
    "1",
    Outcome.NO_IMPROVEMENT,
    summary="3 files scanned\ntests: <none>\n\ndocs: left out: !7 is open",
    project="acme/shop",
)
FAILED = dataclasses.replace(QUIET, outcome=Outcome.FAILED, error_code="E_TIMEOUT", reason="late")
