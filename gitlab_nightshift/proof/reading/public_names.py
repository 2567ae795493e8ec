"""public-name-removed: names that other code may use, removed without an alias.

A language's ``[public]`` table says what public names look like (``name``), which ``modifiers``
make them public and which keep them ``hidden``, inside what no modifier is needed (``open``,
``bare``), and whether they must be ``listed``; ``functions`` may count only in classes. Export
lists, constants and fields are found by its ``exports.scm``; where ``found`` matches nothing in a
file it has none, and the query is not compiled, which takes longer than most rules.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from weakref import WeakKeyDictionary

from tree_sitter import Node, QueryCursor

from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.proof.syntax.functions import Function
from gitlab_nightshift.proof.syntax.languages import load_query
from gitlab_nightshift.proof.syntax.nodes import (
    find_field,
    list_children,
    list_names,
    read_line_number,
    read_text,
)
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import format_excerpt

_TABLE = RuleTable(__file__)

CONSTRUCTORS = ("__init__", "constructor", "initialize", "__construct")
"""Every class has one, written or not."""
_IMPORTS = _TABLE.get_words("imports")
_NO_LIBRARY = _TABLE.get_pattern("no_library")
_PRIVATE = compile_lazily(
    r"(?s)(?:private|protected|private_class_method|private_constant)\b[\s(]+(.*)"
)
_MODIFIERS = _TABLE.get_words("modifiers")
_EXPORTED_AS = compile_lazily(r"^(module\.)?exports\.")
_EXPORTS: WeakKeyDictionary[Side, dict[str, int]] = WeakKeyDictionary()
_MOST_NAMES = 200  # names of a file for which aliases are searched; of more, all count as gone


def find_removed_public_names(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Public names that were removed without an alias."""
    for file in change.files:
        old, new = read_sides(file)
        if not is_library(old) or (new.source and new.root is None):
            continue
        after = find_exports(new)
        missing = {name: at for name, at in find_exports(old).items() if name not in after}
        gone = {
            name: at
            for number, (name, at) in enumerate(missing.items())
            if number > _MOST_NAMES
            or (not _still_exists(name, file, change) and not _is_moved(name, file, change))
        }
        for name, at in gone.items():
            outer, _, last = name.rpartition(".")
            if outer not in gone and last not in CONSTRUCTORS:  # with a class go its methods
                detail = f"{format_excerpt(name)} is gone: keep an alias for its users."
                yield RuleViolation(file.path, at, detail)


def _still_exists(name: str, file: ChangedFile, change: Changeset) -> bool:
    """True if the name is declared, imported or assigned in the file after the change, or exported
    by another file of the same package."""
    old, new = read_sides(file)
    package = old.language.package if old.language else "file"
    package_files = [new]
    for after in (read_sides(other)[1] for other in change.files):
        folder = after.path.rpartition("/")[0] == old.path.rpartition("/")[0]
        shares = package == "anywhere" or (package == "folder" and folder)
        if shares and after.language == old.language:
            package_files.append(after)
    return _is_bound(name, new, change) or any(name in find_exports(f) for f in package_files)


def _is_bound(name: str, side: Side, change: Changeset) -> bool:
    """True for an alias, import or re-export of a top-level name, or a method that is inherited."""
    outer, _, last = name.rpartition(".")
    if side.root is None:
        return False
    if outer:
        alias = outer not in find_exports(side) and _is_bound(outer, side, change)
        return alias or _is_in_class(outer, last, side, change)
    imports = (node for node in side.root.named_children if node.type in _IMPORTS)
    return bool({last, "__getattr__"} & side.named.keys()) or any(
        last in list_names(node) and node.child_by_field_name("declaration") is None
        for node in imports
    )


def _is_in_class(outer: str, last: str, side: Side, change: Changeset) -> bool:
    """True if the class still mentions the name (an alias, a delegation), or inherits it."""
    for function in side.functions:
        if function.is_class and function.qualified == outer and function.body is not None:
            body = read_text(function.body)
            heading = read_text(function.node).removesuffix(body)
            named = re.search(rf"\b{re.escape(last)}\b", body) is not None
            if named or _is_inherited(heading, last, change):
                return True
    return False


def _is_inherited(heading: str, last: str, change: Changeset) -> bool:
    return any(
        each.name == last
        and each.outer
        and re.search(rf"\b{re.escape(each.outer[-1].name)}\b", heading)
        for file in change.files
        for each in read_sides(file)[1].functions
    )


def _is_moved(name: str, file: ChangedFile, change: Changeset) -> bool:
    """True if the name is public in another file now, and importers were updated."""
    last = name.rpartition(".")[2]
    if file.status == "R" and name in find_exports(read_sides(file)[1]):
        return True
    homes = [
        other
        for other in change.files
        if other is not file
        and name in find_exports(read_sides(other)[1])
        and name not in find_exports(read_sides(other)[0])
    ]
    return bool(homes) and any(
        re.search(rf"\b{re.escape(last)}\b", added.text)
        for other in change.files
        if other is not file and other not in homes and read_sides(other)[0].source
        for added in other.added
        if re.search(r"import|require|use |from ", added.text)
    )


# --- what is public -------------------------------------------------------------------------------


def is_library(side: Side) -> bool:
    """True for product code that other code may import."""
    private = side.path.endswith(".py") and re.search(r"(^|/)_(?!_)[^/]*(/|\.py$)", side.path)
    known = side.is_product and not private and not _NO_LIBRARY.search(side.path)
    return known and side.root is not None


def find_exports(side: Side) -> dict[str, int]:
    """Public names of a file with their lines: functions, classes, methods, constants, fields."""
    if side not in _EXPORTS:
        _EXPORTS[side] = _collect_exports(side) if side.root is not None and side.language else {}
    return _EXPORTS[side]


def _collect_exports(side: Side) -> dict[str, int]:
    language = side.language
    may_export = language and re.search(language.public.get("found", ""), side.code)
    query = load_query(language, "exports") if language and may_export else None
    found = QueryCursor(query).captures(side.root) if query and side.root is not None else {}
    # The binding returns them in no order: a finding would name any line of an overloaded name.
    captures = {key: sorted(nodes, key=lambda n: n.start_byte) for key, nodes in found.items()}
    listed = {_EXPORTED_AS.sub("", read_text(node)) for node in captures.get("listed", ())}
    private = _find_private_names(side)
    exports = {
        each.qualified: read_line_number(each.node)
        for each in side.functions
        if not _is_in_tests(each) and each.qualified not in private
        if _is_public(each, side) and _is_listed(each.qualified.partition(".")[0], listed, side)
    }
    for node in captures.get("constant", ()):
        name = read_text(node)
        if not name.startswith("_") and _is_listed(name, listed, side):
            exports[name] = read_line_number(node)
    return exports | dict(_find_fields(side, captures.get("field", ())))


def _is_listed(name: str, listed: set[str], side: Side) -> bool:
    """True unless the language has export lists, and this one lacks the name. ``__all__`` is
    optional, JavaScript's exports are not."""
    rule = side.language.public.get("listed") if side.language else None
    return not rule or name in listed or (not listed and rule != "always")


def _is_public(function: Function, side: Side) -> bool:
    """True if neither the function's name nor a modifier, its own or an outer one's, hides it."""
    rule = side.language.public if side.language else {}
    if rule.get("functions") == "in classes" and not (function.outer or function.is_class):
        return False
    if function.node.type in rule.get("bare", "").split() or not all(
        re.match(rule.get("name", ""), part) for part in function.qualified.split(".")
    ):
        return False
    return all(_is_visible(each, rule) for each in (*function.outer, function))


def _is_visible(each: Function, rule: Mapping[str, str]) -> bool:
    """True for a definition that is public if the definitions around it are."""
    if each.node.type in rule.get("bare", "").split():
        # Rust: the methods of ``impl Trait for X`` are the trait's.
        return find_field(each.node, "trait") is None
    if any(outer.node.type in rule.get("open", "").split() for outer in each.outer):
        return True
    modifiers = _read_modifiers(each.node)
    needed, hidden = (set(rule.get(key, "").split()) for key in ("modifiers", "hidden"))
    return not modifiers & hidden and (not needed or bool(modifiers & needed))


def _find_fields(side: Side, fields: Iterable[Node]) -> Iterator[tuple[str, int]]:
    """The public fields of public classes, as ``Class.field``."""
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
    """Ruby: methods below a line ``private``, and those named by ``private :name``."""
    if side.language is None or side.language.name != "ruby":
        return frozenset()
    groups = (each for each in side.functions if each.is_class and each.body is not None)
    return frozenset(f"{each.qualified}.{name}" for each in groups for name in _list_hidden(each))


def _list_hidden(group: Function) -> Iterator[str]:
    private = False
    for node in list_children(group.body) if group.body is not None else ():
        text = read_text(node)
        if text in ("private", "protected", "public"):
            private = text != "public"
        elif named := _PRIVATE.match(text):
            for names in re.findall(r":(\w+)|def (?:self\.)?(\w+[?!]?)", named[1]):
                yield from filter(None, names)
        elif private and node.type in ("method", "singleton_method"):
            yield read_text(find_field(node, "name"))


def _read_modifiers(node: Node) -> frozenset[str]:
    """The words before a definition: public, private, static, …"""
    groups = (child.children for child in node.children if child.type == "modifiers")
    inside = chain.from_iterable(groups)
    found = [child for child in node.children if child.type in _MODIFIERS]
    found += [child for child in inside if "annotation" not in child.type]
    return frozenset(word for each in found for word in re.findall(r"\w+", read_text(each)))
