"""What a handler does with an error: does anything of it remain?"""

import re
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.syntax.nodes import bare, field, kids, text

if TYPE_CHECKING:
    from tree_sitter import Node

_NOTHING = frozenset(
    "pass_statement continue_statement break_statement ellipsis empty_statement next break unit"
    " continue_expression break_expression nil null none jump_expression comment".split()
)
_DEFAULT = re.compile(
    r"^(None|null|nil|undefined|false|False|true|True|Nil|\(\)|''|\"\"|``|-?\d[\w.]*"
    r"|\[\]|\{\}|\(\)|set\(\)|dict\(\)|list\(\)"
    r"|Optional\.empty\(\)|Collections\.empty\w+\(\)|(List|Set|Map)\.(of\(\)|empty)"
    r"|(Seq|Vector|Map|Option)\.empty(\[.*\])?|Option\.empty"
    r"|new \w+(<.*>)?\(\)|emptyList\(\)|emptyMap\(\)|Ok\(\(\)\)|Ok\(None\)|None"
    r"|String::new\(\)|Vec::new\(\)|vec!\[\]|Default::default\(\)"
    r"|[A-Z]\w*\(0\)|BigDecimal\.ZERO|Decimal\(\"?0(\.0+)?\"?\)|Unit|array\(\)"
    r"|\"[^\"]{0,20}\"|'[^']{0,20}'|Future\.(unit|successful\(.{0,20}\))|Promise\.resolve\(.{0,12}\)"
    r"|[A-Z][A-Z_]+|default\w*|DEFAULT\w*|fallback|0L|0\.0)$"
)
_QUIET_LOG = re.compile(
    r"^(self\.|this\.|\w+\.)*(log|logger|logging|console|LOG|LOGGER|_?log\w*)\.(debug"
    r"|trace|fine|finest|silly|verbose)\b|^\w+\.printStackTrace\("
)


def is_default(node: "Node | None") -> bool:
    """True for a value that says nothing about an error: empty, zero, null, a constant."""
    return node is None or is_default_text(text(node))


def is_default_text(said: str) -> bool:
    """The same for a piece of code."""
    return bool(_DEFAULT.match(" ".join(said.split())))


def is_empty(body: "list[Node]") -> bool:
    """True where nothing at all is done, or the loop goes on."""
    return all(_is_nothing(bare(each)) for each in body)


def hides(body: "list[Node]", caught: str) -> bool:
    """True where a handler gives back a default, or does nothing, and the error is lost."""
    return all(_is_quiet(each, caught) for each in body)


def _is_nothing(node: "Node") -> bool:
    if _QUIET_LOG.match(text(node)):
        return True
    return node.type in _NOTHING or text(node) in ("...", "()", "", "{}", "pass")


def _is_quiet(node: "Node", caught: str) -> bool:
    inner = bare(node)
    if _is_nothing(inner):
        return True
    if inner.type in (
        "return_statement",
        "return",
        "return_expression",
        "break_statement",
        "next",
        "return_stmt",
    ):
        values = kids(inner)
        value = values[0] if values else None
        if value is not None and value.type in ("argument_list", "expression_list") and kids(value):
            value = kids(value)[-1]
        return is_default(value)
    if inner.type in ("jump_expression",) or text(inner).startswith("return"):
        return is_default(kids(inner)[0] if kids(inner) else None)
    if inner.type in (
        "assignment",
        "assignment_expression",
        "variable_declarator",
        "assignment_statement",
    ):
        value = field(inner, "right", "value")
        return value is not None and is_default(value) and caught not in text(inner).split()
    if inner.type in ("local_variable_declaration", "lexical_declaration"):
        return False
    return bool(_QUIET_LOG.match(text(inner))) or is_default(inner)
