"""test-skipped: tests that are there and are not run, or not to their end."""

import re
from collections import Counter
from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.flag_entry import Level
from gitlab_nightshift.printable_text import format_excerpt
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.verdict.flags.deleted_tests import is_commented_out
from gitlab_nightshift.verdict.flags.matched_tests import TestVersion, match_tests
from gitlab_nightshift.verdict.flags.unparsed_tests import find_skipping_lines
from gitlab_nightshift.verdict.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax.file_side import Side, read_sides
from gitlab_nightshift.verdict.syntax.nodes import (
    CALLS,
    LAMBDAS,
    find_field,
    list_children,
    read_chain,
    read_line_number,
    read_text,
    walk,
)

_TABLE = RuleTable(__file__)
_BRANCHES = _TABLE.get_words("branches")

_MARK = _TABLE.get_pattern("mark")
_FAILS = _TABLE.get_pattern("fails")
_MARK_LINE = _TABLE.get_pattern("mark_line")
_LONGEST = 2000
_CALL = _TABLE.get_words("call")
_CALLED_ALONE = (_CALL | {"cancel"}) - frozenset("Skip Ignore todo".split())
_EXITS = frozenset("return_statement return return_expression break_statement".split())
_RUBY_BODIES = frozenset("body_statement block_body then if_modifier unless_modifier".split())
_BARE_WORDS = frozenset(("skip", "pending", "omit"))
_OWNERS = _TABLE.get_words("owners")
_CONDITIONAL_LOOPS = _TABLE.get_words("conditional_loops")
_HANDLERS = frozenset(("except_clause", "rescue"))
_IFS = frozenset("if_statement if if_expression if_modifier unless unless_modifier".split())
_OF_FEATURE = re.compile(r"#!\[cfg\(feature = \"[\w-]+\"\)\]$")
_FALSE = _TABLE.get_pattern("false")
_REASON = _TABLE.get_pattern("reason")
_TRUE = _TABLE.get_pattern("true")
_DECIDES = _TABLE.get_pattern("decides")


def find_skipped_tests(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Tests that a mark, a call, a condition, a comment or a setting keeps from running."""
    tests = match_tests(change)
    reported: set[tuple[str, int]] = set()
    for old, new in [*tests.pairs, *((None, version) for version in tests.came)]:
        for found in _find_skip_marks(new, old):
            if (found.file, found.line) not in reported:
                reported.add((found.file, found.line))
                yield found
        if old is None or old.words != new.words:
            yield from _find_new_stops(new, old)
        if old is not None:
            yield from _find_reversal(new, old)
    for version in tests.gone:
        if is_commented_out(version):
            detail = f"{version.name} is commented out now."
            yield RuleViolation(version.file.path, version.test.line, detail, certain=True)
    for file in change.files:
        yield from _find_file_skips(file)
    yield from find_skipping_lines(change)


def _count_skip_marks(version: TestVersion | None) -> Counter[str]:
    """Skipping marks of a test and of its groups."""
    if version is None:
        return Counter()
    groups = [mark for group in version.test.groups for mark in group.marks]
    return Counter(mark for mark in (*version.test.marks, *groups) if _skips(mark, version))


def _skips(mark: str, version: TestVersion) -> bool:
    """True where a mark, or what its name stands for in the file, keeps a test from running."""
    if _MARK.search(mark[:_LONGEST]):
        return True
    named = re.fullmatch(r"@(\w+)", mark)
    if not named or version.side.root is None:
        return False
    return any(
        re.match(rf"{named[1]}\s*=[^=]", read_text(node)[:200])
        and re.search(r"\b(skip|xfail)", read_text(node)[:500])
        for node in version.side.root.named_children
    )


def _find_skip_marks(version: TestVersion, old: TestVersion | None) -> Iterator[RuleViolation]:
    if version.test.body is None and (old is None or old.test.body is None):
        return
    came = _count_skip_marks(version) - _count_skip_marks(old)
    kinds = Counter(map(_parse_mark_name, _count_skip_marks(old)))
    known = {_REASON.sub("", mark) for mark in (old.test.marks if old else ())}
    for mark in list(came):
        if _REASON.sub("", mark) in known or (
            _is_conditional(mark)
            and (
                (old is None and not _ASKS_ENVIRONMENT.search(mark))
                or kinds[_parse_mark_name(mark)]
            )
        ):
            del came[mark]
    for group in version.test.groups:
        for mark in group.marks:
            if came[mark]:
                yield _report_mark(version, old, mark, format_excerpt(group.name), group.line)
                return
    for mark in version.test.marks:
        if came[mark]:
            yield _report_mark(version, old, mark, version.name, version.test.line)
            return
    if version.test.body is None:
        yield RuleViolation(
            version.file.path, version.test.line, f"{version.name} has no body any more."
        )


def _find_reversal(version: TestVersion, old: TestVersion) -> Iterator[RuleViolation]:
    """The same test, that has to fail now."""
    if not version.test.body or not old.test.body or version.test.body.text != old.test.body.text:
        return
    failed = any(map(_FAILS.search, old.test.marks))
    for mark in version.test.marks:
        if not failed and _FAILS.search(mark):
            detail = f"{version.name} passes only where it fails: {format_excerpt(mark)}"
            yield RuleViolation(version.file.path, version.test.line, detail, certain=True)


def _report_mark(
    version: TestVersion, old: TestVersion | None, mark: str, name: str, line: int
) -> RuleViolation:
    return RuleViolation(
        version.file.path,
        line,
        f"{name} is {_describe_mark(mark)}.",
        _choose_level(mark, old is None),
        certain=old is not None and not _is_conditional(mark),
    )


def _parse_mark_name(mark: str) -> str:
    return mark.split("(", maxsplit=1)[0]


def _is_conditional(mark: str) -> bool:
    """True where a mark names what it depends on: a platform, a version, a program."""
    return bool(_CONDITIONAL.search(mark)) and not re.search(r"(?i)\(\s*(true|1|not false)\b", mark)


def _choose_level(condition: str, new: bool) -> Level | None:
    """Where a test cannot run is asked about: it still runs elsewhere; a feature that a new test
    needs is its own."""
    if _TURNED.search(condition):
        return None
    own_feature = new and "feature" in condition
    return "warn" if own_feature or _ELSEWHERE.search(condition) else None


_TURNED = _TABLE.get_pattern("turned")
_DEPENDS = _TABLE.get_pattern("depends")
_ELSEWHERE = _TABLE.get_pattern("elsewhere")
_CONDITIONAL = _TABLE.get_pattern("conditional")
_ASKS_ENVIRONMENT = _TABLE.get_pattern("asks_environment")


def _describe_mark(mark: str) -> str:
    if re.search(r"\b(only|focus|fit|fdescribe|fcontext|ftest)\b", mark):
        return f"focused now, so that others are not run ({format_excerpt(mark)})"
    return f"skipped now ({format_excerpt(mark)})"


def _find_new_stops(version: TestVersion, old: TestVersion | None) -> Iterator[RuleViolation]:
    """A call that skips, an exit before the assertions, a condition that never holds."""
    stops = _list_stops(old) if old else []
    before = Counter(what for what, *_ in stops)
    depended = {_parse_mark_name(what) for what, _, reason in stops if reason}
    for what, at, reason in _list_stops(version):
        if old is None and reason and not _ASKS_ENVIRONMENT.search(reason):
            continue
        if before[what]:
            before[what] -= 1
            continue
        detail = f"{version.name} does not run to its end: {format_excerpt(what)}"
        level = _choose_level(reason, False)
        if _parse_mark_name(what) in depended and _DEPENDS.search(reason):
            level = "warn"  # it did so before on another condition
        certain = old is not None and (not reason or bool(_TRUE.match(reason)))
        yield RuleViolation(version.file.path, at, detail, level, certain)


def _list_stops(version: TestVersion) -> list[tuple[str, int, str]]:
    """What ends a test early, its line, and the condition that it depends on."""
    body = version.test.body
    if body is None:
        return []
    found: list[tuple[str, int, str]] = []
    last = max((a.line for a in version.assertions), default=0)
    for node in walk(body):
        if node.type in CALLS and _is_skip(node, version):
            found.append((read_text(node), read_line_number(node), _find_condition(node, body)))
        elif (
            node.type == "identifier"
            and read_text(node) in _BARE_WORDS
            and version.test.language.name == "ruby"
        ):
            if node.parent is not None and node.parent.type in _RUBY_BODIES:
                found.append((read_text(node), read_line_number(node), _find_condition(node, body)))
        elif node.type in ("if_statement", "if", "if_expression", "while_statement", "elsif"):
            condition = find_field(node, "condition")
            if condition is not None and _FALSE.match(read_text(condition)):
                found.append((f"if {read_text(condition)}", read_line_number(node), ""))
        elif (
            node.type in _EXITS
            and node.is_named
            and read_line_number(node) <= last
            and _is_early(node, body, version)
        ):
            found.append((read_text(node), read_line_number(node), _find_condition(node, body)))
    return found


def _find_condition(node: Node, body: Node) -> str:
    """The condition of a call or an exit; for an assumption what it assumes."""
    said = read_text(node)
    if re.search(r"(?i)assum|skip_?(if|unless)|importorskip", said[:60]) and "false)" not in said:
        return said
    current = node.parent
    for _ in range(12):
        if current is None or current == body:
            return ""
        if current.type in _IFS:
            return read_text(find_field(current, "condition"))
        if current.type in _HANDLERS:
            return read_text(current).partition("\n")[0]
        current = current.parent
    return ""


def _is_skip(node: Node, version: TestVersion) -> bool:
    """``pytest.skip()``, ``t.Skip()``, ``assumeTrue(…)``, ``skip "later"``."""
    links = read_chain(node)
    if not links or links[-1].args is None or len(links) > 3:
        return False
    first, name = links[0].name, links[-1].name
    if len(links) == 1:
        return name in _CALLED_ALONE or (name == "omit" and version.test.language.name == "ruby")
    if name not in _CALL or (name == "Skip" and len(links) == 3):
        return False
    return first in _OWNERS or first.endswith("T()")


def _is_early(node: Node, body: Node, version: TestVersion) -> bool:
    """An exit of the test itself, not of a function in it, with code of its block after it or a
    constant value; a value that is returned (a promise) is no exit."""
    if list_children(node) and read_text(list_children(node)[0]) not in (
        "None",
        "null",
        "undefined",
        "nil",
        "true",
        "()",
    ):
        return False
    current = node.parent
    depth = 0
    while current is not None and current != body and depth < 40:
        if (
            current.type in LAMBDAS and current.type not in ("block", "do_block")
        ) or current.type in _CONDITIONAL_LOOPS:
            return False
        if current.type in ("function_definition", "function_declaration", "method_declaration"):
            return False
        if current.type in _BRANCHES and _is_deliberate(current):
            return False
        current = current.parent
        depth += 1
    return True


def _is_deliberate(node: Node) -> bool:
    """A branch with assertions before it leaves: the other half of a table."""
    said = read_text(node)
    return bool(re.search(r"assert|expect|Error|Fatal|raises|require|must|should", said))


def _find_file_skips(file: ChangedFile) -> Iterator[RuleViolation]:
    """Lines that skip a whole file."""
    after = read_sides(file)[1]
    if not _is_beside_tests(after):
        return
    gone = Counter(each.text.strip() for each in file.deleted)
    had_feature = any(_OF_FEATURE.match(each) for each in gone)
    for added in file.added:
        said = added.text.strip()
        if not _MARK_LINE.search(added.text[:_LONGEST]) or gone[said]:
            continue
        if not (had_feature and _OF_FEATURE.match(said)):
            whole = "".join(file.new_lines[added.number - 1 : added.number + 3])
            detail = f"The whole file is skipped now: {format_excerpt(said)}"
            level = _choose_level(whole[:_LONGEST], file.status == "A")
            certain = file.status != "A" and not _DECIDES.search(said[:_LONGEST])
            yield RuleViolation(file.path, added.number, detail, level, certain)


def _is_beside_tests(side: Side) -> bool:
    return side.language is not None and (side.is_test_file or not side.is_product)
