"""Small faults planted into code, by its syntax tree: a test that is worth something notices.

The operators are generic (comparison, arithmetic, logic, literals): one set serves all languages. A
mutant that does not compile proves nothing; swaps that rarely compile are left out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.rule_tables import RuleTable

if TYPE_CHECKING:
    from tree_sitter import Node

    from gitlab_nightshift.verdict.syntax.file_side import Side
    from gitlab_nightshift.verdict.syntax.functions import Function

_TABLE = RuleTable(__file__)
_SWAPS: dict[str, str] = _TABLE.entries["swaps"]
_LIMITS: dict[str, str] = _TABLE.entries["limits"]
_BOOLEANS: dict[str, str] = _TABLE.entries["booleans"]
_NOTHING: dict[str, str] = _TABLE.entries["nothing"]
_BINARY = _TABLE.get_words("binary")
_NUMBERS = _TABLE.get_words("numbers")
_TEXTS = _TABLE.get_words("texts")
_PIECES = _TABLE.get_words("pieces")


@dataclass(frozen=True)
class Mutant:
    """A file with one fault in it; ``what`` names it, ``line`` is where it is, from 1; ``span`` are
    the bytes that it replaces; ``limit`` is true for a comparison that is off by one."""

    path: str
    line: int
    what: str
    data: bytes
    span: tuple[int, int]
    limit: bool = False


def build_mutants(
    side: "Side", functions: Iterable["Function"], lines: frozenset[int], most: int
) -> list[Mutant]:
    """At most ``most`` mutants of these functions of a file, spread evenly over them.

    ``lines`` come first where it is not empty: those that the change itself touched.
    """
    each = [[*_mutate_node(side, function.body or function.node)] for function in functions]
    for found in each:
        found.sort(key=lambda mutant: (mutant.line not in lines, mutant.line))
    rounds = (
        mutant for row in zip_longest(*map(_arrange_by_line, each)) for mutant in row if mutant
    )
    return [mutant for mutant, _ in zip(rounds, range(most), strict=False)]


def _arrange_by_line(found: list[Mutant]) -> list[Mutant]:
    """One of each line first, then the others."""
    first = {mutant.line: mutant for mutant in reversed(found)}
    kept = [mutant for mutant in found if first[mutant.line] is mutant]
    others = [mutant for mutant in found if first[mutant.line] is not mutant]
    return kept + sorted(others, key=lambda mutant: mutant.limit)


def _mutate_node(side: "Side", top: "Node") -> Iterator[Mutant]:
    source = side.source
    nothing = _NOTHING.get(side.language.name if side.language else "", "")
    stack = [top]
    while stack:
        node = stack.pop()
        for start, end, new in _list_faults(node, source, nothing):
            old = " ".join(source[start:end].decode("utf-8", "replace").split())[:40]
            line = source.count(b"\n", 0, start) + 1
            data = source[:start] + new.encode() + source[end:]
            what = f"`{old}` as `{new}`" if old else f"`{new}` at the end of a text"
            yield Mutant(side.path, line, what, data, (start, end), _LIMITS.get(old) == new)
        stack.extend(reversed(node.children))


def _list_faults(node: "Node", source: bytes, nothing: str) -> Iterator[tuple[int, int, str]]:
    text = source[node.start_byte : node.end_byte].decode("utf-8", "replace")
    operator = not node.is_named or node.type == "operator_identifier"
    if operator and node.parent is not None and node.parent.type in _BINARY:
        swap = _SWAPS.get(text)
        if swap and not (text in "+-+=-=" and _joins_texts(node.parent)):
            yield node.start_byte, node.end_byte, swap
        if text in _LIMITS:
            yield node.start_byte, node.end_byte, _LIMITS[text]
    elif node.type in _BOOLEANS or (node.child_count == 0 and text in _BOOLEANS):
        if text in _BOOLEANS:
            yield node.start_byte, node.end_byte, _BOOLEANS[text]
    elif node.type in _NUMBERS and text.isdigit() and len(text) < 10:
        yield node.start_byte, node.end_byte, str(int(text) + 1)
    elif node.type == "not_operator" and text.startswith("not "):
        yield node.start_byte, node.start_byte + 4, ""
    elif node.type in _PIECES and text and not _is_docstring(node):
        yield node.end_byte, node.end_byte, "~"
    elif (
        nothing
        and node.type in ("return_statement", "return")
        and (given := _find_returned_value(node))
    ):
        yield given.start_byte, given.end_byte, nothing


def _find_returned_value(node: "Node") -> "Node | None":
    """What a return statement returns, where that is more than a word or a literal."""
    if not node.named_children or node.named_children[0].child_count == 0:
        return None
    return node.named_children[0]


def _is_docstring(node: "Node") -> bool:
    above = node.parent.parent if node.parent else None
    return above is not None and above.type == "expression_statement"


def _joins_texts(node: "Node") -> bool:
    """True where a plus joins strings: another sign would not compile."""
    return any(child.type in _TEXTS for child in node.named_children)
