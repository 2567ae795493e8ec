"""Which names of a file others may use, by the rules of each language.

A language's ``[public]`` says what its names look like (``name``), which ``modifiers`` make them
public and which keep them ``hidden``, in what no modifier is needed (``open``, ``bare``), and
whether they have to be ``listed``; ``functions`` may count in a class alone. Lists, constants and
fields are in its ``exports.scm``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from weakref import WeakKeyDictionary

from tree_sitter import Node, QueryCursor

from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.file_side import Side
from gitlab_nightshift.proof.syntax.functions import Function
from gitlab_nightshift.proof.syntax.languages import load_query
from gitlab_nightshift.proof.syntax.nodes import (
    find_field,
    list_children,
    read_line_number,
    read_text,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_TABLE = RuleTable(__file__)

_NO_LIBRARY = _TABLE.get_pattern("no_library")
_EXPORTED_AS = compile_lazily(r"^(module\.)?exports\.")
_EXPORTS: WeakKeyDictionary[Side, dict[str, int]] = WeakKeyDictionary()


def is_library(side: Side) -> bool:
    """True for product code that other code may import."""
    private = side.path.endswith(".py") and re.search(r"(^|/)_(?!_)[^/]*(/|\.py$)", side.path)
    return (
        side.is_product
        and not private
        and not _NO_LIBRARY.search(side.path)
        and side.root is not None
    )


def find_exports(side: Side) -> dict[str, int]:
    """Public names of a side with their lines: functions, classes, methods, constants."""
    if side not in _EXPORTS:
        _EXPORTS[side] = _collect_exports(side) if side.root is not None and side.language else {}
    return _EXPORTS[side]


def _collect_exports(side: Side) -> dict[str, int]:
    captures = _capture_exports(side)
    listed = {_EXPORTED_AS.sub("", read_text(node)) for node in captures.get("listed", ())}
    private = _find_private_names(side)
    found = {
        each.qualified: read_line_number(each.node)
        for each in side.functions
        if not _is_in_tests(each) and each.qualified not in private
        if _is_public(each, side) and _is_listed(each.qualified.partition(".")[0], listed, side)
    }
    for node in captures.get("constant", ()):
        name = read_text(node)
        if not name.startswith("_") and _is_listed(name, listed, side):
            found[name] = read_line_number(node)
    return found | dict(_find_fields(side, captures.get("field", ())))


def _capture_exports(side: Side) -> dict[str, list[Node]]:
    query = load_query(side.language, "exports") if side.language else None
    return QueryCursor(query).captures(side.root) if query and side.root is not None else {}


def _is_listed(name: str, listed: set[str], side: Side) -> bool:
    rule = side.language.public.get("listed") if side.language else None
    return not rule or name in listed or (not listed and rule != "always")


def _is_public(function: Function, side: Side) -> bool:
    """True where nothing in the name of a function, or on what it stands in, hides it."""
    rule = side.language.public if side.language else {}
    if rule.get("functions") == "in classes" and not (function.outer or function.is_class):
        return False
    if function.node.type in rule.get("bare", "").split() or not all(
        re.match(rule.get("name", ""), part) for part in function.qualified.split(".")
    ):
        return False
    return all(_is_let_out(each, rule) for each in (*function.outer, function))


def _is_let_out(each: Function, rule: Mapping[str, str]) -> bool:
    """True for a definition that is public where what it stands in is."""
    if each.node.type in rule.get("bare", "").split():
        return find_field(each.node, "trait") is None
    if any(outer.node.type in rule.get("open", "").split() for outer in each.outer):
        return True
    said = _read_modifiers(each.node)
    needed, hidden = (set(rule.get(key, "").split()) for key in ("modifiers", "hidden"))
    return not said & hidden and (not needed or bool(said & needed))


def _find_fields(side: Side, fields: Iterable[Node]) -> Iterator[tuple[str, int]]:
    """The public fields of public classes, with the class before the name."""
    for node in fields:
        around = [
            each
            for each in side.functions
            if each.is_class and each.node.start_byte < node.start_byte < each.node.end_byte
        ]
        if around and _is_public(around[-1], side):
            yield f"{around[-1].qualified}.{read_text(node)}", read_line_number(node)


def _is_in_tests(function: Function) -> bool:
    return any(
        "cfg(test)" in mark for each in (*function.outer, function) for mark in each.marks
    ) or any(re.match(r"#\[(\w+::)*test", mark) for mark in function.marks)


def _find_private_names(side: Side) -> frozenset[str]:
    """Ruby: methods below ``private``, and those that it names."""
    if side.language is None or side.language.name != "ruby":
        return frozenset()
    groups = (each for each in side.functions if each.is_class and each.body is not None)
    return frozenset(f"{each.qualified}.{name}" for each in groups for name in _list_hidden(each))


def _list_hidden(group: Function) -> Iterator[str]:
    private = False
    for node in list_children(group.body) if group.body is not None else ():
        said = read_text(node)
        if said in ("private", "protected", "public"):
            private = said != "public"
        elif named := _PRIVATE.match(said):
            for names in re.findall(r":(\w+)|def (?:self\.)?(\w+[?!]?)", named[1]):
                yield from filter(None, names)
        elif private and node.type in ("method", "singleton_method"):
            yield read_text(find_field(node, "name"))


_PRIVATE = compile_lazily(
    r"(?s)(?:private|protected|private_class_method|private_constant)\b[\s(]+(.*)"
)
_MODIFIERS = _TABLE.get_words("modifiers")


def _read_modifiers(node: Node) -> frozenset[str]:
    """The words before a definition: public, private, static, …"""
    inside = [
        inner for child in node.children if child.type == "modifiers" for inner in child.children
    ]
    said = [child for child in node.children if child.type in _MODIFIERS]
    said += [child for child in inside if "annotation" not in child.type]
    return frozenset(word for each in said for word in re.findall(r"\w+", read_text(each)))
