"""test-detection: product code that asks whether it is tested, or knows a test's input."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from gitlab_nightshift.proof.reading.blunted_harness import find_constant_equality
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
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
_OTHER_CODE = _TABLE.get_words("other_code")

_ASKS = _TABLE.get_pattern("asks")
_SETTINGS = _TABLE.get_pattern("settings")
_LONGEST = 2000


def find_test_detection(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Questions whether a test runs, and answers made for one test's input, that came."""
    gone = Counter(
        found[0]
        for file in change.files
        for each in file.deleted
        for found in _ASKS.finditer(each.text[:_LONGEST])
    )
    for file in change.files:
        old, side = read_sides(file)
        if not side.is_product:
            continue
        asks = () if _SETTINGS.search(file.path) else file.added
        for added in asks:
            found = _ASKS.search(added.text[:_LONGEST])
            if found is None or added.number in side.lines_without_code or _is_comment(added.text):
                continue
            if gone[found[0]]:
                gone[found[0]] -= 1
                continue
            said = f"Product code asks whether it is tested: {format_excerpt(added.text.strip())}"
            yield RuleViolation(file.path, added.number, said)
        yield from _find_constant_equality(old, side, file)
        yield from _find_cfg_test(old, side, file)
        yield from _find_special_cases(old, side, file, change)


def _find_constant_equality(old: Side, side: Side, file: ChangedFile) -> Iterator[RuleViolation]:
    """Values that are equal to all others satisfy any assertion."""
    known = Counter(read_text(node) for node in find_constant_equality(old))
    for node in find_constant_equality(side):
        if not known[read_text(node)]:
            said = format_excerpt(" ".join(read_text(node).split()))
            yield RuleViolation(file.path, read_line_number(node), f"Equal to everything: {said}")


def _is_comment(said: str) -> bool:
    return said.lstrip().startswith(("#!", "//", "/*", "* ", "# "))


def _find_cfg_test(old: Side, side: Side, file: ChangedFile) -> Iterator[RuleViolation]:
    """Rust: another body of a function, or a statement, for tests. A macro beside the
    functions makes tests, such as those of examples in a README."""
    if not side.path.endswith(".rs") or side.root is None:
        return
    before, after = (
        each.source.count(b"cfg(not(test))") + each.source.count(b"cfg(test)")
        for each in (old, side)
    )
    has_other = b"not(test)" in side.source
    for node in walk(side.root) if after > before else ():
        target = node.next_named_sibling
        if node.type != "attribute_item" or not re.search(r"cfg\((not\()?test", read_text(node)):
            continue
        if target is None or target.type not in _OTHER_CODE or _is_macro_of_file(target):
            continue
        if target.type != "function_item" or has_other:
            said = "Product code is another one when it is tested."
            yield RuleViolation(file.path, read_line_number(node), said)
            return


def _is_macro_of_file(node: Node) -> bool:
    is_of_file = node.parent is not None and node.parent.type == "source_file"
    return is_of_file and node.type == "expression_statement"


# --- branches for a test's input ------------------------------------------------------------------


_USUAL = _TABLE.get_words("usual")
_DEFAULT_LIKE = _TABLE.get_words("default_like")
_CONDITIONS = _TABLE.get_words("conditions")
_RETURNS = _TABLE.get_words("returns")
_BUILT = _TABLE.get_pattern("built")
_PLATFORM = _TABLE.get_pattern("platform")
_RUNNERS = _TABLE.get_pattern("runners", re.IGNORECASE)
_ONE_TEXT = compile_lazily(r"(?:r[\"']|/)\^?((?:[^\\\[\](){}*+.|^$]|\\\W)+)\$?(?:[\"']|/\w*)")
_MOST_TESTS, _LARGEST_TEST, _LONGEST_CONDITION = 30, 300_000, 400


@dataclass(frozen=True)
class _Branch:
    """A condition with the literals in it, and the literal that it answers with, or ""."""

    said: str
    line: int
    values: tuple[str, ...]
    answer: str


def _find_special_cases(
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
            if (
                condition is not None
                and condition.end_byte - condition.start_byte < _LONGEST_CONDITION
            ):
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
