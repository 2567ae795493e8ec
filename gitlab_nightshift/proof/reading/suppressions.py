"""suppression-added: finds added comments and annotations that silence a tool."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation, take
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.proof.syntax.nodes import read_line_number, read_text
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import format_excerpt

_TABLE = RuleTable(__file__)

_IN_COMMENTS = _TABLE.get_pattern("in_comments")
_ANNOTATIONS = _TABLE.get_pattern("annotations")
_ANNOTATION_NODES = _TABLE.get_words("annotation_nodes")
_PRAGMA = _TABLE.get_pattern("pragma")
_NOT_CODE = _TABLE.get_pattern("not_code")
_LONGEST_LINE = 20_000  # characters
# Every suppression has one of these words, and few files do.
_HINTS = _TABLE.get_pattern("hints")
_ANNOTATION_HINTS = compile_lazily(
    rb"(?i)suppress|nowarn|silent|no_type_check|allow|expect|coverage|unchecked|pragma"
)


@dataclass(frozen=True)
class Suppression:
    """A suppression: the tool's keyword, the rules that it names, its line and its text."""

    tool: str
    rules: frozenset[str]
    line: int
    text: str

    @property
    def key(self) -> tuple[str, frozenset[str]]:
        """Equal for suppressions of the same rules of the same tool."""
        return self.tool, self.rules


def find_added_suppressions(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Added suppressions, without those that moved, or that replace a wider one."""
    lines = (line.text[:_LONGEST_LINE] for file in change.files for line in file.added)
    if not any(map(_HINTS.search, lines)):  # parsing the files would take longer
        return
    sides = [(file, *read_sides(file)) for file in change.files]
    before = Counter(each.key for _, old, _ in sides for each in _find_suppressions(old))
    added = []
    for file, _, new in sides:
        for each in _find_suppressions(new):
            if not take(before, each.key):
                added.append((file, each))
    removed = [*before.elements()]
    # Those with most rules come first: one with fewer is covered by more of the old ones.
    for file, each in sorted(added, key=lambda pair: -len(pair[1].rules)):
        wider = next((old for old in removed if _covers(old, each)), None)
        if wider is not None:
            removed.remove(wider)
        else:
            detail = f"A tool is silenced here: {format_excerpt(each.text)}"
            yield RuleViolation(file.path, each.line, detail)


def _covers(old: tuple[str, frozenset[str]], new: Suppression) -> bool:
    """True if the old suppression is at least as wide; one that names no rules covers all."""
    tool, rules = old
    return tool == new.tool and (not rules or (bool(new.rules) and new.rules <= rules))


def _find_suppressions(side: Side) -> Iterator[Suppression]:
    # Text and data only mention directives, except those of markdownlint.
    if _NOT_CODE.search(side.path) and "markdownlint" not in side.code:
        return
    yield from _find_in_comments(side) if side.source else ()
    if not _ANNOTATION_HINTS.search(side.source):
        return
    for node in side.walk():
        if node.type not in _ANNOTATION_NODES | {"preproc_pragma"}:
            continue
        text, line = read_text(node), read_line_number(node)
        if node.type in _ANNOTATION_NODES and (annotation := _ANNOTATIONS.match(text)):
            yield _build_suppression(annotation["tool"], annotation["rest"], line, text)
        elif node.type == "preproc_pragma" and (pragma := _PRAGMA.match(text)):
            yield _build_suppression("#pragma warning disable", pragma["rest"], line, text)


def _find_in_comments(side: Side) -> Iterator[Suppression]:
    for number, comment in side.comments:
        for directive in _IN_COMMENTS.finditer(comment):
            if "ts-expect-error" in directive["tool"] and side.is_test_file:
                continue  # in a test it asserts that the compiler reports an error
            yield _build_suppression(directive["tool"], directive["rest"], number, comment)


def _build_suppression(tool: str, rest: str, line: int, text: str) -> Suppression:
    """``rest`` is the text behind the tool's keyword: rules, and perhaps a reason."""
    without_reason = re.split(r"\s--\s|//|\s#\s|\breason\b|\bjustification\b", rest)[0]
    rules = re.findall(r"[A-Za-z@][\w@./-]*[\w]", without_reason[:300])
    keyword = re.sub(r"[\s#/!\[(]+", "", tool).lower()
    return Suppression(keyword, frozenset(rules), line, text.strip())
