"""Branches of product code that are made for a test: for its input, or for its runner.

A value that nobody would choose for the general case, and that tests had before the change, is
asked for: compared, looked for in a list, matched. Where the value says less, the answer has to be
spelled out, and to stand in the tests as well.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from gitlab_nightshift.proof.reviewed_change import Changeset, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.proof.syntax.languages import find_language, is_test_file
from gitlab_nightshift.proof.syntax.nodes import (
    LITERALS,
    STRINGS,
    find_field,
    list_children,
    read_line_number,
    read_text,
    walk,
)
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import format_excerpt

_TABLE = RuleTable(__file__)
_USUAL = _TABLE.get_words("usual")
_DEFAULT_LIKE = _TABLE.get_words("default_like")
_CONDITIONS = _TABLE.get_words("conditions")
_RETURNS = _TABLE.get_words("returns")
_BUILT = _TABLE.get_pattern("built")
_PLATFORM = _TABLE.get_pattern("platform")
_RUNNERS = _TABLE.get_pattern("runners", re.IGNORECASE)
_ONE_TEXT = compile_lazily(r"(?:r[\"']|/)\^?((?:[^\\\[\](){}*+.|^$]|\\\W)+)\$?(?:[\"']|/\w*)")
_MOST_TESTS, _LARGEST_TEST, _LONGEST = 30, 300_000, 400


@dataclass(frozen=True)
class _Branch:
    """A condition with the literals in it, and the literal that it answers with, or ""."""

    said: str
    line: int
    values: tuple[str, ...]
    answer: str


def find_special_cases(
    old: Side, side: Side, file: ChangedFile, change: Changeset
) -> Iterator[RuleViolation]:
    """``if order_id == "A-1003"`` with a value from a test, ``if "pytest" in sys.modules``."""
    added, known = set(file.added_numbers), Counter(each.said for each in _list_branches(old))
    came = [e for e in _list_branches(side) if e.line in added and not known[e.said]]
    tests = _read_related_tests(file, change) if any(each.values for each in came) else ("", "")
    for each in came:
        excerpt = format_excerpt(each.said)
        if _RUNNERS.search(each.said) and not _RUNNERS.search(old.code):
            yield RuleViolation(file.path, each.line, f"A branch for the tests' runner: {excerpt}")
        elif _is_made_for_tests(each, old.code, *tests):
            said = f"A branch is made for a test's input: {excerpt}"
            yield RuleViolation(file.path, each.line, said)


def _is_made_for_tests(branch: _Branch, product: str, before: str, after: str) -> bool:
    """``before`` and ``after`` are the texts of the tests without and with the change."""
    for value in branch.values:
        plain = _read_plain(value)
        if _is_telling(plain) and _stands(plain, before) and not _stands(plain, product):
            return True
    values = [_read_plain(value) for value in branch.values]
    answer = _read_plain(branch.answer)
    particular = any(_is_telling(plain) or _is_odd_number(plain) for plain in values)
    spelled = len(answer) > 1 and branch.answer not in _DEFAULT_LIKE and answer not in _USUAL
    return particular and spelled and all(_stands(each, after) for each in (*values, answer))


def _list_branches(side: Side) -> Iterator[_Branch]:
    for node in walk(side.root) if side.root is not None else ():
        if node.type in _CONDITIONS:
            inside = list_children(node)
            condition = find_field(node, "condition", "value", "pattern") or (
                inside[0] if inside else None
            )
            if condition is not None and condition.end_byte - condition.start_byte < _LONGEST:
                said = " ".join(read_text(condition).split())
                values = () if _PLATFORM.search(said) else tuple(_list_values(condition))
                yield _Branch(said, read_line_number(node), values, _find_answer(node))


def _list_values(condition: Node) -> Iterator[str]:
    """The literals of a condition, wherever they stand in it."""
    for node in walk(condition, lambda each: each.type not in STRINGS):
        if node.type in LITERALS and read_text(node) not in _DEFAULT_LIKE:
            yield read_text(node)


def _find_answer(node: Node) -> str:
    """The literal that a branch gives back at once; "" where it does anything else."""
    inside = list_children(node)
    block = find_field(node, "consequence", "body") or (inside[1] if len(inside) > 1 else None)
    for _ in range(4):
        values = list_children(block) if block is not None and block.type in _RETURNS else []
        if len(values) != 1:
            break
        block = values[0]
    said = read_text(block) if block is not None else ""
    literal = block is not None and (block.type in LITERALS or bool(_BUILT.match(said)))
    return said if literal or re.fullmatch(r"-[\d.]+", said) else ""


def _read_plain(value: str) -> str:
    """A value without its quotes; of a pattern that matches one text alone, that text."""
    pattern = _ONE_TEXT.fullmatch(value)
    if pattern and ("\\" in value or value.startswith("/")):
        return re.sub(r"\\(\W)|\?", r"\1", pattern[1])
    return value.strip("\"'`")


def _is_telling(plain: str) -> bool:
    """A value that nobody would choose for the general case."""
    if re.fullmatch(r"-?[\d_.]+\w?", plain):
        return plain.strip("-") not in _USUAL and len(re.sub(r"\D", "", plain).strip("0")) > 2
    mixed = re.search(r"\d", plain) and re.search(r"[A-Za-z]", plain) and len(plain) > 3
    signs = len(plain) > 3 and len(re.findall(r"[^\w\s]", plain)) > 1
    return bool(mixed or signs or (len(plain) > 7 and re.search(r"[\s@:/,-]", plain)))


def _is_odd_number(plain: str) -> bool:
    return bool(re.fullmatch(r"-?\d[\d_.]+\w?", plain)) and plain.strip("-") not in _USUAL


def _stands(plain: str, text: str) -> bool:
    """As a whole: no part of a longer number or word."""
    return re.search(rf"(?<![\w.]){re.escape(plain)}(?!\w|\.\d)", text) is not None


def _read_related_tests(file: ChangedFile, change: Changeset) -> tuple[str, str]:
    """The texts of the change's tests before and after, each with those named like the file; in
    Rust with those in the file itself."""
    in_rust = file.path.endswith(".rs")
    changed = [f for f in change.files if is_test_file(f.path) and not f.path.endswith(".rs")]
    more = list(_read_unchanged_tests(file, change))
    before, after = (
        [
            *(read_sides(each)[at].code for each in changed),
            *more,
            *(read_text(test.node) for test in read_sides(file)[at].tests if in_rust),
        ]
        for at in (0, 1)
    )
    return "\n".join(before), "\n".join(after)


def _read_unchanged_tests(file: ChangedFile, change: Changeset) -> Iterator[str]:
    stem = re.sub(r"\W|_", "", file.path.rsplit("/", 1)[-1].rsplit(".", 1)[0]).lower()
    language, known = find_language(file.path), {each.path for each in change.files}
    endings = tuple(language.extensions) if language else ()
    paths = [p for p in change.paths() if p.endswith(endings) and is_test_file(p)]
    near = sorted(paths, key=lambda p: (stem not in re.sub(r"\W|_", "", p.lower()), p))
    for path in near[:_MOST_TESTS]:
        source = change.read(path) if path not in known and path != file.path else None
        if source and len(source) < _LARGEST_TEST:
            yield source.decode("utf-8", "replace")
