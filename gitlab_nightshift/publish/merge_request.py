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
from gitlab_nightshift.records import AnalysisCandidate, Bundle, CommandResult, Proposal
from gitlab_nightshift.settings import Job, Settings

LONGEST_TITLE = 255
"""Characters, GitLab's own limit."""
TITLE_TEXT = 160
MOST_FILES = 50
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
    return cut(f"Draft: {text}" if settings.draft else text, LONGEST_TITLE)


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


def body(bundle: Bundle, proposal: Proposal, job: Job, mark: Marker) -> str:
    """The description: Markdown with the headings Summary, Reasoning, Changes, Verification."""
    parts = (
        f"## Summary\n\n{markdown_text(proposal.draft.summary)}",
        f"## Reasoning\n\n{_reasoning(bundle, proposal)}",
        f"## Changes\n\n{_changes(proposal)}",
        f"## Verification\n\n{_verification(proposal)}",
        f"---\n\n{_origin(bundle, job)}",
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


def _verification(proposal: Proposal) -> str:
    verdict = proposal.verdict
    parts = ["\n".join(_commands(proposal.commands))]
    if verdict.passed:
        said = "The Verify bead, a second agent, found the change good."
        if verdict.commands_run:
            said += " It reports to have run " + ", ".join(
                map(code_span, verdict.commands_run[:20])
            )
            said += "."
        parts.append(said)
    parts.append("\n".join(f"- {markdown_line(note)}" for note in proposal.notes))
    return _paragraphs(parts)


def _commands(results: Iterable[CommandResult]) -> Iterator[str]:
    """Only what was seen, each command with its exit status and seconds."""
    seen = tuple(results)
    if not seen:
        yield "This program ran no command on the change: `verify_commands` is empty."
        return
    yield "This program ran on the change:\n"
    for result in seen:
        ended = "did not end" if result.exit_status is None else f"exit {result.exit_status}"
        yield f"- {code_span(result.command)}: {ended}, {result.duration_s:.1f} s"


def _origin(bundle: Bundle, job: Job) -> str:
    if re.fullmatch(r"https?://[\w./:~%-]+", job.pipeline_url):
        return f"Opened by the night shift in [this pipeline]({job.pipeline_url})."
    return f"Opened by the night shift, run {code_span(bundle.run_id)}."


def _paragraphs(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
