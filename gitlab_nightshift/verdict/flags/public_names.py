"""Which names of a file others may use, by the rules of each language."""

import re
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from gitlab_nightshift.verdict.syntax.functions import Function
from gitlab_nightshift.verdict.syntax.nodes import field, kids, line, text, walk
from gitlab_nightshift.verdict.syntax.side import Side

if TYPE_CHECKING:
    from tree_sitter import Node

_NO_LIBRARY = re.compile(
    r"^([^/]+/)?(examples?|samples?|scripts|migrations?|docs?|benchmarks?|benches"
    r"|demo|tools|bin|cmd|fixtures|hack|\.github|db)/"
    r"|(^|/)(setup|conftest|noxfile|manage|main|__main__|tasks|fabfile|build)\.\w+$"
    r"|Benchmarks?\.\w+$|\.(config|conf|stories|d)\.[cm]?[jt]s$"
)
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


def exports_of(side: Side) -> dict[str, int]:
    """Public names of a side with their lines: functions, classes, methods, constants."""
    if side not in _EXPORTS:
        _EXPORTS[side] = _exports(side) if side.root is not None and side.language else {}
    return _EXPORTS[side]


def _exports(side: Side) -> dict[str, int]:
    language = side.language.name if side.language else ""
    rule = _RULES[language]
    listed = _listed(side, language)
    found = {
        each.qualified: line(each.node)
        for each in side.functions
        if not _is_in_tests(each) and rule(each, listed)
    }
    found.update(_constants(side, language, listed))
    return found


def _is_in_tests(function: Function) -> bool:
    return any(
        "cfg(test)" in mark for each in (*function.outer, function) for mark in each.marks
    ) or any(re.match(r"#\[(\w+::)*test", mark) for mark in function.marks)


def _listed(side: Side, language: str) -> frozenset[str]:
    """``__all__``, ``export { … }``, ``module.exports = { … }``, names under Ruby's ``private``."""
    code = side.code
    if language == "python":
        found = re.search(
            r"^__all__\s*(?::[^=\n]{0,80})?=\s*[\[(]([^\])]{0,20000})", code, re.MULTILINE
        )
        return frozenset(re.findall(r"[\"'](\w+)[\"']", found[1])) | {"*"} if found else frozenset()
    if language in ("javascript", "typescript", "tsx"):
        groups = re.findall(
            r"(?:\bexport\s*(?:type\s*)?|module\.exports\s*=\s*)\{([^}]{0,5000})\}", code
        )
        names = {
            name for group in groups for name in re.findall(r"(\w+)\s*(?:,|$|\}|\n|\bas\b)", group)
        }
        names |= set(re.findall(r"export\s+default\s+(\w+)", code))
        names |= set(re.findall(r"(?:module\.)?exports(?:\.\w+)?\s*=\s*(\w+)", code))
        return frozenset(names)
    if language == "ruby":
        return _ruby_private(side)
    return frozenset()


def _ruby_private(side: Side) -> frozenset[str]:
    hidden: set[str] = set()
    for group in side.functions:
        if not group.is_class or group.body is None:
            continue
        private = False
        for node in kids(group.body):
            said = text(node)
            if said in ("private", "protected"):
                private = True
            elif said == "public":
                private = False
            elif found := re.match(
                r"(private|protected|private_class_method|private_constant)\b[\s(]+(.*)",
                said,
                re.DOTALL,
            ):
                hidden |= {
                    f"{group.qualified}.{name}"
                    for name in re.findall(r":(\w+)|def (?:self\.)?(\w+[?!]?)", found[2])
                    for name in name
                    if name
                }
            elif private and node.type in ("method", "singleton_method"):
                hidden.add(f"{group.qualified}.{text(field(node, 'name'))}")
    return frozenset(hidden)


def _python(function: Function, listed: frozenset[str]) -> bool:
    parts = function.qualified.split(".")
    if any(part.startswith("_") for part in parts):
        return False
    return not listed or parts[0] in listed


def _script(function: Function, listed: frozenset[str]) -> bool:
    head = text(function.node)[:80]
    if function.name.startswith(("_", "#")) or re.match(r"(private|protected|static\s+#|#)", head):
        return False
    top = function.outer[0] if function.outer else function
    return top.name in listed or _is_exported(top.node)


def _is_exported(node: "Node") -> bool:
    current: Node | None = node
    for _ in range(4):
        if current is None:
            return False
        if current.type == "export_statement":
            return True
        if current.type == "assignment_expression" and re.match(
            r"(module\.)?exports\b", text(current)[:20]
        ):
            return True
        current = current.parent
    return False


def _go(function: Function, _listed: frozenset[str]) -> bool:
    return all(part[:1].isupper() for part in function.qualified.split("."))


def _java(function: Function, _listed: frozenset[str]) -> bool:
    return all(_is_java_public(each) for each in (*function.outer, function))


def _is_java_public(each: Function) -> bool:
    if any(outer.node.type == "interface_declaration" for outer in each.outer):
        return True
    return bool(_modifiers(each.node) & {"public", "protected"})


_MODIFIERS = frozenset(
    "modifier visibility_modifier access_modifier accessibility_modifier".split()
)


def _modifiers(node: "Node") -> frozenset[str]:
    """The words before a definition: public, private, static, …"""
    found: list[str] = []
    for child in node.children:
        if child.type in _MODIFIERS:
            found += re.findall(r"\w+", text(child))
        elif child.type == "modifiers":
            found += [
                w
                for c in child.children
                if "annotation" not in c.type
                for w in re.findall(r"\w+", text(c))
            ]
    return frozenset(found)


def _not_hidden(function: Function, _listed: frozenset[str]) -> bool:
    """Scala, Kotlin, PHP: public where nothing else is said."""
    hidden = {"private", "protected", "internal"}
    return not any(hidden & _modifiers(each.node) for each in (*function.outer, function))


def _csharp(function: Function, listed: frozenset[str]) -> bool:
    return _java(function, listed)


def _ruby(function: Function, listed: frozenset[str]) -> bool:
    if (
        function.qualified in listed
        or function.name.startswith("_")
        or function.name == "initialize"
    ):
        return False
    return bool(function.outer) or function.is_class


def _rust(function: Function, _listed: frozenset[str]) -> bool:
    if function.node.type == "impl_item" or function.name == "tests":
        return False
    for each in (*function.outer, function):
        if each.node.type == "impl_item":
            if field(each.node, "trait") is not None:
                return False
            continue
        in_trait = (
            bool(function.outer)
            and function.outer[-1].node.type == "trait_item"
            and each is function
        )
        mark = next(
            (text(c) for c in each.node.named_children if c.type == "visibility_modifier"), ""
        )
        if mark != "pub" and not in_trait:
            return False
    return True


_RULES = {
    "python": _python,
    "javascript": _script,
    "typescript": _script,
    "tsx": _script,
    "go": _go,
    "java": _java,
    "scala": _not_hidden,
    "kotlin": _not_hidden,
    "php": _not_hidden,
    "csharp": _csharp,
    "ruby": _ruby,
    "rust": _rust,
}


def _constants(side: Side, language: str, listed: frozenset[str]) -> dict[str, int]:
    found: dict[str, int] = _fields(side) if language in ("java", "csharp") else {}
    for node in side.root.named_children if side.root is not None else ():
        for name, at in _constant_names(node, language):
            hidden = listed and name not in listed if language in ("python",) else False
            if not name.startswith("_") and not hidden:
                found[name] = at
    return found


def _fields(side: Side) -> dict[str, int]:
    """The public fields of public classes, with the class before the name."""
    return {
        f"{each.qualified}.{text(field(name, 'name'))}": line(node)
        for each in side.functions
        if each.is_class and each.body is not None and _java(each, frozenset())
        for node in kids(each.body)
        if node.type == "field_declaration" and "public" in _modifiers(node)
        for name in walk(node)
        if name.type == "variable_declarator"
    }


def _constant_names(node: "Node", language: str) -> "list[tuple[str, int]]":
    said = text(node)[:300]
    if language in ("python", "ruby"):
        made = re.match(r"([A-Z][A-Z0-9_]+)\s*(?::[^=]+)?=[^=]", said)
        return [(made[1], line(node))] if made else []
    if language in ("javascript", "typescript", "tsx") and node.type == "export_statement":
        made = re.match(r"export\s+(?:const|let|var|type|interface|enum)\s+(\w+)", said)
        return [(made[1], line(node))] if made else []
    if language == "go" and node.type in ("const_declaration", "var_declaration"):
        return [
            (text(name), line(name))
            for spec in walk(node)
            if spec.type in ("const_spec", "var_spec")
            for name in spec.children_by_field_name("name")
            if text(name)[:1].isupper()
        ]
    if language == "rust" and node.type in ("const_item", "static_item", "type_item"):
        return [(text(field(node, "name")), line(node))] if said.startswith("pub ") else []
    return []
