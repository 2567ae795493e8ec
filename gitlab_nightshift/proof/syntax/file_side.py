"""One side of a changed file, parsed once for all flags."""

import functools
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TypeVar
from weakref import WeakKeyDictionary

from tree_sitter import Node

from gitlab_nightshift.proof.syntax.definitions import Function, Test, list_functions, list_tests
from gitlab_nightshift.proof.syntax.languages import (
    Language,
    find_language,
    is_product,
    is_test_file,
    parse,
)
from gitlab_nightshift.proof.syntax.nodes import (
    COMMENTS,
    STRINGS,
    find_field,
    list_line_numbers,
    read_line_number,
    read_text,
    walk,
)
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_LARGEST_VALUE = 20_000  # bytes of an assignment
_ASSIGNMENT = compile_lazily(
    r"(?:export |const |let |var |type |static |final |private )*(\w+)[^=\n]*=[^=]"
)
_TEST_MODULES = ("tests", "test")
_LONGEST_LINE = 2000  # characters
# A comment in an unsupported language, by the usual signs.
_COMMENT = compile_lazily(r"(?:^|\s)(#|//|/\*|--|;;|<!--|%).*$")


class Side:
    """A file before or after the change. If it does not exist, is in an unsupported language or
    cannot be parsed, ``root`` is None, and there are no functions or tests."""

    def __init__(self, path: str, source: bytes | None) -> None:
        self.path = path
        self.source = source or b""
        self.language: Language | None = find_language(path)
        self.is_product = self.language is not None and is_product(path)
        self.is_test_file = is_test_file(path)

    @cached_property
    def root(self) -> Node | None:
        """The root of the syntax tree."""
        return parse(self.language, self.source) if self.language and self.source else None

    def walk(self) -> Iterator[Node]:
        """Every node in source order; none if the file is not parsed."""
        return walk(self.root) if self.root is not None else iter(())

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Functions, methods and classes, without those inside functions."""
        if self.root is None or self.language is None:
            return ()
        return list_functions(self.root, self.language)

    @cached_property
    def tests(self) -> tuple[Test, ...]:
        """The tests that a runner would collect."""
        if self.root is None or self.language is None:
            return ()
        return list_tests(self.root, self.functions, self.language, self.path)

    @cached_property
    def code(self) -> str:
        """The source as text; invalid bytes are replaced."""
        return self.source.decode("utf-8", "replace")

    @cached_property
    def comments(self) -> tuple[tuple[int, str], ...]:
        """The number, from 1, and the text of each line of a comment."""
        return tuple(_list_comments(self))

    @cached_property
    def lines_without_code(self) -> frozenset[int]:
        """The lines of comments, of multi-line strings, and of tests in a Rust product file."""
        numbers: set[int] = set()
        for node in self.walk():
            multiline = node.type in STRINGS and node.start_point[0] != node.end_point[0]
            tests = node.type == "mod_item" and read_text(find_field(node, "name")) in _TEST_MODULES
            if node.type in COMMENTS or multiline or tests:
                numbers |= {*list_line_numbers(node)}
        return frozenset(numbers)

    @cached_property
    def definitions(self) -> dict[str, list[Node]]:
        """The nodes that define each name: functions, and assignments at the top level."""
        nodes: dict[str, list[Node]] = {}
        for function in self.functions:
            if not function.is_class:
                nodes.setdefault(function.name, []).append(function.node)
        for node in self.root.named_children if self.root is not None else ():
            is_short = node.end_byte - node.start_byte < _LARGEST_VALUE
            if is_short and (assignment := _ASSIGNMENT.match(read_text(node)[:200])):
                nodes.setdefault(assignment[1], []).append(node)
        return nodes


def cache_weakly(compute: Callable[[_Key], _Value]) -> Callable[[_Key], _Value]:
    """A function that computes each value only once, and forgets it when its argument is freed, as
    an earlier attempt's change is."""
    values: WeakKeyDictionary[_Key, _Value] = WeakKeyDictionary()

    @functools.wraps(compute)
    def get_cached(key: _Key) -> _Value:
        if key not in values:
            values[key] = compute(key)
        return values[key]

    return get_cached


@cache_weakly
def read_sides(file: ChangedFile) -> tuple[Side, Side]:
    """The file before and after the change. A binary file has empty sides."""
    old, new = (None, None) if file.binary else (file.old, file.new)
    return Side(file.raw_old_path, old), Side(file.raw_path, new)


def _list_comments(side: Side) -> Iterator[tuple[int, str]]:
    """The lines of comments; a string as a statement counts as a comment."""
    if side.root is None:
        for number, line in enumerate(side.code.split("\n"), 1):
            if comment := _COMMENT.search(line[:_LONGEST_LINE]):
                yield number, comment[0].strip()
        return
    for node in side.walk():
        parent = node.parent if node.type == "string" else None
        if node.type in COMMENTS or (parent and parent.type == "expression_statement"):
            for offset, line in enumerate(read_text(node).split("\n")):
                yield read_line_number(node) + offset, line[:_LONGEST_LINE]
