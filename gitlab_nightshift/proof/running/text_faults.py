"""Faults in the text of an unsupported language: comparisons, numbers and negations.

Comments and strings are skipped as far as they can be recognized line by line.
"""

import re
from collections.abc import Iterator

from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.running.faults import Fault

_TABLE = RuleTable(__file__)
_SKIPPED = _TABLE.get_pattern("skipped", re.IGNORECASE)
_MESSAGES = _TABLE.get_pattern("messages")
_COMMENT = _TABLE.get_pattern("comment")
_STRING = _TABLE.get_pattern("string")
_OPENS = _TABLE.get_pattern("opens")
_CLOSES = _TABLE.get_pattern("closes")
_NUMBER = _TABLE.get_pattern("number")
_OPERATOR = _TABLE.get_pattern("operator")
_NEGATION = _TABLE.get_pattern("negation")
_SWAPS: dict[str, str] = _TABLE.entries["swaps"]
_LONGEST_LINE = 400
"""Characters: longer lines are data or generated."""


def list_text_faults(path: str, source: bytes) -> list[Fault]:
    """Faults in source order, for ``write_faulty_file``; ``path`` is raw. None if the file is not
    UTF-8."""
    try:
        lines = re.findall(r"[^\n]*\n|[^\n]+", source.decode("utf-8"))
    except UnicodeDecodeError:
        return []
    found: list[Fault] = []
    at = 0
    closed = True
    for number, line in enumerate(lines, 1):
        code = _remove_texts(line)
        begins = (
            not _SKIPPED.search(line) and not _MESSAGES.search(code) and len(line) < _LONGEST_LINE
        )
        if closed and begins and not _OPENS.search(code) and not line.startswith("#!"):
            found += (
                _make_fault(path, number, at + len(line[:start].encode()), old, new)
                for start, old, new in sorted(_list_changes(code))
            )
        closed = _ends_closed(code, closed)
        at += len(line.encode())
    return found


def _remove_texts(line: str) -> str:
    """The line with strings blanked and comments removed."""
    code = _STRING.sub(lambda text: text[0][:1] + " " * (len(text[0]) - 2) + text[0][-1:], line)
    return _COMMENT.sub(lambda comment: comment[0] if _OPENS.match(comment[0]) else "", code)


def _ends_closed(code: str, closed: bool) -> bool:
    """True if no multi-line comment is open after a line."""
    marks = sorted(
        [(found.start(), False) for found in _OPENS.finditer(code)]
        + [(found.start(), True) for found in _CLOSES.finditer(code)]
    )
    both = [start for start, _ in marks if (start, True) in marks and (start, False) in marks]
    for start, closes in marks:
        if start not in both:
            closed = closes
    return closed != (len(both) % 4 == 2)


def _list_changes(code: str) -> Iterator[tuple[int, str, str]]:
    """Position in a line, old text and new text of each change."""
    for found in _OPERATOR.finditer(code):
        if new := _SWAPS.get(found[0]):
            yield found.start(), found[0], new
    for found in _NUMBER.finditer(code):
        yield found.start(), found[0], str(int(found[0]) + 1)
    for found in _NEGATION.finditer(code):
        yield found.start(), found[0], ""


def _make_fault(path: str, line: int, start: int, old: str, new: str) -> Fault:
    what = f"`{old}` as `{new}`" if new else f"`{old.strip()}` left out"
    return Fault(path, line, what, "", start, start + len(old.encode()), new, "", by_value=True)
