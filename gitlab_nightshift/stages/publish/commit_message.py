"""The commit message: the draft's, cleaned, or one in the repository's style."""

import re
from collections.abc import Sequence

from gitlab_nightshift.stages.publish.escaping import to_plain_line, to_plain_text
from gitlab_nightshift.text.lazy_patterns import compile_lazily

LONGEST_SUBJECT = 72
LONGEST_BODY = 3000
FEWEST_SUBJECTS = 3
CONVENTIONAL = {
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
_TRAILER = compile_lazily(r"[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)+\s*:\s")
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
_ONLY_ADDRESS = compile_lazily(r"\W*https?:\s?//\S+\W*")
_FENCE = compile_lazily(r"\s*(?:`{3,}|~{3,})\w*\s*")


def format_commit_message(drafted: str, title: str, category: str, last: Sequence[str]) -> str:
    """Subject of at most 72 characters, blank line, body; never empty, no trailer, no reference.

    ``last`` are the repository's last messages, whose style is used without a draft.
    """
    lines = [line for line in to_plain_text(drafted).split("\n") if not _not_ours(line)]
    text = to_plain_text("\n".join(lines)).strip("\n")  # again: lines that were apart have met
    paragraphs = [part.strip("\n") for part in re.split(r"\n{2,}", text) if part.strip()]
    if len(paragraphs) > 1:
        paragraphs[-1:] = _remove_trailers(paragraphs[-1], last)
    if not paragraphs:
        return _shorten_subject(build_subject(title, category, last))
    first, _, rest = paragraphs[0].partition("\n")
    subject = _shorten_subject(first)
    whole = [first.strip()] if subject != first.strip() else []
    body = "\n\n".join([*whole, *([rest] if rest else []), *paragraphs[1:]])
    return f"{subject}\n\n{_shorten_body(body)}" if body else subject


def build_subject(title: str, category: str, last: Sequence[str]) -> str:
    """The title as a subject, with a type (``test: …``) if most of the last subjects have one."""
    line = to_plain_line(title)
    typed = sum(1 for message in last if _TYPED.match(message))
    if len(last) < FEWEST_SUBJECTS or typed * 2 <= len(last) or _TYPED.match(line):
        return line
    if line[1:2].islower():
        line = line[0].lower() + line[1:]
    return f"{CONVENTIONAL.get(category, 'chore')}: {line}"


def _shorten_subject(line: str) -> str:
    line = to_plain_line(line)
    if len(line) <= LONGEST_SUBJECT:
        return line
    head, space, _ = line[:LONGEST_SUBJECT].rpartition(" ")
    return f"{head if space else line[: LONGEST_SUBJECT - 1]}…"


def _shorten_body(body: str) -> str:
    if len(body) <= LONGEST_BODY:
        return body
    return body[:LONGEST_BODY].rpartition("\n")[0].rstrip() or body[:LONGEST_BODY]


def _not_ours(line: str) -> bool:
    """True for trailers and signatures that tools add, a code block's fences, lone addresses."""
    text = line.strip()
    begins = (_TRAILER, _SIGNATURE)
    if any(pattern.match(text) for pattern in begins) or _AGENT.search(text):
        return True
    return (
        bool(_ONLY_ADDRESS.fullmatch(text))
        or "\N{ROBOT FACE}" in text
        or bool(_FENCE.fullmatch(line))
    )


def _remove_trailers(paragraph: str, last: Sequence[str]) -> list[str]:
    """The trailer tokens (``Token: value`` in the last paragraph) that this repository uses."""
    lines = [line.strip() for line in paragraph.split("\n")]
    found = [_TOKEN_LINE.match(line) for line in lines]
    if not all(found):
        return [paragraph]
    used = re.findall(r"(?m)^([A-Za-z][A-Za-z0-9]*): ", "\n".join(last))
    kept = [line for line, match in zip(lines, found, strict=True) if match and match[1] in used]
    return ["\n".join(kept)] if kept else []
