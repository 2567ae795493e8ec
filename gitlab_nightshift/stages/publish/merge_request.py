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
"""Changed functions and classes that the marker names, by which an idea is recognized."""
TITLE_PLACEHOLDERS = frozenset({"category", "title", "run_id"})
COMMIT_PLACEHOLDERS = frozenset({"category", "title", "message", "run_id"})
NIGHT_COLOR = "#6666c4"
CATEGORY_COLORS = {
    "tests": "#428fdc",
    "refactoring": "#9475db",
    "docs": "#108548",
    "security": "#dd2b0e",
    "performance": "#e9be74",
}
OTHER_COLOR = "#868686"
# Prefixes that make a merge request a draft (Gitlab::Regex.merge_request_draft), or that this
# program sets.
_TITLE_PREFIX = compile_lazily(
    r"^\s*(?:(?:draft|wip)\s*:|[\[(](?:draft|wip|night-?shift[^\])]*)[\])])\s*", re.I
)
_LONGEST_SUBJECT, _LONGEST_BODY = 72, 3000
"""Characters."""
_FEWEST_SUBJECTS = 3
"""Subjects of earlier commits that are needed to recognize the repository's style."""
_COMMIT_TYPES = {
    "tests": "test",
    "refactoring": "refactor",
    "docs": "docs",
    "security": "fix",
    "performance": "perf",
}
"""Category → type of Conventional Commits; a team's own categories get ``chore``."""
_HAS_TYPE = compile_lazily(
    r"(?:feat|fix|docs|style|refactor|perf|tests?|build|ci|chore|revert)(?:\([^)]*\))?!?: "
)
# What git-interpret-trailers(1) would read as a trailer, such as "Signed-off-by: ".
_HYPHENATED_TRAILER = compile_lazily(r"[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)+\s*:\s")
# Any trailer: "Token: value", or "Token #1".
_ANY_TRAILER = compile_lazily(r"([A-Za-z][A-Za-z0-9-]*)(?: ?:\s+\S| # ?\d)")
_SIGNATURE = compile_lazily(
    r"[\W_]*(?:Generated|Created|Written|Made|Assisted|Authored) (?:with|by|using)\b"
)
_INLINE_SIGNATURE = compile_lazily(
    r"(?<![a-z])(?:generated|created|written|made|assisted|authored)\s+(?:with|by|using)\W+"
    r"(?:an?\s+)?(?:ai|anthropic|claude|codex|copilot|cursor|gemini|gpt|llm|openai)(?![a-z])",
    re.I,
)
"""A signature within a line: commits must not carry an agent's signature."""
# A line with only a URL, in which to_plain_text has put a space ("https: //").
_BARE_URL = compile_lazily(r"\W*https?:\s?//\S+\W*")
_FENCE = compile_lazily(r"\s*(?:`{3,}|~{3,})\w*\s*")


@dataclass(frozen=True)
class MergeRequestTexts:
    """Cleaned and redacted. ``slug`` is for the branch's name, ``message`` the commit message."""

    title: str
    body: str
    slug: str
    message: str
    labels: tuple[Label, ...]


def check_templates(settings: Settings) -> None:
    """Raise ``E_CONFIG`` for an unknown placeholder in the title's or the commit's template."""
    check_placeholders(settings.title_template, TITLE_PLACEHOLDERS, "title_template")
    check_placeholders(settings.commit_template or "", COMMIT_PLACEHOLDERS, "commit_template")


def clean_title(proposal: Proposal) -> str:
    """The drafted title as one plain line, without prefixes that GitLab or this program sets."""
    text = to_plain_line(proposal.draft.title, LONGEST_TITLE_TEXT)
    while match := _TITLE_PREFIX.match(text):  # "Draft: WIP: …" has two
        text = text[match.end() :]
    return text.rstrip(". ") or "Improve " + to_plain_line(", ".join(proposal.change.files), 100)


def format_title(bundle: Bundle, proposal: Proposal, settings: Settings) -> str:
    """The title by ``title_template``, with ``Draft:`` if the settings or a gate require it."""
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
    """The commit message, in the style of the repository's ``earlier`` messages."""
    title, category = clean_title(proposal), proposal.category
    message = format_commit_message(proposal.draft.commit_message, title, category, earlier)
    return apply_commit_template(settings, category, title, message, bundle.run_id)


def apply_commit_template(
    settings: Settings, category: str, title: str, message: str, run_id: str
) -> str:
    """A commit message by ``commit_template``; unchanged without one."""
    if settings.commit_template is None:
        return message + "\n"
    values = {"category": category, "title": title, "message": message, "run_id": run_id}
    return render(settings.commit_template, values).strip() + "\n"


def list_labels(proposal: Proposal, settings: Settings) -> tuple[Label, ...]:
    """The labels, each with the color and description that it gets if it has to be created."""
    names = (NIGHT_LABEL, proposal.category) if settings.labels is None else settings.labels
    return tuple(_build_label(name) for name in dict.fromkeys(names))


def list_usual_labels(settings: Settings) -> tuple[Label, ...]:
    """All labels that nights may give to their merge requests."""
    default = (NIGHT_LABEL, *settings.category_schedule.values())
    names = default if settings.labels is None else settings.labels
    return tuple(_build_label(name) for name in dict.fromkeys(names))


def _build_label(name: str) -> Label:
    if name == NIGHT_LABEL:
        return Label(name, NIGHT_COLOR, "Opened by the night shift: small, proven improvements")
    if name in CATEGORY_GUIDANCE:
        return Label(name, CATEGORY_COLORS.get(name, OTHER_COLOR), f"Night-shift category: {name}")
    return Label(name, OTHER_COLOR, "Used by the night shift")


def build_marker(bundle: Bundle, proposal: Proposal) -> Marker:
    """The hidden marker by which the merge request is recognized later."""
    paths, symbols = proposal.change.files, proposal.symbols[:MOST_SYMBOLS]
    idea = compute_fingerprint(proposal.category, paths, symbols)
    return Marker(bundle.run_id, proposal.category, idea, symbols, proposal.digest[:16])


def format_commit_message(draft: str, title: str, category: str, earlier: Sequence[str]) -> str:
    """Subject of at most 72 characters, blank line, body; never empty, without references. Without
    a draft the title is the subject, in the style of the ``earlier`` messages of the repository.

    Hyphenated trailers (``Signed-off-by:``) are dropped; other trailers are kept if ``earlier``
    messages use their token.
    """
    lines = [line for line in to_plain_text(draft).split("\n") if not _is_unwanted(line)]
    # Again: without the dropped lines, neighbours may form a new reference or closing pattern.
    text = to_plain_text("\n".join(lines)).strip("\n")
    paragraphs = [part.strip("\n") for part in re.split(r"\n{2,}", text) if part.strip()]
    if len(paragraphs) > 1:
        paragraphs[-1:] = _remove_trailers(paragraphs[-1], earlier)
    if not paragraphs:
        return _shorten_subject(build_subject(title, category, earlier))
    first_line, _, first_lines = paragraphs[0].partition("\n")
    subject, complete_subject = _shorten_subject(first_line), first_line.strip()
    # A shortened subject is repeated in full.
    repeated = complete_subject if subject != complete_subject else ""
    body = "\n\n".join(filter(None, [repeated, first_lines, *paragraphs[1:]]))
    return f"{subject}\n\n{_shorten_body(body)}" if body else subject


def build_subject(title: str, category: str, earlier: Sequence[str]) -> str:
    """The title as a subject, with a type (``test: …``) if most ``earlier`` messages have one."""
    line = to_plain_line(title)
    with_type = [message for message in earlier if _HAS_TYPE.match(message)]
    use_types = len(earlier) >= _FEWEST_SUBJECTS and len(with_type) * 2 > len(earlier)
    if not use_types or _HAS_TYPE.match(line):
        return line
    if line[1:2].islower():
        line = line[0].lower() + line[1:]
    return f"{_COMMIT_TYPES.get(category, 'chore')}: {line}"


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
    """True for trailers and signatures that tools add, for code fences, and for a bare URL."""
    text = line.strip()
    return bool(
        _HYPHENATED_TRAILER.match(text)
        or _SIGNATURE.match(text)
        or _INLINE_SIGNATURE.search(text)
        or _BARE_URL.fullmatch(text)
        or "\N{ROBOT FACE}" in text
        or _FENCE.fullmatch(line)
    )


def _remove_trailers(paragraph: str, earlier: Sequence[str]) -> list[str]:
    """The paragraph in a list. If all its lines are trailers, only those whose token is in
    ``earlier`` messages are kept; [] if none is."""
    lines = [line.strip() for line in paragraph.split("\n")]
    trailers = [_ANY_TRAILER.match(line) for line in lines]
    if not all(trailers):
        return [paragraph]
    tokens = re.findall(r"(?m)^([A-Za-z][A-Za-z0-9]*): ", "\n".join(earlier))
    kept = [match.string for match in trailers if match and match[1] in tokens]
    return ["\n".join(kept)] if kept else []
