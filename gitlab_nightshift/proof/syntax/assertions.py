"""Finds the assertions in a test."""

import re
from collections.abc import Collection, Iterator
from itertools import chain

from tree_sitter import Node

from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.assertion import (
    FLUENT,
    RAISES,
    THROWN,
    WORDS,
    Assertion,
    build_assertion,
    find_left_operand,
    find_should_index,
    normalize_name,
    parse_assertion_name,
    read_assert_that,
    read_condition,
    read_fluent,
    read_matchers,
)
from gitlab_nightshift.proof.syntax.languages import Language
from gitlab_nightshift.proof.syntax.nodes import (
    CALLS,
    LAMBDAS,
    STRINGS,
    Link,
    find_field,
    list_arguments,
    list_children,
    list_enclosing,
    list_tokens,
    read_assignment,
    read_chain,
    read_text,
    split_binary,
    unwrap_node,
    walk,
)

_TABLE = RuleTable(__file__)
_ARGUMENT_OR_ASSIGNMENT = _TABLE.get_words("argument_or_assignment")
_STATEMENTS = _TABLE.get_words("statements")
_FAILURES = frozenset("fail flunk unreachable! panic! failnow".split())
_VERIFIES = frozenset(
    "verify verifynomoreinteractions verifyzerointeractions verifynointeractions".split()
)
_LEFT_FIELDS = ("function", "object", "receiver", "left", "expression", "value", "operand")
_DEEPEST = 60  # nodes around a test's body in which parameters are looked for
_SUBJECTLESS = ("that", "isexpected")
_MOCKING = ("mockito", "bddmockito", "sinon", "td")
_HELPER_PREFIXES = ("assert", "expect", "shouldhave", "verifythat", "andexpect", "mustassert")
_NO_HELPERS = ("expect", "assertions", "expectassertions", "expecterr", "expected")


def list_assertions(
    body: Node, language: Language, helpers: Collection[str] = ()
) -> tuple[Assertion, ...]:
    """Every assertion in a piece of code, in source order. ``helpers`` are names of functions that
    assert."""
    assertions: list[Assertion] = []
    stack, variables = [body], _find_test_variables(body, language)
    while stack:
        node = stack.pop()
        if node is not body and _is_never_called(node, body):
            continue
        own = tuple(_recognize(node, language, helpers, variables))
        assertions += own
        if own and node.type in CALLS:
            # Its arguments are part of the assertion, but functions among them may assert, too.
            stack.extend(reversed(_list_inner_functions(node)))
        elif not own or node.type != "assert_statement":
            stack.extend(reversed(node.named_children))
    return tuple(assertions)


def _is_never_called(node: Node, body: Node) -> bool:
    """True for a named function inside a test, which the test neither calls nor passes on."""
    if node.type in LAMBDAS and node.parent is not None:
        outer = node.parent.parent if node.parent.type == "expression_list" else node.parent
        assignment = read_assignment(outer) if outer is not None else None
        name = read_text(assignment[0]) if assignment else ""
    else:
        declares = node.type in ("function_definition", "function_declaration")
        name = read_text(find_field(node, "name")) if declares and node.parent is body else ""
    if not name.isidentifier():
        return False
    # Called, passed, returned or assigned; Go's ``_ = name`` does not count.
    used = rf"\b{name}\s*[(.]|[({{,:\[>]\s*{name}\s*[,)\]}};\n]|\breturn\s+{name}\b"
    others = read_text(body).replace(read_text(node), "")
    return not re.search(rf"{used}|(?<!_ )=\s*{name}\b", others)


def _list_inner_functions(node: Node) -> list[Node]:
    """The functions among the arguments of a chain of calls, and of calls in those arguments."""
    functions: list[Node] = []
    current = node
    for _ in range(40):
        args = list_arguments(current)
        functions += [arg for arg in args if arg.type in LAMBDAS or arg.type == "block"]
        inner_args = (list_arguments(arg) for arg in args if arg.type in CALLS)
        functions += [arg for arg in chain.from_iterable(inner_args) if arg.type in LAMBDAS]
        left = find_field(current, *_LEFT_FIELDS)
        if left is None:
            break
        current = unwrap_node(left)
    return functions


def _recognize(
    node: Node, language: Language, helpers: Collection[str], variables: frozenset[str]
) -> Iterator[Assertion]:
    """The assertions of a node alone; ``variables`` are names for the test, such as Go's ``t``."""
    kind = node.type
    if kind == "assert_statement" and list_children(node):
        yield from read_condition(node, list_children(node)[0])
    elif kind in CALLS:
        yield from _read_call(node, language, helpers, variables)
    elif kind in ("member_expression", "field_expression"):
        # chai's ``expect(x).to.be.true`` is a statement without a call.
        if node.parent is not None and node.parent.type in _STATEMENTS:
            yield from read_fluent(node, read_chain(node))
    elif kind in ("throw_statement", "raise_statement") and not _in_function_argument(node):
        yield build_assertion(node, "fail")
    elif kind == "identifier" and language.name == "ruby" and read_text(node) in helpers:
        yield build_assertion(node, "helper")


def _in_function_argument(node: Node) -> bool:
    """True inside a function that is passed or assigned: a stub that throws asserts nothing."""
    # A throw below an ``if`` is the test's own.
    kinds = (outer.type for outer in list_enclosing(node, 12))
    deciding = (kind for kind in kinds if kind in _ARGUMENT_OR_ASSIGNMENT | {"if_statement"})
    return next(deciding, "") in _ARGUMENT_OR_ASSIGNMENT


def _read_call(
    node: Node, language: Language, helpers: Collection[str], variables: frozenset[str]
) -> Iterator[Assertion]:
    links = read_chain(node)
    if not links:
        return
    first, last = links[0], links[-1]
    words = [normalize_name(link.name) for link in links]
    if language.name == "go" and is_go_failure(links):
        yield from read_go_failure(node)
    elif words[0] in ("assertwithmessage", "expect") and "that" in words[1:3]:
        yield from read_fluent(node, links[words.index("that") :])
    elif words[0] in FLUENT | THROWN and (first.args is not None or words[0] in _SUBJECTLESS):
        yield from read_fluent(node, links)
    elif words[-1] == "expect" and len(links) > 1 and last.args and language.test_calls:
        for link in links[1:]:
            if link.name == "expect" and link.args:
                yield _read_response_expectation(node, link.args)
    elif _FAILURES & {words[0], words[-1]} and last.args is not None:
        if len(links) <= 2:
            yield build_assertion(node, "fail")
    elif (index := find_assert_index(links, variables)) is not None:
        yield from read_assertion_call(node, links[index], language)
    elif (index := find_should_index(words, links)) is not None:
        yield from read_matchers(node, links[index:], (find_left_operand(node),))
    elif word := _classify_other_call(words, links, helpers):
        yield build_assertion(node, word, last.args or ())


def _classify_other_call(
    words: list[str], links: tuple[Link, ...], helpers: Collection[str]
) -> str:
    """The kind of assertion that a call makes, such as ``verify(mail).send(any())``,
    ``thrown.expect(X.class)``, or one of a helper; "" if it asserts nothing."""
    last = links[-1]
    if _VERIFIES.intersection(words) and _is_verification(words, links):
        return "verify"
    if last.args is None:
        return ""
    if words[0] == "thrown" and len(links) == 2:
        return "raises"
    has_prefix = words[-1].startswith(_HELPER_PREFIXES) and words[-1] not in _NO_HELPERS
    return "helper" if has_prefix or last.name.rstrip("!") in helpers else ""


def _read_response_expectation(node: Node, args: tuple[Node, ...]) -> Assertion:
    """The assertion of supertest's ``.expect(200, "ok", done)``; a chain may have several."""
    texts = [read_text(arg) for arg in args if arg.type not in LAMBDAS] or map(read_text, args)
    expected = tuple(text for text in texts if text not in ("done", "next", "cb"))
    return build_assertion(node, "response", key=("expect", *expected))


def _is_verification(words: list[str], links: tuple[Link, ...]) -> bool:
    if words[0] in _VERIFIES or words[0] in _MOCKING:
        return bool(links[0].args) or len(links) > 1
    return words[-1] in _VERIFIES and any("mock" in word for word in words[:-1])


# --- variables for the test itself: what is called on them may assert -----------------------------


def _find_test_variables(body: Node, language: Language) -> frozenset[str]:
    """The names of variables in a test that stand for the test itself, or for assertions bound to
    it: ``st`` in ``t.test("adds", (st) => …)``, ``r`` in ``r := require.New(t)``."""
    if language.family not in ("script", "go"):
        return frozenset()
    is_go = language.name == "go"
    variables = set(_list_test_parameters(body, is_go=is_go))
    for node in walk(body) if is_go else ():
        assignment = read_assignment(node)
        if assignment and _is_bound_to_test(assignment[1], variables):
            variables.add(read_text(assignment[0]))
    return frozenset(variables)


def _list_test_parameters(body: Node, *, is_go: bool) -> Iterator[str]:
    """The first parameters of functions around a test's body; in Go, those for tests and suites."""
    for node in list_enclosing(body, _DEEPEST, including=True):
        parameters = find_field(node, "parameters", "parameter")
        text = read_text(parameters)
        if is_go:
            text += read_text(find_field(node, "receiver")) if parameters is not None else ""
            yield from re.findall(r"(\w+)\s+(?:\*?testing\.\w+|\*\w*Suite\b)", text)
        elif first := re.match(r"\(?\s*([A-Za-z_$][\w$]*)", text):
            yield first[1]


def _is_bound_to_test(value: Node, variables: set[str]) -> bool:
    """True for assertions that are bound to a test: ``require.New(t)``, ``NewWithT(t)``,
    ``s.Require()``."""
    call = value.named_children[0] if value.type == "expression_list" else value
    links = read_chain(call) if call is not None else ()
    if not links or links[-1].args is None:
        return False
    args = {read_text(arg) for arg in list_arguments(call)}
    on_suite = links[-1].name in ("Require", "Assert") and links[0].name in variables
    return on_suite or (links[-1].name.startswith("New") and bool(args & variables))


# --- assertions that are function calls: ``assertEquals(a, b)``, ``t.is(a, b)`` -------------------


_OWNERS_OF_RAISES = frozenset("pytest t self $this testing assert this".split())
_MODULES = frozenset("assert require t is qt check".split())
_GO_FAILURES = frozenset("Error Errorf Fatal Fatalf Fail FailNow".split())
_GO_TEST_VARIABLES = frozenset("t b tb f c tt test tc T TB s".split())
_PREFIXES = ("assert", "refute", "propassert", "debugassert", "mustpanic")
_PLAIN_ASSERTS = frozenset("assert refute debugassert propassert assertthat".split())
_GROUPING = frozenset(("all", "multiple", "softly"))
_TRUE_WORDS = frozenset(("true", "truthy", "ok", ""))
_FALSE_WORDS = frozenset(("false", "falsy", "falsey"))
_UNARY_WORDS = _TRUE_WORDS | _FALSE_WORDS | {"null"}


def is_go_failure(links: tuple[Link, ...]) -> bool:
    """True for ``t.Errorf(…)``, ``suite.T().Fatal(…)``; not ``fmt.Errorf(…)``, ``log.Fatal(…)``."""
    called = links[-1].args is not None and links[-1].name in _GO_FAILURES
    return called and len(links) > 1 and links[-2].name in _GO_TEST_VARIABLES


def find_assert_index(links: tuple[Link, ...], variables: frozenset[str]) -> int | None:
    """The index of the link that asserts in ``assertEquals(…)``, ``assert.equal(…)``, ``t.is(…)``;
    None without one. ``variables`` stand for the test."""
    for index, link in enumerate(links[:4]):
        word = normalize_name(link.name)
        following = links[index + 1] if index + 1 < len(links) else None
        if (
            link.args is None
            and (word in _MODULES or link.name in variables)
            and following is not None
            and following.args is not None
            and _is_assertion_name(following.name)
        ):
            return index + 1
        if link.args is None or word in ("assertions", "throw", "raise", "fails", "from"):
            continue
        raises = word in RAISES and (index == 0 or links[index - 1].name in _OWNERS_OF_RAISES)
        if raises or word.startswith(_PREFIXES):
            return index
    return None


def _is_assertion_name(name: str) -> bool:
    word = normalize_name(name)
    known = parse_assertion_name(name)[0] in WORDS or word in RAISES
    return known or word.startswith(("called", "not", "deep", "is", "throws"))


def read_assertion_call(node: Node, link: Link, language: Language) -> Iterator[Assertion]:
    """The assertions of a call such as ``assertEquals(a, b)``, ``assert.equal(a, b)``,
    ``assert(a == b)``, ``assertRaises(X)``."""
    word, negated = parse_assertion_name(link.name)
    name, args = normalize_name(link.name), list(link.args or ())
    if language.name == "go":
        # The first argument of Go's assertions is the test.
        first = read_text(args[0]) if len(args) > 1 and len(args[0].text or b"") < 12 else ""
        args = args[1:] if first in ("t", "b", "tb", "f", "c") or first.endswith(".T()") else args
    elif language.name in ("java", "kotlin"):
        args = _drop_message(args, 1 if word in _UNARY_WORDS else 2)
    if word == "that" or name == "that":
        yield from read_assert_that(node, args)
    elif args and (word in _TRUE_WORDS | _FALSE_WORDS or name in _PLAIN_ASSERTS):
        negate = (name == "refute" or negated) != (word in _FALSE_WORDS)
        yield from read_condition(node, args[0], negate=negate)
    elif "assertcalled" in name or "assertawaited" in name or "assertanycall" in name:
        # A mock's own assertion: the arguments are those of the expected call.
        yield build_assertion(node, word, (), negated)
    elif word in WORDS | RAISES or name in _PLAIN_ASSERTS:
        yield build_assertion(node, word, args, negated)
    elif word not in _GROUPING:
        yield build_assertion(node, "helper")


def _drop_message(args: list[Node], needed: int) -> list[Node]:
    """The arguments without a message in front, as in JUnit 4. In JUnit 5 and TestNG it is the last
    argument, which needs not be removed."""
    has_message = len(args) > needed and _is_text(args[0]) and not _is_text(args[-1])
    return args[1:] if has_message and args[-1].type not in LAMBDAS else args


def _is_text(node: Node) -> bool:
    """True for a string, or a concatenation that begins with one."""
    while (operation := split_binary(node)) and operation[0] == "+":
        node = operation[1]
    return node.type in STRINGS


def read_go_failure(node: Node) -> Iterator[Assertion]:
    """The assertions of a failure in Go: ``if got != want { t.Errorf(…) }`` demands the negation of
    its condition, and so does a case of a ``switch`` without a value."""
    child = node
    for current in list_enclosing(node, 12):
        if current.type in ("func_literal", "function_declaration"):
            break
        if current.type == "if_statement":
            condition, start = find_field(current, "condition"), find_field(current, "initializer")
            if condition is not None:
                key = (*(list_tokens(start) if start else ()), *list_tokens(condition))
                in_else = find_field(current, "alternative") == child
                yield from read_condition(node, condition, negate=not in_else, key=key)
            return
        cases = find_field(current, "value") if current.type == "expression_case" else None
        if cases is not None and find_field(current.parent or current, "value") is None:
            for case in list_children(cases):
                yield from read_condition(node, case, negate=True)
            return
        child = current
    yield build_assertion(node, "fail")
