"""Puts all faults into one build, each behind a switch that an environment variable turns on.

Line numbers stay the same: a switch is checked on the line of its fault, and helper code goes in
front of an existing line, to the end of the file, or into a new file.
"""

import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from posixpath import basename, dirname, join
from typing import Any

from tree_sitter import Node

from gitlab_nightshift.proof.running.faults import KEPT, SWITCH, TEXT, Fault
from gitlab_nightshift.proof.syntax.file_side import Side
from gitlab_nightshift.proof.syntax.languages import read_language_table
from gitlab_nightshift.proof.syntax.nodes import list_children

_KEYS = ("switch", "text", "before", "after")
_COLORS = re.compile(r"\x1b\[[\d;]*m")
_PATH_END = re.compile(r"[^\s:'\"(\[]*\Z")
LONGEST_PATH = 300  # characters of a file's folder in a compiler's output
_MOST_LINES = 40  # lines of the code that a fault replaces; a compiler may name any of them


@dataclass(frozen=True)
class SwitchedFiles:
    """Files with switches: ``files`` are new bytes by raw path, new helper files included;
    ``numbers`` are the numbers of the faults that got a switch."""

    files: Mapping[str, bytes]
    numbers: Mapping[Fault, int]


@dataclass(frozen=True)
class _Switch:
    """How a file checks switches: the table of its language (``languages/README.md``), filled in.

    ``call`` and ``text`` are the expressions for SWITCH and TEXT. ``before`` is helper code for the
    ``place``: an offset in the file, and the joints in front of the code and behind it. ``after``
    is helper code for the end of the file, ``helper`` the path and text of a new file.
    ``unchecked`` is a comment that turns off type checking, or "".
    """

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
    """Put each fault behind a switch, which is on while the environment variable has its number
    between commas (``,3,7,``).

    ``read`` returns the bytes of a file by its raw path. A fault inside another one has a switch of
    its own; of two that overlap otherwise, only the first is written. Faults that break the syntax
    are left out.
    """
    numbers = {fault: number for number, fault in enumerate(dict.fromkeys(faults), 1)}
    by_path: dict[str, list[Fault]] = {}
    for fault in numbers:
        by_path.setdefault(fault.path, []).append(fault)
    files: dict[str, bytes] = {}
    written: dict[Fault, int] = {}
    for path, in_file in by_path.items():
        side = Side(path, read(path))
        switch = _find_switch(side, variable)
        if switch is None:
            continue
        if kept := _keep_readable(side, _keep_nested(in_file), numbers, switch):
            source = _write_switches(side.source, kept, numbers, switch)
            files[path] = _disable_type_check(source, switch.unchecked)
            written |= {fault: numbers[fault] for fault in kept}
            if switch.helper:
                files[switch.helper[0]] = switch.helper[1].encode()
    return SwitchedFiles(files, written)


def write_faulty_file(fault: Fault, source: bytes) -> bytes:
    """The file with the fault permanently on."""
    return source[: fault.start] + fault.code_without_switch.encode() + source[fault.end :]


def write_faulty_files(
    faults: Sequence[Fault], read: Callable[[str], bytes | None]
) -> dict[str, bytes | None]:
    """The bytes of files, by raw path, with these faults permanently on. Of faults that overlap,
    the last one in the file is used."""
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
    """The name of the variable with the path to which code writes the faults that it reaches."""
    return f"{variable}_REACHED"


def turn_on(variable: str, numbers: Iterable[int]) -> dict[str, str]:
    """The environment that turns these faults on."""
    return {variable: f",{','.join(map(str, numbers))},"}


def find_refused_faults(faults: Sequence[Fault], output: str) -> tuple[Fault, ...]:
    """The faults on lines that a compiler's output names, such as ``x.go:12:3``, ``X.java:[12,5]``
    or ``x.ts(12,5)``; or else those on the nearest line above."""
    refused: list[Fault] = []
    output = _COLORS.sub("", output)
    paths = dict.fromkeys(fault.path for fault in faults)
    for path in paths:
        in_file = [fault for fault in faults if fault.path == path]
        for line in _list_named_lines(path, output, paths.keys() - {path}):
            above = [fault.line for fault in in_file if line - _MOST_LINES < fault.line <= line]
            refused += [fault for fault in in_file if above and fault.line == max(above)]
    return tuple(dict.fromkeys(refused))


def _list_named_lines(path: str, output: str, others: Set[str]) -> list[int]:
    """The numbers of a file's lines that an output names. The path in the output may be a suffix of
    the file's, or the other way round."""
    # Search for the plain name first, then match backwards: an output may be one long word.
    pattern = re.compile(rf"{re.escape(basename(path))}(?::\[?|\()(\d{{1,7}})")
    numbers: list[int] = []
    for match in pattern.finditer(output):
        folder = _PATH_END.search(output, max(match.start() - LONGEST_PATH, 0), match.start())
        name = (folder[0] if folder else "") + basename(path)
        name = name.removeprefix("./")
        printed, expected = "/" + name.lstrip("/"), "/" + path
        if name not in others and (printed.endswith(expected) or expected.endswith(printed)):
            numbers.append(int(match[1]))
    return numbers


# --- one file -------------------------------------------------------------------------------------


def _find_switch(side: Side, variable: str) -> _Switch | None:
    table = read_language_table(side.language.name, "switches") if side.language else {}
    if not table or side.root is None:
        return None
    # A name for each file: those of a package, or of a bundle, may share one scope.
    suffix = "" if table.get("shared") else f"_{zlib.crc32(side.path.encode()):x}"
    words = {"variable": variable, "name": f"zz_{variable}{suffix}"}
    words["reached"] = build_reached_name(variable)
    helper = None
    if "helper" in table:
        package = re.search(table["package"], side.code)
        if package is None or re.search(table["not_built"], side.code):
            return None
        words["package"] = package[1]
        path, code = (_expand(table[key].lstrip(), words) for key in ("file", "helper"))
        helper = (join(dirname(side.path), path), code)
    place = _find_place(side, table)
    alone = "before" in table and place is None
    keys = ("alone", "text", "before", "alone_after") if alone else _KEYS
    call, text, before, after = (_expand(table.get(key, ""), words) for key in keys)
    return _Switch(call, text, before, after, helper, place, table.get("unchecked", ""))


def _expand(template: str, words: Mapping[str, str]) -> str:
    for name, word in words.items():
        template = template.replace("{" + name + "}", word)
    return template


def _find_place(side: Side, table: Mapping[str, Any]) -> tuple[int, str, str] | None:
    """The place for ``before``: its offset, and the texts that join it to the code on both sides.

    It is after the code that must come first (docstrings, ``__future__``, inner attributes), in
    front of a simple statement, or on an empty line or a comment. None if there is no such place.
    """
    joint = table.get("joint", "")
    place = (0, "", joint) if "always" in table else None
    for node in list_children(side.root) if side.root else ():
        inner = node.named_children[0].type if node.named_children else ""
        if node.type in table.get("first", "").split() or (
            node.type == "expression_statement" and inner == "string"
        ):
            place = (node.end_byte, joint, "")
        elif place is None and node.type in table.get("simple", "").split():
            return (node.start_byte, "", joint)
        else:
            return place or _find_idle_line(side.source[: node.start_byte])
    return place


def _find_idle_line(head: bytes) -> tuple[int, str, str] | None:
    """The start of the last line without code. Comments on the first two lines do not count: they
    may declare the encoding (PEP 263), or the program of a script."""
    lines = head.splitlines(keepends=True)
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index].strip()
        if (not line and lines[index].endswith(b"\n")) or (index > 1 and line.startswith(b"#")):
            return (sum(map(len, lines[:index])), "", "  ")
    return None


def _keep_nested(faults: Sequence[Fault]) -> list[Fault]:
    """The faults with a switch; of two that overlap without nesting, only the first."""
    switched = [fault for fault in faults if fault.code_with_switch]
    if not _has_crossing(switched):
        return switched
    kept: list[Fault] = []
    for fault in switched:
        if not any(_is_crossing(fault, other) for other in kept):
            kept.append(fault)
    return kept


def _has_crossing(faults: Sequence[Fault]) -> bool:
    """True if two of the faults overlap without nesting. One pass over the sorted spans: comparing
    each of hundreds with each would take long."""
    ends: list[int] = []  # of the spans around the current one
    for fault in sorted(faults, key=lambda fault: (fault.start, -fault.end)):
        while ends and ends[-1] <= fault.start:
            ends.pop()
        if ends and ends[-1] < fault.end:
            return True
        ends.append(fault.end)
    return False


def _is_crossing(one: Fault, other: Fault) -> bool:
    """True if two spans overlap, and neither contains the other."""
    first, second = sorted((one, other), key=lambda fault: (fault.start, -fault.end))
    return first.start < second.start < first.end < second.end


def _keep_readable(
    side: Side, faults: list[Fault], numbers: Mapping[Fault, int], switch: _Switch
) -> list[Fault]:
    """The faults with which the file still parses, found by bisection."""
    if not faults or _still_parses(side, _write_switches(side.source, faults, numbers, switch)):
        return faults
    if len(faults) == 1:
        return []
    middle = len(faults) // 2
    halves = (faults[:middle], faults[middle:])
    first, second = (_keep_readable(side, half, numbers, switch) for half in halves)
    both = [*first, *second]
    together = _still_parses(side, _write_switches(side.source, both, numbers, switch))
    return both if together else max(first, second, key=len)


def _still_parses(side: Side, source: bytes) -> bool:
    root = Side(side.path, source).root
    before = _count_errors(side.root) if side.root else 0
    return root is not None and _count_errors(root) <= before


def _count_errors(root: Node) -> int:
    if not root.has_error:
        return 0
    # Only branches with errors: visiting every node takes longer than parsing the file.
    count, stack = 0, [root]
    while stack:
        node = stack.pop()
        if node.is_error or node.is_missing:
            count += 1
        stack.extend(child for child in node.children if child.has_error or child.is_missing)
    return count


def _write_switches(
    source: bytes, faults: Sequence[Fault], numbers: Mapping[Fault, int], switch: _Switch
) -> bytes:
    """The file with all these faults behind their switches."""
    ordered = sorted(faults, key=lambda fault: (fault.start, -fault.end, numbers[fault]))
    in_file = [numbers[fault] for fault in ordered]
    low, high = min(in_file, default=0), max(in_file, default=0) + 1
    offset, joint_before, joint_after = switch.place or (0, "", "")
    bounds = {"low": str(low), "high": str(high)}
    helper = _expand(switch.before, bounds) if switch.place else ""
    pieces = [source[:offset], f"{joint_before}{helper}{joint_after}".encode()]
    pieces.append(_render(source, offset, len(source), ordered, numbers, switch))
    if switch.after:
        pieces += [b"" if source.endswith(b"\n") else b"\n", switch.after.encode()]
    return b"".join(pieces)


def _disable_type_check(source: bytes, mark: str) -> bytes:
    """Make the first line a comment that turns off type checking (``mark``), as a condition with a
    switch no longer narrows a type. The old first line goes in front of the second one; if it
    cannot, nothing changes."""
    # TypeScript obeys the comment only above all code (release notes of 3.7, "@ts-nocheck").
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
    """The bytes ``start`` to ``end`` of the source, with the faults in them behind their switches.
    Faults are sorted by their start, an outer one before those inside it."""
    pieces: list[bytes] = []
    position = start
    remaining = list(faults)
    while remaining:
        fault = remaining.pop(0)
        inner = [other for other in remaining if other.start < fault.end]
        kept = _render(source, fault.start, fault.end, inner, numbers, switch)
        remaining = remaining[len(inner) :]
        number = {"number": str(numbers[fault])}
        text = fault.code_with_switch.replace(SWITCH, _expand(switch.call, number))
        text = text.replace(TEXT, _expand(switch.text, number))
        pieces += [source[position : fault.start], text.encode().replace(KEPT.encode(), kept)]
        position = fault.end
    return b"".join([*pieces, source[position:end]])
