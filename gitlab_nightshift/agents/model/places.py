"""Finds the text that a model wants to replace: exactly, or else ignoring white space.

A text that is not found is refused with the most similar place, and never replaced there.
"""

import difflib
from collections.abc import Sequence

from gitlab_nightshift.agents.model.blocks import Block
from gitlab_nightshift.agents.model.edits import NotApplicableError

MOST_COMPARED = 20_000
"""Lines of a file that are searched for a similar place."""
LEAST_SIMILARITY = 0.5


def build_block(path: str, text: str, old: str, new: str) -> Block:
    """The edit as a block of whole lines. Raises NotApplicableError, with a text for the model."""
    text, old, new = (part.replace("\r\n", "\n") for part in (text, old, new))
    start = text.find(old)
    if start >= 0 and text.find(old, start + 1) >= 0:
        raise NotApplicableError(
            [f"{path}: the old text occurs {text.count(old)} times; take more lines"]
        )
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    if start >= 0:
        return _replace_exactly(path, text, start, old, new)
    places = _find_loosely(lines, wanted)
    if len(places) == 1:
        found = lines[places[0] : places[0] + len(wanted)]
        return Block(1, path, tuple(found), _move_lines(new, wanted, found))
    if places:
        numbers = ", ".join(str(place + 1) for place in places[:5])
        text = f"but for white space the old text is at lines {numbers}; copy it exactly"
        raise NotApplicableError([f"{path}: {text}"])
    raise NotApplicableError([f"{path}: the old text is not there{_show_nearest(lines, wanted)}"])


def _replace_exactly(path: str, text: str, start: int, old: str, new: str) -> Block:
    """A block of the whole lines around the text. A line end that ``old`` and ``new`` share stays
    outside: a block has lines without their ends."""
    end = start + len(old)
    first = text.rfind("\n", 0, start) + 1
    shared = old.endswith("\n") and (not new or new.endswith("\n"))
    stop = end - 1 if shared else text.find("\n", end)
    stop = len(text) if stop < 0 else stop
    search = tuple(text[first:stop].split("\n"))
    if shared and not new and first == start:
        return Block(1, path, search, ())
    after = text[first:start] + (new.removesuffix("\n") if shared else new + text[end:stop])
    return Block(1, path, search, tuple(after.split("\n")))


def _find_loosely(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Places where the lines are equal but for white space."""
    plain, needle = (["".join(line.split()) for line in part] for part in (lines, wanted))
    if not any(needle):
        return []
    last = len(plain) - len(needle)
    return [at for at in range(last + 1) if plain[at : at + len(needle)] == needle]


def _move_lines(new: str, wanted: Sequence[str], found: Sequence[str]) -> tuple[str, ...]:
    """The new lines, indented like the file's lines instead of the model's."""
    pairs = zip(wanted, found, strict=True)
    wrong, right = next(
        (_read_indent(one), _read_indent(other)) for one, other in pairs if one.strip()
    )
    lines = new.strip("\n").split("\n") if new.strip("\n") else []
    moved = (
        right + line.removeprefix(wrong) if line.strip() and line.startswith(wrong) else line
        for line in lines
    )
    return tuple(moved)


def _read_indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _show_nearest(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """The only place that looks similar, "" if there is none or more than one."""
    size, matcher = len(wanted), difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(first := wanted[0].strip())
    best, at, second = LEAST_SIMILARITY, -1, 0.0
    for place, line in enumerate(lines[:MOST_COMPARED]):
        matcher.set_seq1(line.strip()[:500])
        # quick_ratio is an upper bound of ratio, which is slow.
        if not first or matcher.quick_ratio() <= max(second, LEAST_SIMILARITY):
            continue
        like = matcher.ratio()
        if like > best:
            best, at, second = like, place, best if at >= 0 else 0.0
        else:
            second = max(second, like)
    if at < 0 or second >= best:
        return ""
    shown = "\n".join(lines[at : at + size])[:2000]
    return f"; the nearest place is line {at + 1}:\n{shown}"
