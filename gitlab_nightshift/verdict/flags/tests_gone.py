"""test-deleted and test-renamed-away: tests that are not there for the runner any more."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.change import Change, Context, Found
from gitlab_nightshift.verdict.flags.product import gone_names
from gitlab_nightshift.verdict.flags.tests_doubles import subjects
from gitlab_nightshift.verdict.flags.tests_seen import (
    MOST_PAIRS,
    SIMILAR,
    Seen,
    alike,
    bag_of,
    functions_after,
    shown,
    tests_seen,
)
from gitlab_nightshift.verdict.syntax.called_tests import lists_around, tests_called
from gitlab_nightshift.verdict.syntax.languages import beside_tests, is_test_file
from gitlab_nightshift.verdict.syntax.nodes import (
    CALLS,
    LAMBDAS,
    chain,
    field,
    text,
    tokens,
    walk,
)
from gitlab_nightshift.verdict.syntax.nodes import line as line_of
from gitlab_nightshift.verdict.syntax.side import Side, sides
from gitlab_nightshift.verdict.syntax.test import Test

if TYPE_CHECKING:
    from tree_sitter import Node

_STILL_THERE = 0.7
_OTHER_TESTS = re.compile(r"(^|/)[^/]*([._-](test|spec)s?\.|test_)[^/]*\w$|\.(bats|feature)$")


def test_renamed_away(change: Change, _context: Context) -> Iterator[Found]:
    """Tests whose body lives on where no runner collects it."""
    for file in change.files:
        if _moved_out(file.old_path, file.path):
            yield Found(
                file.old_path, 0, f"{file.old_path} is {file.path} now: no runner collects it."
            )
    for seen, where, line, name in _renamed(change):
        if not _moved_out(seen.file.old_path, seen.file.path):
            yield Found(
                where,
                line,
                f"{seen.name} is {name} now, which no runner collects: keep its old name.",
            )


def _moved_out(old: str, new: str) -> bool:
    """A file of tests got a name or a place where no runner looks."""
    if old == new or not is_test_file(old) or old.endswith(".rs"):
        return False
    if not is_test_file(new) or (_BY_NAME.search(old) and not _BY_NAME.search(new)):
        return True
    if old.endswith(_BY_PLACE) and beside_tests(old) and not beside_tests(new):
        return True
    return bool(_AWAY.search(new)) and not _AWAY.search(old)


_BY_PLACE = (".java", ".scala", ".kt", ".rb", ".php", ".cs")
_AWAY = re.compile(
    r"(^|/)_?(docs?|examples?|archived?|attic|old|disabled|backup|tmp|unused|skipped"
    r"|quarantined?|wip|broken|pending)/"
)
_BY_NAME = re.compile(r"[._-](test|spec|cy|e2e)\.[cm]?[jt]sx?$")


def _renamed(change: Change) -> list[tuple[Seen, str, int, str]]:
    gone = tests_seen(change).gone
    if not gone:
        return []
    others = [
        (file.path, function.line, function.qualified, bag_of(function.body), function.name)
        for file, side, function in functions_after(change)
        if not function.is_class and function.node not in [test.node for test in side.tests]
    ]
    for file in change.files:
        side = sides(file)[1]
        if side.root is not None and side.language is not None and not side.is_test_file:
            others += [
                (file.path, test.line, test.qualified, bag_of(test.body), test.name)
                for test in tests_called(side.root, side.language, side.path)
            ]
        if side.root is not None and side.is_test_file:
            others += [
                (file.path, line_of(node), _lambda_name(node), bag_of(node), "")
                for node in walk(side.root)
                if node.type in LAMBDAS and node.parent is not None and _lambda_name(node)
            ]
    if len(gone) * len(others) > MOST_PAIRS:
        return []
    found = []
    for seen in gone:
        scored = [
            (alike(seen.bag, bag), path, line, name)
            for path, line, name, bag, last in others
            if len(bag) > 2 or last == seen.test.name
        ]
        best = max(scored, default=None)
        if best and best[0] >= _STILL_THERE:
            found.append((seen, best[1], best[2], shown(best[3])))
    return found


def _lambda_name(node: "Node") -> str:
    """The variable that a function is put into."""
    parent = node.parent
    if parent is None or parent.type not in ("variable_declarator", "short_var_declaration"):
        return ""
    return text(field(parent, "name", "left"))


def test_deleted(change: Change, _context: Context) -> Iterator[Found]:
    """Tests that are gone although what they tested is still there."""
    renamed = {id(seen) for seen, *_ in _renamed(change)}
    names = gone_names(change) if tests_seen(change).gone else frozenset()
    gone = [
        seen
        for seen in tests_seen(change).gone
        if id(seen) not in renamed
        and not _moved_out(seen.file.old_path, seen.file.path)
        and not is_commented_out(seen)
        and not _is_unreadable(seen)
        and not _lost_subject(seen, names)
        and not _merged(seen, change)
        and not _has_twin(seen, change)
    ]
    for file in change.files:
        mine = [seen for seen in gone if seen.file is file]
        if file.status == "D" and len(mine) > 1:
            yield Found(file.path, 0, f"The file is deleted with its {len(mine)} tests.")
        elif file.status == "D" and not mine and _is_other_test(file.path, sides(file)[0]):
            yield Found(file.path, 0, "A file of tests is deleted.")
        else:
            for seen in mine:
                detail = f"{seen.name} is gone, though what it tests is still there."
                yield Found(file.path, seen.test.line, detail)
    yield from _subtests_gone(change)


def _subtests_gone(change: Change) -> Iterator[Found]:
    """Go: parts of a test that have a name of their own."""
    for old, new in tests_seen(change).changed:
        known = {name for name, *_ in _subtests(old)}
        bags = [bag for name, bag, _ in _subtests(new) if name not in known]
        said = " ".join(new.words)
        for name, bag, at in _subtests(old):
            if name in said:
                continue
            if not any(alike(bag, other) >= SIMILAR for other in bags):
                yield Found(old.file.path, at, f"{shown(name)} is gone from {new.name}.")


def _subtests(seen: Seen) -> list[tuple[str, Counter[str], int]]:
    if seen.test.language.name != "go":
        return []
    found = []
    for node in walk(seen.test.node):
        links = chain(node) if node.type == "call_expression" else ()
        args = links[-1].args if len(links) == 2 and links[1].name == "Run" else None
        if args and len(args) == 2 and args[0].type.endswith("string_literal"):
            found.append((text(args[0]), bag_of(args[1]), line_of(node)))
    return found


def _is_other_test(path: str, old: Side) -> bool:
    return old.root is None and bool(_OTHER_TESTS.search(path)) and "snap" not in path


def is_commented_out(seen: Seen) -> bool:
    """True where the new file has the test as a comment."""
    said = sides(seen.file)[1].comment_words
    if not said:
        return False
    words = [word for word in tokens(seen.test.node) if word.isidentifier() or len(word) > 3]
    wanted = Counter(part for word in words for part in re.findall(r"\w+", word))
    name = re.findall(r"\w+", seen.test.name)
    if not wanted or not all(said[word] for word in name):
        return False
    return (wanted & said).total() >= 0.6 * wanted.total()


def _is_unreadable(seen: Seen) -> bool:
    """A new side with errors in it: the name standing there is taken for the test."""
    side = sides(seen.file)[1]
    if not side.source or (side.root is not None and not side.root.has_error):
        return False
    return (
        re.search(rf"\b{re.escape(seen.test.name)}\b", side.source.decode("utf-8", "replace"))
        is not None
    )


def _lost_subject(seen: Seen, names: frozenset[str]) -> bool:
    return bool(names & used(seen.test))


def used(test: Test) -> frozenset[str]:
    """The names that a test calls or reaches into."""
    found = set()
    for node in walk(test.node):
        if node.type in CALLS or node.type in (
            "keyword_argument",
            "object_creation_expression",
            "new_expression",
        ):
            found |= {link.name for link in chain(node)} | set(tokens(node)[:2])
        elif node.type.endswith(("identifier", "constant")) and text(node)[:1].isupper():
            found.add(text(node))
        elif node.type in ("attribute", "member_expression", "selector_expression", "field_access"):
            found |= {link.name for link in chain(node)}
    return frozenset(found)


def _has_twin(seen: Seen, change: Change) -> bool:
    """The same body stands in another test of the file that lives on."""
    return any(new.file is seen.file and new.bag == seen.bag for _, new in tests_seen(change).pairs)


def _merged(seen: Seen, change: Change) -> bool:
    """Another test of the change has got the values of this one, and looks at the same thing."""
    values, looked_at = _values(_words_without_messages(seen)), subjects(seen) or used(seen.test)
    keys = {a.key for a in seen.assertions}
    tests = tests_seen(change)
    before = {id(new): old for old, new in tests.changed}
    if len(tests.gone) * len(tests.touched) > MOST_PAIRS:
        return False
    for other in tests.touched:
        if keys and keys <= {a.key for a in other.assertions}:
            return True
        if not (looked_at - _COMMON) & (subjects(other) | used(other.test)) or not other.assertions:
            continue
        old = before.get(id(other))
        theirs = Counter(tokens_with_tables(other)) - Counter(
            tokens_with_tables(old) if old else ()
        )
        said = " ".join(theirs)
        found = sum(value in said for value in values)
        if values and found >= 0.75 * len(values) and _strong(other) >= _strong(seen):
            return True
    return False


_COMMON = frozenset(
    "expect assertEquals assertThat assert assert_equal toBe toEqual Equal t Run it".split()
)


def _strong(seen: Seen) -> int:
    return max((a.rank for a in seen.assertions), default=0)


def _words_without_messages(seen: Seen) -> tuple[str, ...]:
    """The words of a test, those left out that it prints when it fails."""
    body = seen.test.body or seen.test.node
    told = [
        word
        for node in walk(body)
        if node.type == "call_expression" and _TELLS.match(text(node)[:40])
        for word in tokens(node)
    ]
    return tuple((Counter(tokens(body)) - Counter(told)).elements())


_TELLS = re.compile(r"\w+\.(Errorf?|Fatalf?|Logf?)\(")


def _values(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(
        word.strip("\"'`") or '""'
        for word in words
        if word[:1] in "\"'`" or re.fullmatch(r"-?\d[\d_.]*[a-zA-Z]*", word)
    )


def tokens_with_tables(seen: Seen) -> tuple[str, ...]:
    """The words of a test and of the tables and functions of its file that it names."""
    found = list(seen.words)
    for mark in seen.test.marks:
        found += re.findall(r"\"[^\"]*\"|'[^']*'|\w+", mark[:_LONGEST_MARK])
    found += [word for node in lists_around(seen.test) for word in tokens(node)]
    named = seen.side.named
    for name in {word.strip("\"'") for word in found} & named.keys():
        found += [word for node in named[name] if node != seen.test.node for word in tokens(node)]
    return tuple(found)


_LONGEST_MARK = 4000
