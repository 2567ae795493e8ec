"""Tests of a file: what a runner would collect, by the rules of each language's tools."""

import re

from tree_sitter import Node

from gitlab_nightshift.proof.syntax.called_tests import list_called_tests
from gitlab_nightshift.proof.syntax.functions import Function
from gitlab_nightshift.proof.syntax.languages import Language, is_test_file
from gitlab_nightshift.proof.syntax.nodes import COMMENTS, find_field, read_text
from gitlab_nightshift.proof.syntax.single_test import Group, Test


def list_tests(
    root: Node, functions: tuple[Function, ...], language: Language, path: str
) -> tuple[Test, ...]:
    """The tests of a file in the order of the text; none in a file that no runner collects."""
    if not is_test_file(path):
        return ()
    found = [build_test(each, language, path) for each in functions if is_test(each, language)]
    if language.calls:
        found += list_called_tests(root, language, path)
    return tuple(sorted(found, key=lambda test: test.node.start_byte))


def is_test(function: Function, language: Language) -> bool:
    """True where a runner would collect this function of a test file."""
    if function.is_class or function.body is None:
        return False
    if language.marked and any(language.marked.search(mark) for mark in function.marks):
        return True
    if language.name in ("java", "kotlin"):
        return function.name.startswith("test") and any(
            re.search(r"\b(TestCase|\w*Spec)\b", _read_heading(outer)) for outer in function.outer
        )
    if language.name == "php" and re.search(r"@test\b", _find_comment_above(function.node)):
        return True
    if not language.named or not language.named.search(function.name):
        return False
    return _stands_in_suite(function, language)


def _stands_in_suite(function: Function, language: Language) -> bool:
    if language.name == "go":
        return find_field(function.node, "receiver") is None or function.name.startswith("Test")
    if language.name == "python":
        return all(_is_collected_class(outer) for outer in function.outer)
    return bool(function.outer) or language.name == "ruby"


def _is_collected_class(group: Function) -> bool:
    bases = read_text(find_field(group.node, "superclasses"))
    if re.search(r"__test__\s*=\s*False", read_text(group.body)):
        return False
    # A mixin's tests run in the classes that take it.
    named = re.search(r"^(Test|Base|Abstract)|(Mixin|Base)$", group.name)
    return bool(named or re.search(r"Test|Case|Mixin|Base|Suite", bases))


def _read_heading(outer: Function) -> str:
    return read_text(outer.node)[
        : outer.body.start_byte - outer.node.start_byte if outer.body else 200
    ]


def _find_comment_above(node: Node) -> str:
    before = node.prev_named_sibling
    return read_text(before) if before is not None and before.type in COMMENTS else ""


def build_test(function: Function, language: Language, path: str, *, is_run: bool = True) -> Test:
    """A function as a test, whether a runner collects it or not."""
    groups = tuple(Group(each.name, each.marks, each.line) for each in function.outer)
    place = (function.name, function.qualified, function.line, function.end, function.marks)
    return Test(*place, groups, path, language, function.node, function.body, is_run)
