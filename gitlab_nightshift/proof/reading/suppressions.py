"""suppression-added: comments and annotations that silence a tool."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.proof.syntax.nodes import read_line_number, read_text, walk
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import format_excerpt

_TABLE = RuleTable(__file__)

_IN_COMMENTS = _TABLE.get_pattern("in_comments")
_MARKS = _TABLE.get_pattern("marks")
_MARK_NODES = _TABLE.get_words("mark_nodes")
_SAYING = _MARK_NODES | {"preproc_pragma"}
_PRAGMA = _TABLE.get_pattern("pragma")
_NOT_CODE = _TABLE.get_pattern("not_code")


_LONGEST = 20_000
_MAY_SILENCE = _TABLE.get_pattern("may_silence")


@dataclass(frozen=True)
class Suppression:
    """A suppression: the tool's word, the rules that it names, its line and the text there."""

    tool: str
    rules: frozenset[str]
    line: int
    said: str

    @property
    def key(self) -> tuple[str, frozenset[str]]:
        """What makes it another one."""
        return self.tool, self.rules


def find_added_suppressions(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Suppressions that came; one that moved or names fewer rules than before is none."""
    if not any(
        _MAY_SILENCE.search(added.text[:_LONGEST]) for file in change.files for added in file.added
    ):
        return
    sides = [(file, *read_sides(file)) for file in change.files]
    there = Counter(each.key for _, old, _ in sides for each in _find_suppressions(old))
    news = []
    for file, _, new in sides:
        for each in _find_suppressions(new):
            if there[each.key]:
                there[each.key] -= 1
            else:
                news.append((file, each))
    left = [*there.elements()]
    for file, each in sorted(news, key=lambda new: -len(new[1].rules)):
        narrower = next((old for old in left if _covers(old, each)), None)
        if narrower is not None:
            left.remove(narrower)
        else:
            said = f"A tool is silenced here: {format_excerpt(each.said)}"
            yield RuleViolation(file.path, each.line, said)


def _covers(old: tuple[str, frozenset[str]], new: Suppression) -> bool:
    """An old suppression that was at least as wide."""
    tool, rules = old
    return tool == new.tool and (not rules or (bool(new.rules) and new.rules <= rules))


def _find_suppressions(side: Side) -> Iterator[Suppression]:
    if _NOT_CODE.search(side.path) and "markdownlint" not in side.code:
        return
    yield from _find_in_comments(side) if side.source else ()
    if side.root is None or not _MAY_MARK.search(side.source):
        return
    for node in walk(side.root):
        said, line = read_text(node) if node.type in _SAYING else "", read_line_number(node)
        if node.type in _MARK_NODES and (mark := _MARKS.match(said)):
            yield _build_suppression(mark["tool"], mark["rest"], line, said)
        elif node.type == "preproc_pragma" and (pragma := _PRAGMA.match(said)):
            yield _build_suppression("#pragma warning disable", pragma["rest"], line, said)


def _find_in_comments(side: Side) -> Iterator[Suppression]:
    for number, said in side.comments:
        for found in _IN_COMMENTS.finditer(said):
            if "ts-expect-error" in found["tool"] and side.is_test_file:
                continue  # there it asserts that the types refuse something
            yield _build_suppression(found["tool"], found["rest"], number, said)


_MAY_MARK = compile_lazily(
    rb"(?i)suppress|nowarn|silent|no_type_check|allow|expect|coverage|unchecked|pragma"
)


def _build_suppression(tool: str, rest: str, number: int, said: str) -> Suppression:
    """Reasons after the rules are not rules."""
    rest = re.split(r"\s--\s|//|\s#\s|\breason\b|\bjustification\b", rest)[0]
    rules = re.findall(r"[A-Za-z@][\w@./-]*[\w]", rest[:300])
    word = re.sub(r"[\s#/!\[(]+", "", tool).lower()
    return Suppression(word, frozenset(rules), number, said.strip())
