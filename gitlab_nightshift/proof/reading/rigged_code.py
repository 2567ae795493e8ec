"""Finds code that decides the tests' result itself. In product code, checks whether a test runs,
and branches for a test's input (test-detection). Beside the tests, code that sets outcomes or exit
statuses, or makes everything equal (test-cannot-fail)."""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tree_sitter import Node

from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation, take
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.proof.syntax.languages import find_language, has_inline_tests, is_test_file
from gitlab_nightshift.proof.syntax.nodes import (
    CALLS,
    LAMBDAS,
    LITERALS,
    STRINGS,
    Link,
    find_field,
    list_arguments,
    list_children,
    list_tokens,
    read_assignment,
    read_chain,
    read_line_number,
    read_on_one_line,
    read_text,
    unwrap_node,
    walk,
)
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import format_excerpt

_TABLE = RuleTable(__file__)
_EXCHANGEABLE = _TABLE.get_words("exchangeable")

_TEST_CHECKS = _TABLE.get_pattern("test_checks")
_SETTINGS_FILES = _TABLE.get_pattern("settings_files")
_COMMENT_STARTS = ("#!", "//", "/*", "* ", "# ")
_LONGEST_LINE = 2000  # characters


def find_test_detection(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Added checks whether a test runs, constant equality, and branches for a test's input."""
    lines = (line.text[:_LONGEST_LINE] for file in change.files for line in file.deleted)
    deleted = Counter(check[0] for line in lines for check in _TEST_CHECKS.finditer(line))
    for file in change.files:
        old, new = read_sides(file)
        if not new.is_product:
            continue
        # Settings may differ between tests and production.
        for added in () if _SETTINGS_FILES.search(file.path) else file.added:
            check = _TEST_CHECKS.search(added.text[:_LONGEST_LINE])
            if check is None or added.number in new.lines_without_code:
                continue
            if not added.text.lstrip().startswith(_COMMENT_STARTS) and not take(deleted, check[0]):
                detail = f"Product code checks for tests: {format_excerpt(added.text.strip())}"
                yield RuleViolation(file.path, added.number, detail)
        yield from _find_constant_equality(old, new, file)
        yield from _find_cfg_test(old, new, file)
        yield from _find_special_cases(old, new, file, change)


def _find_constant_equality(old: Side, new: Side, file: ChangedFile) -> Iterator[RuleViolation]:
    """Added code that makes a value equal to everything: such values satisfy any assertion."""
    before = {read_text(node) for node in find_constant_equality(old)}
    for node in find_constant_equality(new):
        if read_text(node) not in before:
            detail = f"Equal to everything: {format_excerpt(read_on_one_line(node))}"
            yield RuleViolation(file.path, read_line_number(node), detail)


def _find_cfg_test(old: Side, new: Side, file: ChangedFile) -> Iterator[RuleViolation]:
    """The first function body or statement in Rust that is compiled only for tests, or never for
    them. A macro at the top level may define tests, such as those of examples in a README."""
    if not new.path.endswith(".rs") or new.root is None:
        return
    before, after = (
        len(re.findall(rb"cfg\((?:not\(test\)|test)\)", side.source)) for side in (old, new)
    )
    has_other = b"not(test)" in new.source
    for node in new.walk() if after > before else ():
        target = node.next_named_sibling
        if node.type != "attribute_item" or not re.search(r"cfg\((not\()?test", read_text(node)):
            continue
        if target is None or target.type not in _EXCHANGEABLE:
            continue
        outer = target.parent.type if target.parent is not None else ""
        if (outer, target.type) == ("source_file", "expression_statement"):  # a macro
            continue
        # Without another version for not(test), #[cfg(test)] fn f() is a helper of the tests.
        if target.type != "function_item" or has_other:
            detail = "Product code is different in tests."
            yield RuleViolation(file.path, read_line_number(node), detail)
            return


# --- branches for a test's input or runner --------------------------------------------------------

# A branch is made for a test if it checks for a value that is distinctive and was in the tests
# before the change. A value that is only unusual is not enough: the branch also has to return a
# literal, and the tests have to contain both.


_USUAL = _TABLE.get_words("usual")
_DEFAULT_LIKE = _TABLE.get_words("default_like")
_CONDITIONS = _TABLE.get_words("conditions")
_RETURNS = _TABLE.get_words("returns")
_BUILT_VALUE = _TABLE.get_pattern("built_value")
_PLATFORM = _TABLE.get_pattern("platform")
_RUNNERS = _TABLE.get_pattern("runners", re.IGNORECASE)
# A regular expression that matches only one text, which is the group.
_ONE_TEXT = compile_lazily(r"(?:r[\"']|/)\^?((?:[^\\\[\](){}*+.|^$]|\\\W)+)\$?(?:[\"']|/\w*)")
# Unchanged test files that are read, bytes of one, and bytes of a condition.
_MOST_TESTS, _LARGEST_TEST, _LONGEST_CONDITION = 30, 300_000, 400


@dataclass(frozen=True)
class _Branch:
    """A condition with its literals; ``answer`` is the literal that the branch returns, or ""."""

    condition: str
    line: int
    values: tuple[str, ...]
    answer: str


def _find_special_cases(
    old: Side, new: Side, file: ChangedFile, change: Changeset
) -> Iterator[RuleViolation]:
    """Added branches such as ``if order_id == "A-1003"``, with a value of a test, and
    ``if "pytest" in sys.modules``."""
    lines, before = set(file.added_numbers), {each.condition for each in _list_branches(old)}
    added = [b for b in _list_branches(new) if b.line in lines and b.condition not in before]
    tests = _read_related_tests(file, change) if any(each.values for each in added) else ("", "")
    for branch in added:
        excerpt = format_excerpt(branch.condition)
        if _RUNNERS.search(branch.condition) and not _RUNNERS.search(old.code):
            yield RuleViolation(file.path, branch.line, f"A branch for the test runner: {excerpt}")
        elif _is_made_for_tests(branch, old.code, *tests):
            yield RuleViolation(file.path, branch.line, f"A branch for a test's input: {excerpt}")


def _is_made_for_tests(branch: _Branch, product: str, old_tests: str, new_tests: str) -> bool:
    """True if a branch is made for a test's input. ``product`` is the text of the file before the
    change, ``old_tests`` and ``new_tests`` are the texts of its tests."""
    values = [_read_literal(value) for value in branch.values]
    for value in filter(_is_distinctive, values):
        if _contains(old_tests, value) and not _contains(product, value):
            return True
    answer = _read_literal(branch.answer)
    numbers = [v for v in values if re.fullmatch(r"-?\d[\d_.]+\w?", v)]
    unusual = any(v.strip("-") not in _USUAL for v in numbers) or any(map(_is_distinctive, values))
    literal = len(answer) > 1 and branch.answer not in _DEFAULT_LIKE and answer not in _USUAL
    return unusual and literal and all(_contains(new_tests, each) for each in (*values, answer))


def _list_branches(side: Side) -> Iterator[_Branch]:
    for node in side.walk():
        children = list_children(node) if node.type in _CONDITIONS else []
        condition = find_field(node, "condition", "value", "pattern") if children else None
        condition = condition or next(iter(children), None)
        if condition is None or condition.end_byte - condition.start_byte >= _LONGEST_CONDITION:
            continue
        text = read_on_one_line(condition)
        # A string is one literal, whatever is in it.
        nodes = walk(condition, lambda outer: outer.type not in STRINGS)
        literals = (read_text(each) for each in nodes if each.type in LITERALS)
        values = tuple(literal for literal in literals if literal not in _DEFAULT_LIKE)
        values = () if _PLATFORM.search(text) else values
        yield _Branch(text, read_line_number(node), values, _find_answer(node))


def _find_answer(node: Node) -> str:
    """The literal that a branch returns; "" if it does anything else."""
    children = list_children(node)
    block = find_field(node, "consequence", "body") or (children[1] if children[1:] else None)
    value = _unwrap_returned(block, _RETURNS)
    text = read_text(value)
    literal = value is not None and (value.type in LITERALS or bool(_BUILT_VALUE.match(text)))
    return text if literal or re.fullmatch(r"-[\d.]+", text) else ""


def _read_literal(value: str) -> str:
    """A literal without quotes; for a pattern that matches only one text, that text."""
    pattern = _ONE_TEXT.fullmatch(value)
    if pattern and ("\\" in value or value.startswith("/")):
        return re.sub(r"\\(\W)|\?", r"\1", pattern[1])
    return value.strip("\"'`")


def _is_distinctive(value: str) -> bool:
    """True for a value that is unlikely in the general case: ``A-1003``, ``ada@example.org``."""
    if re.fullmatch(r"-?[\d_.]+\w?", value):
        return value.strip("-") not in _USUAL and len(re.sub(r"\D", "", value).strip("0")) > 2
    mixed = re.search(r"\d", value) and re.search(r"[A-Za-z]", value) and len(value) > 3
    signs = len(value) > 3 and len(re.findall(r"[^\w\s]", value)) > 1
    return bool(mixed or signs or (len(value) > 7 and re.search(r"[\s@:/,-]", value)))


def _contains(text: str, value: str) -> bool:
    """True if the value is in the text, but not as part of a longer number or word."""
    return re.search(rf"(?<![\w.]){re.escape(value)}(?!\w|\.\d)", text) is not None


def _read_related_tests(file: ChangedFile, change: Changeset) -> tuple[str, str]:
    """The texts of tests before and after the change: the changed ones, unchanged ones with a name
    like the file's, and those in the file itself."""
    inline = has_inline_tests(file.path)
    changed = [f for f in change.files if is_test_file(f.path) and not has_inline_tests(f.path)]
    unchanged = list(_read_unchanged_tests(file, change))
    before, after = (
        [
            *(read_sides(each)[index].code for each in changed),
            *unchanged,
            *(read_text(test.node) for test in read_sides(file)[index].tests if inline),
        ]
        for index in (0, 1)
    )
    return "\n".join(before), "\n".join(after)


def _read_unchanged_tests(file: ChangedFile, change: Changeset) -> Iterator[str]:
    stem = re.sub(r"\W|_", "", file.path.rsplit("/", 1)[-1].rsplit(".", 1)[0]).lower()
    language, changed = find_language(file.path), {each.path for each in change.files}
    extensions = language.extensions if language else ()
    paths = [p for p in change.paths() if p.endswith(extensions) and is_test_file(p)]
    # Files named like this one come first: test_cart.py for cart.py.
    paths.sort(key=lambda path: (stem not in re.sub(r"\W|_", "", path.lower()), path))
    for path in paths[:_MOST_TESTS]:
        source = change.read(path) if path not in changed and path != file.path else None
        if source and len(source) < _LARGEST_TEST:
            yield source.decode("utf-8", "replace")


# --- beside the tests -----------------------------------------------------------------------------


_OUTCOMES = _TABLE.get_words("outcomes")
_EXIT_CALLS = _TABLE.get_words("exit_calls")
_EQUALITY = _TABLE.get_words("equality")
_COMPARATORS = _TABLE.get_pattern("comparators", re.IGNORECASE)
_HARNESS_FILES = _TABLE.get_pattern("harness_files", re.IGNORECASE)
_ALWAYS_EQUAL = frozenset("true True 0 Ordering::Equal".split())
_RETURNING = frozenset("return_statement return return_expression block statement_block".split())
_RiggedCode = tuple[str, Node]
"""What is wrong with a piece of code, and the code."""


def find_rigged_harness(change: Changeset) -> Iterator[RuleViolation]:
    """Code added beside the tests that decides their result itself."""
    for file in change.files:
        old, new = read_sides(file)
        if new.is_product:
            continue
        before = Counter((why, *list_tokens(node)) for why, node in _list_rigged(old))
        for why, node in _list_rigged(new):
            if not take(before, (why, *list_tokens(node))):
                excerpt = format_excerpt(read_on_one_line(node))
                yield RuleViolation(file.path, read_line_number(node), f"{why}: {excerpt}")


def find_constant_equality(side: Side) -> Iterator[Node]:
    """Equality methods, and comparators passed as arguments, that hold for all values."""
    for each in side.functions:
        if each.name in _EQUALITY and each.body is not None and _is_constant(each.body):
            yield each.node
    for node in side.walk():
        links = read_chain(node) if node.type in CALLS else ()
        if links and _COMPARATORS.search(links[-1].name):
            nodes = (inner for arg in list_arguments(node) for inner in walk(arg))
            lambdas = (each for each in nodes if each.type in LAMBDAS)
            yield from (each for each in lambdas if _is_constant(find_field(each, "body")))


def _list_rigged(side: Side) -> Iterator[_RiggedCode]:
    for node in find_constant_equality(side):
        yield "Everything is equal by this", node
    if not (side.tests or _HARNESS_FILES.search(side.path)):
        return
    for node in side.walk():
        assignment = read_assignment(node)
        if assignment and _sets_outcome(*assignment):
            yield "The tests' outcome is set here", node
        elif node.type in CALLS and _exits_with_success(read_chain(node)):
            yield "The test run ends with success here", node


def _sets_outcome(target: Node, value: Node) -> bool:
    """``report.outcome = "passed"``, ``process.exitCode = 0``, or several at once."""
    targets, values = (
        list_children(each) if "list" in each.type or "tuple" in each.type else [each]
        for each in (target, value)
    )
    for left, right in zip(targets, values, strict=False):
        links = read_chain(left) if unwrap_node(right).type in LITERALS else ()
        if len(links) > 1 and links[-1].name in _OUTCOMES:
            return True
    return False


def _exits_with_success(links: tuple[Link, ...]) -> bool:
    """``os.Exit(0)``, ``process.exit()``, ``System.exit(0)``."""
    args = links[-1].args if links else None
    if args is None or ".".join(link.name for link in links) not in _EXIT_CALLS:
        return False
    return "".join(map(read_text, args)) in ("0", "")


def _is_constant(body: Node | None) -> bool:
    return read_text(_unwrap_returned(body, _RETURNING)) in _ALWAYS_EQUAL


def _unwrap_returned(node: Node | None, wrappers: Collection[str]) -> Node | None:
    """The value that a body returns if it does nothing else: inside up to four nodes such as blocks
    and a return, each with a single child."""
    for _ in range(4):
        children = list_children(node) if node is not None and node.type in wrappers else []
        if len(children) != 1:
            break
        node = children[0]
    return node
