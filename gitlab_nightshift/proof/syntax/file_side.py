"""One side of a changed file, parsed once for all flags that look at it."""

from collections.abc import Iterator
from functools import cached_property
from weakref import WeakKeyDictionary

from tree_sitter import Node

from gitlab_nightshift.proof.syntax.collected_tests import list_tests
from gitlab_nightshift.proof.syntax.functions import Function, list_functions
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
    read_line_number,
    read_text,
    walk,
)
from gitlab_nightshift.proof.syntax.single_test import Test
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.text.lazy_patterns import compile_lazily


class Side:
    """A file before or after the change. ``root`` is None where there is no file, no language for
    it or no readable tree; then there are no functions and no tests either."""

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

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Functions, methods and classes, those inside functions left out."""
        if self.root is None or self.language is None:
            return ()
        return list_functions(self.root, self.language)

    @cached_property
    def tests(self) -> tuple[Test, ...]:
        """What a test runner would collect."""
        if self.root is None or self.language is None:
            return ()
        return list_tests(self.root, self.functions, self.language, self.path)

    @cached_property
    def code(self) -> str:
        """The whole text; odd bytes are replaced."""
        return self.source.decode("utf-8", "replace")

    @cached_property
    def comments(self) -> tuple[tuple[int, str], ...]:
        """Line, from 1, and text of each line of a comment."""
        return tuple(_list_comments(self.root, self.source))

    @cached_property
    def lines_without_code(self) -> frozenset[int]:
        """The lines of comments, of texts over several lines, and of tests in a product's file."""
        found: set[int] = set()
        for node in walk(self.root) if self.root is not None else ():
            long = node.type in STRINGS and node.start_point[0] != node.end_point[0]
            tests = node.type == "mod_item" and read_text(find_field(node, "name")) in _TEST_MODULES
            if node.type in COMMENTS or long or tests:
                found |= set(range(read_line_number(node), node.end_point[0] + 2))
        return frozenset(found)

    @cached_property
    def named(self) -> dict[str, list[Node]]:
        """What a name of the file stands for: functions, and assignments outside them."""
        found: dict[str, list[Node]] = {}
        for function in self.functions:
            if not function.is_class:
                found.setdefault(function.name, []).append(function.node)
        for node in self.root.named_children if self.root is not None else ():
            short = node.end_byte - node.start_byte < _LARGEST_VALUE
            if short and (made := _ASSIGNED.match(read_text(node)[:200])):
                found.setdefault(made[1], []).append(node)
        return found


_LARGEST_VALUE = 20_000
_ASSIGNED = compile_lazily(
    r"(?:export |const |let |var |type |static |final |private )*(\w+)[^=\n]*=[^=]"
)
_TEST_MODULES = ("tests", "test")
_SIDES: WeakKeyDictionary[ChangedFile, tuple[Side, Side]] = WeakKeyDictionary()


def read_sides(file: ChangedFile) -> tuple[Side, Side]:
    """The file before and after. A binary file has empty sides."""
    if file not in _SIDES:
        hidden = file.binary
        _SIDES[file] = (
            Side(file.raw_old_path, None if hidden else file.old),
            Side(file.raw_path, None if hidden else file.new),
        )
    return _SIDES[file]


_LONGEST = 2000
_BY_SIGN = compile_lazily(r"(?:^|\s)(#|//|/\*|--|;;|<!--|%)(?P<said>.*)$")


def _list_comments(root: Node | None, source: bytes) -> Iterator[tuple[int, str]]:
    """Line, from 1, and text of each comment, line by line; a string on its own is one."""
    if root is None:
        yield from _find_comments_by_sign(source)
        return
    for node in walk(root):
        alone = node.type == "string" and node.parent and node.parent.type == "expression_statement"
        if node.type in COMMENTS or alone:
            for offset, said in enumerate(read_text(node).split("\n")):
                yield read_line_number(node) + offset, said[:_LONGEST]


def _find_comments_by_sign(source: bytes) -> Iterator[tuple[int, str]]:
    for number, said in enumerate(source.decode("utf-8", "replace").split("\n"), 1):
        if found := _BY_SIGN.search(said[:_LONGEST]):
            yield number, found[0].strip()
