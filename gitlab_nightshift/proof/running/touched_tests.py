"""Finds the tests that a change touches: their own text, or code that they use."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePosixPath

from gitlab_nightshift.proof.reviewed_change import Changeset
from gitlab_nightshift.proof.running.fault_choice import draw_seed
from gitlab_nightshift.proof.running.trial import TreeFiles
from gitlab_nightshift.proof.syntax.definitions import Test
from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.proof.syntax.languages import is_beside_tests, is_test_file
from gitlab_nightshift.proof.syntax.nodes import list_line_numbers, list_names
from gitlab_nightshift.repository.difference import ChangedFile, Line
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_IMPORT = compile_lazily(
    r"import|use_declaration|using_directive|package|namespace_use|extern_crate"
)
_WORD = compile_lazily(r"[^\W\d]\w+")
_REQUIRE = compile_lazily(rb"(?:require|require_relative|include|load)\b")
MOST_UNNAMED = 12  # tests for changed test code that no test names, and as many at random
DEEPEST = 3  # depth of helpers that call helpers


@dataclass(frozen=True)
class TouchedTests:
    """The touched tests of one language. ``old`` are tests of the base that the change rewrites or
    removes, or whose helpers it changes. ``new`` are the same tests after the change, and those
    that it adds. ``named`` are the names in the old tests and their helpers, ``edited`` the names
    on changed lines of test code."""

    language: str
    old: tuple[Test, ...]
    new: tuple[Test, ...]
    named: frozenset[str]
    edited: frozenset[str]


def find_touched_tests(
    change: Changeset, before: TreeFiles, after: TreeFiles
) -> tuple[TouchedTests, ...]:
    """The tests that a change touches, by language, the most frequent first; none if it touches
    only what no test names, such as settings of a runner or product code."""
    helpers = _find_changed_helpers(change)
    old = [test for file in change.files for test in _list_rewritten(file)]
    callers = _find_callers(before, helpers)
    unnamed = _find_by_words(change, before) if not old and not callers else []
    found = _drop_duplicates([*old, *callers, *unnamed])
    new = list(_list_new(change, found))
    changed = {file.path for file in change.files}
    new += [t for t in _find_callers(after, helpers) if t.path not in changed]
    new += unnamed
    languages = Counter(test.language.name for test in found)
    files = [f for f in change.files if is_test_file(f.path) or is_beside_tests(f.path)]
    lines = (line.text for file in files for line in (*file.deleted, *file.added))
    edited = frozenset(word for text in lines for word in _WORD.findall(text))
    touched = []
    for language, _ in languages.most_common():
        old_tests, new_tests = (
            tuple(test for test in tests if test.language.name == language)
            for tests in (found, _drop_duplicates(new))
        )
        words = _list_words(old_tests, before)
        touched.append(TouchedTests(language, old_tests, new_tests, words, edited))
    return tuple(touched)


def _list_new(change: Changeset, old: Sequence[Test]) -> Iterator[Test]:
    """The ``old`` tests after the change, and those that it adds or rewrites. No others of the same
    files: they might notice a fault in place of these."""
    wanted = {test.qualified for test in old}
    sides = [read_sides(file) for file in change.files]
    known = {test.node.text for before, _ in sides for test in before.tests}
    for _, after in sides:
        for test in after.tests:
            if test.qualified in wanted or test.node.text not in known:
                yield test


def _find_by_words(change: Changeset, before: TreeFiles) -> list[Test]:
    """The tests to try for changed test code that no test names, such as hooks: those that share
    its words, of which rare ones count most, and as many others."""
    sides = [side for file in change.files for side in read_sides(file)]
    support = [side for side in sides if side.language and not side.is_product and not side.tests]
    words = {name for side in support if side.root for name in list_names(side.root)}
    if not words:
        return []
    tests = [test for side in before.tests for test in side.tests]
    shared = [words & list_names(test.node) for test in tests]
    times = Counter(word for each in shared for word in each)
    scores = [sum(1 / times[word] for word in each) for each in shared]
    order = sorted(range(len(tests)), key=lambda n: -scores[n])
    near = [n for n in order[:MOST_UNNAMED] if scores[n]]
    others = [n for n in order if n not in near]
    # At random: otherwise a change could spare the tests that are tried.
    draw_seed().shuffle(others)
    return [tests[n] for n in (*near, *others[:MOST_UNNAMED])]


def _drop_duplicates(tests: Iterable[Test]) -> tuple[Test, ...]:
    """Each test once, even if its file was parsed twice."""
    return tuple({(test.path, test.line, test.qualified): test for test in tests}.values())


def _list_rewritten(file: ChangedFile) -> Iterator[Test]:
    """Old tests whose text or marks the change rewrites or removes. All tests of a file if code
    outside of any test, function or named value changes."""
    before, after = read_sides(file)
    if not before.tests:
        return
    kept = {test.node.text for test in after.tests}
    anonymous = _changes_unnamed(before, file.deleted) or _changes_unnamed(after, file.added)
    marks = {(t.qualified, t.marks) for t in after.tests}
    for test in before.tests:
        same = test.node.text in kept and (test.qualified, test.marks) in marks
        if anonymous or not same:
            yield test


def _changes_unnamed(side: Side, lines: Sequence[Line]) -> bool:
    """True if ``lines`` have code outside of any test, function, named value or import."""
    numbers = {line.number for line in lines if line.text.strip()} - side.lines_without_code
    spans = [(test.line, test.end) for test in side.tests]
    spans += [(each.line, each.end) for each in side.functions if not each.is_class]
    for start, end in spans:
        numbers -= {*range(start, end + 1)}
    top = side.root.named_children if side.root is not None else ()
    imports = (n for n in top if _IMPORT.search(n.type) or _REQUIRE.match(n.text or b""))
    for node in (*chain.from_iterable(side.definitions.values()), *imports):
        numbers -= {*list_line_numbers(node)}
    return bool(numbers)


def _find_changed_helpers(change: Changeset) -> frozenset[str]:
    """The names of changed functions and values of test code, and of changed files in an
    unsupported language, which tests may read."""
    found: set[str] = set()
    for file in change.files:
        before, after = read_sides(file)
        if before.language is None and after.language is None:
            found |= {PurePosixPath(path).name for path in (file.path, file.old_path)}
        elif before.is_test_file or is_beside_tests(file.path) or is_beside_tests(file.old_path):
            found |= set(_list_changed_names(before, file.deleted))
            found |= set(_list_changed_names(after, file.added))
    return frozenset(found)


def _list_changed_names(side: Side, lines: Sequence[Line]) -> Iterator[str]:
    numbers = {line.number for line in lines if line.text.strip()}
    tests = {test.qualified for test in side.tests}
    for function in side.functions:
        touched = numbers & set(range(function.line, function.end + 1))
        if touched and function.qualified not in tests and not function.is_class:
            yield function.name
    for name, nodes in side.definitions.items():
        yield from (name for node in nodes if numbers & {*list_line_numbers(node)})


def _find_callers(files: TreeFiles, helpers: frozenset[str]) -> list[Test]:
    """Tests that name one of the helpers, or a helper that names one."""
    known, found = set(helpers), dict[Test, None]()
    for _ in range(DEEPEST if helpers else 0):
        named = re.compile(rb"(?<!\w)(?:%s)(?!\w)" % b"|".join(map(re.escape, _encode(known))))
        more: set[str] = set()
        for side in files.tests:
            # Most files name none of them, and need not be parsed.
            if not named.search(side.source):
                continue
            for test in side.tests:
                if named.search(b"\n".join([test.node.text or b"", *_encode(test.marks)])):
                    found[test] = None
            for name, nodes in side.definitions.items():
                if any(named.search(node.text or b"") for node in nodes):
                    more.add(name)
        if more <= known:
            break
        known |= more
    return list(found)


def _encode(names: Iterable[str]) -> list[bytes]:
    return [name.encode("utf-8", "surrogateescape") for name in sorted(names)]


def _list_words(tests: Sequence[Test], files: TreeFiles) -> frozenset[str]:
    """All names in tests, and in the functions and values of the same file that they name."""
    words = {name for test in tests for name in list_names(test.node)}
    paths = {test.path for test in tests}
    for side in files.tests:
        if side.path in paths:
            for _ in range(DEEPEST):
                called = (side.definitions.get(word, ()) for word in list(words))
                words |= {name for nodes in called for node in nodes for name in list_names(node)}
    return frozenset(words)
