"""The description of a merge request, from the bundle alone.

Pure functions. All that an agent wrote goes through ``escaping.py``.
"""

import re
from collections.abc import Iterable, Iterator

from gitlab_nightshift.gitlab.marker import Marker, write_marker
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.bead_results import AnalysisCandidate, CommandResult
from gitlab_nightshift.records.notary_records import NotarizedCommand, NotaryRecord, describe_run
from gitlab_nightshift.records.products import Bundle, Proposal
from gitlab_nightshift.records.request import TaskRequest
from gitlab_nightshift.records.usage import ToolCall, ToolUse
from gitlab_nightshift.records.verdicts import Check, CheckOutcome, Finding, GatedFile
from gitlab_nightshift.stages.publish.escaping import (
    WEB_ADDRESS,
    to_code_span,
    to_markdown,
    to_markdown_line,
)

MOST_FILES = 50
MOST_FINDINGS = 30
MOST_DOUBTS = 10
MOST_CALLS_SHOWN = 20
MOST_ATTEMPTS = 10


def render_description(
    bundle: Bundle,
    proposal: Proposal,
    job: JobFacts,
    mark: Marker,
    notary: NotaryRecord | None,
    approved_by: str = "",
    request: TaskRequest | None = None,
) -> str:
    """The description: Markdown with the headings Summary, Reasoning, Changes, Verification.

    ``notary`` is the notary's record of the change, None if only the job that ran the agents
    vouches for it. ``approved_by`` is the login of who approved the gated files, ``request``
    the comment that asked for the change.
    """
    parts = (
        f"## Summary\n\n{_render_summary(proposal, notary, approved_by)}",
        f"## Reasoning\n\n{_render_reasoning(bundle, proposal)}",
        f"## Changes\n\n{_render_changes(proposal)}",
        f"## Verification\n\n{_render_verification(bundle, proposal, notary)}",
        f"---\n\n{_render_origin(bundle, job, request)}",
        write_marker(mark),
    )
    return "\n\n".join(parts) + "\n"


def _render_summary(proposal: Proposal, notary: NotaryRecord | None, approved_by: str) -> str:
    """What a reviewer needs first: what it is, what proves it, and what is in doubt."""
    shown = [_render_finding(finding) for finding in proposal.findings[:MOST_FINDINGS]]
    doubts = [each for each in proposal.verdict.doubts if each.strip()][:MOST_DOUBTS]
    shown += [f"{to_markdown_line(each)} (the second agent doubts this)" for each in doubts]
    parts = [to_markdown(proposal.draft.summary), f"**{_render_proofs(proposal, notary)}**"]
    if shown:
        parts.append("Please look at:\n\n" + "\n".join(f"- {each}" for each in shown))
    return _join_paragraphs([*parts, *_render_gates(proposal.gates, approved_by)])


def _render_proofs(proposal: Proposal, notary: NotaryRecord | None) -> str:
    """The strongest proof and the change's size, on one line; not repeated below. Without a notary
    the line says that the work job reports it."""
    ran: list[CommandResult] | list[NotarizedCommand]
    ran = [*(notary.commands if notary else proposal.commands)]
    passed = [f"{to_code_span(each.command)} passed" for each in ran if each.ok][:3]
    size = str(proposal.change)
    nothing = [] if passed else ["no command passed on it" if ran else "nothing was run on it"]
    strongest = _find_strongest(proposal)
    evidence = [to_markdown_line(strongest.detail.partition("; ")[0])] if strongest else []
    if notary is None:
        return " · ".join(
            [size, f"the work job reports: {', '.join([*evidence, *passed, *nothing])}"]
        )
    notarized = passed or [nothing[0].capitalize()]
    return " · ".join([*notarized, size, *(f"measured independently: {each}" for each in evidence)])


def _find_strongest(proposal: Proposal) -> Check | None:
    """The last check of the change that passed: they are ordered by how much they prove. The one of
    the untouched checkout proves nothing of the change."""
    passed = (c for c in reversed(proposal.checks) if c.outcome is CheckOutcome.PASSED)
    return next((check for check in passed if check.title != _BASELINE), None)


def _render_reasoning(bundle: Bundle, proposal: Proposal) -> str:
    analysis, draft = proposal.analysis, proposal.draft
    chosen = analysis.selected
    text = draft.reasoning or (chosen.rationale if chosen else "")
    is_fallback = bundle.category_used != proposal.category
    parts = [f"Category: {to_markdown_line(bundle.category_used)}." if is_fallback else ""]
    parts.append(to_markdown(text))
    ranked = sorted(analysis.candidates, key=lambda each: each.rank)
    candidates = [
        "\n".join(_render_candidate(n, each, each == chosen) for n, each in enumerate(ranked, 1))
    ]
    if rejected := [f"- {to_markdown_line(each)}" for each in draft.rejected_alternatives if each]:
        candidates.append("Why not the others:\n\n" + "\n".join(rejected))
    parts.append(_fold("Candidates considered", candidates))
    attempts = [
        f"- {to_markdown_line(each.category, 100)}, attempt {each.number}: "
        f"{to_markdown_line(each.why.strip().partition(chr(10))[0])}"
        for each in bundle.failed_attempts[:MOST_ATTEMPTS]
    ]
    parts.append(_fold("Attempts that were rejected", ["\n".join(attempts)]))
    return _join_paragraphs(parts)


def _fold(title: str, parts: Iterable[str]) -> str:
    """Paragraphs under a title, which a reader unfolds; "" without any."""
    inside = _join_paragraphs(parts)
    # Only after a blank line is what follows HTML read as Markdown (spec.commonmark.org, 4.6).
    return f"<details>\n<summary>{title}</summary>\n\n{inside}\n\n</details>" if inside else ""


def _render_candidate(number: int, candidate: AnalysisCandidate, chosen: bool) -> str:
    mark = " **(chosen)**" if chosen else ""
    files = ", ".join(to_code_span(path) for path in candidate.files[:5])
    return f"{number}. {to_markdown_line(candidate.description, 300)} ({files}){mark}"


def _render_changes(proposal: Proposal) -> str:
    """The draft's words, and the files that these do not name."""
    text = proposal.draft.changes
    others = [path for path in proposal.change.files if not _names_path(text, path)]
    shown = [f"- {to_code_span(path)}" for path in others[:MOST_FILES]]
    if left := len(others) - len(shown):
        shown.append(f"- and {left} more")
    head = "Also changed:\n\n" if shown and len(others) < len(proposal.change.files) else ""
    return _join_paragraphs([to_markdown(text), head + "\n".join(shown)])


def _names_path(text: str, path: str) -> bool:
    # A whole path, so that a.py is not found in data.py or a.py/b.
    return re.search(rf"(?<![\w./-]){re.escape(path)}(?![\w/-])", text) is not None


def _render_verification(bundle: Bundle, proposal: Proposal, notary: NotaryRecord | None) -> str:
    """Facts only: what was found, what was not checked, and who says so; how it was run is folded.
    What the summary already says in full is not repeated."""
    strongest = _find_strongest(proposal)
    in_summary = strongest if strongest and "; " not in strongest.detail else None
    checks = [check for check in proposal.checks if check is not in_summary]
    parts = list(_render_notable_runs(proposal, notary))
    if shown := [_render_check(check) for check in checks if _is_worth_a_line(check)]:
        parts.append(f"{_INDEPENDENT}\n\n" + "\n".join(shown))
    parts += _render_unrestored(notary.unrestored if notary else ())
    parts.append("\n".join(f"- {to_markdown_line(note)}" for note in proposal.notes))
    rest = [check for check in checks if not _is_worth_a_line(check)]
    parts.append(_fold("How it was run", _render_circumstances(bundle, proposal, notary, rest)))
    return _join_paragraphs(parts)


def _is_worth_a_line(check: Check) -> bool:
    """False for routine results, and for measurements that had nothing to measure."""
    if check.outcome is CheckOutcome.NOT_CHECKED:
        return check.title.startswith(_ABOUT_TESTS)
    return (check.title, check.outcome) != (_BASELINE, CheckOutcome.PASSED)


def _render_circumstances(
    bundle: Bundle, proposal: Proposal, notary: NotaryRecord | None, checks: Iterable[Check]
) -> Iterator[str]:
    """On which commit, by which agent and in which sandbox."""
    yield "The files of this change were checked when it was published."
    if notary is None:
        yield "\n".join(_render_reported(proposal.commands, bundle.base_sha))
    else:
        yield "\n".join(_render_notarized(notary))
    if lines := [_render_check(check) for check in checks]:
        yield f"{_INDEPENDENT}\n\n" + "\n".join(lines)
    if proposal.verdict.passed:
        verdict = "The Verify bead, a second agent, approved the change."
        yield f"{verdict} {_render_tools(proposal.verify_tools)}"
    if notary and notary.commands and notary.isolation != bundle.isolation:
        yield _render_sandbox("These commands ran", notary.isolation)
    yield _render_sandbox("Agents and commands ran", bundle.isolation)


def _render_tools(ran: ToolUse | None) -> str:
    """The commands that Verify was seen to run, never those it claims. Their results are as its CLI
    reports them."""
    if ran is None:
        return "What it ran is unknown."
    if not ran.calls and not ran.more:
        return "It read the change and ran nothing."
    model = ran.source == "gateway"
    calls = [_render_call(call, by_model=model) for call in ran.calls[:MOST_CALLS_SHOWN]]
    more = len(ran.calls[MOST_CALLS_SHOWN:]) + ran.more
    rest = [f"{more} more"] if more else []
    head = "Its model asked for these commands" if model else "Its CLI reports these commands"
    return f"{head}: {', '.join([*calls, *rest])}."


def _render_call(call: ToolCall, *, by_model: bool) -> str:
    reported = to_markdown_line(call.reported) or "without a result"
    source = ", as its CLI reports" if by_model else ""
    return f"{to_code_span(call.subject or call.tool)} ({reported}{source})"


def _render_sandbox(what: str, isolation: str) -> str:
    """Where something ran, with the guarantees that held only in part."""
    if isolation == "none":
        return f"{what} without a sandbox (`isolation: none`)."
    return f"{what} in the sandbox {to_markdown_line(isolation)}."


def _render_gates(gates: Iterable[GatedFile], approved_by: str) -> Iterator[str]:
    """Which sensitive files a reviewer has to look at, and who approved which."""
    rows = {each: f"- {to_code_span(each.path)} {to_markdown_line(each.why)}." for each in gates}
    drafts = [row for each, row in rows.items() if each.decision == "draft"]
    approved = [row for each, row in rows.items() if each.decision == "require_approval"]
    if drafts:
        head = "A draft, because it changes sensitive files. Review them before marking it ready"
        yield f"{head}:\n\n" + "\n".join(drafts[:MOST_FILES])
    if approved:
        head = f"Published with the approval of {to_code_span(approved_by)}"
        yield f"{head}:\n\n" + "\n".join(approved[:MOST_FILES])


def _render_notarized(notary: NotaryRecord) -> Iterator[str]:
    """How the commands ended that the notary ran."""
    if not notary.asked:
        return
    base = to_code_span(notary.base_sha[:12])
    where = f"on commit {base} with only this change applied"
    yield f"This program ran, {where}, in a process that had read nothing of an agent:\n"
    yield from map(_render_command, notary.commands)


def _render_command(ran: NotarizedCommand) -> str:
    how = ", then ".join(map(describe_run, ran.runs))
    again = " (flaky before the change)" if len(ran.runs) > 1 else ""
    without = "" if ran.base is None else f"; without the change: {describe_run(ran.base)}"
    return f"- {to_code_span(ran.command)}: {how}{again}{without}"


def _render_notable_runs(proposal: Proposal, notary: NotaryRecord | None) -> Iterator[str]:
    """Commands that failed or were flaky: these are shown unfolded."""
    if notary:
        odd = [c for c in notary.commands if not c.ok or len(c.runs) > 1]
        lines = [_render_command(each) for each in odd]
    else:
        lines = [_render_result(each) for each in proposal.commands if not each.ok or each.flaky]
    if lines:
        yield "Failed or flaky:\n\n" + "\n".join(lines)


def _render_unrestored(paths: tuple[str, ...]) -> Iterator[str]:
    """Files outside git that could not be restored, and on which the commands may depend."""
    if paths:
        named = ", ".join(to_markdown_line(path) for path in paths)
        yield (
            "Not every file outside git could be restored after the agents, so results that depend"
            f" on those prove nothing ({named})."
        )


def _render_reported(results: Iterable[CommandResult], base_sha: str) -> Iterator[str]:
    """What the job that ran the agents claims, if no notary has confirmed it."""
    ran, base = tuple(results), to_code_span(base_sha[:12])
    if not ran:
        return
    yield f"The work job reports, for commit {base} with only this change applied:\n"
    yield from map(_render_result, ran)


def _render_result(result: CommandResult) -> str:
    ended = "did not end" if result.exit_status is None else f"exit {result.exit_status}"
    again = ", in the second attempt" if result.flaky else ""
    return f"- {to_code_span(result.command)}: {ended}, {result.duration_s:.1f} s{again}"


def _render_check(check: Check) -> str:
    title, detail = to_markdown_line(check.title), to_markdown_line(check.detail)
    return f"- {_OUTCOMES[check.outcome]}{title}: {detail}"


_INDEPENDENT = "Measured independently of the agents:"
_BASELINE = "The untouched checkout"
_ABOUT_TESTS = ("Tests", "The tests", "The new tests")
"""First words of the checks that a reviewer would miss if they could not be made."""
_OUTCOMES = {
    CheckOutcome.PASSED: "",
    CheckOutcome.FAILED: "Failed: ",
    CheckOutcome.UNDECIDED: "",
    CheckOutcome.NOT_CHECKED: "Not checked: ",
}


def _render_finding(finding: Finding) -> str:
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    return f"{to_code_span(place) + ': ' if place else ''}{to_markdown_line(finding.detail)}"


def _render_origin(bundle: Bundle, job: JobFacts, request: TaskRequest | None) -> str:
    """Where the change comes from. The reference to the issue is not escaped, so that GitLab links
    it ("Related to" is not one of its closing patterns)."""
    where = f", run {to_code_span(bundle.run_id)}"
    if WEB_ADDRESS.fullmatch(job.pipeline_url):
        where = f" in [this pipeline]({job.pipeline_url})"
    text = f"Opened by the night shift{where}."
    if request is None:
        return f"{text} Not useful? Close it with a short reason, and it is not proposed again."
    if WEB_ADDRESS.fullmatch(request.url):
        text += f" Asked for in [this comment]({request.url})."
    text += " Something to change? Comment here with `/nightshift` followed by the task."
    return f"{text}\n\nRelated to #{request.place.iid}"


def _join_paragraphs(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part)
