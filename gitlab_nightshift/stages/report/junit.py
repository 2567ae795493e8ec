"""``junit.xml``: what GitLab shows under Tests. A case fails where what it names has failed."""

from collections.abc import Iterator
from html import escape

from gitlab_nightshift.records.bead_results import BeadResult
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.stages.report.job_log import format_line
from gitlab_nightshift.stages.report.result_texts import describe_command
from gitlab_nightshift.stages.report.run_result import describe_bead


def render_junit(result: RunResult) -> str:
    """A test case per bead, attempt, command, piece of evidence and flag, and one for the night."""
    cases = [*map(_render_bead_case, result.beads), *_render_attempts(result)]
    cases += _render_findings(result)
    failed = result.outcome is Outcome.FAILED
    why = f"{result.error_code}: {result.reason}" if failed else ""
    cases.append(_render_case("night", result.outcome.value, result.total_duration_s, why))
    failures = sum("<failure" in case for case in cases)
    head = f'<testsuite name="nightshift" tests="{len(cases)}" failures="{failures}">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *cases, "</testsuite>", ""])


def _render_bead_case(bead: BeadResult) -> str:
    name = f"{bead.bead} {bead.category} attempt {bead.attempt}"
    why = "" if bead.ok else f"{bead.status}: {bead.error}"
    return _render_case(bead.bead, name, bead.duration_s, why, describe_bead(bead))


def _render_attempts(result: RunResult) -> Iterator[str]:
    for each in result.attempts:
        why = "" if each.passed else f"sent back: {each.why}"
        yield _render_case("attempt", f"{each.category} attempt {each.number}", 0, why)


def _render_findings(result: RunResult) -> Iterator[str]:
    for command in result.commands or result.reported:
        how = describe_command(command)
        why = how if command.level == "fail" else ""
        yield _render_case("command", command.command, command.duration_s, why, how)
    for evidence in result.evidence:
        why = evidence.detail if evidence.level == "fail" else ""
        yield _render_case("evidence", evidence.title, 0, why, evidence.detail)
    for flag in result.flags:
        text = f"{flag.file}:{flag.line}: {flag.detail}"
        yield _render_case("flag", flag.name, 0, text if flag.level == "fail" else "", text)


def _render_case(group: str, name: str, seconds: float, why: str, said: str = "") -> str:
    """A test case; ``why`` is its failure, ``said`` its output. Names stay the same every night."""
    names = f"classname={_quote_attribute(f'nightshift.{group}')} name={_quote_attribute(name)}"
    place = f'  <testcase {names} time="{seconds:.1f}"'
    if why:
        # GitLab shows the text of the element, other readers its message.
        text = escape(format_line(why, 500), quote=False)
        return f"{place}><failure message={_quote_attribute(why)}>{text}</failure></testcase>"
    text = escape(format_line(said, 500), quote=False)
    return f"{place}><system-out>{text}</system-out></testcase>" if text else f"{place}/>"


def _quote_attribute(text: str) -> str:
    return f'"{escape(format_line(text, 500))}"'
