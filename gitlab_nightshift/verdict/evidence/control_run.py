"""A control for planted mistakes: code that does the same, written otherwise.

A test that fails there looks at the text, at its syntax tree or at what it was compiled to, and
would notice a mistake without running the code.
"""

from collections.abc import Iterator, Mapping, Sequence

from tree_sitter import Node

from gitlab_nightshift.lazy_patterns import compile_lazily
from gitlab_nightshift.verdict.evidence.lab import EvidenceSubject, Lab
from gitlab_nightshift.verdict.evidence.mutant_runs import (
    TimedCommand,
    compute_timeout,
    has_not_compiled,
)
from gitlab_nightshift.verdict.evidence.mutants import Mutant
from gitlab_nightshift.verdict.syntax.file_side import Side
from gitlab_nightshift.verdict.syntax.functions import Function
from gitlab_nightshift.verdict.syntax.nodes import STRINGS, find_field, walk

_NOTE = b"a == b != c <= d >= e < f > g + h - i * j / k % l && m || n and not o or True is 0 1"
"""A comment in which a count of operators goes wrong."""
_BY_LINE = ("python", "ruby")
"""Languages whose comments end with the line."""


def is_text_recognised(
    lab: Lab, tree: str, files: Mapping[str, bytes], way: TimedCommand, log: str
) -> bool:
    """Whether the tests fail, twice, on code that does the same. Code that does not compile says
    nothing."""
    control = lab.build_variant(tree, files)
    for name in (log, f"{log}-again"):
        result = lab.run(control, way.focused.argv, name, compute_timeout(way))
        if result.ok or result.error or has_not_compiled(lab, result, name):
            return False
    return True


def build_control_files(subject: EvidenceSubject, planted: Sequence[Mutant]) -> dict[str, bytes]:
    """The files of these mutants without a mistake: with a space on both sides of what they
    replace, and with a comment and a statement that does nothing in their functions. No line moves.
    """
    paths = dict.fromkeys(mutant.path for mutant in planted)
    return {
        path: _rewrite_file(
            Side(path, subject.change.read(path)),
            [mutant.span for mutant in planted if mutant.path == path],
        )
        for path in paths
    }


def _rewrite_file(side: Side, spans: Sequence[tuple[int, int]]) -> bytes:
    edits = {(at, b" ") for start, end in spans if start < end for at in (start, end)}
    for function in side.functions:
        if any(function.node.start_byte <= start < function.node.end_byte for start, _ in spans):
            edits.update(_build_comment(side, function))
            edits.update(_build_idle_statement(side, function))
    source = side.source
    for at, added in sorted(edits, reverse=True):
        source = source[:at] + added + source[at:]
    return source


def _build_comment(side: Side, function: Function) -> Iterator[tuple[int, bytes]]:
    """Before the body; where only a comment to the line's end is known, behind the heading."""
    if function.body is None or side.language is None:
        return
    start = function.body.start_byte
    if side.language.name not in _BY_LINE:
        yield start, b"/* " + _NOTE + b" */ "
        return
    line_end = side.source.rfind(b"\n", 0, start)
    if line_end > function.node.start_byte and not side.source[line_end:start].strip():
        yield line_end, b"  # " + _NOTE


def _build_idle_statement(side: Side, function: Function) -> Iterator[tuple[int, bytes]]:
    """Where the body begins, unless what stands there has to be the first."""
    if function.body is None or function.is_class or side.language is None:
        return
    body = find_field(function.body, "body") or function.body  # of an arrow function
    idle, start = side.language.idle.encode(), body.start_byte
    if side.source[start : start + 1] == b"{":
        start += 1
    elif side.language.name not in _BY_LINE:
        return
    elif side.language.name == "python":
        start = _find_simple_statement(body)
    elif body.type != "body_statement":  # Ruby's method of one expression
        return
    if idle and start >= 0 and not _FIRST.match(side.source, start):
        yield start, b" " + idle if side.source[start - 1 : start] == b"{" else idle


_FIRST = compile_lazily(rb"\s*(?:[\"'`#]|super\b|this\b|$)")
"""A directive, an inner attribute of Rust's, a constructor's call of another."""


def _find_simple_statement(body: Node) -> int:
    """Where Python's first statement begins that has no block and is no docstring; -1 for none."""
    for node in walk(body):
        inner = [child.type for child in node.named_children]
        simple = node.type.endswith("_statement") and "block" not in inner
        if simple and not STRINGS & set(inner[:1]):
            return node.start_byte
    return -1
