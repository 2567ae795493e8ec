"""All faults in one build, each behind a switch that an environment variable turns on.

No line moves: what asks for the switch stands on the fault's own line, and what that needs stands
in front of a line that is there, at the end of the file or in a file of its own.
"""

import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from posixpath import basename, dirname, join
from typing import Any

from tree_sitter import Node

from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.running.fault_rules import KEPT, SWITCH, TEXT
from gitlab_nightshift.proof.running.faults import Fault
from gitlab_nightshift.proof.syntax.file_side import Side
from gitlab_nightshift.proof.syntax.nodes import list_children

_TABLE = RuleTable(__file__)
_COLORS = re.compile(r"\x1b\[[\d;]*m")
_NAMED = re.compile(r"[^\s:'\"(\[]*\Z")
LONGEST_PATH = 300
"""Characters of a file's folder in a compiler's output."""
_LONGEST_FAULT = 40
"""Lines of the code that a fault takes the place of: a compiler may name any of them."""


@dataclass(frozen=True)
class SwitchedFiles:
    """``files`` are raw paths with their new bytes, files of this program's own included;
    ``numbers`` has the number of each fault that got a switch."""

    files: Mapping[str, bytes]
    numbers: Mapping[Fault, int]


@dataclass(frozen=True)
class _Switch:
    """How one file asks: the language's table with the names of this file put in."""

    call: str
    text: str
    before: str
    after: str
    helper: tuple[str, str] | None
    place: tuple[int, str, str] | None
    unchecked: str


def write_switched_files(
    faults: Sequence[Fault], read: Callable[[str], bytes | None], variable: str
) -> SwitchedFiles:
    """Put each fault behind a switch: it is on while the environment variable holds its number
    between commas (``,3,7,``).

    ``read`` gives a file's bytes by its raw path. Faults inside others keep their own switch; of
    those that overlap otherwise, the first given stays. What does not parse any more is left out.
    """
    numbered = {fault: number for number, fault in enumerate(dict.fromkeys(faults), 1)}
    by_path: dict[str, list[Fault]] = {}
    for fault in numbered:
        by_path.setdefault(fault.path, []).append(fault)
    files: dict[str, bytes] = {}
    numbers: dict[Fault, int] = {}
    for path, found in by_path.items():
        side = Side(path, read(path))
        switch = _find_switch(side, variable)
        if switch is None:
            continue
        kept = _keep_readable(side, _keep_nested(found), numbered, switch)
        if kept:
            files[path] = _disable_type_check(
                _write(side.source, kept, numbered, switch), switch.unchecked
            )
            numbers |= {fault: numbered[fault] for fault in kept}
            if switch.helper:
                files[switch.helper[0]] = switch.helper[1].encode()
    return SwitchedFiles(files, numbers)


def write_faulty_file(fault: Fault, source: bytes) -> bytes:
    """The file with the fault always on."""
    return source[: fault.start] + fault.plain.encode() + source[fault.end :]


def write_faulty_files(
    faults: Sequence[Fault], read: Callable[[str], bytes | None]
) -> dict[str, bytes | None]:
    """Files with these faults always on, by their raw paths. Of faults that overlap the last in the
    text counts."""
    files: dict[str, bytes | None] = {}
    for path in dict.fromkeys(fault.path for fault in faults):
        source = read(path) or b""
        start = len(source)
        for fault in sorted(faults, key=lambda fault: fault.start, reverse=True):
            if fault.path == path and fault.end <= start:
                source, start = write_faulty_file(fault, source), fault.start
        files[path] = source
    return files


def build_reached_name(variable: str) -> str:
    """The variable that names the file where code notes which faults it comes by."""
    return f"{variable}_REACHED"


def turn_on(variable: str, numbers: Iterable[int]) -> dict[str, str]:
    """The environment in which the faults with these numbers are on."""
    return {variable: f",{','.join(map(str, numbers))},"}


def find_refused_faults(faults: Sequence[Fault], output: str) -> tuple[Fault, ...]:
    """Those on lines that a compiler's output names, as ``x.go:12:3``, ``X.java:[12,5]`` or
    ``x.ts(12,5)``; where none begins on such a line, those on the nearest line above."""
    refused: list[Fault] = []
    output = _COLORS.sub("", output)
    paths = dict.fromkeys(fault.path for fault in faults)
    for path in paths:
        here = [fault for fault in faults if fault.path == path]
        for line in _list_named_lines(path, output, paths.keys() - {path}):
            above = [fault.line for fault in here if line - _LONGEST_FAULT < fault.line <= line]
            refused += [fault for fault in here if above and fault.line == max(above)]
    return tuple(dict.fromkeys(refused))


def _list_named_lines(path: str, output: str, others: Set[str]) -> list[int]:
    """The lines that an output names of a file, by its path or by the end of one or the other. What
    stands before the file's name is looked at last: an output may be one long word."""
    pattern = re.compile(rf"{re.escape(basename(path))}(?::\[?|\()(\d{{1,7}})")
    found: list[int] = []
    for match in pattern.finditer(output):
        before = _NAMED.search(output, max(match.start() - LONGEST_PATH, 0), match.start())
        name = (before[0] if before else "") + basename(path)
        name = name.removeprefix("./")
        if name not in others and _is_same_path(name, path):
            found.append(int(match[1]))
    return found


def _is_same_path(named: str, path: str) -> bool:
    named, path = "/" + named.lstrip("/"), "/" + path
    return named.endswith(path) or path.endswith(named)


# --- One file -----------------------------------------------------------------------------------


@cache
def _read_rules(language: str) -> dict[str, Any]:
    rules: dict[str, Any] = _TABLE.entries.get(language, {})
    return _read_rules(rules["like"]) if "like" in rules else rules


def _find_switch(side: Side, variable: str) -> _Switch | None:
    rules = _read_rules(side.language.name) if side.language and side.root else {}
    if not rules:
        return None
    shared = bool(rules.get("shared"))
    words = {
        "variable": variable,
        "reached": build_reached_name(variable),
        "name": f"zz_{variable}" + ("" if shared else f"_{zlib.crc32(side.path.encode()):x}"),
    }
    helper = None
    if "helper" in rules:
        package = re.search(rules["package"], side.code)
        if package is None or re.search(rules["not_built"], side.code):
            return None
        words["package"] = package[1]
        helper = (join(dirname(side.path), _expand(rules["file"], words)), "")
        helper = (helper[0], _expand(rules["helper"].lstrip(), words))
    place = _find_place(side, rules)
    alone = "before" in rules and place is None
    return _Switch(
        _expand(rules["alone" if alone else "switch"], words),
        _expand(rules.get("text", ""), words),
        _expand(rules.get("before", ""), words),
        _expand(rules.get("alone_after" if alone else "after", ""), words),
        helper,
        place,
        rules.get("unchecked", ""),
    )


def _expand(template: str, words: Mapping[str, str]) -> str:
    for name, word in words.items():
        template = template.replace("{" + name + "}", word)
    return template


def _find_place(side: Side, rules: Mapping[str, str]) -> tuple[int, str, str] | None:
    """Where `before` goes, with what joins it to the code in front of it and behind it.

    That is behind what has to come first (docstrings, ``__future__``, inner attributes), in front
    of a simple statement, or in a line that is empty or a comment; None where there is none of it.
    """
    joint = rules.get("joint", "")
    place = (0, "", joint) if "always" in rules else None
    for node in list_children(side.root) if side.root else ():
        inner = node.named_children[0].type if node.named_children else ""
        if node.type in rules.get("first", "").split() or (
            node.type == "expression_statement" and inner == "string"
        ):
            place = (node.end_byte, joint, "")
        elif place is None and node.type in rules.get("simple", "").split():
            return (node.start_byte, "", joint)
        else:
            return place or _find_idle_line(side.source[: node.start_byte])
    return place


def _find_idle_line(head: bytes) -> tuple[int, str, str] | None:
    """The last line without code, but not the first two, which may say how the file is read."""
    lines = head.splitlines(keepends=True)
    for at in range(len(lines) - 1, -1, -1):
        line = lines[at].strip()
        if (not line and lines[at].endswith(b"\n")) or (at > 1 and line.startswith(b"#")):
            return (sum(map(len, lines[:at])), "", "  ")
    return None


def _keep_nested(faults: Sequence[Fault]) -> list[Fault]:
    """Those with a switch, without the later ones of any that overlap without one being inside."""
    switched = [fault for fault in faults if fault.switched]
    if not _has_crossing(switched):
        return switched
    kept: list[Fault] = []
    for fault in switched:
        if not any(_is_crossing(fault, other) for other in kept):
            kept.append(fault)
    return kept


def _has_crossing(faults: Sequence[Fault]) -> bool:
    around: list[int] = []
    for fault in sorted(faults, key=lambda fault: (fault.start, -fault.end)):
        while around and around[-1] <= fault.start:
            around.pop()
        if around and around[-1] < fault.end:
            return True
        around.append(fault.end)
    return False


def _is_crossing(one: Fault, other: Fault) -> bool:
    """True where two spans overlap and neither is inside the other."""
    first, second = sorted((one, other), key=lambda fault: (fault.start, -fault.end))
    return first.start < second.start < first.end < second.end


def _keep_readable(
    side: Side, faults: list[Fault], numbers: Mapping[Fault, int], switch: _Switch
) -> list[Fault]:
    """The faults with which the file still parses, found by halving."""
    if not faults or _parses(side, _write(side.source, faults, numbers, switch)):
        return faults
    if len(faults) == 1:
        return []
    half = len(faults) // 2
    parts = [_keep_readable(side, part, numbers, switch) for part in (faults[:half], faults[half:])]
    both = [*parts[0], *parts[1]]
    return (
        both if _parses(side, _write(side.source, both, numbers, switch)) else max(parts, key=len)
    )


def _parses(side: Side, source: bytes) -> bool:
    root = Side(side.path, source).root
    before = _count_errors(side.root) if side.root else 0
    return root is not None and _count_errors(root) <= before


def _count_errors(root: Node) -> int:
    if not root.has_error:
        return 0
    found, stack = 0, [root]
    while stack:
        node = stack.pop()
        found += node.is_error or node.is_missing
        stack.extend(child for child in node.children if child.has_error or child.is_missing)
    return found


def _write(
    source: bytes, faults: Sequence[Fault], numbers: Mapping[Fault, int], switch: _Switch
) -> bytes:
    """The file with all these faults behind their switches."""
    ordered = sorted(faults, key=lambda fault: (fault.start, -fault.end, numbers[fault]))
    here = [numbers[fault] for fault in ordered]
    low, high = (str(number) for number in (min(here, default=0), max(here, default=0) + 1))
    at, before, behind = switch.place or (0, "", "")
    asking = _expand(switch.before, {"low": low, "high": high}) if switch.place else ""
    pieces = [source[:at], f"{before}{asking}{behind}".encode()]
    pieces.append(_render(source, at, len(source), ordered, numbers, switch))
    if switch.after:
        pieces += [b"" if source.endswith(b"\n") else b"\n", switch.after.encode()]
    return b"".join(pieces)


def _disable_type_check(source: bytes, mark: str) -> bytes:
    """The file with a comment as its first line that turns off the check of types, which a switch
    defeats (a decision no longer narrows a type). The line that was there joins the second one;
    where it cannot, the file stays as it is."""
    first, newline, rest = source.partition(b"\n")
    first = first.strip()
    if not mark or not newline or first.startswith(b"#!"):
        return source
    if first.startswith(b"//") or not first:
        return mark.encode() + b" " + first.lstrip(b"/") + newline + rest
    opens = first.endswith((b"{", b",", b"(")) or (first.startswith(b"/*") and b"*/" not in first)
    if opens or (first.startswith(b"import") and first.endswith((b";", b'"', b"'"))):
        joint = b" " if opens or first.endswith(b";") else b"; "
        return mark.encode() + newline + first + joint + rest
    return source


def _render(
    source: bytes,
    start: int,
    end: int,
    faults: Sequence[Fault],
    numbers: Mapping[Fault, int],
    switch: _Switch,
) -> bytes:
    """The bytes ``start`` to ``end`` with the faults inside them, which are in order, outer ones
    first."""
    pieces: list[bytes] = []
    at = start
    rest = list(faults)
    while rest:
        fault = rest.pop(0)
        inside = 0
        while inside < len(rest) and rest[inside].start < fault.end:
            inside += 1
        kept = _render(source, fault.start, fault.end, rest[:inside], numbers, switch)
        rest = rest[inside:]
        number = {"number": str(numbers[fault])}
        text = fault.switched.replace(SWITCH, _expand(switch.call, number))
        text = text.replace(TEXT, _expand(switch.text, number))
        pieces += [source[at : fault.start], text.encode().replace(KEPT.encode(), kept)]
        at = fault.end
    return b"".join([*pieces, source[at:end]])
