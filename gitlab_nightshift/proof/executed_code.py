"""Whether a change touches executed code, or only what people read."""

from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.proof.reviewed_change import Changeset
from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.proof.syntax.nodes import COMMENTS, read_text
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_DOCUMENT = compile_lazily(
    r"(?i)(?:\.(?:md|markdown|rst|adoc|asciidoc)|(?:^|/)(?:readme|changelog|license|notice|authors))$"
)
# Comments that a compiler or an interpreter obeys.
# Comments that a compiler or an interpreter obeys.
_DIRECTIVE = compile_lazily(
    r"(?i)#!|//\s*(?:go:|\+build|@)|/\*+\s*@|#.*(?:coding[:=]|frozen_string_literal|typed:)"
)

_Shape = list[tuple[str, int, str]]


def changes_code(change: Changeset) -> bool:
    """True unless every file is a document, or differs only in comments and docstrings."""
    return any(map(_changes_file, change.files))


def is_document(path: str) -> bool:
    """True for a file that only people read."""
    return _DOCUMENT.search(path) is not None


def _changes_file(file: ChangedFile) -> bool:
    if is_document(file.path) and is_document(file.old_path):
        return False
    before, after = read_sides(file)
    if file.status != "M" or before.root is None or after.root is None:
        return True
    return _list_shape(before, before.root) != _list_shape(after, after.root)


def _list_shape(side: Side, root: Node) -> _Shape:
    """Type, number of children and, for leaves, text of every node but comments, in source order.

    Positions do not count, as a comment moves the code below it. The number of children does: in
    Python, other indentation puts a statement into another block.
    """
    python = side.language is not None and side.language.name == "python"  # has docstrings
    shape: _Shape = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        inner = list(_list_executed(node, python=python))
        leaf = "" if node.children else read_text(node)
        shape.append((node.type, len(inner), leaf))
        waiting += reversed(inner)
    return shape


def _list_executed(node: Node, *, python: bool) -> Iterator[Node]:
    for inner in node.children:
        if inner.type in COMMENTS and not _DIRECTIVE.match(read_text(inner)):
            continue
        if not (python and _is_docstring(inner)):
            yield inner


def _is_docstring(node: Node) -> bool:
    alone = node.type == "expression_statement" and len(node.children) == 1
    if not alone or node.children[0].type != "string":
        return False
    # An f-string evaluates its expressions.
    return all(part.type != "interpolation" for part in node.children[0].children)
