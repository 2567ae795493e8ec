"""public-name-removed and signature-changed: what callers of product code may miss."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from gitlab_nightshift.verdict.change import Change, ChangedFile, Context, Found
from gitlab_nightshift.verdict.flags.public_names import exports_of, is_library
from gitlab_nightshift.verdict.flags.signatures import difference
from gitlab_nightshift.verdict.flags.tests_seen import shown
from gitlab_nightshift.verdict.syntax.functions import Function
from gitlab_nightshift.verdict.syntax.nodes import names_in, text
from gitlab_nightshift.verdict.syntax.parameters import Signature, signature_of
from gitlab_nightshift.verdict.syntax.side import Side, sides

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_NAMES = 200
"""Names of a file that aliases are looked for; of more, all count as gone."""
_BY_FOLDER = ("go", "java", "scala", "kotlin")
_ANYWHERE = ("ruby", "csharp", "php")


def public_name_removed(change: Change, _context: Context) -> Iterator[Found]:
    """Public names that nothing stands for any more."""
    for file in change.files:
        old, new = sides(file)
        if not is_library(old) or (new.source and new.root is None):
            continue
        after = exports_of(new)
        missing = {name: at for name, at in exports_of(old).items() if name not in after}
        gone = {
            name: at
            for number, (name, at) in enumerate(missing.items())
            if number > _MOST_NAMES
            or (not _is_there(name, file, change) and not _is_moved(name, file, change))
        }
        for name, at in gone.items():
            outer = name.rpartition(".")[0]
            if outer not in gone:
                yield Found(
                    file.path, at, f"{shown(name)} is gone: keep an alias for those who use it."
                )


def _is_there(name: str, file: ChangedFile, change: Change) -> bool:
    """Declared, imported or assigned in the file after the change; where files of a folder are one
    package, in any of them."""
    old, new = sides(file)
    language = old.language.name if old.language else ""
    others = [new]
    for other in change.files:
        after = sides(other)[1]
        if after.language is not None and after.language.name == language and after is not new:
            folder = after.path.rpartition("/")[0] == old.path.rpartition("/")[0]
            if language in _ANYWHERE or (language in _BY_FOLDER and folder):
                others.append(after)
    return _is_bound(name, new, change) or any(name in exports_of(each) for each in others)


def _is_bound(name: str, side: Side, change: Change) -> bool:
    """An alias, an import or a re-export of a top-level name; a method that a parent has now."""
    outer, _, last = name.rpartition(".")
    if side.root is None:
        return False
    if outer:
        alias = outer not in exports_of(side) and _is_bound(outer, side, change)
        return alias or _is_in_class(outer, last, side, change)
    return last in _bound(side) or any(
        function.name == "__getattr__" and not function.outer for function in side.functions
    )


_BOUND: WeakKeyDictionary[Side, frozenset[str]] = WeakKeyDictionary()


def _bound(side: Side) -> frozenset[str]:
    """The names that imports, re-exports and assignments of a file bind."""
    if side not in _BOUND:
        found: set[str] = set()
        for node in side.root.named_children if side.root is not None else ():
            kind = node.type.removeprefix("export_")
            if re.match(r"(function|class|method|struct|enum|trait|impl)", kind):
                continue
            if node.type == "expression_statement" and re.match(r"\w+\s*\(", text(node)[:60]):
                continue
            found |= _bound_names(node)
        _BOUND[side] = frozenset(found)
    return _BOUND[side]


def _bound_names(node: "Node") -> frozenset[str]:
    if node.type in (
        "import_statement",
        "import_from_statement",
        "export_statement",
        "use_declaration",
        "import_declaration",
    ):
        if node.type == "export_statement" and node.child_by_field_name("declaration") is not None:
            return frozenset()
        return names_in(node)
    said = text(node)[:4000]
    return frozenset(re.findall(r"(?:^|[.\s{,(])([A-Za-z_$]\w*)\s*(?:=(?!=)|,|\}|:)", said))


def _is_in_class(outer: str, last: str, side: Side, change: Change) -> bool:
    """An alias, a delegation or an attribute of that name in the class, or its parent has it."""
    word = re.escape(last)
    stands = re.compile(
        rf"(?m)^\s*{word}\s*=|\balias(_method)?\s+:?{word}\b|\bpub use\b.*{word}"
        rf"|\b(def_delegators?|delegate|attr_\w+)\b.*:{word}\b"
        rf"|^\s*@?(property|val|var|readonly|get|public|static)\b.*\b{word}\b"
    )
    for function in side.functions:
        if function.is_class and function.qualified == outer and function.body is not None:
            heading = text(function.node)[: function.body.start_byte - function.node.start_byte]
            if stands.search(text(function.body)) or _is_inherited(heading, last, change):
                return True
    return False


def _is_inherited(heading: str, last: str, change: Change) -> bool:
    return any(
        each.name == last
        and each.outer
        and re.search(rf"\b{re.escape(each.outer[-1].name)}\b", heading)
        for file in change.files
        for each in sides(file)[1].functions
    )


def _is_moved(name: str, file: ChangedFile, change: Change) -> bool:
    """Public in another file after the change, and who imported it has followed."""
    last = name.rpartition(".")[2]
    if file.status == "R" and name in exports_of(sides(file)[1]):
        return True
    homes = [
        other
        for other in change.files
        if other is not file
        and name in exports_of(sides(other)[1])
        and name not in exports_of(sides(other)[0])
    ]
    return bool(homes) and any(
        re.search(rf"\b{re.escape(last)}\b", added.text)
        for other in change.files
        if other is not file and other not in homes and sides(other)[0].source
        for added in other.added
        if re.search(r"import|require|use |from ", added.text)
    )


def signature_changed(change: Change, _context: Context) -> Iterator[Found]:
    """Public functions whose callers break, or get something else."""
    for file in change.files:
        old, new = sides(file)
        if not is_library(old) or old.language is None:
            continue
        public = exports_of(old)
        was, now = _signatures(old), _signatures(new)
        for name, before in was.items():
            after = now.get(name, [])
            if not _is_public(name, public) or not after:
                continue
            gone = [each for each in before if each[1] not in [other for _, other in after]]
            came = [each for each in after if each[1] not in [other for _, other in before]]
            for (_, one), (function, other) in zip(gone, came, strict=False):
                if why := difference(
                    _spelled_out(one, old), _spelled_out(other, new), old.language.name
                ):
                    yield Found(file.path, _line(function), f"{shown(name)}: {why}.")


def _spelled_out(signature: Signature, side: Side) -> Signature:
    """A default that is a constant of the file is what stands behind its name."""
    code = side.code
    parameters = []
    for each in signature.parameters:
        named = re.fullmatch(r"[A-Z][A-Z0-9_]+", each.default or "")
        found = named and re.search(rf"(?m)^{named[0]}\b[^=\n]*=\s*([^\n]+)$", code)
        value = " ".join(found[1].replace("'", '"').split()) if found else each.default
        parameters.append(replace(each, default=value))
    return replace(signature, parameters=tuple(parameters))


def _is_public(name: str, public: dict[str, int]) -> bool:
    outer, _, last = name.rpartition(".")
    if last in ("__init__", "constructor", "initialize", "__construct", "__call__"):
        return outer in public
    return name in public


def _line(function: Function) -> int:
    return function.node.start_point[0] + 1


def _signatures(side: Side) -> dict[str, list[tuple[Function, Signature]]]:
    found: dict[str, list[tuple[Function, Signature]]] = {}
    for function in side.functions:
        signature = signature_of(function, side.language) if side.language else None
        if signature is not None and not any("overload" in mark for mark in function.marks):
            found.setdefault(function.qualified, []).append((function, signature))
    return found
