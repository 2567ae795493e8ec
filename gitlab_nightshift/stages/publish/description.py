"""The description of a merge request, from the bundle alone.

Pure functions. All that an agent wrote goes through ``escaping.py``.
"""

import re
from collections.abc import Iterable, Iterator

from gitlab_nightshift.gitlab.marker import Marker, write_marker
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.bead_results import AnalysisCandidate, CommandResult
from gitlab_nightshift.records.notary_records import NotarizedCommand, NotaryRecord, describe_run
from gitlab_nightshift.records.products import Bundle, FailedAttemptRecord, Proposal
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
_MEASURED = "Measured independently of the agents:"
_BASELINE = "The untouched checkout"
_ABOUT_TESTS = ("Tests", "The tests", "The new tests")
"""First words of the checks that a reviewer would miss if they could not be made."""
_OUTCOMES = {
    CheckOutcome.PASSED: "",
    CheckOutcome.FAILED: "Failed: ",
    CheckOutcome.UNDECIDED: "",
    CheckOutcome.NOT_CHECKED: "Not checked: ",
}


def render_description(
    bundle: Bundle,
    proposal: Proposal,
    job: JobFacts,
    marker: Marker,
    notary: NotaryRecord | None,
    approved_by: str = "",
    request: TaskRequest | None = None,
) -> str:
    """The description: Markdown with the headings Summary, Reasoning, Changes, Verification.

    ``notary`` is the notary's record of the change, None if only the job that ran the agents
    vouches for it. ``approved_by`` is the login of whoever approved the gated files, ``request``
    comes from the comment that asked for the change.
    """
    parts = (
        f"## Summary\n\n{_render_summary(proposal, notary, approved_by)}",
        f"## Reasoning\n\n{_render_reasoning(bundle, proposal)}",
        f"## Changes\n\n{_render_changes(proposal)}",
        f"## Verification\n\n{_render_verification(bundle, proposal, notary)}",
        f"---\n\n{_render_origin(bundle, job, request)}",
        write_marker(marker),
    )
    return "\n\n".join(parts) + "\n"


def _render_summary(proposal: Proposal, notary: NotaryRecord | None, approved_by: str) -> str:
    """What a reviewer needs first: what the change is, what proves it, and what is in doubt."""
    items = [_render_finding(finding) for finding in proposal.findings[:MOST_FINDINGS]]
    doubts = [doubt for doubt in proposal.verdict.doubts if doubt.strip()][:MOST_DOUBTS]
    items += [f"{to_markdown_line(doubt)} (the second agent doubts this)" for doubt in doubts]
    parts = [to_markdown(proposal.draft.summary), f"**{_render_proofs(proposal, notary)}**"]
    if items:
        parts.append("Please look at:\n\n" + "\n".join(f"- {item}" for item in items))
    return _join_paragraphs([*parts, *_render_gates(proposal.gates, approved_by)])


def _render_proofs(proposal: Proposal, notary: NotaryRecord | None) -> str:
    """The strongest proof and the change's size on one line; neither is repeated below."""
    commands: list[CommandResult] | list[NotarizedCommand]
    commands = [*(notary.commands if notary else proposal.commands)]
    passed = [f"{to_code_span(each.command)} passed" for each in commands if each.ok][:3]
    nothing = "no command passed on it" if commands else "nothing was run on it"
    size = str(proposal.change)
    strongest = _find_strongest(proposal)
    evidence = [to_markdown_line(strongest.detail.partition("; ")[0])] if strongest else []
    if notary is None:
        return f"{size} · the work job reports: {', '.join([*evidence, *(passed or [nothing])])}"
    measured = [f"measured independently: {detail}" for detail in evidence]
    return " · ".join([*(passed or [nothing.capitalize()]), size, *measured])


def _find_strongest(proposal: Proposal) -> Check | None:
    """The last check of the change that passed: checks are ordered by how much they prove."""
    for check in reversed(proposal.checks):
        if check.outcome is CheckOutcome.PASSED and check.title != _BASELINE:
            return check
    return None


def _render_reasoning(bundle: Bundle, proposal: Proposal) -> str:
    analysis, draft = proposal.analysis, proposal.draft
    chosen = analysis.selected
    text = draft.reasoning or (chosen.rationale if chosen else "")
    is_fallback = bundle.category_used != proposal.category
    parts = [f"Category: {to_markdown_line(bundle.category_used)}." if is_fallback else ""]
    parts.append(to_markdown(text))
    ranked = sorted(analysis.candidates, key=lambda each: each.rank)
    lines = [
        _render_candidate(number, candidate, chosen=candidate == chosen)
        for number, candidate in enumerate(ranked, 1)
    ]
    candidates = ["\n".join(lines)]
    if rejected := [f"- {to_markdown_line(each)}" for each in draft.rejected_alternatives if each]:
        candidates.append("Why not the others:\n\n" + "\n".join(rejected))
    parts.append(_fold("Candidates considered", candidates))
    attempts = map(_render_attempt, bundle.failed_attempts[:MOST_ATTEMPTS])
    parts.append(_fold("Attempts that were rejected", ["\n".join(attempts)]))
    return _join_paragraphs(parts)


def _render_attempt(attempt: FailedAttemptRecord) -> str:
    category = to_markdown_line(attempt.category, 100)
    reason = to_markdown_line(attempt.why.strip().partition("\n")[0])
    return f"- {category}, attempt {attempt.number}: {reason}"


def _fold(title: str, parts: Iterable[str]) -> str:
    """A collapsed section with these paragraphs; "" if all are empty."""
    content = _join_paragraphs(parts)
    # Text after HTML is read as Markdown only after a blank line (spec.commonmark.org, 4.6).
    return f"<details>\n<summary>{title}</summary>\n\n{content}\n\n</details>" if content else ""


def _render_candidate(number: int, candidate: AnalysisCandidate, *, chosen: bool) -> str:
    mark = " **(chosen)**" if chosen else ""
    files = ", ".join(to_code_span(path) for path in candidate.files[:5])
    return f"{number}. {to_markdown_line(candidate.description, 300)} ({files}){mark}"


def _render_changes(proposal: Proposal) -> str:
    """The draft's text, and the files that it does not name."""
    text = proposal.draft.changes
    others = [path for path in proposal.change.files if not _names_path(text, path)]
    lines = [f"- {to_code_span(path)}" for path in others[:MOST_FILES]]
    if len(others) > MOST_FILES:
        lines.append(f"- and {len(others) - MOST_FILES} more")
    head = "Also changed:\n\n" if lines and len(others) < len(proposal.change.files) else ""
    return _join_paragraphs([to_markdown(text), head + "\n".join(lines)])


def _names_path(text: str, path: str) -> bool:
    # a.py must not be found in data.py or a.py/b.
    return re.search(rf"(?<![\w./-]){re.escape(path)}(?![\w/-])", text) is not None


def _render_verification(bundle: Bundle, proposal: Proposal, notary: NotaryRecord | None) -> str:
    """Facts only: what was found, what was not checked, and who says so; how it was run is
    collapsed. A check that the summary already shows in full is not repeated."""
    strongest = _find_strongest(proposal)
    in_summary = strongest if strongest and "; " not in strongest.detail else None
    checks = [check for check in proposal.checks if check is not in_summary]
    parts = list(_render_notable_runs(proposal, notary))
    if lines := [_render_check(check) for check in checks if _is_notable(check)]:
        parts.append(f"{_MEASURED}\n\n" + "\n".join(lines))
    parts += _render_unrestored(notary.unrestored if notary else ())
    parts.append("\n".join(f"- {to_markdown_line(note)}" for note in proposal.notes))
    routine = [check for check in checks if not _is_notable(check)]
    parts.append(_fold("How it was run", _render_circumstances(bundle, proposal, notary, routine)))
    return _join_paragraphs(parts)


def _is_notable(check: Check) -> bool:
    """False for routine results, and for measurements that had nothing to measure."""
    if check.outcome is CheckOutcome.NOT_CHECKED:
        return check.title.startswith(_ABOUT_TESTS)
    return (check.title, check.outcome) != (_BASELINE, CheckOutcome.PASSED)


def _render_circumstances(
    bundle: Bundle, proposal: Proposal, notary: NotaryRecord | None, checks: Iterable[Check]
) -> Iterator[str]:
    """On which commit, by which agent and in which sandbox it was run, with these checks."""
    yield "The files of this change were checked when it was published."
    if notary is None:
        yield "\n".join(_render_reported(proposal.commands, bundle.base_sha))
    else:
        yield "\n".join(_render_notarized(notary))
    if lines := [_render_check(check) for check in checks]:
        yield f"{_MEASURED}\n\n" + "\n".join(lines)
    if proposal.verdict.passed:
        verdict = "The Verify bead, a second agent, approved the change."
        yield f"{verdict} {_render_tools(proposal.verify_tools)}"
    if notary and notary.commands and notary.isolation != bundle.isolation:
        yield _render_sandbox("These commands ran", notary.isolation)
    yield _render_sandbox("Agents and commands ran", bundle.isolation)


def _render_tools(use: ToolUse | None) -> str:
    """The commands that Verify was seen to run, not those that it claims to have run. Their results
    are as its CLI reports them."""
    if use is None:
        return "What it ran is unknown."
    if not use.calls and not use.more:
        return "It read the change and ran nothing."
    by_model = use.source == "gateway"
    calls = [_render_call(call, by_model=by_model) for call in use.calls[:MOST_CALLS_SHOWN]]
    if more := len(use.calls[MOST_CALLS_SHOWN:]) + use.more:
        calls.append(f"{more} more")
    head = "Its model asked for these commands" if by_model else "Its CLI reports these commands"
    return f"{head}: {', '.join(calls)}."


def _render_call(call: ToolCall, *, by_model: bool) -> str:
    """A tool call. ``by_model``: the gateway saw the call, but only the CLI knows its result."""
    result = to_markdown_line(call.reported) or "without a result"
    source = ", as its CLI reports" if by_model else ""
    return f"{to_code_span(call.subject or call.tool)} ({result}{source})"


def _render_sandbox(clause: str, isolation: str) -> str:
    """The clause with the sandbox, and the guarantees that held only in part."""
    if isolation == "none":
        return f"{clause} without a sandbox (`isolation: none`)."
    return f"{clause} in the sandbox {to_markdown_line(isolation)}."


def _render_gates(gates: Iterable[GatedFile], approved_by: str) -> Iterator[str]:
    """Which sensitive files a reviewer has to look at, and which files who approved."""
    lines = {gate: f"- {to_code_span(gate.path)} {to_markdown_line(gate.why)}." for gate in gates}
    drafts = [line for gate, line in lines.items() if gate.decision == "draft"]
    approved = [line for gate, line in lines.items() if gate.decision == "require_approval"]
    if drafts:
        head = "A draft, because it changes sensitive files. Review them before marking it ready"
        yield f"{head}:\n\n" + "\n".join(drafts[:MOST_FILES])
    if approved:
        head = f"Published with the approval of {to_code_span(approved_by)}"
        yield f"{head}:\n\n" + "\n".join(approved[:MOST_FILES])


def _render_notarized(notary: NotaryRecord) -> Iterator[str]:
    """The results of the commands that the notary ran."""
    if not notary.asked:
        return
    base = to_code_span(notary.base_sha[:12])
    where = f"on commit {base} with only this change applied"
    yield f"This program ran, {where}, in a process that had read nothing of an agent:\n"
    yield from map(_render_command, notary.commands)


def _render_command(command: NotarizedCommand) -> str:
    runs = ", then ".join(map(describe_run, command.runs))
    flaky = " (flaky before the change)" if len(command.runs) > 1 else ""
    base = "" if command.base is None else f"; without the change: {describe_run(command.base)}"
    return f"- {to_code_span(command.command)}: {runs}{flaky}{base}"


def _render_notable_runs(proposal: Proposal, notary: NotaryRecord | None) -> Iterator[str]:
    """Commands that failed or were flaky; these are not collapsed."""
    if notary:
        notable = [each for each in notary.commands if not each.ok or len(each.runs) > 1]
        lines = [_render_command(command) for command in notable]
    else:
        lines = [_render_result(each) for each in proposal.commands if not each.ok or each.flaky]
    if lines:
        yield "Failed or flaky:\n\n" + "\n".join(lines)


def _render_unrestored(paths: tuple[str, ...]) -> Iterator[str]:
    """Files outside git that could not be restored, and on which the commands may depend."""
    if paths:
        names = ", ".join(to_markdown_line(path) for path in paths)
        yield (
            "Not every file outside git could be restored after the agents, so results that depend"
            f" on those prove nothing ({names})."
        )


def _render_reported(results: Iterable[CommandResult], base_sha: str) -> Iterator[str]:
    """What the job that ran the agents claims, if no notary has confirmed it."""
    lines, base = list(map(_render_result, results)), to_code_span(base_sha[:12])
    if lines:
        yield f"The work job reports, for commit {base} with only this change applied:\n"
        yield from lines


def _render_result(result: CommandResult) -> str:
    status = "did not end" if result.exit_status is None else f"exit {result.exit_status}"
    flaky = ", in the second attempt" if result.flaky else ""
    return f"- {to_code_span(result.command)}: {status}, {result.duration_s:.1f} s{flaky}"


def _render_check(check: Check) -> str:
    title, detail = to_markdown_line(check.title), to_markdown_line(check.detail)
    return f"- {_OUTCOMES[check.outcome]}{title}: {detail}"


def _render_finding(finding: Finding) -> str:
    position = f"{finding.file}:{finding.line}" if finding.line else finding.file
    prefix = f"{to_code_span(position)}: " if position else ""
    return f"{prefix}{to_markdown_line(finding.detail)}"


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
