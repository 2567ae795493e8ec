"""A change as the red flags see it, and its context; whether it changes executed code; the names
and the digest by which a later night recognizes it."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

from tree_sitter import Node

from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.proof.syntax.nodes import COMMENTS, read_text
from gitlab_nightshift.registry.flag_registry import Level
from gitlab_nightshift.repository.difference import ChangedFile, Line, read_difference
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.repository.tree_listing import list_names
from gitlab_nightshift.repository.tree_objects import read_tree_file
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.system.file_names import format_path
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_T = TypeVar("_T")


@dataclass(frozen=True)
class Changeset:
    """All files of a change, with their contents. For its tree and patch see
    ``repository/capture.py: CapturedChange``.

    ``read`` returns the bytes of any file after the change, None if there is no such file;
    ``paths`` lists all files after it. Both run git, so rules call them only for unchanged files.
    """

    files: tuple[ChangedFile, ...]
    read: Callable[[str], bytes | None] = field(repr=False, default=lambda _path: None)
    paths: Callable[[], frozenset[str]] = field(repr=False, default=frozenset)


def read_change(repository: Repository, old: str, new: str) -> Changeset:
    """The change between two trees or commits. Raises GitError."""
    files = read_difference(repository, old, new)

    @cache
    def list_paths() -> frozenset[str]:
        return frozenset(map(format_path, list_names(repository, new)))

    @cache
    def read(path: str) -> bytes | None:
        return read_tree_file(repository, new, path)

    return Changeset(files, read, list_paths)


@dataclass(frozen=True)
class Context:
    """What rules need besides the change. ``category`` is that of the night's idea, ``selected``
    are the files that Analyze chose; both are empty if unknown. ``recent_files`` were touched by
    the last commits. ``by_people``: no agent made the change."""

    settings: Settings
    category: str = ""
    selected: tuple[str, ...] = ()
    recent_files: frozenset[str] = frozenset()
    ci_config: str = ""
    by_people: bool = False


@dataclass(frozen=True)
class RuleViolation:
    """One place where a change breaks a rule.

    ``line`` is on the new side, or on the old side for a deleted line; 0 is the whole file.
    ``detail`` is a sentence that helps the next attempt. ``level`` overrides the flag's level.
    ``certain``: True if a reviewer would block the change whatever else it does, False if they
    could only ask, None if the rest of the change decides (``reading/__init__.py``).
    """

    file: str
    line: int
    detail: str
    level: Level | None = None
    certain: bool | None = None


def take(counts: Counter[_T], key: _T) -> bool:
    """Remove one occurrence of a key from the counts; False if there is none.

    For rules about additions: they count what the old side has, and take what the new side has from
    these counts. What cannot be taken was added.
    """
    if counts[key] <= 0:
        return False
    counts[key] -= 1
    return True


Rule = Callable[[Changeset, Context], Iterator[RuleViolation]]
"""Yields the violations of one rule; it reads nothing but the change, and should never raise."""


# --- executed code --------------------------------------------------------------------------------


_DOCUMENT = compile_lazily(
    r"(?i)(?:\.(?:md|markdown|rst|adoc|asciidoc)|(?:^|/)(?:readme|changelog|license|notice|authors))$"
)
# Comments that tools obey, so that they count as code: encodings (PEP 263), Go's build constraints
# ("go help buildconstraint"), Ruby's and Sorbet's magic comments, and the ``@`` of TypeScript and
# PHPDoc.
_DIRECTIVE = compile_lazily(
    r"(?i)#!|//\s*(?:go:|\+build|@)|/\*+\s*@|#.*(?:coding[:=]|frozen_string_literal|typed:)"
)

_Shape = list[tuple[str, int, str]]
"""The type, the number of children and, for a leaf, the text of each node that is executed."""


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
    """The nodes without comments and docstrings, in source order.

    Positions do not count, as a comment moves the code below it. The number of children does: in
    Python, other indentation puts a statement into another block.
    """
    has_docstrings = side.language is not None and side.language.name == "python"
    shape: _Shape = []
    stack = [root]
    while stack:
        node = stack.pop()
        children = list(_list_executed(node, has_docstrings=has_docstrings))
        text = "" if node.children else read_text(node)
        shape.append((node.type, len(children), text))
        stack += reversed(children)
    return shape


def _list_executed(node: Node, *, has_docstrings: bool) -> Iterator[Node]:
    for child in node.children:
        if child.type in COMMENTS and not _DIRECTIVE.match(read_text(child)):
            continue
        if not (has_docstrings and _is_docstring(child)):
            yield child


def _is_docstring(node: Node) -> bool:
    is_statement = node.type == "expression_statement" and len(node.children) == 1
    if not is_statement or node.children[0].type != "string":
        return False
    # An f-string evaluates its expressions.
    return all(part.type != "interpolation" for part in node.children[0].children)


# --- recognizing it later -------------------------------------------------------------------------


def list_changed_symbols(change: Changeset) -> tuple[str, ...]:
    """Qualified names of the innermost functions and classes touched, on both sides; none in an
    unsupported language."""
    symbols: list[str] = []
    for file in change.files:
        for side, lines in zip(read_sides(file), (file.deleted, file.added), strict=True):
            symbols += _list_touched_symbols(side, lines)
    return tuple(dict.fromkeys(symbols))


def compute_digest(change: Changeset) -> str:
    """A digest of the added and deleted lines, 16 hex digits; "" without any. White space and the
    order and numbers of lines do not matter."""
    lines = sorted(
        f"{file.path}\0{sign}{' '.join(line.text.split())}"
        for file in change.files
        for sign, side in (("-", file.deleted), ("+", file.added))
        for line in side
        if line.text.strip()
    )
    text = "\n".join(lines).encode(errors="surrogatepass")
    return hashlib.sha256(text).hexdigest()[:16] if lines else ""


def _list_touched_symbols(side: Side, lines: Sequence[Line]) -> Iterator[str]:
    numbers = {line.number for line in lines if line.text.strip()}
    for function in side.functions:
        # A change of a method is not a change of its class.
        inner = (other for other in side.functions if function in other.outer)
        own_lines = set(range(function.line, function.end + 1)).difference(
            *(range(other.line, other.end + 1) for other in inner)
        )
        if own_lines & numbers:
            yield function.qualified
