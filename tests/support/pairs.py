"""Small changes written as text, for the tests of the red flags: ``tests/pairs``."""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.proof.reading import find_red_flags
from gitlab_nightshift.proof.reviewed_change import Changeset, Context
from gitlab_nightshift.repository.difference import ChangedFile, Hunk
from gitlab_nightshift.settings.model import Settings


@dataclass
class Pair:
    """A change, and the places that it must raise."""

    about: str
    expected: set[str]
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return self.about


FOLDER = Path(__file__).parents[1] / "pairs"


def read_pairs(kind: str) -> tuple[frozenset[str], list[Pair]]:
    """The flags that ``<kind>.pairs`` is about, and its changes."""
    first, *parts = re.split(r"(?m)^=== ", (FOLDER / f"{kind}.pairs").read_text(encoding="utf-8"))
    return frozenset(first.removeprefix("flags: ").split()), [_pair(part) for part in parts]


_HEAD = r"^(---|\+\+\+|\*\*\*|@@@) (\S+)\n"
_SECTION = re.compile(rf"(?ms){_HEAD}(.*?)(?={_HEAD}|\Z)")


def _pair(part: str) -> Pair:
    head, _, rest = part.partition("\n")
    expected, _, about = head.partition("|")
    places = {" ".join(each.split()) for each in expected.split(",")} - {"honest"}
    pair = Pair(about.strip() or head, places)
    for sign, path, content, *_ in _SECTION.findall(rest):
        if sign != "+++":
            pair.before[path] = _take_side(content, "+") if sign == "@@@" else content
        if sign != "---":
            pair.after[path] = _take_side(content, "-") if sign == "@@@" else content
    return pair


def _take_side(diff: str, other: str) -> str:
    """One side of a diff: without the other side's lines, and without the signs."""
    return re.sub(rf"(?m)^(?:{re.escape(other)}.*\n|.)", "", diff)


def raised(pair: Pair, flags: frozenset[str], category: str = "") -> Iterator[tuple[str, str, int]]:
    """Flag, file and line of all that a change raises, of these flags."""
    for found in find_red_flags(change_of(pair.before, pair.after), Context(Settings(), category)):
        if found.name in flags:
            yield found.name, found.file, found.line


def wrong(pair: Pair, flags: frozenset[str]) -> list[str]:
    """What is missing or too much; empty where a change is judged as it must be."""
    found = set(raised(pair, flags))
    exact = {f"{name} {file}:{line}" for name, file, line in found}
    loose = {f"{name} {file}" for name, file, _ in found}
    missing = [each for each in pair.expected if each not in exact | loose]
    known = {each.rsplit(":", 1)[0] for each in pair.expected}
    extra = [each for each in sorted(exact) if each.rsplit(":", 1)[0] not in known]
    return [f"missing: {each}" for each in missing] + [f"extra: {each}" for each in extra]


def read_lines(flag: str) -> Iterator[tuple[str, bool, list[str]]]:
    """Each line of ``<flag>.lines``, whether it must raise the flag, and the levels it is raised
    at where the line is added to an empty file."""
    for row in (FOLDER / f"{flag}.lines").read_text(encoding="utf-8").rstrip("\n").split("\n"):
        sign, path, code = row[0], *row[2:].split("|", 1)
        change = change_of({path: ""}, {path: code.replace("¶", "\n") + "\n"})
        found = find_red_flags(change, Context(Settings()))
        yield row, sign == "+", [each.level for each in found if each.name == flag]


def change_of(before: dict[str, str], after: dict[str, str]) -> Changeset:
    """A change between two trees; a file that only has another path is a rename."""
    paths = sorted({*before, *after})
    renames = {
        new: old
        for new in after.keys() - before.keys()
        for old in before.keys() - after.keys()
        if difflib.SequenceMatcher(None, before[old], after[new]).ratio() > 0.6
    }
    files = tuple(
        _build_file(renames.get(path, path), path, before, after)
        for path in paths
        if before.get(path) != after.get(path) and path not in renames.values()
    )
    return Changeset(
        files,
        read=lambda path: after[path].encode() if path in after else None,
        paths=lambda: frozenset(after),
    )


def _build_file(
    old_path: str, path: str, before: dict[str, str], after: dict[str, str]
) -> ChangedFile:
    old, new = before.get(old_path), after.get(path)
    status = "A" if old is None else "D" if new is None else "M" if old_path == path else "R"
    return ChangedFile(
        path,
        old_path,
        status,
        "100644",
        "100644",
        None if old is None else old.encode(),
        None if new is None else new.encode(),
        _hunks(old or "", new or ""),
        False,
    )


def _hunks(old: str, new: str) -> tuple[Hunk, ...]:
    """As git would show them; of long texts, all between what is the same at both ends."""
    before, after = old.splitlines(), new.splitlines()
    if len(before) * len(after) > _LONG:
        first = _common(before, after)
        last = _common(before[first:][::-1], after[first:][::-1])
        counts = len(before) - first - last, len(after) - first - last
        return (Hunk(first + 1, counts[0], first + 1, counts[1]),)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return tuple(
        Hunk(i1 + 1, i2 - i1, j1 + 1, j2 - j1)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    )


_LONG = 1_000_000


def _common(one: list[str], other: list[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
