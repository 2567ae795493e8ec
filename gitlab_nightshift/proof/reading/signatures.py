"""signature-changed: new parameters that break callers who pass the old ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tree_sitter import Node

from gitlab_nightshift.proof.reading.public_names import CONSTRUCTORS, find_exports, is_library
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.proof.syntax.functions import Function
from gitlab_nightshift.proof.syntax.languages import Language
from gitlab_nightshift.proof.syntax.nodes import (
    COMMENTS,
    LITERALS,
    find_field,
    list_children,
    read_line_number,
    read_text,
)
from gitlab_nightshift.text.printable_text import format_excerpt

_TABLE = RuleTable(__file__)
_VALUED = _TABLE.get_words("valued")
_REST = _TABLE.get_words("rest")
_OPTIONS = frozenset(("dictionary_splat_pattern", "hash_splat_parameter", "block_parameter"))
_NO_PARAMETERS = frozenset("attribute_item decorator self_parameter positional_separator".split())
_LISTS = ("parameters", "parameter")
_SELF = ("self", "cls", "mcs")


@dataclass(frozen=True)
class _Parameter:
    """A parameter. ``kind`` is positional, keyword (by name only), rest (``*args``) or options
    (``**kwargs``); ``default`` is None without one, "?" for TypeScript's ``name?``."""

    name: str
    default: str | None
    kind: str = "positional"


_Signature = tuple[Function, tuple[_Parameter, ...]]


def find_changed_signatures(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Public functions with new parameters that break callers."""
    for file in change.files:
        old, new = read_sides(file)
        if not is_library(old) or old.language is None:
            continue
        public = find_exports(old)
        was, now = _collect_signatures(old), _collect_signatures(new)
        for name, before in was.items():
            after = now.get(name, [])
            outer, _, last = name.rpartition(".")
            in_class = last in CONSTRUCTORS or last == "__call__"
            if not after or (outer if in_class else name) not in public:
                continue
            # A function may be overloaded: only signatures without an equal are compared.
            removed = [each for each in before if each[1] not in [other for _, other in after]]
            added = [each for each in after if each[1] not in [other for _, other in before]]
            for (_, one), (function, other) in zip(removed, added, strict=False):
                if why := _compare_parameters(one, other, old.language):
                    line, detail = (
                        read_line_number(function.node),
                        f"{format_excerpt(name)}: {why}.",
                    )
                    yield RuleViolation(file.path, line, detail)


def _collect_signatures(side: Side) -> dict[str, list[_Signature]]:
    found: dict[str, list[_Signature]] = {}
    for function in side.functions:
        parameters = _read_parameters(function, side.language) if side.language else None
        if parameters is not None and not any("overload" in mark for mark in function.marks):
            found.setdefault(function.qualified, []).append((function, parameters))
    return found


def _compare_parameters(
    old: Sequence[_Parameter], new: Sequence[_Parameter], language: Language
) -> str:
    """Why callers break, in a few words; "" if they do not."""
    was, now = ([p.name for p in side if p.kind == "positional"] for side in (old, new))
    if [name for name in was if name in now] != [name for name in now if name in was]:
        return "its parameters are in another order"
    kinds = {each.kind for each in new}
    if "rest" not in kinds and any(each.kind == "rest" for each in old):
        return "it no longer takes any number of arguments"
    if removed := _find_removed(old, new, kinds, language):
        return f"parameter {removed} is gone"
    required = _find_required(old, new, language)
    return f"parameter {required} is required now" if required else ""


def _find_removed(
    old: Sequence[_Parameter], new: Sequence[_Parameter], kinds: set[str], language: Language
) -> str:
    """A removed parameter that callers may pass, by name or by position."""
    known = {each.name for each in new}
    for index, one in enumerate(old):
        if one.kind not in ("positional", "keyword") or one.name in known or "options" in kinds:
            continue
        named = one.kind == "keyword" or (language.keywords and not one.name.startswith("_"))
        if named or (index >= len(new) and "rest" not in kinds):
            return one.name
    return ""


def _find_required(old: Sequence[_Parameter], new: Sequence[_Parameter], language: Language) -> str:
    """A required parameter that was optional or did not exist before."""
    if any(each.kind == "rest" for each in old):
        return ""
    by_name = {each.name: each for each in old}
    for index, other in enumerate(new):
        at_place = old[index] if index < len(old) and not language.keywords else None
        one = by_name.get(other.name, at_place)
        taken = other.kind in ("positional", "keyword") and other.default is None
        if taken and (one is None or one.default is not None):
            return other.name
    return ""


# --- parameters -----------------------------------------------------------------------------------


def _read_parameters(function: Function, language: Language) -> tuple[_Parameter, ...] | None:
    """The parameters of a function, without ``self``; None for a class."""
    if function.is_class:
        return None
    node = function.node
    if node.type in _VALUED:
        node = find_field(node, "value", "right") or node
    given = [child for name in _LISTS for child in node.children_by_field_name(name)]
    given = given or [c for c in node.named_children if c.type == "function_value_parameters"]
    found = [each for group in given for each in _read_group(group, language)]
    if language.name == "python" and function.outer and found and found[0].name in _SELF:
        del found[0]
    return tuple(found)


def _read_group(group: Node, language: Language) -> list[_Parameter]:
    if group.type == "identifier":
        return [_Parameter(read_text(group), None)]
    found: list[_Parameter] = []
    keyword = False
    for child in group.children:
        if child.type == "keyword_separator" or read_text(child) == "*":
            keyword = True  # Python's ``*``: what follows is passed by name only
        elif not child.is_named or child.type in COMMENTS | _NO_PARAMETERS:
            continue
        elif child.type in LITERALS and found:
            found[-1] = replace(found[-1], default=read_text(child))
        else:
            found += _read_parameter(child, keyword)
            keyword = keyword or (language.name == "python" and found[-1].kind == "rest")
    return found


def _read_parameter(node: Node, keyword: bool) -> list[_Parameter]:
    kind = "keyword" if keyword or node.type == "keyword_parameter" else "positional"
    typed = node.type in ("typed_parameter", "required_parameter") and node.named_children
    inner = node.named_children[0] if typed else node
    kinds = {node.type, inner.type}
    dots = read_text(node).rstrip().endswith("...") or "..." in read_text(find_field(node, "type"))
    if dots or kinds & _REST or node.type == "parameter_modifiers":
        kind = "rest"
    elif kinds & _OPTIONS:
        kind = "options"
    names = node.children_by_field_name("name") or node.children_by_field_name("pattern")
    ids = (c for c in list_children(node) if c.type.endswith(("identifier", "variable_name")))
    default = _read_default(node)
    return [
        _Parameter(read_text(name).lstrip("*&$.").strip(), default, kind)
        for name in names or [next(ids, inner)]
    ]


def _read_default(node: Node) -> str | None:
    value = find_field(node, "value", "default_value", "right")
    if value is not None:
        return _normalize_code(read_text(value))
    if node.type == "optional_parameter":
        return "?"
    if node.type == "parameter" and "=" in read_text(node) and "=>" not in read_text(node):
        return _normalize_code(read_text(node).split("=", 1)[1])
    return None


def _normalize_code(code: str) -> str:
    return " ".join(code.replace("'", '"').split())
