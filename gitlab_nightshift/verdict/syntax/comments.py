"""Comments: by the tree where there is one, else by the usual signs."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.syntax.nodes import COMMENTS, line, text, walk

if TYPE_CHECKING:
    from tree_sitter import Node

_LONGEST = 2000
_BY_SIGN = re.compile(r"(?:^|\s)(#|//|/\*|--|;;|<!--|%)(?P<said>.*)$")


def comments_in(root: "Node | None", source: bytes) -> Iterator[tuple[int, str]]:
    """Line, from 1, and text of each comment, line by line; a string that stands alone is one."""
    if root is None:
        yield from _by_sign(source)
        return
    for node in walk(root):
        alone = node.type == "string" and node.parent and node.parent.type == "expression_statement"
        if node.type in COMMENTS or alone:
            for offset, said in enumerate(text(node).split("\n")):
                yield line(node) + offset, said[:_LONGEST]


def _by_sign(source: bytes) -> Iterator[tuple[int, str]]:
    for number, said in enumerate(source.decode("utf-8", "replace").split("\n"), 1):
        if found := _BY_SIGN.search(said[:_LONGEST]):
            yield number, found[0].strip()
