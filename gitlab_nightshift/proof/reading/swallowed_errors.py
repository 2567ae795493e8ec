"""exception-swallowed: finds added handlers that hide an error, and code that drops an error value.

The query ``swallowed.scm`` of a language captures candidates. A ``@handler`` has the ``@types``
that it names, the ``@caught`` name and a ``@body``; in Scala a ``@pattern`` is both types and name.
``@dropped`` is code that drops an error: always, or only if a further capture says so. That is a
``@default`` value that tells nothing, an ``@empty`` body, an ``@answer`` that is ``Ok`` of such a
value, or a callback ``@listener`` that ignores its error. The setting ``result`` is a pattern for
the result type of the function around it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tree_sitter import Node, QueryCursor

from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation, take
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.proof.syntax.languages import load_query
from gitlab_nightshift.proof.syntax.nodes import (
    LAMBDAS,
    find_field,
    list_children,
    list_enclosing,
    list_tokens,
    read_line_number,
    read_on_one_line,
    read_text,
    unwrap_node,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import format_excerpt

_TABLE = RuleTable(__file__)
_BROAD = _TABLE.get_pattern("broad")
_EXPECTED = _TABLE.get_pattern("expected")
_PROBES = _TABLE.get_pattern("probes")
_REPLACING = _TABLE.get_words("replacing")
_BLOCKS = _TABLE.get_words("blocks")
_HEADER_CAPTURES = ("types", "caught")
_NAMED_ERROR = compile_lazily(r"\b\w*[eE]rr$")
_IGNORED_NAMES = _TABLE.get_words("ignored_names")
_ASSIGNMENTS = _TABLE.get_words("assignments")
_EXITS = _TABLE.get_words("exits")
_NO_EFFECT = _TABLE.get_words("no_effect")
_DEFAULT = _TABLE.get_pattern("default")
_QUIET_LOG = _TABLE.get_pattern("quiet_log")
_Captures = Mapping[str, list[Node]]


@dataclass(frozen=True)
class Swallow:
    """A place where an error is lost; its ``key`` is the same on both sides of a change."""

    key: tuple[str, ...]
    line: int
    code: str


def find_swallowed_exceptions(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Added code that hides errors."""
    olds = (read_sides(file)[0] for file in change.files)
    before = Counter(swallow.key for old in olds for swallow in _list_swallows(old))
    for file in change.files:
        old, new = read_sides(file)
        ignored = _list_ignored_calls(old)
        for swallow in _list_swallows(new, _find_passed_on(old)):
            if swallow.code.removeprefix("let ").removeprefix("_ = ").rstrip(";") in ignored:
                continue  # ``f()`` became ``_ = f()``: the error was ignored before, too
            if not take(before, swallow.key):
                detail = f"An error is hidden here: {format_excerpt(swallow.code)}"
                yield RuleViolation(file.path, swallow.line, detail)


def _walk_error_values(side: Side) -> Iterator[Node]:
    """The nodes of product code, if the language returns errors as values."""
    by_value = side.language is not None and side.language.error_values and side.is_product
    return side.walk() if by_value else iter(())


def _list_ignored_calls(side: Side) -> frozenset[str]:
    """Calls whose result is ignored: those that are statements, and deferred ones."""
    kinds = ("expression_statement", "defer_statement")
    calls = (read_on_one_line(node) for node in _walk_error_values(side) if node.type in kinds)
    return frozenset(each.removeprefix("defer ").rstrip(";") for each in calls)


def _list_swallows(side: Side, passed_on: frozenset[str] = frozenset()) -> Iterator[Swallow]:
    """The places where errors are lost, outside of tests, in source order. ``passed_on`` are
    expressions whose errors were passed on before the change."""
    if side.root is None or not side.is_product:
        return
    dropped = (node for node in _walk_error_values(side) if _drops(node, passed_on))
    by_id = {node.id: node for node in (*_find_by_query(side), *dropped)}
    tests = [range(test.node.start_byte, test.node.end_byte) for test in side.tests]
    for node in sorted(by_id.values(), key=lambda node: node.start_byte):
        if not any(node.start_byte in test for test in tests):
            yield Swallow(_build_key(node), read_line_number(node), read_on_one_line(node))


def _build_key(node: Node) -> tuple[str, ...]:
    """The tokens of a node, up to the arguments if it assigns the result of a call. All types that
    catch everything become one."""
    tokens = list_tokens(node)
    if node.type.startswith(("let_", "assignment", "short_var")) and "(" in tokens:
        tokens = tokens[: tokens.index("(")]
    return tuple("Exception" if _BROAD.match(token) else token for token in tokens)


def _find_by_query(side: Side) -> Iterator[Node]:
    """The nodes that drop an error, and the handlers that hide one, by the language's query."""
    words, text = side.language.error_words if side.language else (), side.source.lower()
    if words and not any(word.encode() in text for word in words):
        return
    query = load_query(side.language, "swallowed") if side.language else None
    if query is None or side.root is None:
        return
    # A handler may match several patterns, which capture different parts of it.
    handlers: dict[int, dict[str, list[Node]]] = {}
    for pattern, captures in QueryCursor(query).matches(side.root):
        if handler := captures.get("handler"):
            handlers.setdefault(handler[0].id, {}).update(captures)
        # ``(#set! result …)`` in a query is a setting of a pattern, found by its number.
        elif _is_dropped(captures, query.pattern_settings(pattern).get("result")):
            yield captures["dropped"][0]
    yield from (each["handler"][0] for each in handlers.values() if _is_hiding_handler(each))


# --- dropped errors -------------------------------------------------------------------------------


def _is_dropped(captures: _Captures, result: str | None) -> bool:
    """True if a candidate drops an error; ``result`` is a pattern for its function's result."""
    if result and not _returns(captures["dropped"][0], result):
        return False
    if listener := captures.get("listener"):
        return _ignores_error(listener[0])
    if answer := captures.get("answer"):
        value = re.search(r"Ok\((.*)\)", read_text(answer[0]))
        return value is not None and _is_default_code(value[1])
    empty = captures.get("empty")
    if empty and not _is_empty(_list_statements(empty[0])):
        return False
    default = captures.get("default")
    return not default or _is_default(default[0])


def _returns(node: Node, result: str) -> bool:
    """True if the function around a node has a result type that matches a pattern."""
    outer = list_enclosing(node, including=True)
    function = next((each for each in outer if each.type.startswith(("func", "method"))), None)
    declared = read_text(find_field(function, "result") if function is not None else None)
    return bool(re.search(result, declared.strip()))


def _ignores_error(listener: Node) -> bool:
    """True for a callback that does nothing with its error."""
    if listener.type not in LAMBDAS:
        return read_text(listener) in ("noop", "_.noop", "Function.prototype")
    body = find_field(listener, "body")
    if body is not None and body.type == "statement_block":
        caught = read_text(find_field(listener, "parameters", "parameter"))
        return _hides_error(list_children(body), caught)
    return body is not None and _is_default(unwrap_node(body))


def _find_passed_on(side: Side) -> frozenset[str]:
    """Expressions whose errors are passed on: ``f()?`` in Rust, ``v, err := f()`` in Go."""
    expressions = set()
    for node in _walk_error_values(side):
        if node.type == "try_expression" and list_children(node):
            expressions.add(read_text(list_children(node)[0]))
        elif node.type == "short_var_declaration" and _NAMED_ERROR.search(_read_left(node)):
            expressions.add(read_text(find_field(node, "right")))
    return frozenset(expressions)


def _read_left(node: Node) -> str:
    return read_text(find_field(node, "left"))


def _drops(node: Node, passed_on: frozenset[str]) -> bool:
    """True if an error that was passed on before is now replaced or dropped."""
    callee = find_field(node, "function") if node.type == "call_expression" else None
    if callee is not None:
        replaces = read_text(find_field(callee, "field")) in _REPLACING
        return replaces and read_text(find_field(callee, "value")) in passed_on
    dropped = node.type == "short_var_declaration" and re.search(r"(^|,)\s*_$", _read_left(node))
    return bool(dropped) and read_text(find_field(node, "right")) in passed_on


# --- handlers -------------------------------------------------------------------------------------


def _is_hiding_handler(captures: _Captures) -> bool:
    """True if a handler hides errors that it should not expect."""
    handler, body = captures["handler"][0], captures.get("body")
    types, caught = _read_header(captures)
    statements = _list_statements(body[0]) if body else []
    if not _hides_error(statements, caught):
        return False
    if not types or len(types) > 2 or any(_BROAD.match(each) for each in types):
        return bool(types) or not _is_probe(handler)
    if all(_EXPECTED.search(each) for each in types) or caught in _IGNORED_NAMES:
        return False
    # A default for a particular error is a decision; to do nothing hides it.
    return _is_empty(statements)


def _read_header(captures: _Captures) -> tuple[list[str], str]:
    """The types that a handler names, and the name of the caught error."""
    if pattern := captures.get("pattern"):
        text = read_text(pattern[0])
        return re.findall(r"[A-Z]\w*(?:\.\w+)*", text), (re.match(r"[a-z]\w*", text) or [""])[0]
    types, caught = (read_text(next(iter(captures.get(key, ())), None)) for key in _HEADER_CAPTURES)
    return re.findall(r"[\w.:\\]+", types), caught.replace("=>", "").strip()


def _list_statements(body: Node) -> list[Node]:
    """The statements of a body, which may be one expression."""
    if body.type not in _BLOCKS:
        return [body]
    children = list_children(body)
    nested = [child.type for child in children] == ["statement_list"]  # Go's grammar
    return list_children(children[0]) if nested else children


def _is_probe(node: Node) -> bool:
    """True for the handler of one or two statements that only check whether something works, such
    as ``JSON.parse`` or ``fs.accessSync``: in JavaScript, a handler cannot name what it expects."""
    tried = find_field(node.parent, "body") if node.parent is not None else None
    if node.type != "catch_clause" or tried is None or len(list_children(tried)) > 2:
        return False
    if re.search(r"return\b(?!\s*(?:false|null|undefined|;|\}))", read_text(node)):
        return False
    code = read_text(tried)
    return "throw" not in code and bool(_PROBES.search(code))


# --- what a handler does with the error -----------------------------------------------------------


def _is_default(node: Node | None) -> bool:
    """True for a value that tells nothing about an error: empty, zero, null, a constant."""
    return node is None or _is_default_code(read_text(node))


def _is_default_code(code: str) -> bool:
    return bool(_DEFAULT.match(" ".join(code.split())))


def _is_empty(body: list[Node]) -> bool:
    """True if statements do nothing, or only continue or leave a loop."""
    return all(_has_no_effect(unwrap_node(each)) for each in body)


def _hides_error(body: list[Node], caught: str) -> bool:
    """True if statements do nothing with the error ``caught``, or only return or assign a
    default."""
    return all(_is_quiet(each, caught) for each in body)


def _has_no_effect(node: Node) -> bool:
    """True for ``pass``, ``continue``, a debug message and the like."""
    if _QUIET_LOG.match(read_text(node)):
        return True
    return node.type in _NO_EFFECT or read_text(node) in ("...", "()", "", "{}", "pass")


def _is_quiet(node: Node, caught: str) -> bool:
    inner = unwrap_node(node)
    if _has_no_effect(inner):
        return True
    if inner.type in _EXITS or read_text(inner).startswith("return"):
        value = next(iter(list_children(inner)), None)
        # ``return nil, nil`` (Go) and ``return a, b`` (Ruby): the last one may be the error.
        if value is not None and value.type in ("argument_list", "expression_list"):
            value = [value, *list_children(value)][-1]
        return _is_default(value)
    if inner.type in _ASSIGNMENTS:
        value = find_field(inner, "right", "value")
        return value is not None and _is_default(value) and caught not in read_text(inner).split()
    declares = inner.type in ("local_variable_declaration", "lexical_declaration")
    return not declares and _is_default(inner)
