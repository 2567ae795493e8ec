"""whitespace-only: lines that differ only in white space or line endings."""

import ast
import re
from collections.abc import Iterable, Iterator

from gitlab_nightshift.policy.settings_parser import parse_data
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.registry.flag_registry import Level
from gitlab_nightshift.repository.difference import ChangedFile

_TABLE = RuleTable(__file__)

_INDENTED = _TABLE.get_pattern("indented")
_QUOTED = _TABLE.get_pattern("quoted")


def find_whitespace_changes(change: Changeset, context: Context) -> Iterator[RuleViolation]:
    """Lines that differ only in white space or line endings; a failure if a night changed nothing
    else. People format code on purpose."""
    noise = [(file, *_find_noise(file)) for file in change.files]
    real = any(others or not hunks for _, hunks, others in noise)
    level: Level | None = "fail" if context.category and not real else None
    for file, hunks, _ in noise:
        if hunks:
            lines = "1 place differs" if len(hunks) == 1 else f"{len(hunks)} places differ"
            detail = f"{lines} only in white space or line endings: leave such lines alone."
            yield RuleViolation(file.path, hunks[0], detail, level)


def _find_noise(file: ChangedFile) -> tuple[list[int], bool]:
    """The line of each hunk in which only white space differs, and whether there are others."""
    if file.status in "AD" or file.binary:
        return [], True
    found: list[int] = []
    blank = 0
    hunks = file.hunks
    indented = bool(hunks) and _is_indented(file)
    for hunk in hunks:
        # A hunk without lines on one side names the line before it: there is nothing to read.
        old = file.old_lines[hunk.old - 1 : hunk.old - 1 + hunk.old_count] if hunk.old_count else []
        new = file.new_lines[hunk.new - 1 : hunk.new - 1 + hunk.new_count] if hunk.new_count else []
        if not "".join(old + new).strip():
            blank += 1
        elif _strip_whitespace(old, indented) == _strip_whitespace(new, indented):
            found.append(max(hunk.new, 1))
    others = len(found) + blank < len(hunks) or file.status != "M"
    if blank and not others and not found:  # only blank lines were added or removed
        found = [max(hunk.new, 1) for hunk in hunks]
    return found, others


def _strip_whitespace(lines: Iterable[str], indented: bool) -> str:
    """Lines without insignificant white space; quoted text is kept."""
    if indented:
        heads = ((line, line[: len(line) - len(line.lstrip())]) for line in lines)
        stripped = (head + _strip_whitespace([line], False) for line, head in heads)
        return "\n".join(line if line.strip() else "" for line in stripped)
    parts = _QUOTED.split(" ".join(lines))
    return "".join(part if n % 2 else re.sub(r"\s+", "", part) for n, part in enumerate(parts))


def _is_indented(file: ChangedFile) -> bool:
    """True if indentation may be significant in this change, as the parsed data differs."""
    if not _INDENTED.search(file.path):
        return False
    old, new = (_parse_content(file.path, side or b"") for side in (file.old, file.new))
    return old is None or old != new


def _parse_content(path: str, data: bytes) -> object:
    """A file's data without its white space; None if it cannot be parsed."""
    python = path.endswith((".py", ".pyi"))
    try:
        return ast.dump(ast.parse(data)) if python else parse_data(path, data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
