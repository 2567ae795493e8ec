"""test-without-assertion: new or changed tests that demand nothing."""

import re
from collections.abc import Iterator
from functools import lru_cache

from tree_sitter import Node

from gitlab_nightshift.verdict.flags.matched_tests import TestVersion, find_helpers, match_tests
from gitlab_nightshift.verdict.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax.file_side import Side
from gitlab_nightshift.verdict.syntax.languages import find_language, is_product, is_test_file
from gitlab_nightshift.verdict.syntax.nodes import (
    CALLS,
    LAMBDAS,
    find_field,
    read_chain,
    read_text,
    walk,
)

_TABLE = RuleTable(__file__)

_EXPECTS = _TABLE.get_pattern("expects")
_MOST_FILES, _LARGEST_HELPER = 40, 200_000
_OUTPUT = _TABLE.get_pattern("output")


def find_tests_without_assertion(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Tests that came, or that lost their last assertion, and demand nothing."""
    tests = match_tests(change)
    had = {id(new): bool(old.assertions) for old, new in tests.changed}
    for version in tests.touched:
        if (
            demands(version)
            or not had.get(id(version), True)
            or _asserts_elsewhere(version, change)
        ):
            continue
        yield RuleViolation(
            version.file.path,
            version.test.line,
            f"{version.name} asserts nothing: let it check a result, an error or a call.",
            certain=None if id(version) in had else False,
        )


def demands(version: TestVersion) -> bool:
    """True where a test asserts, expects an exception, is only announced, or is of a kind that
    needs no assertion: a benchmark, a fuzz target, an example with its output."""
    test = version.test
    if version.assertions or test.body in (None, test.node):  # announced, or a function by its name
        return True
    if any(_EXPECTS.search(mark) for mark in test.marks):
        return True
    code, language = read_text(test.node), test.language.name
    if language == "php" and "@expectedException" in read_text(test.node.prev_named_sibling):
        return True
    if language == "go" and test.name.startswith(("Benchmark", "Fuzz", "Example")):
        return not test.name.startswith("Example") or bool(_OUTPUT.search(code))
    if language in _SCRIPTS and ("@ts-expect-error" in code or _hands_done_on(test.body)):
        return True
    return test.language.demanding is not None and bool(test.language.demanding.search(code))


_SCRIPTS = ("javascript", "typescript", "tsx")


def _hands_done_on(body: Node) -> bool:
    """True where a test ends only if somebody calls its callback."""
    given = find_field(body, "parameters", "parameter")
    name = (
        re.match(r"\(?\s*(done|cb|callback|next|end)\b", read_text(given))
        if given is not None
        else None
    )
    if name is None:
        return False
    inner = [node for node in walk(body) if node.type in LAMBDAS and node != body]
    return any(re.search(rf"\b{name[1]}\b", read_text(node)) for node in inner) or bool(
        re.search(rf"[(,]\s*{name[1]}\s*[,)]", read_text(find_field(body, "body")))
    )


def _asserts_elsewhere(version: TestVersion, change: Changeset) -> bool:
    """A function asserts that the test hands on, or calls in a file that the change leaves."""
    names = {
        links[-1].name
        for node in walk(version.test.node)
        if node.type in CALLS and (links := read_chain(node)) and len(links) <= 2
    }
    names |= set(re.findall(r"\w+", " ".join(version.test.marks)))
    if (handed := find_field(version.test.node, "arguments")) is not None:  # AVA: test(name, macro)
        names |= {read_text(each) for each in handed.named_children if each.type == "identifier"}
    nearby = _find_nearby_helpers(change, version.test.language.extensions)
    return bool(names & (version.helpers.keys() | nearby))


@lru_cache(maxsize=4)
def _find_nearby_helpers(change: Changeset, extensions: tuple[str, ...]) -> frozenset[str]:
    """Names of asserting functions in files beside the tests, from a few files."""
    changed = {file.path for file in change.files}
    near = [
        path
        for path in sorted(change.paths(), key=lambda each: (is_test_file(each), each))
        if path.endswith(extensions) and path not in changed and not is_product(path)
    ]
    found: set[str] = set()
    for path in near[:_MOST_FILES]:
        source = change.read(path)
        if source and len(source) < _LARGEST_HELPER and find_language(path):
            found |= set(find_helpers([Side(path, source)]))
    return frozenset(found)
