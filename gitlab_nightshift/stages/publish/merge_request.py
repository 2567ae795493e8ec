"""Title, labels, commit message and branch slug of a merge request, from the bundle alone.

Pure functions. All that an agent wrote goes through ``escaping.py``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gitlab_nightshift.gitlab.marker import Marker, compute_fingerprint
from gitlab_nightshift.gitlab.resources import NIGHT_LABEL, Label
from gitlab_nightshift.policy.prompts import check_placeholders, render
from gitlab_nightshift.records.products import Bundle, Proposal
from gitlab_nightshift.registry.categories import CATEGORY_GUIDANCE
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.publish.branches import build_slug
from gitlab_nightshift.stages.publish.escaping import cut, to_plain_line, to_plain_text
from gitlab_nightshift.text.lazy_patterns import compile_lazily

LONGEST_TITLE = 255
"""Characters, GitLab's own limit."""
LONGEST_TITLE_TEXT = 160
"""Characters of the drafted title, to which ``title_template`` adds."""
MOST_SYMBOLS = 20
"""Names of changed functions and classes in the marker, by which an idea is recognized."""
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
# Prefixes that make GitLab open a draft (Gitlab::Regex.merge_request_draft), or that this program
# sets.
_PREFIXES = compile_lazily(
    r"^\s*(?:(?:draft|wip)\s*:|[\[(](?:draft|wip|night-?shift[^\])]*)[\])])\s*", re.I
)
_LONGEST_SUBJECT = 72
_LONGEST_BODY = 3000
_FEWEST_SUBJECTS = 3
"""Subjects of earlier commits that are needed to tell the repository's style."""
_CONVENTIONAL = {
    "tests": "test",
    "refactoring": "refactor",
    "docs": "docs",
    "security": "fix",
    "performance": "perf",
}
"""Category → type of Conventional Commits; ``chore`` for a team's own."""
_TYPED = compile_lazily(
    r"(?:feat|fix|docs|style|refactor|perf|tests?|build|ci|chore|revert)(?:\([^)]*\))?!?: "
)
# What git-interpret-trailers(1) would read as a trailer, such as "Signed-off-by: ".
_TRAILER = compile_lazily(r"[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)+\s*:\s")
# Any trailer: "Token: value", or "Token #1".
_TOKEN_LINE = compile_lazily(r"([A-Za-z][A-Za-z0-9-]*)(?: ?:\s+\S| # ?\d)")
_SIGNATURE = compile_lazily(
    r"[\W_]*(?:Generated|Created|Written|Made|Assisted|Authored) (?:with|by|using)\b"
)
_AGENT = compile_lazily(
    r"(?<![a-z])(?:generated|created|written|made|assisted|authored)\s+(?:with|by|using)\W+"
    r"(?:an?\s+)?(?:ai|anthropic|claude|codex|copilot|cursor|gemini|gpt|llm|openai)(?![a-z])",
    re.I,
)
"""A signature within a line: commits must not carry an agent's signature."""
# A line that is nothing but a URL, which to_plain_text has broken ("https: //").
_ONLY_ADDRESS = compile_lazily(r"\W*https?:\s?//\S+\W*")
_FENCE = compile_lazily(r"\s*(?:`{3,}|~{3,})\w*\s*")


@dataclass(frozen=True)
class MergeRequestTexts:
    """Everything that goes to GitLab besides the files; cleaned and redacted."""

    title: str
    body: str
    slug: str
    message: str
    labels: tuple[Label, ...]


def check_templates(settings: Settings) -> None:
    """Raise ``E_CONFIG`` for a placeholder that a title or a commit message does not have."""
    check_placeholders(settings.title_template, TITLE_PLACEHOLDERS, "title_template")
    check_placeholders(settings.commit_template or "", COMMIT_PLACEHOLDERS, "commit_template")


def clean_title(proposal: Proposal) -> str:
    """The drafted title as one plain line, without prefixes that GitLab or this program sets."""
    text = to_plain_line(proposal.draft.title, LONGEST_TITLE_TEXT)
    while match := _PREFIXES.match(text):  # "Draft: WIP: …" has two
        text = text[match.end() :]
    return text.rstrip(". ") or "Improve " + to_plain_line(", ".join(proposal.change.files), 100)


def format_title(bundle: Bundle, proposal: Proposal, settings: Settings) -> str:
    """The merge request's title by ``title_template``, with ``Draft:`` where asked for."""
    values = {
        "category": proposal.category,
        "title": clean_title(proposal),
        "run_id": bundle.run_id,
    }
    text = " ".join(render(settings.title_template, values).split())
    draft = settings.draft or any(each.decision == "draft" for each in proposal.gates)
    return cut(f"Draft: {text}" if draft else text, LONGEST_TITLE)


def build_branch_slug(bundle: Bundle, proposal: Proposal, settings: Settings) -> str:
    """The last part of the branch's name: the draft's suggestion, else the title."""
    suggested = proposal.draft.branch_slug.strip().removeprefix(settings.branch_prefix)
    return build_slug(suggested, clean_title(proposal), f"{proposal.category} {bundle.run_id}")


def build_commit_message(
    bundle: Bundle, proposal: Proposal, settings: Settings, earlier: tuple[str, ...]
) -> str:
    """The commit message, in the style of the repository's ``earlier`` ones."""
    text = clean_title(proposal)
    drafted = format_commit_message(proposal.draft.commit_message, text, proposal.category, earlier)
    return apply_commit_template(settings, proposal.category, text, drafted, bundle.run_id)


def apply_commit_template(
    settings: Settings, category: str, title: str, message: str, run_id: str
) -> str:
    """A commit message by ``commit_template``; unchanged without one."""
    if settings.commit_template is None:
        return message + "\n"
    values = {"category": category, "title": title, "message": message, "run_id": run_id}
    return render(settings.commit_template, values).strip() + "\n"


def list_labels(proposal: Proposal, settings: Settings) -> tuple[Label, ...]:
    """The labels, each with the colour and description that it gets if it has to be created."""
    wanted = (NIGHT_LABEL, proposal.category) if settings.labels is None else settings.labels
    return tuple(_build_label(name) for name in dict.fromkeys(wanted))


def list_usual_labels(settings: Settings) -> tuple[Label, ...]:
    """All labels that nights may give to their merge requests."""
    categories = (NIGHT_LABEL, *settings.category_schedule.values())
    wanted = categories if settings.labels is None else settings.labels
    return tuple(_build_label(name) for name in dict.fromkeys(wanted))


def _build_label(name: str) -> Label:
    if name == NIGHT_LABEL:
        return Label(name, MAIN_COLOR, "Opened by the night shift: small, proven improvements")
    if name in CATEGORY_GUIDANCE:
        return Label(name, COLORS.get(name, OTHER_COLOR), f"Night-shift category: {name}")
    return Label(name, OTHER_COLOR, "Used by the night shift")


def build_marker(bundle: Bundle, proposal: Proposal) -> Marker:
    """The hidden marker by which the merge request is recognized later."""
    paths, symbols = proposal.change.files, proposal.symbols[:MOST_SYMBOLS]
    idea = compute_fingerprint(proposal.category, paths, symbols)
    return Marker(bundle.run_id, proposal.category, idea, symbols, proposal.digest[:16])


def format_commit_message(drafted: str, title: str, category: str, earlier: Sequence[str]) -> str:
    """Subject of at most 72 characters, blank line, body; never empty, without references. Without
    a draft the title is the subject, in the style of the ``earlier`` messages of the repository.

    Hyphenated trailers (``Signed-off-by:``) are dropped; of others those stay whose token
    ``earlier`` messages use.
    """
    lines = [line for line in to_plain_text(drafted).split("\n") if not _is_unwanted(line)]
    # Again: without the dropped lines, neighbours may form a new reference or closing pattern.
    text = to_plain_text("\n".join(lines)).strip("\n")
    paragraphs = [part.strip("\n") for part in re.split(r"\n{2,}", text) if part.strip()]
    if len(paragraphs) > 1:
        paragraphs[-1:] = _remove_trailers(paragraphs[-1], earlier)
    if not paragraphs:
        return _shorten_subject(build_subject(title, category, earlier))
    first, _, rest = paragraphs[0].partition("\n")
    subject = _shorten_subject(first)
    # A subject that was shortened is repeated in full.
    whole = [first.strip()] if subject != first.strip() else []
    body = "\n\n".join([*whole, *([rest] if rest else []), *paragraphs[1:]])
    return f"{subject}\n\n{_shorten_body(body)}" if body else subject


def build_subject(title: str, category: str, earlier: Sequence[str]) -> str:
    """The title as a subject, with a type (``test: …``) if most of the earlier ones have one."""
    line = to_plain_line(title)
    typed = sum(1 for message in earlier if _TYPED.match(message))
    if len(earlier) < _FEWEST_SUBJECTS or typed * 2 <= len(earlier) or _TYPED.match(line):
        return line
    if line[1:2].islower():
        line = line[0].lower() + line[1:]
    return f"{_CONVENTIONAL.get(category, 'chore')}: {line}"


def _shorten_subject(line: str) -> str:
    line = to_plain_line(line)
    if len(line) <= _LONGEST_SUBJECT:
        return line
    head, space, _ = line[:_LONGEST_SUBJECT].rpartition(" ")
    return f"{head if space else line[: _LONGEST_SUBJECT - 1]}…"


def _shorten_body(body: str) -> str:
    if len(body) <= _LONGEST_BODY:
        return body
    return body[:_LONGEST_BODY].rpartition("\n")[0].rstrip() or body[:_LONGEST_BODY]


def _is_unwanted(line: str) -> bool:
    """True for trailers and signatures that tools add, code fences, and bare URLs."""
    text = line.strip()
    return bool(
        _TRAILER.match(text)
        or _SIGNATURE.match(text)
        or _AGENT.search(text)
        or _ONLY_ADDRESS.fullmatch(text)
        or "\N{ROBOT FACE}" in text
        or _FENCE.fullmatch(line)
    )


def _remove_trailers(paragraph: str, earlier: Sequence[str]) -> list[str]:
    """The last paragraph as a list. If all its lines are trailers, only those stay whose token is
    in ``earlier`` messages; [] if none does."""
    lines = [line.strip() for line in paragraph.split("\n")]
    found = [_TOKEN_LINE.match(line) for line in lines]
    if not all(found):
        return [paragraph]
    used = re.findall(r"(?m)^([A-Za-z][A-Za-z0-9]*): ", "\n".join(earlier))
    kept = [line for line, match in zip(lines, found, strict=True) if match and match[1] in used]
    return ["\n".join(kept)] if kept else []
