"""Comments: by the tree where there is one, else by the usual signs."""

from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.proof.syntax.nodes import COMMENTS, read_line_number, read_text, walk
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_LONGEST = 2000
_BY_SIGN = compile_lazily(r"(?:^|\s)(#|//|/\*|--|;;|<!--|%)(?P<said>.*)$")


def list_comments(root: Node | None, source: bytes) -> Iterator[tuple[int, str]]:
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
