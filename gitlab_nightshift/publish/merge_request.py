"""Title, description, labels and branch slug of a merge request, from the bundle alone.

Pure functions. All that an agent wrote goes through :mod:`gitlab_nightshift.publish.text`.
"""

import re
from collections.abc import Iterable, Iterator

from gitlab_nightshift.gitlab import NIGHT_LABEL, Label, Marker, fingerprint, write_marker
from gitlab_nightshift.guidance import CATEGORY_GUIDANCE
from gitlab_nightshift.prompts import check_placeholders, render
from gitlab_nightshift.publish.branch import slug
from gitlab_nightshift.publish.commit import commit_message
from gitlab_nightshift.publish.text import (
    code_span,
    cut,
    markdown_line,
    markdown_text,
    plain_line,
)
from gitlab_nightshift.records import (
    AnalysisCandidate,
    Bundle,
    Check,
    CommandResult,
    Finding,
    Gated,
    Proposal,
    Request,
    Seen,
)
from gitlab_nightshift.settings import Job, Settings

LONGEST_TITLE = 255
"""Characters, GitLab's own limit."""
TITLE_TEXT = 160
MOST_FILES = 50
MOST_FINDINGS = 30
TITLE_PLACEHOLDERS = frozenset({"category", "title", "run_id"})
COMMIT_PLACEHOLDERS = frozenset({"category", "title", "message", "run_id"})

MAIN_COLOR = "#6666c4"
COLORS = {
    "tests": "#428fdc",
    "refactoring": "#9475db",
    "docs": "#108548",
    "security": "#dd2b0e",
    "performance": "#e9be74",
}
OTHER_COLOR = "#868686"

_PREFIXES = re.compile(
    r"^\s*(?:(?:draft|wip)\s*:|[\[(](?:draft|wip|night-?shift[^\])]*)[\])])\s*", re.I
)

_WEB_ADDRESS = re.compile(r"https?://[\w./:~%#-]+")


def check_templates(settings: Settings) -> None:
    """Raise ``E_CONFIG`` for a placeholder that a title or a commit message does not have."""
    check_placeholders(settings.title_template, TITLE_PLACEHOLDERS, "title_template")
    check_placeholders(settings.commit_template or "", COMMIT_PLACEHOLDERS, "commit_template")


def title_text(proposal: Proposal) -> str:
    """The drafted title as one plain line, without prefixes that GitLab or this program sets."""
    text = plain_line(proposal.draft.title, TITLE_TEXT)
    while match := _PREFIXES.match(text):
        text = text[match.end() :]
    return text.rstrip(". ") or "Improve " + plain_line(", ".join(proposal.change.files), 100)


def title(bundle: Bundle, proposal: Proposal, settings: Settings) -> str:
    """The merge request's title by ``title_template``, with ``Draft:`` where asked for."""
    values = {
        "category": proposal.category,
        "title": title_text(proposal),
        "run_id": bundle.run_id,
    }
    text = " ".join(render(settings.title_template, values).split())
    draft = settings.draft or any(each.decision == "draft" for each in proposal.gates)
    return cut(f"Draft: {text}" if draft else text, LONGEST_TITLE)


def branch_slug(bundle: Bundle, proposal: Proposal, settings: Settings) -> str:
    """The last part of the branch's name: the draft's suggestion, else the title."""
    suggested = proposal.draft.branch_slug.strip().removeprefix(settings.branch_prefix)
    return slug(suggested, title_text(proposal), f"{proposal.category} {bundle.run_id}")


def message(bundle: Bundle, proposal: Proposal, settings: Settings, last: tuple[str, ...]) -> str:
    """The commit message; ``last`` are the repository's last ones, for the style."""
    text = title_text(proposal)
    drafted = commit_message(proposal.draft.commit_message, text, proposal.category, last)
    if settings.commit_template is None:
        return drafted + "\n"
    values = {
        "category": proposal.category,
        "title": text,
        "message": drafted,
        "run_id": bundle.run_id,
    }
    return render(settings.commit_template, values).strip() + "\n"


def labels(proposal: Proposal, settings: Settings) -> tuple[Label, ...]:
    """The labels, each with the colour and description it gets where it has to be made."""
    wanted = (NIGHT_LABEL, proposal.category) if settings.labels is None else settings.labels
    return tuple(_label(name) for name in dict.fromkeys(wanted))


def _label(name: str) -> Label:
    if name == NIGHT_LABEL:
        return Label(name, MAIN_COLOR, "Opened by the night shift: small, proven improvements")
    if name in CATEGORY_GUIDANCE:
        return Label(name, COLORS.get(name, OTHER_COLOR), f"Night-shift category: {name}")
    return Label(name, OTHER_COLOR, "Used by the night shift")


def marker(bundle: Bundle, proposal: Proposal) -> Marker:
    """By what the merge request is known again."""
    selected = proposal.analysis.selected
    idea = selected.description if selected else proposal.draft.title
    paths = selected.files if selected else proposal.change.files
    return Marker(bundle.run_id, proposal.category, fingerprint(proposal.category, paths, idea))


# --- description ------------------------------------------------------------------------------


def body(
    bundle: Bundle,
    proposal: Proposal,
    job: Job,
    mark: Marker,
    approved_by: str = "",
    request: Request | None = None,
) -> str:
    """The description: Markdown with the headings Summary, Reasoning, Changes, Verification.

    ``approved_by`` is the login of who has approved what the gates ask about, ``request`` the
    comment that asked for the change.
    """
    parts = (
        f"## Summary\n\n{markdown_text(proposal.draft.summary)}",
        f"## Reasoning\n\n{_reasoning(bundle, proposal)}",
        f"## Changes\n\n{_changes(proposal)}",
        f"## Verification\n\n{_verification(bundle, proposal, approved_by)}",
        f"---\n\n{_origin(bundle, job, request)}",
        write_marker(mark),
    )
    return "\n\n".join(parts) + "\n"


def _reasoning(bundle: Bundle, proposal: Proposal) -> str:
    analysis, draft = proposal.analysis, proposal.draft
    chosen = analysis.selected
    text = draft.reasoning or (chosen.rationale if chosen else "")
    parts = [f"Category: {markdown_line(bundle.category_used)}.", markdown_text(text)]
    ranked = sorted(analysis.candidates, key=lambda each: each.rank)
    if ranked:
        listed = (_candidate(n, each, each == chosen) for n, each in enumerate(ranked, 1))
        parts.append("Candidates considered:\n\n" + "\n".join(listed))
    if rejected := [f"- {markdown_line(each)}" for each in draft.rejected_alternatives if each]:
        parts.append("Why not the others:\n\n" + "\n".join(rejected))
    return _paragraphs(parts)


def _candidate(number: int, candidate: AnalysisCandidate, chosen: bool) -> str:
    mark = " **(chosen)**" if chosen else ""
    files = ", ".join(code_span(path) for path in candidate.files[:5])
    return f"{number}. {markdown_line(candidate.description, 300)} ({files}){mark}"


def _changes(proposal: Proposal) -> str:
    change = proposal.change
    shown = [f"- {code_span(path)}" for path in change.files[:MOST_FILES]]
    if left := len(change.files) - len(shown):
        shown.append(f"- and {left} more")
    count = f"{len(change.files)} {_plural('file', len(change.files))}"
    lines = f"{count}, {change.added} lines added, {change.deleted} deleted:\n\n"
    return _paragraphs([markdown_text(proposal.draft.changes), lines + "\n".join(shown)])


def _verification(bundle: Bundle, proposal: Proposal, approved_by: str) -> str:
    """Only what was seen: what ran on which commit, what was found, and what was not checked."""
    verdict = proposal.verdict
    checks = [*_commands(proposal.commands, bundle.base_sha), *map(_check, proposal.checks)]
    parts = ["\n".join(checks)]
    if verdict.passed:
        said = "The Verify bead, a second agent, found the change good."
        if verdict.commands_run:
            said += " It reports to have run " + ", ".join(
                map(code_span, verdict.commands_run[:20])
            )
            said += "."
        parts.append(said)
    if proposal.findings:
        told = (f"- {_finding(finding)}" for finding in proposal.findings[:MOST_FINDINGS])
        parts.append("Please look at:\n\n" + "\n".join(told))
    parts += _gates(proposal.gates, approved_by)
    parts.append(_sandbox(bundle.isolation))
    parts.append("\n".join(f"- {markdown_line(note)}" for note in proposal.notes))
    return _paragraphs(parts)


def _sandbox(isolation: str) -> str:
    """Where the agents and the commands ran, with what was only partly held there."""
    if isolation == "none":
        return "Agents and commands ran without a sandbox (`isolation: none`)."
    return f"Agents and commands ran in the sandbox {markdown_line(isolation)}."


def _gates(gates: Iterable[Gated], approved_by: str) -> Iterator[str]:
    """What a reviewer of sensitive files has to look at, and who approved which."""
    rows = {each: f"- {code_span(each.path)} {markdown_line(each.why)}." for each in gates}
    drafts = [row for each, row in rows.items() if each.decision == "draft"]
    approved = [row for each, row in rows.items() if each.decision == "require_approval"]
    if drafts:
        head = "A draft, because it changes sensitive files. Look at them before it is marked ready"
        yield f"{head}:\n\n" + "\n".join(drafts[:MOST_FILES])
    if approved:
        head = f"Published with the approval of {code_span(approved_by)}, who started its job"
        yield f"{head}:\n\n" + "\n".join(approved[:MOST_FILES])


def _commands(results: Iterable[CommandResult], base_sha: str) -> Iterator[str]:
    seen = tuple(results)
    if not seen:
        yield "This program ran no command on the change."
    else:
        base = code_span(base_sha[:12])
        yield f"This program ran, on commit {base} with only this change applied:\n"
    for result in seen:
        ended = "did not end" if result.exit_status is None else f"exit {result.exit_status}"
        again = ", at the second try" if result.flaky else ""
        yield f"- {code_span(result.command)}: {ended}, {result.duration_s:.1f} s{again}"


def _check(check: Check) -> str:
    return f"- {_SEEN[check.seen]}{markdown_line(check.title)}: {markdown_line(check.detail)}"


_SEEN = {Seen.PASSED: "", Seen.FAILED: "Failed: ", Seen.TOLD: "", Seen.NOT_CHECKED: "Not checked: "}


def _finding(finding: Finding) -> str:
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    return f"{code_span(place) + ': ' if place else ''}{markdown_line(finding.detail)}"


def _origin(bundle: Bundle, job: Job, request: Request | None) -> str:
    """This program's own words: the reference to the issue is meant, and closes nothing."""
    where = f", run {code_span(bundle.run_id)}"
    if _WEB_ADDRESS.fullmatch(job.pipeline_url):
        where = f" in [this pipeline]({job.pipeline_url})"
    text = f"Opened by the night shift{where}."
    if request is None:
        return text
    if _WEB_ADDRESS.fullmatch(request.url):
        text += f" Asked for in [this comment]({request.url})."
    return f"{text}\n\nRelated to #{request.place.iid}"


def _paragraphs(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
