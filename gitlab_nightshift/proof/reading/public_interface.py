"""Finds changes that break callers: names that other code may use, removed without an alias
(public-name-removed), and parameters that callers would have to change (signature-changed).

A language's ``[public]`` table says what public names look like (``name``), which ``modifiers``
make them public and which keep them ``hidden``, inside which nodes no modifier is needed (``open``,
``bare``), and whether names must be ``listed``; ``functions`` may count only in classes. The query
``exports.scm`` finds export lists, constants and fields. Compiling it takes longer than running
most rules, so it is not loaded for a file in which the pattern ``may_export`` matches nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from tree_sitter import Node, QueryCursor

from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.definitions import Function
from gitlab_nightshift.proof.syntax.file_side import Side, cache_weakly, read_sides
from gitlab_nightshift.proof.syntax.languages import Language, load_query
from gitlab_nightshift.proof.syntax.nodes import (
    COMMENTS,
    LITERALS,
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
_NOT_LIBRARY = _TABLE.get_pattern("not_library")
_PRIVATE = compile_lazily(
    r"(?s)(?:private|protected|private_class_method|private_constant)\b[\s(]+(.*)"
)
_MODIFIERS = _TABLE.get_words("modifiers")
_EXPORTED_AS = compile_lazily(r"^(module\.)?exports\.")
_MOST_NAMES = 200  # missing names of a file for which an alias is looked for; others are gone


def find_removed_public_names(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Public names that were removed without an alias."""
    for file in change.files:
        old, new = read_sides(file)
        if not is_library(old) or (new.source and new.root is None):
            continue
        after = find_exports(new)
        missing = {name: line for name, line in find_exports(old).items() if name not in after}
        gone = {
            name: line
            for number, (name, line) in enumerate(missing.items())
            if number >= _MOST_NAMES
            or (not _still_exists(name, file, change) and not _is_moved(name, file, change))
        }
        for name, line in gone.items():
            outer, _, last = name.rpartition(".")
            if outer not in gone and last not in CONSTRUCTORS:  # a class is gone with its methods
                detail = f"{format_excerpt(name)} is gone: keep an alias for its users."
                yield RuleViolation(file.path, line, detail)


def _still_exists(name: str, file: ChangedFile, change: Changeset) -> bool:
    """True if the file declares, imports or assigns the name after the change, or another file of
    the same package exports it."""
    old, new = read_sides(file)
    package = old.language.package if old.language else "file"
    package_files = [new]
    for after in (read_sides(other)[1] for other in change.files):
        same_folder = after.path.rpartition("/")[0] == old.path.rpartition("/")[0]
        same_package = package == "anywhere" or (package == "folder" and same_folder)
        if same_package and after.language == old.language:
            package_files.append(after)
    return _is_bound(name, new, change) or any(name in find_exports(f) for f in package_files)


def _is_bound(name: str, side: Side, change: Changeset) -> bool:
    """True if a file still binds a name: a top-level one by an alias, import or re-export, a method
    by its class or a base class."""
    outer, _, last = name.rpartition(".")
    if side.root is None:
        return False
    if outer:
        alias = outer not in find_exports(side) and _is_bound(outer, side, change)
        return alias or _is_in_class(outer, last, side, change)
    imports = (node for node in side.root.named_children if node.type in _IMPORTS)
    # A module's own __getattr__ may answer for any name (PEP 562).
    return bool({last, "__getattr__"} & side.definitions.keys()) or any(
        last in list_names(node) and node.child_by_field_name("declaration") is None
        for node in imports
    )


def _is_in_class(outer: str, last: str, side: Side, change: Changeset) -> bool:
    """True if the class still mentions the name (an alias, a delegation), or inherits it."""
    for function in side.functions:
        if function.is_class and function.qualified == outer and function.body is not None:
            body = read_text(function.body)
            heading = read_text(function.node).removesuffix(body)
            mentioned = re.search(rf"\b{re.escape(last)}\b", body) is not None
            if mentioned or _is_inherited(heading, last, change):
                return True
    return False


def _is_inherited(heading: str, name: str, change: Changeset) -> bool:
    return any(
        each.name == name
        and each.outer
        and re.search(rf"\b{re.escape(each.outer[-1].name)}\b", heading)
        for file in change.files
        for each in read_sides(file)[1].functions
    )


def _is_moved(name: str, file: ChangedFile, change: Changeset) -> bool:
    """True if the name is public in another file now, and an import of it was added."""
    last = name.rpartition(".")[2]
    if file.status == "R" and name in find_exports(read_sides(file)[1]):
        return True
    new_files = [
        other
        for other in change.files
        if other is not file
        and name in find_exports(read_sides(other)[1])
        and name not in find_exports(read_sides(other)[0])
    ]
    return bool(new_files) and any(
        re.search(rf"\b{re.escape(last)}\b", added.text)
        for other in change.files
        if other is not file and other not in new_files and read_sides(other)[0].source
        for added in other.added
        if re.search(r"import|require|use |from ", added.text)
    )


# --- what is public -------------------------------------------------------------------------------


def is_library(side: Side) -> bool:
    """True for product code that other code may import."""
    private = side.path.endswith(".py") and re.search(r"(^|/)_(?!_)[^/]*(/|\.py$)", side.path)
    known = side.is_product and not private and not _NOT_LIBRARY.search(side.path)
    return known and side.root is not None


@cache_weakly
def find_exports(side: Side) -> dict[str, int]:
    """Public names of a file with their lines: functions, classes, methods, constants, fields."""
    language = side.language
    if side.root is None or language is None:
        return {}
    may_export = re.search(language.public.get("may_export", ""), side.code)
    query = load_query(language, "exports") if may_export else None
    unsorted = QueryCursor(query).captures(side.root) if query else {}
    # The binding returns nodes in no order; a finding names the last line of an overloaded name.
    captures = {key: sorted(nodes, key=lambda n: n.start_byte) for key, nodes in unsorted.items()}
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
    """True unless the language has export lists, and that of the file lacks the name. Python's
    ``__all__`` may be missing, JavaScript's exports may not."""
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
        classes = [
            each
            for each in side.functions
            if each.is_class and each.node.start_byte < node.start_byte < each.node.end_byte
        ]
        if classes and _is_public(classes[-1], side):
            yield f"{classes[-1].qualified}.{read_text(node)}", read_line_number(node)


def _is_in_tests(function: Function) -> bool:
    return any(
        "cfg(test)" in mark for each in (*function.outer, function) for mark in each.marks
    ) or any(re.match(r"#\[(\w+::)*test", mark) for mark in function.marks)


def _find_private_names(side: Side) -> frozenset[str]:
    """Ruby: methods below a line ``private``, and those named by ``private :name``."""
    if side.language is None or side.language.name != "ruby":
        return frozenset()
    classes = (each for each in side.functions if each.is_class and each.body is not None)
    return frozenset(f"{c.qualified}.{name}" for c in classes for name in _list_hidden_methods(c))


def _list_hidden_methods(group: Function) -> Iterator[str]:
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
    modifiers = [child for child in node.children if child.type in _MODIFIERS]
    groups = (child.children for child in node.children if child.type == "modifiers")
    grouped = chain.from_iterable(groups)
    modifiers += [child for child in grouped if "annotation" not in child.type]
    return frozenset(word for each in modifiers for word in re.findall(r"\w+", read_text(each)))


# --- signatures -----------------------------------------------------------------------------------


_FUNCTION_VALUES = _TABLE.get_words("function_values")
_REST_PARAMETERS = _TABLE.get_words("rest_parameters")
_OPTIONS = frozenset(("dictionary_splat_pattern", "hash_splat_parameter", "block_parameter"))
# The last one is Python's ``/`` (PEP 570).
_NOT_PARAMETERS = frozenset("attribute_item decorator self_parameter positional_separator".split())
_PARAMETER_FIELDS = ("parameters", "parameter")
_SELF = ("self", "cls", "mcs")


@dataclass(frozen=True)
class _Parameter:
    """A parameter. ``kind`` is "positional", "keyword" (by name only), "rest" (``*args``) or
    "options" (``**kwargs``). ``default`` is the code of its default, None without one, and "?" for
    TypeScript's ``name?``."""

    name: str
    default: str | None
    kind: str = "positional"


_Signature = tuple[Function, tuple[_Parameter, ...]]


def find_changed_signatures(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Public functions whose parameters changed so that callers break."""
    for file in change.files:
        old, new = read_sides(file)
        if not is_library(old) or old.language is None:
            continue
        public = find_exports(old)
        new_signatures = _collect_signatures(new)
        for name, before in _collect_signatures(old).items():
            after = new_signatures.get(name, [])
            outer, _, last = name.rpartition(".")
            by_class = last in CONSTRUCTORS or last == "__call__"
            if not after or (outer if by_class else name) not in public:
                continue
            # A function may be overloaded: compare only signatures that the other side lacks.
            removed = [each for each in before if each[1] not in [other for _, other in after]]
            added = [each for each in after if each[1] not in [other for _, other in before]]
            for (_, old_one), (function, new_one) in zip(removed, added, strict=False):
                if why := _compare_parameters(old_one, new_one, old.language):
                    detail = f"{format_excerpt(name)}: {why}."
                    yield RuleViolation(file.path, read_line_number(function.node), detail)


def _collect_signatures(side: Side) -> dict[str, list[_Signature]]:
    """The signatures of functions by qualified name, without Python's ``@overload``."""
    signatures: dict[str, list[_Signature]] = {}
    for function in side.functions:
        parameters = _read_parameters(function, side.language) if side.language else None
        if parameters is not None and not any("overload" in mark for mark in function.marks):
            signatures.setdefault(function.qualified, []).append((function, parameters))
    return signatures


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
    """The name of a removed parameter that callers may pass, by name or by position, or ""."""
    names = {each.name for each in new}
    for index, parameter in enumerate(old):
        name, kind = parameter.name, parameter.kind
        if kind not in ("positional", "keyword") or name in names or "options" in kinds:
            continue
        by_name = kind == "keyword" or (language.keyword_arguments and not name.startswith("_"))
        if by_name or (index >= len(new) and "rest" not in kinds):
            return name
    return ""


def _find_required(old: Sequence[_Parameter], new: Sequence[_Parameter], language: Language) -> str:
    """The name of a required parameter that was optional or did not exist before, or ""."""
    if any(each.kind == "rest" for each in old):
        return ""
    by_name = {each.name: each for each in old}
    for index, parameter in enumerate(new):
        at_index = old[index] if index < len(old) and not language.keyword_arguments else None
        before = by_name.get(parameter.name, at_index)
        required = parameter.kind in ("positional", "keyword") and parameter.default is None
        if required and (before is None or before.default is not None):
            return parameter.name
    return ""


# --- parameters -----------------------------------------------------------------------------------


def _read_parameters(function: Function, language: Language) -> tuple[_Parameter, ...] | None:
    """The parameters of a function, without ``self``; None for a class."""
    if function.is_class:
        return None
    node = function.node
    if node.type in _FUNCTION_VALUES:
        node = find_field(node, "value", "right") or node
    lists = [child for name in _PARAMETER_FIELDS for child in node.children_by_field_name(name)]
    lists = lists or [c for c in node.named_children if c.type == "function_value_parameters"]
    parameters = [each for node in lists for each in _read_parameter_list(node, language)]
    is_method = language.name == "python" and bool(function.outer)
    if is_method and parameters and parameters[0].name in _SELF:
        del parameters[0]
    return tuple(parameters)


def _read_parameter_list(node: Node, language: Language) -> list[_Parameter]:
    if node.type == "identifier":
        return [_Parameter(read_text(node), None)]
    parameters: list[_Parameter] = []
    by_name = False
    for child in node.children:
        if child.type == "keyword_separator" or read_text(child) == "*":
            by_name = True  # Python's ``*``: what follows is passed by name only
        elif not child.is_named or child.type in COMMENTS | _NOT_PARAMETERS:
            continue
        elif child.type in LITERALS and parameters:
            parameters[-1] = replace(parameters[-1], default=read_text(child))
        else:
            parameters += _read_parameter(child, by_name=by_name)
            by_name = by_name or (language.name == "python" and parameters[-1].kind == "rest")
    return parameters


def _read_parameter(node: Node, *, by_name: bool) -> list[_Parameter]:
    """The parameters that a node declares: several in Go's ``a, b int``."""
    kind = "keyword" if by_name or node.type == "keyword_parameter" else "positional"
    typed = node.type in ("typed_parameter", "required_parameter") and node.named_children
    inner = node.named_children[0] if typed else node
    kinds = {node.type, inner.type}
    dots = read_text(node).rstrip().endswith("...") or "..." in read_text(find_field(node, "type"))
    if dots or kinds & _REST_PARAMETERS or node.type == "parameter_modifiers":
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
