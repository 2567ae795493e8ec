"""What a file defines: functions, classes and tests, with their names, lines and annotations."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as slot
from typing import NamedTuple

from tree_sitter import Node

from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.languages import Language, is_test_file
from gitlab_nightshift.proof.syntax.nodes import (
    CALLS,
    CLASSES,
    COMMENTS,
    FUNCTIONS,
    LAMBDAS,
    STRINGS,
    Link,
    find_field,
    list_children,
    list_enclosing,
    read_chain,
    read_last_line_number,
    read_line_number,
    read_text,
    walk,
)

_TABLE = RuleTable(__file__)

_DEEPEST_DEFINITION = 12  # definitions around one
_MARKS = _TABLE.get_words("marks")
# Nodes that may give a lambda its name: ``const total = () => …``.
_VARIABLES = frozenset(("variable_declarator", "public_field_definition", "field_definition"))
# Nodes that may contain definitions; others are not searched.
_CONTAINERS = _TABLE.get_words("containers") | FUNCTIONS | CLASSES | _VARIABLES


@dataclass(frozen=True)
class Function:
    """A function, method or class. ``name`` is what callers write: for ``res.send = function …`` it
    is ``send``. ``qualified`` has the names of the definitions around it (``outer``) in front:
    ``Cart.total``.

    ``marks`` are its annotations, decorators or attributes as written; ``line`` to ``end`` are its
    lines including these, from 1.
    """

    name: str
    qualified: str
    line: int
    end: int
    marks: tuple[str, ...]
    is_class: bool
    outer: tuple["Function", ...] = slot(repr=False)
    node: Node = slot(repr=False)
    body: Node | None = slot(repr=False)


def list_functions(root: Node, language: Language) -> tuple[Function, ...]:
    """All named functions, methods and classes, except those inside functions."""
    functions: list[Function] = []
    stack: list[tuple[Node, tuple[Function, ...]]] = [(root, ())]
    while stack:
        node, outer = stack.pop()
        if node is not root and (function := _read_function(node, outer, language)):
            functions.append(function)
            if not function.is_class:
                continue
            outer = (*outer, function)
        if len(outer) < _DEEPEST_DEFINITION:
            children = reversed(node.named_children)
            stack.extend((child, outer) for child in children if child.type in _CONTAINERS)
    return tuple(functions)


def _read_function(node: Node, outer: tuple[Function, ...], language: Language) -> Function | None:
    is_class = node.type in CLASSES or node.type == "type_spec"
    body = find_field(node, "body")
    if not is_class and node.type not in FUNCTIONS:
        has_value = node.type in _VARIABLES | {"assignment_expression", "pair"}
        body = find_field(node, "value", "right") if has_value else None
        if body is None or body.type not in LAMBDAS:
            return None
    name = _read_name(node)
    if not name:
        return None
    first_mark, marks = _read_marks(node)
    owners = [each.name for each in outer if each.node.type != "mod_item" or each.name != "tests"]
    # Go's methods are declared outside of their type.
    if receiver := find_field(node, "receiver"):
        types = (each for each in walk(receiver) if each.type == "type_identifier")
        owners = [read_text(next(types, None))]
    qualified, end = ".".join([*owners, name]), read_last_line_number(node)
    line = min(first_mark, read_line_number(node))
    if body is None and node.type in ("method", "singleton_method"):
        body = node  # in Ruby, an empty method has no node for its body
    body = body or next(
        (child for child in node.named_children if child.type.endswith("body")), None
    )
    if node.type == "assignment_expression":
        name = name.rpartition(".")[2]
    return Function(name, qualified, line, end, marks, is_class, outer, node, body)


def _read_name(node: Node) -> str:
    field = find_field(node, "name", "left", "key") or (
        find_field(node, "type", "trait") if node.type == "impl_item" else None
    )
    if field is None and node.type in FUNCTIONS | CLASSES:
        ids = (child for child in list_children(node) if child.type.endswith("identifier"))
        field = next(ids, None)
    name = read_text(field)
    if node.type == "impl_item":
        name = name.split("<")[0]
    for prefix in ("module.exports.", "exports."):
        name = name.removeprefix(prefix)
    return name.strip("`\"'") if len(name) < 200 else ""


def _read_marks(node: Node) -> tuple[int, tuple[str, ...]]:
    """The annotations of a definition, and their first line; without any, the definition's."""
    marks = list(_list_inner_marks(node))
    outer = node
    if node.parent and node.parent.type in ("decorated_definition", "export_statement"):
        outer = node.parent
        marks += [child for child in outer.named_children if child.type in _MARKS]
    before = outer.prev_named_sibling
    while before is not None and before.type in _MARKS | COMMENTS:
        if before.type in _MARKS:
            marks.append(before)
        before = before.prev_named_sibling
    lines = [read_line_number(mark) for mark in marks] or [read_line_number(node)]
    return min(lines), tuple(map(read_text, sorted(marks, key=lambda mark: mark.start_byte)))


def _list_inner_marks(node: Node) -> Iterator[Node]:
    for child in node.named_children:
        if child.type in _MARKS:
            yield child
        elif child.type in ("modifiers", "attributes"):
            yield from child.named_children


# --- tests: what a runner would collect, by the rules of each language's tools --------------------


@dataclass(frozen=True)
class Group:
    """A suite, class or module of tests, with its own marks."""

    name: str
    marks: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Test:
    """A test. ``marks`` are its annotations, decorators and words such as ``skip`` or ``only``;
    ``groups`` are the groups of tests around it, the outermost first. ``line`` to ``end`` are its
    lines including the marks, from 1. ``body`` is None for a test without code (``it.todo``);
    ``is_run`` is False for a helper that is read as if it were a test."""

    name: str
    qualified: str
    line: int
    end: int
    marks: tuple[str, ...]
    groups: tuple[Group, ...]
    path: str
    language: Language = slot(repr=False)
    node: Node = slot(repr=False)
    body: Node | None = slot(repr=False)
    is_run: bool = True


_CASES = frozenset("it test specify example scenario xit xtest xspecify fit ftest property".split())
_GROUPS = _TABLE.get_words("groups")
_ALIAS = _TABLE.get_pattern("alias")
# Objects whose methods define tests: ``t.test(…)``, ``RSpec.describe``.
_TEST_OBJECTS = frozenset("RSpec QUnit Deno t test qunit".split())
# A chain with one of these is an assertion, such as ``test(1) should equal (2)``.
_MATCHERS = frozenset("toBe should to must equal".split())
_SCALA_CASES = frozenset(("in", "ignore", "is", "inAnyOrder"))
# Words that open a group in ScalaTest's styles, as ``in`` opens a test.
_SCALA_GROUPS = frozenset(("should", "must", "can", "when", "which", "that", "-"))
_DEEPEST_GROUP = 40  # groups around a test
_LONGEST_TITLE = 300  # characters
_LOOPS = frozenset(
    "for_in_statement for_statement enhanced_for_statement foreach_statement for_expression"
    " for".split()
)
_ITERATING_METHODS = frozenset("each each_pair each_with_index forEach map foreach".split())
_LARGEST_LIST = 20_000  # bytes of a collection


def list_tests(
    root: Node, functions: tuple[Function, ...], language: Language, path: str
) -> tuple[Test, ...]:
    """The tests of a file in source order; none in a file that no runner collects."""
    if not is_test_file(path):
        return ()
    tests = [build_test(each, language, path) for each in functions if is_test(each, language)]
    if language.test_calls:
        tests += _list_called_tests(root, language, path)
    return tuple(sorted(tests, key=lambda test: test.node.start_byte))


def is_test(function: Function, language: Language) -> bool:
    """True if a runner would collect this function of a test file."""
    if function.is_class or function.body is None:
        return False
    if language.test_marks and any(language.test_marks.search(mark) for mark in function.marks):
        return True
    above = function.node.prev_named_sibling if language.name == "php" else None
    if above is not None and above.type in COMMENTS and re.search(r"@test\b", read_text(above)):
        return True  # PHPUnit before 10 reads annotations in comments
    if not language.test_names or not language.test_names.search(function.name):
        return False
    return _is_in_suite(function, language)


def _is_in_suite(function: Function, language: Language) -> bool:
    """True for a function that is in a class of tests, or needs none in the language."""
    if language.suite_bases:  # JUnit 3, Kotest
        return any(language.suite_bases.search(_read_heading(outer)) for outer in function.outer)
    if language.name == "go":
        # Methods are tests only in a suite of testify, which runs those named Test….
        return find_field(function.node, "receiver") is None or function.name.startswith("Test")
    if language.name == "python":
        return all(_is_collected_class(outer) for outer in function.outer)
    return bool(function.outer) or language.name == "ruby"


def _is_collected_class(group: Function) -> bool:
    # pytest collects classes by name (python_classes), except those with ``__test__ = False``;
    # unittest collects those that inherit from TestCase.
    bases = read_text(find_field(group.node, "superclasses"))
    if re.search(r"__test__\s*=\s*False", read_text(group.body)):
        return False
    # A mixin's tests run in the classes that inherit it.
    by_name = re.search(r"^(Test|Base|Abstract)|(Mixin|Base)$", group.name)
    return bool(by_name or re.search(r"Test|Case|Mixin|Base|Suite", bases))


def _read_heading(group: Function) -> str:
    end = group.body.start_byte - group.node.start_byte if group.body else 200
    return read_text(group.node)[:end]


def build_test(function: Function, language: Language, path: str, *, is_run: bool = True) -> Test:
    """The function as a test; ``is_run`` is False if no runner collects it."""
    groups = tuple(Group(each.name, each.marks, each.line) for each in function.outer)
    own = (function.name, function.qualified, function.line, function.end, function.marks)
    return Test(*own, groups, path, language, function.node, function.body, is_run)


# --- tests that are calls -------------------------------------------------------------------------


def _list_called_tests(root: Node, language: Language, path: str) -> Iterator[Test]:
    """Tests such as ``it("adds", () => …)``, ``test("adds") { … }``, ``"x" in { … }``."""
    stack: list[tuple[Node, tuple[Group, ...], frozenset[str]]] = [(root, (), _TEST_OBJECTS)]
    aliases = _find_aliases(root, language)
    mentions = Counter(re.findall(rb"\w+", root.text or b""))
    while stack:
        node, groups, owners = stack.pop()
        if node.type in CALLS and (definition := _read_call(node, aliases, owners)):
            is_group, name, marks, body = definition
            # Inner tests may be methods of a callback's parameter: ``t.test("adds", …)``.
            parameters = find_field(body, "parameters", "parameter") if body is not None else None
            owners |= {*re.findall(r"\w+", read_text(parameters))}
            line, end = read_line_number(node), read_last_line_number(node)
            if not is_group and not _holds_tests(body, aliases, owners):
                full = " ".join([*(group.name for group in groups), name])
                yield Test(name, full, line, end, marks, groups, path, language, node, body)
                continue
            groups = (*groups, Group(name, marks, line))
        if len(groups) < _DEEPEST_GROUP and not _is_never_called(node, mentions):
            stack.extend((child, groups, owners) for child in reversed(node.named_children))


def _holds_tests(
    body: Node | None, aliases: dict[str, tuple[str, str]], owners: frozenset[str]
) -> bool:
    """True for a call that contains other tests: it is a group of them."""
    if body is None:
        return False
    calls = (node for node in walk(body) if node != body and node.type in CALLS)
    return any(
        (links := read_chain(node))
        and links[0].name in owners
        and (definition := _read_call(node, aliases, owners))
        and definition.body is not None
        for node in calls
    )


def _is_never_called(node: Node, mentions: Counter[bytes]) -> bool:
    """True for a JavaScript function that is mentioned only once: its tests are never defined."""
    if node.type == "variable_declarator":
        value = find_field(node, "value")
        if value is None or value.type not in LAMBDAS:
            return False
    elif node.type != "function_declaration":
        return False
    return mentions[read_text(find_field(node, "name")).encode()] == 1


class _CalledTest(NamedTuple):
    """What a call defines: a test or a group of tests."""

    is_group: bool
    name: str
    marks: tuple[str, ...]
    body: Node | None


def _find_aliases(root: Node, language: Language) -> dict[str, tuple[str, str]]:
    """What aliases such as ``const maybe = FULL ? it : it.skip`` stand for, and their code."""
    if language.family != "script":
        return {}
    aliases = {}
    for node in root.named_children:
        match = _ALIAS.match(read_text(node)) if node.end_byte - node.start_byte < 400 else None
        if match:
            alias, code, function = match.groups()
            aliases[alias] = ("describe" if function == "describe" else "it", code)
    return aliases


def _list_alias_marks(code: str) -> list[str]:
    """The marks that an alias adds; a conditional one becomes ``skipIf(…)``."""
    marks: list[str] = re.findall(r"\.(skip|only|todo|skipIf|runIf|failing|fails)\b", code)
    ternary = re.match(r"(.+?)\?(.+):(.+)$", code, re.DOTALL)
    if ternary is None or marks != ["skip"]:
        return marks
    condition = ternary[1].strip()
    if ".skip" in ternary[2]:
        return [f"skipIf({condition})"]
    negated = re.sub(r"!(==?)", r"=\1", condition)
    return [f"skipIf({negated})" if negated != condition else f"skipIf(not {condition})"]


def _read_call(
    node: Node, aliases: dict[str, tuple[str, str]], owners: frozenset[str]
) -> _CalledTest | None:
    """What a call defines; None if it is neither a test nor a group of tests."""
    if node.type == "infix_expression":
        return _read_infix_call(node)
    links = read_chain(node)
    if not links or len(links) > 6:
        return None
    first = links[0].name
    if first in owners and len(links) > 1 and links[1].name in _GROUPS | _CASES | {"module"}:
        links = links[1:]
    first = "describe" if links[0].name == "module" else links[0].name
    if first in aliases:
        first, code = aliases[first]
        links = (Link(first), *map(Link, _list_alias_marks(code)), *links)
    known = first in _CASES | _GROUPS or first in ("serial", "ignore")
    return _read_plain_call(node, links, first) if known else None


def _read_plain_call(node: Node, links: tuple[Link, ...], first: str) -> _CalledTest | None:
    """What ``it.skip("adds", () => …)`` defines; ``first`` is its first name, without an alias."""
    args = [arg for link in links if link.args for arg in link.args]
    if links[-1].args is None or not args or _MATCHERS & {link.name for link in links[1:]}:
        return None
    body = next((arg for arg in reversed(args) if arg.type in LAMBDAS), None)
    plain = [arg for arg in args if arg.type not in LAMBDAS and arg.type != "array"]
    title = next((arg for arg in plain if arg.type in STRINGS), plain[0] if plain else None)
    words = tuple(link.name for link in links[1:] if link.name)
    is_group = first in _GROUPS or "describe" in words
    is_mark = first == "ignore" or (first[0] in "xf" and first[1:] in _CASES | _GROUPS)
    others = (arg for arg in args if arg not in (body, title) and not _is_table(arg))
    marks = (*((first,) if is_mark else ()), *words, *map(read_text, others))
    if title is not None and title.type == "field_expression":
        marks += (read_text(find_field(title, "field")),)
        title = find_field(title, "value") or title
    if body is None and (title is None or title.type not in STRINGS):
        return None
    after = plain[plain.index(title) + 1 :] if title in plain else []
    if body is None and not is_group and after and after[0].type == "identifier":
        body = node  # ``test("adds", macro, 1, 2)``: its body is a function defined elsewhere
    text = read_text(title)
    name = text.strip("\"'`") if title is not None and title.type in STRINGS else text
    return _CalledTest(is_group, name[:_LONGEST_TITLE], marks, body)


def _is_table(node: Node) -> bool:
    is_long = node.end_byte - node.start_byte > 60
    return is_long and node.type in ("array", "template_string", "list", "object")


def _read_infix_call(node: Node) -> _CalledTest | None:
    """What a call defines in ScalaTest or Kotest: ``"A cart" should "add" in { … }``."""
    parts = list_children(node)
    if len(parts) < 3 or parts[2].type not in LAMBDAS | {"block", "identifier"}:
        return None
    operator, body = read_text(parts[1]), parts[2]
    if operator in _SCALA_CASES and (body.type != "identifier" or read_text(body) == "pending"):
        words = (operator, read_text(body) if body.type == "identifier" else "")
        marks = tuple(word for word in words if word in ("ignore", "pending"))
        sentence, tags = _read_sentence(parts[0])
        return _CalledTest(False, sentence, marks + tags, body)
    if operator in _SCALA_GROUPS and body.type == "block":
        return _CalledTest(True, _read_sentence(parts[0])[0], (), body)
    return None


def _read_sentence(node: Node) -> tuple[str, tuple[str, ...]]:
    """The text in front of ``in`` or ``should``, and its tags."""
    links = read_chain(node)
    words = [link.name.strip('"') for link in links if link.name][:1] or [""]
    tags: list[str] = []
    for link in links:
        texts = [read_text(arg) for arg in link.args or ()]
        if link.name == "taggedAs":
            tags += texts
        else:
            words += [text.strip('"') for text in texts]
    return " ".join(words)[:_LONGEST_TITLE], tuple(tags)


def find_iterated_lists(test: Test) -> tuple[Node, ...]:
    """The collections of the loops around a test: ``[…].each do |x| it "…" do``."""
    outer = list_enclosing(test.node, _DEEPEST_GROUP) if test.language.test_calls else ()
    lists = filter(None, map(find_iterated_node, outer))
    return tuple(node for node in lists if node.end_byte - node.start_byte < _LARGEST_LIST)


def find_iterated_node(node: Node) -> Node | None:
    """The collection of a loop, or of a call such as ``x.each``; None for other nodes."""
    if node.type in _LOOPS:
        return find_field(node, "right", "value", "enumerators")
    if node.type not in CALLS:
        return None
    callee = find_field(node, "function") or node
    method = read_text(find_field(callee, "method", "property", "field", "name"))
    iterates = method in _ITERATING_METHODS
    return find_field(callee, "receiver", "object", "value") if iterates else None
