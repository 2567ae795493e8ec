"""Faults by the syntax tree, in every language with the same operators."""

import re

from gitlab_nightshift.verdict.evidence import control_run
from gitlab_nightshift.verdict.evidence.mutants import build_mutants
from gitlab_nightshift.verdict.syntax.file_side import Side
from tests.support.tables import each

SOURCES = {
    "a.py": "def f(x):\n    return x * 2 if x > 3 and x != 4 else x - 1\n",
    "a.js": "function f(x) { return x > 3 && x !== 4 ? x * 2 : x - 1; }\n",
    "a.ts": "const f = (x: number): number => { return x > 3 && x !== 4 ? x * 2 : x - 1; };\n",
    "a.go": "package a\nfunc f(x int) int { if x > 3 && x != 4 { return x * 2 }; return x - 1 }\n",
    "A.java": "class A { int f(int x) { return x > 3 && x != 4 ? x * 2 : x - 1; } }\n",
    "a.rb": "def f(x)\n  x > 3 && x != 4 ? x * 2 : x - 1\nend\n",
    "a.rs": "fn f(x: i32) -> i32 { if x > 3 && x != 4 { x * 2 } else { x - 1 } }\n",
    "A.scala": "object A { def f(x: Int): Int = if (x > 3 && x != 4) x * 2 else x - 1 }\n",
    "A.kt": "fun f(x: Int): Int { return if (x > 3 && x != 4) x * 2 else x - 1 }\n",
    "a.php": "<?php function f($x) { return $x > 3 && $x !== 4 ? $x * 2 : $x - 1; }\n",
    "A.cs": "class A { int F(int x) { return x > 3 && x != 4 ? x * 2 : x - 1; } }\n",
}


def made(path: str, source: str, most: int = 99) -> list[tuple[int, str]]:
    side = Side(path, source.encode())
    functions = [each for each in side.functions if not each.is_class]
    found = build_mutants(side, functions, frozenset(), most)
    assert all(mutant.data != side.source for mutant in found)
    return [(mutant.line, mutant.what) for mutant in found]


@each("path", SOURCES)
def test_operators(path: str) -> None:
    found = {what for _, what in made(path, SOURCES[path])}
    assert {"`>` as `<=`", "`>` as `>=`"} <= found
    assert "`*` as `/`" in found
    assert "`-` as `+`" in found
    assert found & {"`&&` as `||`", "`and` as `or`"}


def test_a_fault_is_in_its_place_alone() -> None:
    side = Side("a.py", b"def f(x):\n    return x > 1\n\n\ndef g(x):\n    return x > 2\n")
    found = build_mutants(side, side.functions, frozenset(), 2)
    assert [mutant.line for mutant in found] == [2, 6], "spread over the functions"
    assert found[0].data == side.source.replace(b"x > 1", b"None")
    assert found[1].data == side.source.replace(b"x > 2", b"None")


def control_of(path: str, source: str) -> Side:
    side = Side(path, source.encode())
    spans = [mutant.span for mutant in build_mutants(side, side.functions, frozenset(), 99)]
    return Side(path, control_run._rewrite_file(side, spans))


@each("path", SOURCES)
def test_the_control_is_the_same_code(path: str) -> None:
    """The syntax tree without comments has at most one statement more, in no other line."""
    side, other = Side(path, SOURCES[path].encode()), control_of(path, SOURCES[path])
    assert other.source != side.source
    assert other.root is not None
    assert other.root.has_error is False
    idle = side.language.idle if side.language else ""
    assert idle.strip() in other.source.decode()
    plain = Side(path, other.source.replace(idle.encode(), b""))
    shapes = [re.sub(r" ?\((block_|multiline_)?comment\)", "", str(s.root)) for s in (side, plain)]
    assert shapes[0] == shapes[1]
    assert other.source.count(b"\n") == side.source.count(b"\n")


@each(
    ("path", "source", "control"),
    [
        ("a.py", "def f(x):\n    'd'\n    if x > 1:\n        {}y = 1\n    return 2\n", None),
        ("a.py", "def f(x): {}return x > 1\n", None),
        ("a.rb", "def f(x) = x > 1\n", ""),
        ("a.js", "function f(x) { 'use strict'; return x > 1; }\n", ""),
        ("a.js", "const f = (x) => x > 1;\n", ""),
        ("A.java", "class A { boolean b; A(int x) { this(x > 1); } A(boolean b) {} }\n", ""),
        ("A.java", "interface A { boolean f(int x); }\n", ""),
        ("a.rs", "fn f(x: i32) -> bool { #![allow(x)] x > 1 }\n", ""),
    ],
)
def test_a_statement_is_put_only_where_one_may_stand(
    path: str, source: str, control: str | None
) -> None:
    idle = "_unused_0 = 0; " if control is None else control
    other = control_of(path, source.replace("{}", "") if control is None else source)
    text = re.sub(r" *#.*|/\*.*?\*/ *", "", other.source.decode())
    if control is None:
        assert re.sub(r"\s+", "", text) == re.sub(r"\s+", "", source.format(idle))
    else:
        assert "unused" not in text
        assert "void" not in text


def test_lines_of_the_change_come_first() -> None:
    side = Side("a.py", b"def f(x):\n    y = x + 1\n    z = y + 2\n    return z > 1\n")
    found = build_mutants(side, side.functions, frozenset({3}), 3)
    assert found[0].line == 3


def test_what_would_not_compile_is_left_out() -> None:
    source = 'package a\nfunc f(x string) string { return x + "a" }\n'
    assert made("a.go", source) == [(2, "`~` at the end of a text")]


def test_a_docstring_is_no_code() -> None:
    source = 'def f():\n    """Say it."""\n    return "it"\n'
    assert made("a.py", source) == [(3, '`"it"` as `None`'), (3, "`~` at the end of a text")]
