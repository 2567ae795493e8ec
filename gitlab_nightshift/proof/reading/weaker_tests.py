"""Finds tests that demand less than before (assertion-removed, test-loosened), or nothing, because
their assertions always hold (test-cannot-fail).

An assertion is removed if it is neither kept, moved nor replaced. It is loosened if its replacement
no longer compares with a value. Whether other replacements are weaker is shown by canaries.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tree_sitter import Node

from gitlab_nightshift.proof.reading.matched_tests import (
    MOST_PAIRS,
    TestVersion,
    list_literals,
    match_tests,
)
from gitlab_nightshift.proof.reading.rigged_code import find_rigged_harness
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation, take
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.assertion import RAISES, Assertion, normalize_name
from gitlab_nightshift.proof.syntax.definitions import find_iterated_node
from gitlab_nightshift.proof.syntax.nodes import (
    CALLS,
    LITERALS,
    find_field,
    list_line_numbers,
    list_names,
    read_assignment,
    read_chain,
    read_line_number,
    read_text,
    resolve_variables,
    split_binary,
    unwrap_node,
    walk,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import format_excerpt

# Signs of a test of many cases in its words, which are joined by spaces.
_MANY_CASES = compile_lazily(
    r"parametri|\b(for|foreach|forEach|forAll|each)\b|Source\b|\brstest|test_case|subTest|expand"
    r"|\bt \. Run|DataRow|InlineData|TestCase|dataProvider"
)


class _LostAssertion(NamedTuple):
    """An ``old`` assertion that a test (its new ``version``) lost, and its ``replacement``."""

    version: TestVersion
    old: Assertion
    replacement: Assertion | None = None


def find_removed_assertions(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Assertions removed from a test that still exists."""
    for version, old, replacement in _find_lost_assertions(change):
        if replacement is None:
            detail = f"{version.name} no longer checks this: {_format_assertion(old)}"
            yield RuleViolation(version.file.path, version.test.line, detail)


def find_loosened_tests(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Assertions that became weaker, and tests that are expected to fail now."""
    for version, old, new in _find_lost_assertions(change):
        if new is not None:
            difference = f"{_format_assertion(old)} became {_format_assertion(new)}"
            detail = f"{version.name} demands less: {difference}"
            yield RuleViolation(version.file.path, new.line, detail)
    yield from _find_expected_failures(change)


def _find_expected_failures(change: Changeset) -> Iterator[RuleViolation]:
    """Tests in Rust that got ``#[should_panic]`` without a change of their body."""
    for old, new in match_tests(change).changed:
        added = [mark for mark in new.test.marks if "should_panic" in mark]
        same_body = old.body_words == new.body_words
        if added and same_body and not any("should_panic" in mark for mark in old.test.marks):
            detail = f"{new.name} passes now if it fails: {format_excerpt(added[0])}"
            yield RuleViolation(new.file.path, new.test.line, detail, certain=True)


def _format_assertion(assertion: Assertion) -> str:
    """The tokens of an assertion, with the usual spaces."""
    text = re.sub(r"\s*([.()\[\]])\s*", r"\1", " ".join(assertion.key))
    return format_excerpt(text.replace(" ,", ",").replace(" = ", "="))


def _find_lost_assertions(change: Changeset) -> Iterator[_LostAssertion]:
    new_assertions = _count_new_assertions(change)
    for old, new in match_tests(change).changed:
        if new.test.body is not None and "pending" not in new.test.marks:
            yield from _compare_versions(old, new, new_assertions)
    for old_helper, helper in match_tests(change).helpers:
        if old_helper is not None:
            yield from _compare_versions(old_helper, helper, new_assertions)


def _count_new_assertions(change: Changeset) -> Counter[tuple[str, ...]]:
    """The assertions in added tests, and those that were added to other tests, by key."""
    tests = match_tests(change)
    counts = Counter(a.key for version in tests.added for a in version.assertions)
    for old, new in tests.changed:
        counts += Counter(a.key for a in new.assertions) - Counter(a.key for a in old.assertions)
    return counts


def _compare_versions(
    old: TestVersion, new: TestVersion, new_assertions: Counter[tuple[str, ...]]
) -> Iterator[_LostAssertion]:
    """The assertions that a test lost; ``new_assertions`` are those that the change adds to any
    test, where lost ones may have moved."""
    added = _list_unmatched(new, old)
    moved = new_assertions - Counter(each.key for each in added)
    lost = [each for each in _list_unmatched(old, new) if not take(moved, each.key)]
    # A new helper may check anything: only running shows what.
    if not lost or any(each.word == "helper" for each in added):
        return
    repeats = _MANY_CASES.search(" ".join(new.words)) is not None
    replaced, lost = _pair_replacements(lost, added, repeats=repeats)
    words = [word for each in added for word in each.key]
    text = " ".join([*(Counter(new.all_words) - Counter(old.all_words)), *words])
    # In a test of many cases, one occurrence of a value may serve all assertions: repeat it.
    text *= len(replaced) + len(lost) if repeats else 1
    used: Counter[str] = Counter()
    for each, replacement in replaced:
        kept = _has_values(text, each, used) and not each.subjects & replacement.subjects
        if each.is_exact and not (replacement.is_exact or replacement.word in RAISES or kept):
            yield _LostAssertion(new, each, replacement)
    # Nothing runs after an expected exception, so it may replace assertions that compare nothing.
    stronger = any(n.word in RAISES or (n.is_exact and not o.is_exact) for o, n in replaced)
    for each in lost:
        covered = any(_covers_part(other, each) for other in added)
        if not (covered or (stronger and not each.is_exact) or _has_values(text, each, used)):
            yield _LostAssertion(new, each)


def _list_unmatched(one: TestVersion, other: TestVersion) -> list[Assertion]:
    """The assertions of a version that the other lacks, without exceptions that helpers raise."""
    counts = Counter(each.key for each in other.assertions)
    unmatched = [each for each in one.assertions if not take(counts, each.key)]
    return [each for each in unmatched if one.test.is_run or each.word != "fail"]


def _pair_replacements(
    lost: list[Assertion], added: list[Assertion], *, repeats: bool
) -> tuple[list[tuple[Assertion, Assertion]], list[Assertion]]:
    """Pairs of a lost and an added assertion, if possible about the same subject, and the lost
    ones without a partner. In a test that ``repeats`` its code, one may replace several."""
    pairs = []
    free = sorted(added, key=lambda each: not each.is_exact)
    for same_subject in (True, False) if len(lost) * len(added) <= MOST_PAIRS else (False,):
        for each in sorted(lost, key=lambda each: not each.is_exact):
            candidates = added if same_subject and repeats else free
            fitting = (a for a in candidates if not same_subject or a.subjects & each.subjects)
            if replacement := next(fitting, None):
                pairs.append((each, replacement))
                lost.remove(each)
                if replacement in free:
                    free.remove(replacement)
    return pairs, lost


def _has_values(text: str, assertion: Assertion, used: Counter[str]) -> bool:
    """True if the text contains all values of an assertion, for example in a row of a table. Adds
    these to ``used``, the values of the assertions so far: each needs an occurrence of its own."""
    values = Counter(list_literals(assertion.key))
    used += values
    return bool(values) and all(text.count(value) >= used[value] for value in values)


def _covers_part(new: Assertion, old: Assertion) -> bool:
    """True if the new assertion compares a whole value, of which the old one checks a part."""
    return new.is_exact and any(
        part.startswith((f"{whole}.", f"{whole}[")) or f"({whole})" in part
        for whole in new.subjects
        for part in old.subjects
        if whole[:1].isalpha()
    )


# --- assertions that always hold ------------------------------------------------------------------


_TABLE = RuleTable(__file__)

_ABOUT_EQUALITY = _TABLE.get_pattern("about_equality")
_ABOUT_SAMENESS = _TABLE.get_pattern("about_sameness")
_OTHER_SUBJECTS = _TABLE.get_words("other_subjects")
_COMPARISONS = _TABLE.get_words("comparisons")
_TRY_STATEMENTS = _TABLE.get_words("try_statements")
_BROAD_CATCH = _TABLE.get_pattern("broad_catch")
_SUPPRESSES = _TABLE.get_pattern("suppresses")
_EMPTY_COLLECTION = _TABLE.get_pattern("empty_collection")
_HANDLERS = ("except_clause", "catch_clause", "rescue", "catch_block")
_EXPECTED_NAMES = ("want", "exp")
_PROMISES = frozenset(("resolves", "rejects", "doesNotReject"))
_LONGEST_BODY = 20_000  # bytes of a test in which uses of a variable are counted


def find_tests_that_cannot_fail(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Added assertions that can never fail."""
    tests = match_tests(change)
    pairs = (*tests.changed, *((None, new) for new in tests.added), *tests.helpers)
    for old, version in pairs:
        old_reasons = {why for why, _ in _list_certain_assertions(old)} if old else set()
        reported_lines: set[int] = set()
        debatable = _list_debatable_lines(version, old)
        for why, line in _list_certain_assertions(version):
            if why not in old_reasons and line not in reported_lines:
                reported_lines.add(line)
                detail = f"{version.name} cannot fail: {why}"
                yield RuleViolation(version.file.path, line, detail, certain=line not in debatable)
    yield from find_rigged_harness(change)


def _list_debatable_lines(version: TestVersion, old: TestVersion | None) -> set[int]:
    """The lines of assertions that always hold, if the test has others, too, and lost none: they
    may test an operator, such as equality."""
    certain = {a.line for a in version.assertions if _describe_certainty(a, version)}
    lost = Counter(a.key for a in old.assertions) if old else Counter()
    lost -= Counter(a.key for a in version.assertions)
    others = any(a.line not in certain for a in version.assertions)
    return certain if others and not lost else set()


def _list_certain_assertions(version: TestVersion) -> Iterator[tuple[str, int]]:
    """Why assertions can never fail a test, and their lines."""
    for assertion in version.assertions:
        if why := _describe_certainty(assertion, version):
            yield f"{why}: {format_excerpt(' '.join(assertion.key))}", assertion.line
    if (body := version.test.body) is not None:
        in_script = version.test.language.family == "script"
        yield from _find_unreached_assertions(version.assertions, body, in_script=in_script)


def _describe_certainty(assertion: Assertion, version: TestVersion) -> str:
    """Why an assertion always holds; "" if it may fail."""
    parts = [unwrap_node(part) for part in assertion.parts]
    if not parts or assertion.word in RAISES or assertion.word in _OTHER_SUBJECTS:
        return ""
    if assertion.word == "true":
        return _describe_truth(parts[0], negated=assertion.negated)
    if len(parts) < 2:
        return ""
    if all(map(_is_constant, parts[:2])):
        return "it compares constants"
    compares = "equal" in assertion.word or assertion.word in _COMPARISONS
    return _compare_sides(parts[0], parts[1], version) if compares and not assertion.negated else ""


def _describe_truth(node: Node, *, negated: bool) -> str:
    """Why ``assert node``, or ``assert not node`` if ``negated``, always holds, or ""."""
    if node.type == "tuple":
        return "a tuple is always true"
    if _is_constant(node):
        # ``assert not True`` always fails: it marks code that must not be reached.
        always_fails = negated and read_text(node).lower() in ("true", "1")
        return "" if always_fails else "it checks a constant"
    operator, *sides = split_binary(node) or ("",)
    or_true = operator in ("or", "||") and "true" in (read_text(side).lower() for side in sides)
    return "it holds for every value" if or_true and not negated else ""


def _is_constant(node: Node) -> bool:
    """True for a literal without interpolated code."""
    return node.type in LITERALS and not any(
        each.type in ("interpolation", "template_substitution") for each in node.children
    )


def _compare_sides(one: Node, other: Node, version: TestVersion) -> str:
    """Why two sides of a comparison are always equal; "" if they may differ.

    They are equal if they are the same code once variables are replaced by their values. But a test
    that is named after equality, or after a stable result, may compare the same code on purpose.
    """
    left, right = read_text(one), read_text(other)
    about_sameness = _ABOUT_SAMENESS.search(version.test.name)
    has_call = any(node.type in CALLS for side in (one, other) for node in walk(side))
    if left == right:
        on_purpose = about_sameness if has_call else _ABOUT_EQUALITY.search(version.test.name)
        return "" if on_purpose else "it compares a value with itself"
    first, second = (resolve_variables(side, version.values) for side in (left, right))
    if first != second or about_sameness:
        return ""
    names, code = [name for name in (left, right) if name.isidentifier()], version.test.node
    # In Go, a function that gets ``&x`` may change ``x``.
    if any(re.search(rf"&{name}\b", read_text(code)) for name in names):
        return ""
    expected = any(normalize_name(name).startswith(_EXPECTED_NAMES) for name in names)
    repeated = has_call and _is_assigned_just_before(version, one, other)
    return "both sides are the same" if repeated or expected else ""


def _is_assigned_just_before(version: TestVersion, one: Node, other: Node) -> bool:
    """True if a compared value is assigned, and nothing is called between that and the assertion
    of ``one`` and ``other``."""
    start, names = min(one.start_byte, other.start_byte), list_names(one) | list_names(other)
    before = [node for node in walk(version.test.node) if node.end_byte <= start]
    pairs = ((node, read_assignment(node)) for node in before)
    assigned = [node.end_byte for node, pair in pairs if pair and read_text(pair[0]) in names]
    calls = (node.start_byte for node in before if node.type in CALLS)
    return bool(assigned) and not any(call >= max(assigned) for call in calls)


# --- assertions that are never reached ------------------------------------------------------------


def _find_unreached_assertions(
    assertions: Sequence[Assertion], body: Node, *, in_script: bool
) -> Iterator[tuple[str, int]]:
    """Why assertions cannot fail a test, and their lines; ``in_script``: in (Java|Type)Script."""
    lines = {a.line for a in assertions if a.word != "fail"}
    fail_lines = {a.line for a in assertions} - lines
    # If a test has a parameter for a callback, the runner waits until that is called.
    outer = body.parent if body.type == "statement_block" else body
    parameters = find_field(outer, "parameters", "parameter") if outer is not None else None
    has_callback = re.search(r"\b(done|cb|next|resolve)\b", read_text(parameters))
    for node in walk(body):
        iterated = find_iterated_node(node)
        if node.type in _TRY_STATEMENTS:
            yield from _find_swallowed(node, lines, fail_lines)
        elif node.type == "with_statement" and _SUPPRESSES.match(read_text(node)[:120]):
            why = "suppress() around it hides the failure of its assertion"
            yield from ((why, line) for line in sorted(lines & {*list_line_numbers(node)})[:1])
        elif iterated is not None and _is_empty_collection(iterated, body):
            if (lines | fail_lines) & {*list_line_numbers(node)}:
                yield "its loop runs over nothing", read_line_number(node)
        elif in_script and not has_callback and _is_promise(node):
            yield "nobody waits for its promise (await or return it)", read_line_number(node)


def _find_swallowed(node: Node, lines: set[int], fail_lines: set[int]) -> Iterator[tuple[str, int]]:
    """For each handler the first assertion whose failure it hides. ``fail_lines`` are those of
    calls such as ``fail()``, ``lines`` those of other assertions."""
    tried = {*list_line_numbers(find_field(node, "body") or node)}
    for handler in node.named_children:
        handled = {*list_line_numbers(handler)}
        if handler.type not in _HANDLERS or handled & (lines | fail_lines):
            continue
        if not _hides_failures(handler):
            continue
        # ``try { f(); fail() } catch (SomeError e) {}`` expects an error. But a handler without a
        # type also catches what fail() throws.
        is_bare = not re.search(r"[A-Z]\w+", read_text(handler).partition("{")[0])
        hidden = lines | fail_lines if handler.type == "catch_clause" and is_bare else lines
        for line in sorted((hidden & tried) - handled)[:1]:
            yield "a handler around it hides the failure of its assertion", line


def _hides_failures(handler: Node) -> bool:
    """True for a handler that catches what assertions throw, and neither raises nor fails."""
    opening = "\n" if handler.type in ("except_clause", "rescue") else "{"
    head, _, body = read_text(handler).partition(opening)
    if re.search(r"\b(raise|throw|fail|done|reject|next)\b", body):
        return False
    return not re.search(r"[A-Z]\w+", head) or bool(_BROAD_CATCH.search(head))


def _is_empty_collection(node: Node, body: Node) -> bool:
    """True for an empty collection, or a variable that is set to one and not used elsewhere in the
    ``body``."""
    name = read_text(node)
    if not name.isidentifier() or body.end_byte - body.start_byte > _LONGEST_BODY:
        return _EMPTY_COLLECTION.match(name[:60]) is not None
    code = read_text(body)
    assigned = re.search(rf"\b{name}\b[^=\n]*=\s*([^;\n]+)", code)
    empty = assigned is not None and _EMPTY_COLLECTION.match(assigned[1].strip())
    return bool(empty) and len(re.findall(rf"\b{name}\b", code)) == 2


def _is_promise(node: Node) -> bool:
    """True for a statement that asserts only when a promise settles: ``expect(x).rejects…``,
    ``f().then(expect…)``."""
    parent = node.parent
    if node.type != "call_expression" or parent is None or parent.type != "expression_statement":
        return False
    names = [link.name for link in read_chain(node)]
    if names[0] in ("assert", "expect"):
        return bool(_PROMISES.intersection(names))
    chained = len(names) > 1 and names[-1] in ("then", "catch", "finally")
    return chained and re.search(r"\bexpect\(|\bassert\b", read_text(node)) is not None
