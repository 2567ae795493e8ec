"""test-detection: product code that asks whether it is tested, or knows a test's input."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.change import Change, ChangedFile, Context, Found
from gitlab_nightshift.verdict.flags.special_cases import special_cases
from gitlab_nightshift.verdict.flags.tests_seen import shown
from gitlab_nightshift.verdict.syntax.nodes import (
    COMMENTS,
    STRINGS,
    field,
    line,
    text,
    walk,
)
from gitlab_nightshift.verdict.syntax.side import Side, sides

if TYPE_CHECKING:
    pass

_ASKS = re.compile(
    r"PYTEST_\w+|\bpytest\b[\"']\s*(not\s+)?in\s|[\"'](pytest|unittest|nose|_pytest"
    r"|doctest|hypothesis)[\"']\s*(not\s+)?in\s+sys\.(modules|argv)"
    r"|sys\.modules\.get\(\s*[\"'](pytest|unittest)|sys\.argv\[0\].*(test|pytest)"
    r"|_called_from_test|_under_test\b|\bTESTING\b|IS_TEST\b|UNDER_TEST"
    r"|NODE_ENV\s*[!=]==?\s*[\"'`]test|[\"'`]test[\"'`]\s*[!=]==?\s*process\.env"
    r"|JEST_WORKER_ID|\bVITEST\b|import\.meta\.vitest|MOCHA_|typeof\s+(jest|describe"
    r"|it|vi|expect|beforeEach)\b"
    r"|globalThis\.(jest|describe|it|expect|vi)\b|testing\.Testing\(\)|flag\.Lookup\(\s*\"test\."
    r"|HasSuffix\(\s*os\.Args\[0\],\s*\"[._]?test|GO_TEST|os\.Args\[0\].*\.test"
    r"|cfg!\(\s*test|RUST_TEST|CARGO_TARGET_TMPDIR|Rails\.env\.test\?|RAILS_ENV[\"']?\]?\s*[=!]=\s*[\"']test"
    r"|RACK_ENV[\"']?\]?\s*[=!]=\s*[\"']test|defined\?\(\s*(RSpec|Minitest|Test::Unit)"
    r"|\$PROGRAM_NAME.*(rspec|test)|\$0.*(rspec|minitest)|org\.junit|surefire"
    r"|[\"']junit|isJUnitTest|isRunningTest|isTestEnv\w*|isTesting\b|inTestMode"
    r"|isInTest|runningInTest|isRunningUnderTest"
    r"|org\.scalatest|sbt\.testing|scalatest|PHPUNIT|PHPUnit|APP_ENV[\"']?\]?\)?\s*={2,3}\s*[\"']test"
    r"|xunit|nunit|TEST_ENV|TEST_MODE|RUNNING_TESTS|IN_TEST|currentTest\w*"
    r"|(environ(\.get)?[\[(]\s*|getenv\(\s*|process\.env\.|process\.env\[\s*|Getenv\(\s*"
    r"|LookupEnv\(\s*|ENV(\.fetch)?[\[(]\s*|env::var(_os)?\(\s*|sys\.env\S*\(\s*"
    r"|GetEnvironmentVariable\(\s*)[\"'`]?(CI|GITHUB_ACTIONS|GITLAB_CI|CONTINUOUS_INTEGRATION"
    r"|JENKINS_URL|BUILDKITE|CI_JOB_ID|CI_PIPELINE_ID|TEST|TESTS|TOX_ENV_NAME"
    r"|COVERAGE_RUN|COVERAGE)\b"
    r"|inspect\.stack\(\).*test|getStackTrace\(\).*(Test|junit)|new Error\(\)\.stack.*(test"
    r"|spec|jest)|caller.*_(spec|test)\b|navigator\.webdriver"
    r"|(?i:\b(mode|\w*env\w*|environment|stage)\b[\"'\])]*\s*[!=]==?\s*[\"'`](test"
    r"|testing|ci)[\"'`])"
    r"|(argv|modules|stack|execPath|cmdline|commandLine|PROGRAM_NAME|_getframe"
    r"|Args)\b.*\b(jest|mocha|vitest|pytest|unittest|rspec|minitest|phpunit|junit"
    r"|scalatest)"
)
_SETTINGS = re.compile(
    r"(^|/)(settings|config|conf|environments?)(/|[\w.-]*\.\w+$)|\.config\.[cm]?[jt]s$"
    r"|(^|/)(setup|manage|noxfile|conftest|tasks|Rakefile)\b"
)
_LONGEST = 2000


def test_detection(change: Change, _context: Context) -> Iterator[Found]:
    """Questions whether a test runs, and answers made for one test's input, that came."""
    gone = Counter(
        found[0]
        for file in change.files
        for each in file.deleted
        for found in _ASKS.finditer(each.text[:_LONGEST])
    )
    for file in change.files:
        old, side = sides(file)
        if not side.is_product:
            continue
        hidden = _not_code(side)
        for added in file.added:
            found = _ASKS.search(added.text[:_LONGEST]) if not _SETTINGS.search(file.path) else None
            if found is None or added.number in hidden or _is_comment(added.text):
                continue
            if gone[found[0]]:
                gone[found[0]] -= 1
                continue
            yield Found(
                file.path,
                added.number,
                f"Product code asks whether it is tested: {shown(added.text.strip())}",
            )
        yield from _cfg_test(old, side, file)
        yield from special_cases(old, side, file, change)


def _is_comment(said: str) -> bool:
    return said.lstrip().startswith(("#!", "//", "/*", "* ", "# "))


def _not_code(side: Side) -> set[int]:
    """The lines of comments, of texts over several lines, and of tests in the file."""
    found: set[int] = set()
    for node in walk(side.root) if side.root is not None else ():
        if (
            node.type in COMMENTS
            or (node.type in STRINGS and node.start_point[0] != node.end_point[0])
        ) or (node.type == "mod_item" and text(field(node, "name")) in ("tests", "test")):
            found |= set(range(line(node), node.end_point[0] + 2))
    return found


def _cfg_test(old: Side, side: Side, file: ChangedFile) -> Iterator[Found]:
    """Rust: another body of a function, or a statement, for tests."""
    if not side.path.endswith(".rs") or side.root is None:
        return
    before = old.source.count(b"cfg(not(test))") + old.source.count(b"cfg(test)")
    for node in walk(side.root):
        if node.type != "attribute_item" or not re.search(r"cfg\((not\()?test", text(node)):
            continue
        target = node.next_named_sibling
        if target is not None and target.type in (
            "expression_statement",
            "let_declaration",
            "function_item",
            "if_expression",
            "return_expression",
            "block",
        ):
            if target.type == "function_item" and "not(test)" not in text(side.root):
                continue
            if side.source.count(b"cfg(not(test))") + side.source.count(b"cfg(test)") > before:
                yield Found(file.path, line(node), "Product code is another one when it is tested.")
                return
