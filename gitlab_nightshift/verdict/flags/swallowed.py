"""exception-swallowed: handlers that hide an error."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.change import Change, Context, Found
from gitlab_nightshift.verdict.flags import swallowed_values
from gitlab_nightshift.verdict.flags.swallowed_bodies import hides, is_empty
from gitlab_nightshift.verdict.flags.tests_seen import shown
from gitlab_nightshift.verdict.syntax.nodes import COMMENTS, field, kids, line, text, tokens, walk
from gitlab_nightshift.verdict.syntax.side import Side, sides

if TYPE_CHECKING:
    from tree_sitter import Node

_BROAD = re.compile(
    r"^(\\?(\w+(\.|::|\\))*)?(Exception|BaseException|Throwable|Error|StandardError"
    r"|RuntimeException|NonFatal|RuntimeError"
    r"|SystemException|_)$"
)
_EXPECTED = re.compile(
    r"(NotFound|NoSuch\w*|FileExists|AlreadyExists|ProcessLookup|StopIteration"
    r"|ImportError|ModuleNotFound|Empty|Cancel\w*"
    r"|KeyboardInterrupt|BrokenPipe|ENOENT|EEXIST|ESRCH|EPIPE|DoesNotExist|TimeoutExpired"
    r"|LoadError|EOFError|ClosedResource"
    r"|QueueEmpty|QueueFull|Full|GeneratorExit|SystemExit|ChildProcess|PermissionError"
    r"|EOFException)"
)
_PROBES = re.compile(
    r"JSON\.parse|new URL|decodeURI|accessSync|statSync|unlink|rmSync|require\.resolve"
    r"|localStorage|sessionStorage"
    r"|existsSync|\.access\(|\.stat\(|\.close\(|\.remove\(|\.rm\(|\.kill\(|matchMedia"
    r"|new RegExp|BigInt\("
)
_HANDLERS = frozenset("except_clause except_group_clause catch_clause catch_block rescue".split())


@dataclass(frozen=True)
class Swallow:
    """A place where an error ends: its code as a key, its line, and how to say it."""

    key: tuple[str, ...]
    line: int
    said: str


def exception_swallowed(change: Change, _context: Context) -> Iterator[Found]:
    """Handlers that came, or were emptied, and hide an error from everybody."""
    before = Counter(each.key for file in change.files for each in _of(sides(file)[0]))
    for file in change.files:
        passed_on = _passed_on(sides(file)[0])
        for each in _of(sides(file)[1], passed_on):
            if before[each.key]:
                before[each.key] -= 1
            else:
                yield Found(file.path, each.line, f"An error is hidden here: {shown(each.said)}")


def _passed_on(side: Side) -> frozenset[str]:
    """The expressions whose errors the caller got: ``f()?`` in Rust, ``v, err := f()`` in Go."""
    found = set()
    language = side.language.name if side.language and side.is_product else ""
    for node in walk(side.root) if side.root is not None and language in ("rust", "go") else ():
        if node.type == "try_expression" and kids(node):
            found.add(text(kids(node)[0]))
        elif node.type == "short_var_declaration" and re.search(
            r"\b\w*[eE]rr$", text(field(node, "left"))
        ):
            found.add(text(field(node, "right")))
    return frozenset(found)


def _of(side: Side, passed_on: frozenset[str] = frozenset()) -> Iterator[Swallow]:
    if side.root is None or side.language is None or _is_test(side):
        return
    tests = {test.node.id for test in side.tests}
    language = side.language.name
    for node in walk(side.root, lambda each: each.id not in tests):
        if node.id in tests:
            continue
        found = False
        if node.type in _HANDLERS and language != "scala":
            found = _handler(node, language)
        elif node.type == "case_clause" and language == "scala":
            found = _scala_case(node)
        if passed_on and swallowed_values.drops(node, passed_on):
            found = True
        if found or swallowed_values.hides_value(node, language):
            yield Swallow(tokens(node), line(node), " ".join(text(node).split()))


def _is_test(side: Side) -> bool:
    return not side.is_product or (side.is_test_file and not side.path.endswith(".rs"))


def _handler(node: "Node", language: str) -> bool:
    types, body, caught = _parts(node, language)
    if not hides(body, caught):
        return False
    if not types and language in ("javascript", "typescript", "tsx"):
        return not _is_probe(node)
    broad = not types or len(types) > 2 or any(_BROAD.match(each) for each in types)
    if broad:
        return True
    if all(_EXPECTED.search(each) for each in types) or caught in (
        "ignored",
        "expected",
        "ignore",
        "_ignored",
    ):
        return False
    return is_empty(body) and not _has_reason(node)


def _has_reason(node: "Node") -> bool:
    """A comment of some words in the handler."""
    return any(each.type in COMMENTS and len(text(each).split()) > 3 for each in walk(node))


def _is_probe(node: "Node") -> bool:
    """A statement or two that ask whether something is there or can be read."""
    tried = _tried(node)
    body = field(node.parent, "body") if node.parent is not None else None
    few = body is not None and len(kids(body)) <= 2
    says_no = not re.search(r"return\b(?!\s*(?:false|null|undefined|;|\}))", text(node))
    return few and says_no and "throw" not in tried and bool(_PROBES.search(tried))


def _tried(node: "Node") -> str:
    outer = node.parent
    return text(field(outer, "body") if outer is not None else None)


_Parts = tuple[list[str], "list[Node]", str]


def _parts(node: "Node", language: str) -> _Parts:
    """The types that a handler names, the statements of its body, the name of the caught error."""
    if language == "python":
        return _python_parts(node)
    if language == "ruby":
        body = field(node, "body") or _child(node, "then")
        types = re.findall(r"[\w:]+", text(field(node, "exceptions")))
        caught = text(field(node, "variable")).replace("=>", "").strip()
        return types, kids(body) if body else [], caught
    body = field(node, "body") or _child(node, "block", "statement_block", "compound_statement")
    statements = kids(body) if body else []
    if language in ("javascript", "typescript", "tsx"):
        return [], statements, text(field(node, "parameter"))
    head = text(node)[: body.start_byte - node.start_byte] if body else text(node)
    types, caught = _typed(head)
    return types, statements, caught


def _python_parts(node: "Node") -> _Parts:
    body = _child(node, "block")
    head = [each for each in kids(node) if each != body]
    typed, _, caught = text(head[0] if head else None).partition(" as ")
    return re.findall(r"[\w.]+", typed), kids(body) if body else [], caught.strip()


def _typed(head: str) -> tuple[list[str], str]:
    """Types and name of ``catch (final A | B e)``."""
    words = re.findall(r"[\w.\\]+", head.replace("catch", " ", 1))
    words = [word for word in words if word not in ("final", "when")]
    types = [word for word in words if word.rsplit(".", 1)[-1].lstrip("\\")[:1].isupper()]
    return types, next((word for word in reversed(words) if word not in types), "e")


def _child(node: "Node", *types: str) -> "Node | None":
    return next((each for each in reversed(node.named_children) if each.type in types), None)


def _scala_case(node: "Node") -> bool:
    outer = node.parent.parent if node.parent is not None else None
    if outer is None:
        return False
    recovers = re.search(
        r"\.(recover|recoverWith|handle)\s*$",
        text(outer)[: node.parent.start_byte - outer.start_byte] if node.parent else "",
    )
    if outer.type != "catch_clause" and not recovers:
        return False
    pattern, body = text(field(node, "pattern")), field(node, "body")
    types = re.findall(r"[A-Z]\w*(?:\.\w+)*", pattern)
    statements = (
        kids(body)
        if body is not None and body.type == "block"
        else [body]
        if body is not None
        else []
    )
    caught = (re.match(r"[a-z]\w*", pattern) or [""])[0]
    if not hides(statements, caught):
        return False
    if not types or any(_BROAD.match(each) for each in types):
        return True
    return is_empty(statements) and not any(_EXPECTED.search(each) for each in types)
