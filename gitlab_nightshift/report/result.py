"""The run as one record, and what machines read of it: JUnit and dotenv."""

from xml.sax.saxutils import escape, quoteattr

from gitlab_nightshift.records import (
    AnalysisResult,
    BeadResult,
    Bundle,
    Outcome,
    Published,
    RunResult,
    Verdict,
)
from gitlab_nightshift.report.joblog import one_line


def run_result(bundle: Bundle, published: Published | None) -> RunResult:
    """Bundle and publication as the result of the whole run."""
    last: Bundle | Published = published or bundle
    return RunResult(
        run_id=bundle.run_id,
        outcome=last.outcome,
        error_code=last.error_code,
        reason=last.reason,
        summary=bundle.summary,
        task=bundle.task,
        mr_url=published.mr_url if published else "",
        branch=published.branch if published else "",
        base_sha=bundle.base_sha,
        commit_sha=published.commit_sha if published else "",
        category_used=bundle.category_used,
        is_fallback=bundle.is_fallback,
        files_scanned=bundle.files_scanned,
        total_cost_usd=bundle.usage.cost_usd,
        total_tokens=bundle.usage.tokens,
        assumed_cost_usd=bundle.usage.assumed_usd,
        assumed_tokens=bundle.usage.assumed_tokens,
        total_duration_s=bundle.duration_s,
        isolation=bundle.isolation,
        beads=bundle.beads,
    )


def dotenv(result: RunResult) -> str:
    """``nightshift.env`` for later jobs; every value is one line."""
    cost = "" if result.total_cost_usd is None else f"{result.total_cost_usd:.4f}"
    rows = {
        "NIGHT_OUTCOME": result.outcome.value,
        "NIGHT_MR_URL": result.mr_url,
        "NIGHT_CATEGORY": result.category_used,
        "NIGHT_COST_USD": cost,
    }
    return "".join(f"{name}={one_line(value, 1000)}\n" for name, value in rows.items())


def junit(result: RunResult) -> str:
    """``junit.xml``: a test case per bead, and one for the night itself."""
    cases = [_bead_case(bead) for bead in result.beads]
    failed = result.outcome is Outcome.FAILED
    why = f"{result.error_code}: {result.reason}" if failed else ""
    cases.append(_case("night", result.outcome.value, result.total_duration_s, why))
    failures = sum("<failure" in case for case in cases)
    head = f'<testsuite name="nightshift" tests="{len(cases)}" failures="{failures}">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *cases, "</testsuite>", ""])


def bead_said(bead: BeadResult) -> str:
    """What a bead came to, in one line: its error, else the gist of its hand-off."""
    handoff = bead.handoff
    if isinstance(handoff, AnalysisResult):
        text = handoff.selected.description if handoff.selected else handoff.reason
    elif isinstance(handoff, Verdict):
        text = "passed" if handoff.passed else f"not passed: {handoff.error_details}"
    else:
        text = handoff.title if handoff else bead.error
    return one_line(text.strip().partition("\n")[0], 500)


def _bead_case(bead: BeadResult) -> str:
    name = f"{bead.bead} {bead.category} attempt {bead.attempt}"
    why = "" if bead.ok else f"{bead.status}: {bead.error}"
    return _case(bead.bead, name, bead.duration_s, why, bead_said(bead))


def _case(group: str, name: str, seconds: float, why: str, said: str = "") -> str:
    """A test case; ``why`` is its failure, ``said`` its output. Names stay the same every night."""
    names = f"classname={_quoted(f'nightshift.{group}')} name={_quoted(name)}"
    place = f'  <testcase {names} time="{seconds:.1f}"'
    if why:
        # GitLab shows the text of the element, other readers its message.
        text = escape(one_line(why, 500))
        return f"{place}><failure message={_quoted(why)}>{text}</failure></testcase>"
    return f"{place}><system-out>{escape(said)}</system-out></testcase>" if said else f"{place}/>"


def _quoted(text: str) -> str:
    return quoteattr(one_line(text, 500))
