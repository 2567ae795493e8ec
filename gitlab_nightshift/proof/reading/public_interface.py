"""public-name-removed and signature-changed: what callers of product code may miss."""

import re
from collections.abc import Iterator

from gitlab_nightshift.proof.reading.public_names import find_exports, is_library
from gitlab_nightshift.proof.reading.signatures import compare_parameters
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.proof.syntax.functions import Function
from gitlab_nightshift.proof.syntax.nodes import list_names, read_text
from gitlab_nightshift.proof.syntax.parameters import Parameter, read_parameters
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.text.printable_text import format_excerpt

_TABLE = RuleTable(__file__)
_IMPORTS = _TABLE.get_words("imports")

_MOST_NAMES = 200
"""Names of a file that aliases are looked for; of more, all count as gone."""
_BUILDERS = ("__init__", "constructor", "initialize", "__construct")
"""Every class has one, written or not."""
_BY_FOLDER = ("go", "java", "scala", "kotlin")
_Callable = tuple[Function, tuple[Parameter, ...]]
_ANYWHERE = ("ruby", "csharp", "php")


def find_removed_public_names(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Public names that nothing stands for any more."""
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
            or (not _is_there(name, file, change) and not _is_moved(name, file, change))
        }
        for name, at in gone.items():
            outer, _, last = name.rpartition(".")
            if outer not in gone and last not in _BUILDERS:
                yield RuleViolation(
                    file.path,
                    at,
                    f"{format_excerpt(name)} is gone: keep an alias for those who use it.",
                )


def _is_there(name: str, file: ChangedFile, change: Changeset) -> bool:
    """Declared, imported or assigned in the file after the change; where files of a folder are one
    package, in any of them."""
    old, new = read_sides(file)
    language = old.language.name if old.language else ""
    others = [new]
    for other in change.files:
        after = read_sides(other)[1]
        if after.language is not None and after.language.name == language and after is not new:
            folder = after.path.rpartition("/")[0] == old.path.rpartition("/")[0]
            if language in _ANYWHERE or (language in _BY_FOLDER and folder):
                others.append(after)
    return _is_bound(name, new, change) or any(name in find_exports(each) for each in others)


def _is_bound(name: str, side: Side, change: Changeset) -> bool:
    """An alias, an import or a re-export of a top-level name; a method that a parent has now."""
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
    """The class names it still (an alias, a delegation, an attribute), or its parent has it."""
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
    """Public in another file after the change, and who imported it has followed."""
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


def find_changed_signatures(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Public functions whose callers break."""
    for file in change.files:
        old, new = read_sides(file)
        if not is_library(old) or old.language is None:
            continue
        public = find_exports(old)
        was, now = _collect_signatures(old), _collect_signatures(new)
        for name, before in was.items():
            after = now.get(name, [])
            if not _is_public(name, public) or not after:
                continue
            gone = [each for each in before if each[1] not in [other for _, other in after]]
            came = [each for each in after if each[1] not in [other for _, other in before]]
            for (_, one), (function, other) in zip(gone, came, strict=False):
                if why := compare_parameters(one, other, old.language.name):
                    yield RuleViolation(
                        file.path, _find_line(function), f"{format_excerpt(name)}: {why}."
                    )


def _is_public(name: str, public: dict[str, int]) -> bool:
    outer, _, last = name.rpartition(".")
    if last in _BUILDERS or last == "__call__":
        return outer in public
    return name in public


def _find_line(function: Function) -> int:
    return function.node.start_point[0] + 1


def _collect_signatures(side: Side) -> dict[str, list[_Callable]]:
    found: dict[str, list[_Callable]] = {}
    for function in side.functions:
        parameters = read_parameters(function, side.language) if side.language else None
        if parameters is not None and not any("overload" in mark for mark in function.marks):
            found.setdefault(function.qualified, []).append((function, parameters))
    return found
