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
MOST_BY_WORDS = 12  # tests by shared words, and as many at random
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
    by_words = _find_by_shared_words(change, before) if not old and not callers else []
    old = list(_drop_duplicates([*old, *callers, *by_words]))
    new = list(_list_new(change, old))
    changed = {file.path for file in change.files}
    new += [test for test in _find_callers(after, helpers) if test.path not in changed]
    new += by_words
    languages = Counter(test.language.name for test in old)
    files = [f for f in change.files if is_test_file(f.path) or is_beside_tests(f.path)]
    lines = (line.text for file in files for line in (*file.deleted, *file.added))
    edited = frozenset(word for text in lines for word in _WORD.findall(text))
    touched = []
    for language, _ in languages.most_common():
        old_tests, new_tests = (
            tuple(test for test in tests if test.language.name == language)
            for tests in (old, _drop_duplicates(new))
        )
        words = _list_words(old_tests, before)
        touched.append(TouchedTests(language, old_tests, new_tests, words, edited))
    return tuple(touched)


def _list_new(change: Changeset, old: Sequence[Test]) -> Iterator[Test]:
    """The ``old`` tests after the change, and those that it adds or rewrites. No others of the same
    files: they might notice a fault in place of these."""
    old_names = {test.qualified for test in old}
    sides = [read_sides(file) for file in change.files]
    old_texts = {test.node.text for before, _ in sides for test in before.tests}
    for _, after in sides:
        for test in after.tests:
            if test.qualified in old_names or test.node.text not in old_texts:
                yield test


def _find_by_shared_words(change: Changeset, before: TreeFiles) -> list[Test]:
    """The tests to try for changed test code that no test names, such as hooks: those that share
    its words, of which rare ones count most, and as many others."""
    sides = [side for file in change.files for side in read_sides(file)]
    support = [side for side in sides if side.language and not side.is_product and not side.tests]
    words = {name for side in support if side.root for name in list_names(side.root)}
    if not words:
        return []
    shared = {t: words & list_names(t.node) for side in before.tests for t in side.tests}
    counts = Counter(word for each in shared.values() for word in each)
    scores = {test: sum(1 / counts[word] for word in each) for test, each in shared.items()}
    ranked = sorted(scores, key=lambda test: -scores[test])
    best = [test for test in ranked[:MOST_BY_WORDS] if scores[test]]
    others = ranked[len(best) :]
    # At random: otherwise a change could spare the tests that are tried.
    draw_seed().shuffle(others)
    return [*best, *others[:MOST_BY_WORDS]]


def _drop_duplicates(tests: Iterable[Test]) -> tuple[Test, ...]:
    """Each test once, even if its file was parsed twice."""
    return tuple({(test.path, test.line, test.qualified): test for test in tests}.values())


def _list_rewritten(file: ChangedFile) -> Iterator[Test]:
    """Old tests whose text or marks the change rewrites or removes. All tests of a file if code
    outside of any test, function or named value changes."""
    before, after = read_sides(file)
    if not before.tests:
        return
    texts = {test.node.text for test in after.tests}
    marks = {(test.qualified, test.marks) for test in after.tests}
    sides = ((before, file.deleted), (after, file.added))
    unnamed = any(_changes_unnamed_code(side, lines) for side, lines in sides)
    for test in before.tests:
        kept = test.node.text in texts and (test.qualified, test.marks) in marks
        if unnamed or not kept:
            yield test


def _changes_unnamed_code(side: Side, lines: Sequence[Line]) -> bool:
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
    names: set[str] = set()
    for file in change.files:
        before, after = read_sides(file)
        if before.language is None and after.language is None:
            names |= {PurePosixPath(path).name for path in (file.path, file.old_path)}
        elif before.is_test_file or is_beside_tests(file.path) or is_beside_tests(file.old_path):
            names.update(_list_changed_names(before, file.deleted))
            names.update(_list_changed_names(after, file.added))
    return frozenset(names)


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
    names, callers = set(helpers), dict[Test, None]()
    for _ in range(DEEPEST if helpers else 0):
        pattern = re.compile(rb"(?<!\w)(?:%s)(?!\w)" % b"|".join(map(re.escape, _encode(names))))
        more: set[str] = set()
        for side in files.tests:
            # Most files name none of them, and need not be parsed.
            if not pattern.search(side.source):
                continue
            for test in side.tests:
                if pattern.search(b"\n".join([test.node.text or b"", *_encode(test.marks)])):
                    callers[test] = None
            for name, nodes in side.definitions.items():
                if any(pattern.search(node.text or b"") for node in nodes):
                    more.add(name)
        if more <= names:
            break
        names |= more
    return list(callers)


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
