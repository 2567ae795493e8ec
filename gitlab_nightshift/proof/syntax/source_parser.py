"""Source text to a syntax tree, bounded: a hostile file costs a moment and nothing else."""

import time

from tree_sitter import Node

from gitlab_nightshift.proof.syntax.languages import Language, load_parser

LARGEST = 1_000_000
"""Bytes of the largest file that is parsed."""
LONGEST = 2.0
"""Seconds that the parse of one file may take."""
MOST_NODES = 300_000
_CHUNK = 1 << 16


def parse(language: Language, source: bytes) -> Node | None:
    """The root of the tree; None where the file is too large, too slow or mostly unreadable."""
    if len(source) > LARGEST:
        return None
    parser = load_parser(language)
    deadline = time.monotonic() + LONGEST
    try:
        tree = parser.parse(
            lambda at, _point: source[at : at + _CHUNK],
            progress_callback=lambda _at, _error: time.monotonic() > deadline,
        )
    except ValueError:
        parser.reset()
        return None
    root = parser.parse(source, tree).root_node  # nothing is parsed again, and texts are at hand
    return root if _is_readable(root) else None


def _is_readable(root: Node) -> bool:
    """False where the tree is huge, or where half of the text is errors."""
    if root.descendant_count > MOST_NODES or root.is_error:
        return False
    if not root.has_error:
        return True
    broken = sum(child.end_byte - child.start_byte for child in root.children if child.is_error)
    return broken * 2 < root.end_byte
