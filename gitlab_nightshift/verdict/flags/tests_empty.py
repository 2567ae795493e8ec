"""test-without-assertion: new or changed tests that demand nothing."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.change import Change, Context, Found
from gitlab_nightshift.verdict.flags.tests_seen import Seen, helpers_of, tests_seen
from gitlab_nightshift.verdict.syntax.languages import is_product, is_test_file, language_of
from gitlab_nightshift.verdict.syntax.nodes import CALLS, LAMBDAS, chain, field, text, walk
from gitlab_nightshift.verdict.syntax.side import Side

if TYPE_CHECKING:
    from tree_sitter import Node

_EXPECTS = re.compile(
    r"@(\w+\.)*Test\s*\([^)]*\b(expected|expectedExceptions|timeout)\s*=|should_panic"
    r"|ExpectedException"
    r"|@raises\(|expectedException|@ExpectSystemExit|@FileSnapshot|bench\b|Benchmark"
    r"|@given_snapshot"
)
_MOST_FILES, _LARGEST_HELPER = 40, 200_000
_OUTPUT = re.compile(r"//\s*(?:Unordered )?[Oo]utput:")


def test_without_assertion(change: Change, _context: Context) -> Iterator[Found]:
    """Tests that came, or that lost their last assertion, and demand nothing."""
    tests = tests_seen(change)
    had = {id(new): bool(old.assertions) for old, new in tests.changed}
    for seen in tests.touched:
        if demands(seen) or not had.get(id(seen), True) or _asserts_elsewhere(seen, change):
            continue
        yield Found(
            seen.file.path,
            seen.test.line,
            f"{seen.name} asserts nothing: let it check a result, an error or a call.",
        )


def demands(seen: Seen) -> bool:
    """True where a test asserts, expects an exception, is only announced, or is of a kind that
    needs no assertion: a benchmark, a fuzz target, an example with its output."""
    test = seen.test
    if seen.assertions or test.body is None or any(_EXPECTS.search(mark) for mark in test.marks):
        return True
    code, language = text(test.node), test.language.name
    if language == "go" and test.name.startswith(("Benchmark", "Fuzz", "Example")):
        return not test.name.startswith("Example") or bool(_OUTPUT.search(code))
    if language in _SCRIPTS and ("@ts-expect-error" in code or _hands_done_on(test.body)):
        return True
    return bool(_DEMANDING[language].search(code))


_SCRIPTS = ("javascript", "typescript", "tsx")
_JVM = re.compile(r"\.EXPECT|verify\w*\(|expect\w*\(|should|forAll|Prop\.|check\(|\.andExpect")
_ANY = re.compile(r"\bexpect\w*\(|\.should\b|(?i:snapshot)|benchmark\(|\.verify\(")
_DEMANDING = {
    "go": re.compile(r"\.EXPECT\(\)|\bsuite\.Run\(|goleak|quick\.Check"),
    "rust": re.compile(r"\?;|-> \w*Result|\bpanic!|\bquickcheck|prop_assert|trybuild|compile_fail"),
    "java": _JVM,
    "kotlin": _JVM,
    "scala": _JVM,
    "python": _ANY,
    "ruby": _ANY,
    "php": _ANY,
    "csharp": re.compile(r"\.Should\w*\(|\bVerify\w*\(|Received\(|(?i:snapshot)"),
    "javascript": re.compile(r"\bexpect[A-Z]\w*\(|\.should\b|[sS]napshot|\.verify\("),
}
_DEMANDING |= dict.fromkeys(("typescript", "tsx"), _DEMANDING["javascript"])


def _hands_done_on(body: "Node") -> bool:
    """True where a test ends only if somebody calls its callback."""
    given = field(body, "parameters", "parameter")
    name = (
        re.match(r"\(?\s*(done|cb|callback|next|end)\b", text(given)) if given is not None else None
    )
    if name is None:
        return False
    inner = [node for node in walk(body) if node.type in LAMBDAS and node != body]
    return any(re.search(rf"\b{name[1]}\b", text(node)) for node in inner) or bool(
        re.search(rf"[(,]\s*{name[1]}\s*[,)]", text(field(body, "body")))
    )


def _asserts_elsewhere(seen: Seen, change: Change) -> bool:
    """A function that the test calls asserts, in a file that the change does not touch."""
    names = {
        links[-1].name
        for node in walk(seen.test.node)
        if node.type in CALLS and (links := chain(node)) and len(links) <= 2
    }
    names |= set(re.findall(r"\w+", " ".join(seen.test.marks)))
    return bool(names & _helpers_around(change, seen.test.language.extensions))


@lru_cache(maxsize=4)
def _helpers_around(change: Change, extensions: tuple[str, ...]) -> frozenset[str]:
    """Names of asserting functions in files beside the tests, as far as a few files tell."""
    changed = {file.path for file in change.files}
    near = [
        path
        for path in sorted(change.paths(), key=lambda each: (_is_test_named(each), each))
        if path.endswith(extensions) and path not in changed and not is_product(path)
    ]
    found: set[str] = set()
    for path in near[:_MOST_FILES]:
        source = change.read(path)
        if source and len(source) < _LARGEST_HELPER and language_of(path):
            found |= set(helpers_of([Side(path, source)]))
    return frozenset(found)


def _is_test_named(path: str) -> bool:
    return is_test_file(path)
