"""test-skipped: tests that are there and are not run, or not to their end."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.change import Change, ChangedFile, Context, Found
from gitlab_nightshift.verdict.flags.tests_gone import is_commented_out
from gitlab_nightshift.verdict.flags.tests_lines import skipped_lines
from gitlab_nightshift.verdict.flags.tests_seen import Seen, shown, tests_seen
from gitlab_nightshift.verdict.syntax.nodes import (
    CALLS,
    LAMBDAS,
    chain,
    field,
    kids,
    line,
    text,
    walk,
)
from gitlab_nightshift.verdict.syntax.side import Side, sides

if TYPE_CHECKING:
    from tree_sitter import Node

_MARK = re.compile(
    r"(?i)^(@|\#\[|\[)?[^(]*?\b(pytest\.mark\.)?(skip\w*|xfail|expectedfailure"
    r"|disabled\w*|ignore\w*"
    r"|pending|quarantined?|enabledif\w*|enabledon\w*|manual|broken|notrun|explicit)\b"
    r"|^:(skip|pending|focus|wip|broken|disabled)\b|^(skip|pending|focus):"
    r"|^(skip|only|fails|failing|pending|todo|focus|xit|xtest|xdescribe|xcontext"
    r"|xspecify|fit|fdescribe"
    r"|fcontext|ftest|fixme|skipIf|runIf|ignore|fail|ddescribe)$"
    r"|\bSkip\s*=|\bIgnore\s*=|\benabled\s*=\s*false|skip:\s*(true|[\"'])|\bif:\s*false"
    r"|cfg\(\s*(any\(\s*\)|not\(test\)|feature|ignore|disabled|FALSE|false|all\([^)]*(feature"
    r"|any\(\)|not\(test))|cfg_attr\([^)]*ignore"
)
_MARK_LINE = re.compile(
    r"^\s*(pytestmark\s*=.*\b(skip|xfail)\w*|collect_ignore\w*\s*[+=]|pytest\.skip\(.*allow_module_level"
    r"|//(go:build|\s*\+build)\s+(?!!?(linux|darwin|windows|unix|amd64|arm64|go1"
    r"|cgo|race|purego|wasm|js|freebsd)\b)"
    r"|.*add_marker\(.*\b(skip|xfail)|def pytest_ignore_collect\b|items\[:\]\s*=|items\.remove\("
    r"|__test__\s*=\s*False|pytest\.importorskip\(|raise\s+(unittest\.)?SkipTest"
    r"|#!\[cfg\((any\(\)|feature|not))"
)
_LONGEST = 2000
_CALL = frozenset(
    "skip Skip Skipf SkipNow xfail skipTest pending assume assumeTrue assumeFalse assumeThat"
    " assumingThat markTestSkipped markTestIncomplete Ignore Inconclusive assumeNotNull"
    " assumeNoException todo fixme SkipTest importorskip".split()
)
_CALLED_ALONE = (_CALL | {"cancel"}) - frozenset("Skip Ignore todo".split())
_EXITS = frozenset("return_statement return return_expression break_statement".split())
_RUBY_BODIES = frozenset("body_statement block_body then if_modifier unless_modifier".split())
_BARE_WORDS = frozenset(("skip", "pending", "omit"))
_FALSE = re.compile(
    r"^\(?\s*(false|False|0|None|null|nil|!true|not True|1 == 2|0 == 1|\"\"|'')\s*\)?$"
)


def test_skipped(change: Change, _context: Context) -> Iterator[Found]:
    """Tests that a mark, a call, a condition, a comment or a setting keeps from running."""
    tests = tests_seen(change)
    told: set[tuple[str, int]] = set()
    for old, new in [*tests.pairs, *((None, seen) for seen in tests.came)]:
        for found in _marked(new, old):
            if (found.file, found.line) not in told:
                told.add((found.file, found.line))
                yield found
        if old is None or old.words != new.words:
            yield from _stopped(new, old)
    for seen in tests.gone:
        if is_commented_out(seen):
            yield Found(seen.file.path, seen.test.line, f"{seen.name} is commented out now.")
    for file in change.files:
        yield from _whole_file(file)
    yield from skipped_lines(change)


def _marks(seen: Seen | None) -> Counter[str]:
    """Skipping marks of a test and of its groups."""
    if seen is None:
        return Counter()
    groups = [mark for group in seen.test.groups for mark in group.marks]
    return Counter(mark for mark in (*seen.test.marks, *groups) if _skips(mark, seen))


def _skips(mark: str, seen: Seen) -> bool:
    """True where a mark, or what stands behind its name in the file, keeps a test from running."""
    if _MARK.search(mark[:_LONGEST]):
        return True
    named = re.fullmatch(r"@(\w+)", mark)
    if not named or seen.side.root is None:
        return False
    return any(
        re.match(rf"{named[1]}\s*=[^=]", text(node)[:200])
        and re.search(r"\b(skip|xfail)", text(node)[:500])
        for node in seen.side.root.named_children
    )


def _marked(seen: Seen, old: Seen | None) -> Iterator[Found]:
    if seen.test.body is None and (old is None or old.test.body is None):
        return
    came = _marks(seen) - _marks(old)
    kinds = Counter(map(_kind, _marks(old)))
    for mark in list(came):
        if _is_conditional(mark) and (
            (old is None and not _ASKS_ENVIRONMENT.search(mark)) or kinds[_kind(mark)]
        ):
            del came[mark]
    for group in seen.test.groups:
        for mark in group.marks:
            if came[mark]:
                yield Found(seen.file.path, group.line, f"{shown(group.name)} is {_how(mark)}.")
                return
    for mark in seen.test.marks:
        if came[mark]:
            yield Found(seen.file.path, seen.test.line, f"{seen.name} is {_how(mark)}.")
            return
    if seen.test.body is None:
        yield Found(seen.file.path, seen.test.line, f"{seen.name} has no body any more.")


def _kind(mark: str) -> str:
    return mark.split("(", maxsplit=1)[0]


def _is_conditional(mark: str) -> bool:
    """True where a mark names what it depends on: a platform, a version, a program."""
    return bool(_CONDITIONAL.search(mark)) and not re.search(r"(?i)\(\s*(true|1|not false)\b", mark)


_CONDITIONAL = re.compile(
    r"(?i)skip_?(if|unless)\b|\b(en|dis)abled(On|If|For)\w*|run_?if\b|cfg_attr\("
    r"|cfg\((not\()?(target|windows|unix|feature|all)"
    r"|skipCI|ignoreIf|if:\s|unless:\s"
)
_ASKS_ENVIRONMENT = re.compile(
    r"environ|getenv|process\.env|\benv\b|ENV\b|EnvironmentVariable|feature\s*="
)


def _how(mark: str) -> str:
    if re.search(r"\b(only|focus|fit|fdescribe|fcontext|ftest)\b", mark):
        return f"focused now, so that others are not run ({shown(mark)})"
    return f"skipped now ({shown(mark)})"


def _stopped(seen: Seen, old: Seen | None) -> Iterator[Found]:
    """A call that skips, an exit before the assertions, a condition that never holds."""
    before = Counter(what for what, *_ in _stops(old)) if old else Counter()
    for what, at, reason in _stops(seen):
        if old is None and reason and not _ASKS_ENVIRONMENT.search(reason):
            continue
        if before[what]:
            before[what] -= 1
            continue
        yield Found(seen.file.path, at, f"{seen.name} does not run to its end: {shown(what)}")


def _stops(seen: Seen) -> list[tuple[str, int, str]]:
    """What ends a test early, its line, and the condition that it depends on."""
    body = seen.test.body
    if body is None:
        return []
    found: list[tuple[str, int, str]] = []
    last = max((a.line for a in seen.assertions), default=0)
    for node in walk(body):
        if node.type in CALLS and _is_skip(node, seen):
            found.append((text(node), line(node), _condition(node, body)))
        elif (
            node.type == "identifier"
            and text(node) in _BARE_WORDS
            and seen.test.language.name == "ruby"
        ):
            if node.parent is not None and node.parent.type in _RUBY_BODIES:
                found.append((text(node), line(node), _condition(node, body)))
        elif node.type in ("if_statement", "if", "if_expression", "while_statement", "elsif"):
            condition = field(node, "condition")
            if condition is not None and _FALSE.match(text(condition)):
                found.append((f"if {text(condition)}", line(node), ""))
        elif (
            node.type in _EXITS
            and node.is_named
            and line(node) <= last
            and _is_early(node, body, seen)
        ):
            found.append((text(node), line(node), _condition(node, body)))
    return found


def _condition(node: "Node", body: "Node") -> str:
    """The condition that a call or an exit stands under; for an assumption what it assumes."""
    said = text(node)
    if re.search(r"(?i)assum|skip_?(if|unless)|importorskip", said[:60]) and "false)" not in said:
        return said
    current = node.parent
    for _ in range(12):
        if current is None or current == body:
            return ""
        if current.type in _IFS:
            return text(field(current, "condition"))
        current = current.parent
    return ""


_IFS = frozenset("if_statement if if_expression if_modifier unless unless_modifier".split())


_OWNERS = frozenset(
    "pytest t b f self this Assumptions Assume ctx context test $this unittest Assert tb tc cls"
    " suite s it TestContext jest vi describe".split()
)


def _is_skip(node: "Node", seen: Seen) -> bool:
    """``pytest.skip()``, ``t.Skip()``, ``assumeTrue(…)``, ``skip "later"``."""
    links = chain(node)
    if not links or links[-1].args is None or len(links) > 3:
        return False
    first, name = links[0].name, links[-1].name
    if len(links) == 1:
        return name in _CALLED_ALONE or (name == "omit" and seen.test.language.name == "ruby")
    if name not in _CALL or (name == "Skip" and len(links) == 3):
        return False
    return first in _OWNERS or first.endswith("T()")


def _is_early(node: "Node", body: "Node", seen: Seen) -> bool:
    """An exit of the test itself, not of a function in it, with code of its block after it or a
    constant value; a value that is returned (a promise) is no exit."""
    if kids(node) and text(kids(node)[0]) not in ("None", "null", "undefined", "nil", "true", "()"):
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
        if current.type in (
            "if_statement",
            "if",
            "if_expression",
            "if_modifier",
            "unless_modifier",
            "unless",
        ) and _is_deliberate(current):
            return False
        current = current.parent
        depth += 1
    return True


_CONDITIONAL_LOOPS = frozenset(
    "for_statement while_statement for_in_statement match_expression switch_statement except_clause"
    " catch_clause expression_switch_statement type_switch_statement select_statement"
    " case_clause".split()
)


def _is_deliberate(node: "Node") -> bool:
    """A branch with assertions before it leaves: the other half of a table."""
    said = text(node)
    return bool(re.search(r"assert|expect|Error|Fatal|raises|require|must|should", said))


def _whole_file(file: ChangedFile) -> Iterator[Found]:
    """Lines that skip a whole file."""
    after = sides(file)[1]
    if not _is_beside_tests(after):
        return
    gone = Counter(each.text.strip() for each in file.deleted)
    for added in file.added:
        if _MARK_LINE.search(added.text[:_LONGEST]) and not gone[added.text.strip()]:
            yield Found(
                file.path,
                added.number,
                f"The whole file is skipped now: {shown(added.text.strip())}",
            )


def _is_beside_tests(side: Side) -> bool:
    return side.language is not None and (side.is_test_file or not side.is_product)
