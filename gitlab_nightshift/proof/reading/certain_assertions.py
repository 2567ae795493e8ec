"""test-cannot-fail: assertions that hold whatever the code does."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from tree_sitter import Node

from gitlab_nightshift.proof.reading.blunted_harness import find_blunted_harness
from gitlab_nightshift.proof.reading.matched_tests import TestVersion, match_tests
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.assertion import Assertion
from gitlab_nightshift.proof.syntax.assertion_words import RAISES, normalize_name
from gitlab_nightshift.proof.syntax.collected_tests import find_iterated_node
from gitlab_nightshift.proof.syntax.nodes import (
    CALLS,
    LITERALS,
    find_field,
    list_names,
    read_chain,
    read_line_number,
    read_text,
    split_binary,
    unwrap_node,
    walk,
)
from gitlab_nightshift.proof.syntax.variable_values import read_assignment, resolve_variables
from gitlab_nightshift.text.printable_text import format_excerpt

_TABLE = RuleTable(__file__)

_ABOUT_EQUALITY = _TABLE.get_pattern("about_equality")
_ABOUT_SAMENESS = _TABLE.get_pattern("about_sameness")
_ABOUT_OTHERS = _TABLE.get_words("about_others")


def find_tests_that_cannot_fail(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Assertions that came and can never fail."""
    tests = match_tests(change)
    pairs = (*tests.changed, *((None, new) for new in tests.came), *tests.helpers)
    for old, version in pairs:
        known = {why for why, _ in _list_certain_assertions(old)} if old else set()
        reported: set[int] = set()
        beside = _list_lines_beside(version, old)
        for why, at in _list_certain_assertions(version):
            if why not in known and at not in reported:
                reported.add(at)
                detail = f"{version.name} cannot fail: {why}"
                yield RuleViolation(version.file.path, at, detail, certain=at not in beside)
    yield from find_blunted_harness(change)


def _list_lines_beside(version: TestVersion, old: TestVersion | None) -> set[int]:
    """Assertions that hold by their words alone in a test that demands other things, and no less
    than before: one may ask them of an operator."""
    by_words = {a.line for a in version.assertions if _describe_certainty(a, version)}
    lost = Counter(a.key for a in old.assertions) if old else Counter()
    lost -= Counter(a.key for a in version.assertions)
    others = any(a.line not in by_words for a in version.assertions)
    return by_words if others and not lost else set()


def _list_certain_assertions(version: TestVersion) -> Iterator[tuple[str, int]]:
    for assertion in version.assertions:
        if why := _describe_certainty(assertion, version):
            yield f"{why}: {format_excerpt(' '.join(assertion.key))}", assertion.line
    if version.test.body is not None:
        in_script = version.test.language.name in ("javascript", "typescript", "tsx")
        yield from _find_unreached_assertions(
            version.assertions, version.test.body, in_script=in_script
        )


def _describe_certainty(assertion: Assertion, version: TestVersion) -> str:
    """Why an assertion always holds; empty where it may fail."""
    parts = [unwrap_node(part) for part in assertion.parts]
    if not parts or assertion.word in RAISES or assertion.word in _ABOUT_OTHERS:
        return ""
    if assertion.word == "true":
        return _describe_truth(parts[0], assertion.negated)
    if len(parts) < 2:
        return ""
    if all(map(_is_constant, parts[:2])):
        return "it compares constants"
    compares = "equal" in assertion.word or assertion.word in _COMPARING
    return _compare_sides(parts[0], parts[1], version) if compares and not assertion.negated else ""


def _describe_truth(node: Node, negated: bool) -> str:
    if node.type == "tuple":
        return "a tuple is always true"
    if _is_constant(node):
        never = negated and read_text(node).lower() in ("true", "1")
        return "" if never else "it checks a constant"
    return "it holds for every value" if not negated and _leaves_no_choice(node) else ""


def _leaves_no_choice(node: Node) -> bool:
    """``x or True``."""
    operator, *sides = split_binary(node) or ("",)
    return operator in ("or", "||") and any(read_text(side).lower() == "true" for side in sides)


_COMPARING = _TABLE.get_words("comparing")


def _is_constant(node: Node) -> bool:
    """A literal, or a list of literals."""
    return node.type in LITERALS and not any(
        each.type in ("interpolation", "template_substitution") for each in node.children
    )


def _compare_sides(one: Node, other: Node, version: TestVersion) -> str:
    """Both sides are the same code, directly or through a variable that is named as expected."""
    left, right = read_text(one), read_text(other)
    named = _ABOUT_SAMENESS.search(version.test.name)
    has_call = any(node.type in CALLS for side in (one, other) for node in walk(side))
    if left == right:
        meant = named if has_call else _ABOUT_EQUALITY.search(version.test.name)
        return "" if meant else "it compares a value with itself"
    first, second = (resolve_variables(side, version.values) for side in (left, right))
    if first != second or named or _is_handed_out(version, left, right):
        return ""
    repeated = has_call and _is_just_before(version, one, other)
    return "both sides are the same" if repeated or _is_expected(left, right) else ""


def _is_handed_out(version: TestVersion, *names: str) -> bool:
    """Go, C: something got the address of a variable, and may have changed it."""
    code = read_text(version.test.node)
    return any(re.search(rf"&{name}\b", code) for name in names if name.isidentifier())


def _is_just_before(version: TestVersion, one: Node, other: Node) -> bool:
    """Nothing is called between a variable and the assertion that repeats its value."""
    start, names = min(one.start_byte, other.start_byte), list_names(one) | list_names(other)
    before = [node for node in walk(version.test.node) if node.end_byte <= start]
    pairs = ((node, read_assignment(node)) for node in before)
    made = [node.end_byte for node, pair in pairs if pair and read_text(pair[0]) in names]
    called = (node.start_byte for node in before if node.type in CALLS)
    return bool(made) and not any(at >= max(made) for at in called)


def _is_expected(*names: str) -> bool:
    plain = [normalize_name(name) for name in names if name.isidentifier()]
    return any(name.startswith(("expect", "want", "exp")) for name in plain)


# --- assertions that are never reached ------------------------------------------------------------


_TRIES = _TABLE.get_words("tries")
_BROAD_CATCH = _TABLE.get_pattern("broad_catch")
_SUPPRESSES = _TABLE.get_pattern("suppresses")
_NOTHING = _TABLE.get_pattern("nothing")
_HANDLERS = ("except_clause", "catch_clause", "rescue", "catch_block")
_LONGEST_BODY = 20_000
_PROMISES = frozenset(("resolves", "rejects", "doesNotReject"))


def _find_unreached_assertions(
    assertions: Sequence[Assertion], body: Node, *, in_script: bool
) -> Iterator[tuple[str, int]]:
    """Why assertions cannot fail a test, and their lines. ``in_script``: JavaScript."""
    lines = {a.line for a in assertions if a.word != "fail"}
    fails = {a.line for a in assertions} - lines
    for node in walk(body):
        over = find_iterated_node(node)
        if node.type in _TRIES:
            yield from _find_swallowed(node, lines, fails)
        elif node.type == "with_statement" and _SUPPRESSES.match(read_text(node)[:120]):
            hidden = "suppress() around it hides the failure of its assertion"
            yield from ((hidden, line) for line in sorted(lines & {*_list_lines(node)})[:1])
        elif over is not None and _is_nothing(over, body):
            if (lines | fails) & {*_list_lines(node)}:
                yield "its loop runs over nothing", read_line_number(node)
        elif in_script and _is_promise(node) and not _takes_done(body):
            yield "nobody waits for its promise (await or return it)", read_line_number(node)


def _find_swallowed(node: Node, lines: set[int], fails: set[int]) -> Iterator[tuple[str, int]]:
    """Assertions whose failure a handler around them hides."""
    tried = {*_list_lines(find_field(node, "body") or node)}
    for handler in node.named_children:
        handled = {*_list_lines(handler)}
        if handler.type not in _HANDLERS or handled & (lines | fails) or not _hides(handler):
            continue
        bare = not re.search(r"[A-Z]\w+", read_text(handler).partition("{")[0])
        wanted = lines | fails if handler.type == "catch_clause" and bare else lines
        for line in sorted((wanted & tried) - handled)[:1]:
            yield "a handler around it hides the failure of its assertion", line


def _list_lines(node: Node) -> range:
    return range(read_line_number(node), node.end_point[0] + 2)


def _hides(handler: Node) -> bool:
    """It catches what assertions throw, and goes on as if nothing were."""
    sign = "\n" if handler.type in ("except_clause", "rescue") else "{"
    head, _, rest = read_text(handler).partition(sign)
    if re.search(r"\b(raise|throw|fail|done|reject|next)\b", rest):
        return False
    return not re.search(r"[A-Z]\w+", head) or bool(_BROAD_CATCH.search(head))


def _is_nothing(over: Node, body: Node) -> bool:
    """An empty list, or one that is made empty, and named once more only, where it is used."""
    said = read_text(over)
    if not said.isidentifier() or body.end_byte - body.start_byte > _LONGEST_BODY:
        return _NOTHING.match(said[:60]) is not None
    code = read_text(body)
    made = re.search(rf"\b{said}\b[^=\n]*=\s*([^;\n]+)", code)
    empty = made is not None and _NOTHING.match(made[1].strip())
    return bool(empty) and len(re.findall(rf"\b{said}\b", code)) == 2


def _is_promise(node: Node) -> bool:
    """A statement whose assertion comes later: ``expect(x).rejects…``, ``f().then(expect…)``."""
    parent = node.parent
    if node.type != "call_expression" or parent is None or parent.type != "expression_statement":
        return False
    names = [link.name for link in read_chain(node)]
    if names[0] in ("assert", "expect"):
        return bool(_PROMISES.intersection(names))
    later = len(names) > 1 and names[-1] in ("then", "catch", "finally")
    return later and re.search(r"\bexpect\(|\bassert\b", read_text(node)) is not None


def _takes_done(body: Node) -> bool:
    outer = body.parent if body.type == "statement_block" else body
    given = find_field(outer, "parameters", "parameter") if outer is not None else None
    return re.search(r"\b(done|cb|next|resolve)\b", read_text(given)) is not None
