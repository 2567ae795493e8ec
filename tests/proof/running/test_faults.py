import pytest

from gitlab_nightshift.proof.running.fault_kinds import list_faults
from gitlab_nightshift.proof.running.faults import Fault, move_fault
from gitlab_nightshift.proof.running.switches import write_faulty_file, write_switched_files
from gitlab_nightshift.proof.syntax.file_side import Side


def _list(path: str, code: str) -> list[Fault]:
    side = Side(path, code.encode())
    assert side.root is not None
    assert not side.root.has_error, "the sample itself is wrong"
    return list_faults(side, side.functions)


def _list_lines(path: str, code: str) -> dict[str, str]:
    """What each fault is, and the line that it makes of its own."""
    found = {}
    for fault in _list(path, code):
        faulty = write_faulty_file(fault, code.encode()).decode().split("\n")
        found[fault.what] = faulty[fault.line - 1].strip()
    return found


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("a.py", 'def f(x):\n    raise ValueError("no " + str(3) if x else "y")'),
        ("a.py", 'def f(x):\n    log.info("x is %d", 3)'),
        ("a.py", 'def f(x):\n    self.logger.debug("x is %d", x > 3)'),
        ("a.py", 'def f(x):\n    print("x", 3)'),
        ("a.py", 'def f(x):\n    warnings.warn("old", stacklevel=2)'),
        ("a.py", 'def f(x):\n    message = "a" + "b"'),
        ("a.py", 'def f(x):\n    """Doc of 3."""'),
        ("a.py", 'def f(x):\n    from a import b'),
        ("a.py", 'def f(x=3, *, y="a" == "b"):\n    pass'),
        ("a.py", "@retry(3, x > 4)\ndef f(x) -> Literal['a']:\n    pass"),
        ("a.py", "LIMIT = 3\nif LIMIT > 4:\n    add(5)"),
        ("a.py", "class A:\n    limit = 3\n    low = limit > 4"),
        ("a.py", "def f(x):\n    while x > 3:\n        x += 1"),
        ("a.py", "def f(x):\n    if False:\n        return 3"),
        ("a.py", "def f(x):\n    if TYPE_CHECKING:\n        x.append(3)"),
        ("a.py", "def f(x):\n    return\n    x.append(3)"),
        ("a.py", "def f(x):\n    assert x > 3, 'three'"),
        ("a.py", "def f(x):\n    lock.acquire()\n    time.sleep(3)"),
        ("a.py", "def f(x):\n    super().__init__(x)"),
        ("a.py", "def f(x):\n    return None"),
        ("a.py", 'class E:\n    def __repr__(self):\n        return "E" + str(3)'),
        ("test_a.py", "def helper(x):\n    return x > 3"),
        ("tests/helpers.py", "def helper(x):\n    return x > 3"),
        ("a.js", "function f(x) { 'use strict'; console.error('x', 3); }"),
        ("a.js", "function f(x) { x.own = { configurable: true, writable: x > 3 }; }"),
        ("a.js", "function f(x) { throw new TypeError('x' + 3); }"),
        ("a.js", "function f(x) { for (let i = 0; i < 3; i++) { } do { } while (x > 3) }"),
        ("a.js", "const f = (x = 3) => { require('x'); };"),
        ("a.js", "const limit = 3; if (limit > 2) add(5);"),
        ("a.ts", "function f(x: 'a' | 3): asserts x is 'a' { const y: 'b' = z as 'b'; }"),
        ("a.test.ts", "function f(x) { return x > 3 }"),
        ("a.go", 'package a\nfunc f() { panic("x" + g(3)); log.Printf("a", 3 > 4) }'),
        ("a.go", "package a\nfunc f() { for x < 3 { }; const y = 3 > 4; return }"),
        ("a.go", "package a\nfunc f() { mu.Lock(); wg.Wait(); go g(3 > 4); defer g(true) }"),
        ("a.go", 'package a\nfunc (e *E) Error() string { return e.name + "x" }'),
        ("a.go", "package a\nvar limit = 3 > 4"),
        ("a_test.go", "package a\nfunc help(x int) bool { return x > 3 }"),
        ("src/a.rs", "const fn f(x: u8) -> bool { x > 3 }"),
        ("src/a.rs", 'fn f() { panic!("x {}", 3 > 4); const A: u8 = 3; }'),
        ("src/a.rs", "fn f(x: *const u8) { unsafe { g(3 > 4); } }"),
        ("src/a.rs", "#[cfg(test)]\nmod tests { fn f(x: u8) -> bool { x > 3 } }"),
        ("src/a.rs", "#[test]\nfn f() { let x = 3 > 4; }"),
        ("src/a.rs", 'fn f() -> Result<u8, String> { Err("no".into()) }'),
        ("src/a.rs", "fn f(x: u8) { match x { 3 => {} _ => {} } }"),
        ("src/A.java", 'class A { void f() { throw new Bad("x" + 3); } }'),
        ("src/A.java", "class A { @B(3) void f() { final int x = 3; } static int y = 4; }"),
        ("src/A.java", "class A { void f() { switch (x) { case 3: break; } } }"),
        ("lib/a.rb", "def f\n  raise E, \"x\" if false\n  puts 3 > 4\nend"),
        ("lib/a.rb", "LIMIT = 3\nrequire \"x\""),
        ("a.php", "<?php function f() { throw new E('x' . 3); echo 3 > 4; }"),
    ],
)  # fmt: skip
def test_nothing_is_planted_where_no_test_could_tell(path: str, code: str) -> None:
    assert _list(path, code) == []


def test_python_has_all_kinds() -> None:
    code = (
        "def f(x) -> list[str]:\n"
        "    if x > 3:\n"
        "        total += 2\n"
        '    names.append("a")\n'
        "    return g(x)\n"
    )
    assert _list_lines("a.py", code) == {
        "`x > 3` negated": "if ((not (x > 3)) is (not not (True))):",
        "`3` off by one": "if x > (4 if (True) else 3):",
        "`total += 2` left out": "if not (True): total += 2",
        "`2` off by one": "total += (3 if (True) else 2)",
        '`names.append("a")` left out': 'None if (True) else (names.append("a"))',
        '`"a"` with "~" at its end': 'names.append(("a~" if (True) else "a"))',
        "`g(x)` returned as another value": "return [] if (True) else (g(x))",
    }


def test_go_returns_zero_values_of_the_declared_types() -> None:
    code = (
        "package a\n"
        "func f() (n, m int, b []string, err error) {\n"
        "\treturn 1, x, nil, nil\n"
        "}\n"
        "func g() *T { return h(func() (bool, error) { return y, nil }) }\n"
    )
    assert _list_lines("a.go", code) == {
        "`return 1, x, nil, nil` returned as zero values": (
            "if true { return *new(int), *new(int), *new([]string), *new(error) };"
            " return 1, x, nil, nil"
        ),
        "`return h(func() (bool, error) { return y, nil })` returned as zero values": (
            "func g() *T { if true { return *new(*T) };"
            " return h(func() (bool, error) { return y, nil }) }"
        ),
        "`return y, nil` returned as zero values": (
            "func g() *T { return h(func() (bool, error) {"
            " if true { return *new(bool), *new(error) }; return y, nil }) }"
        ),
    }


def test_an_error_with_a_text_for_people_is_returned_as_none_and_keeps_the_text() -> None:
    code = 'package a\nfunc f() (int, error) { return 0, fmt.Errorf("x %d", 3) }\n'
    (fault,) = _list("a.go", code)
    assert fault.what.endswith("returned as zero values")


@pytest.mark.parametrize(
    ("path", "code", "by_value"),
    [
        ("a.py", "def f(x): return g(x)", False),
        ("a.py", "def f(x) -> int: return g(x)", True),
        ("a.py", "def f(x): return [g(x)]", True),
        ("a.js", "function f(x) { return g(x) }", False),
        ("a.ts", "function f(x): string { return g(x) }", True),
        ("a.go", "package a\nfunc f() *T { return g() }", False),
        ("a.go", "package a\nfunc f() string { return g() }", True),
        ("src/A.java", "class A { T f() { return g(); } }", False),
        ("src/A.java", "class A { int f() { return g(); } }", True),
        ("a.py", "def f(x): g(x)", False),
        ("a.py", "def f(x): a.append(x)", True),
        ("a.py", "def f(x):\n    x += y", True),
        ("a.py", "def f(x): y = a if x is None else b", False),
        ("a.py", "def f(x): y = a if x > z else b", True),
        ("a.py", "def f(x): x[3]", False),
        ("a.py", "def f(x):\n    if x: raise E", False),
    ],
)
def test_what_is_likely_to_end_in_an_exception_is_told(
    path: str, code: str, by_value: bool
) -> None:
    assert [fault.by_value for fault in _list(path, code)] == [by_value]


def test_code_that_looks_like_a_template_is_kept() -> None:
    code = 'def f(next, switch):\n    return f"{next} {kept}" + g("{switch}")\n'
    lines = [write_faulty_file(each, code.encode()).decode() for each in _list("a.py", code)]
    assert [line.count("{next} {kept}") for line in lines] == [1, 1, 1]
    assert [line.count("{switch}") for line in lines] == [1, 1, 2]  # once as another text


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("setup.py", "def f(x): return x > 3"),
        ("a/noxfile.py", "def f(x): return x > 3"),
        ("vite.config.ts", "function f(x) { return x > 3 }"),
        ("build.rs", "fn main() { let x = y > 3; }"),
    ],
)
def test_files_that_build_or_set_up_have_no_faults(path: str, code: str) -> None:
    assert _list(path, code) == []
    assert _list("lib/a." + path.rsplit(".", 1)[1], code)


@pytest.mark.parametrize(
    ("path", "code", "without_switch"),
    [
        ("a.py", "def f(x):\n    if x > 3:\n        {}", "if not (True): {}"),
        ("a.js", "function f(x) {{ if (x > 3) {{ {} }} }}", "{{ if (!(true)) {{ {} }} }}"),
        ("a.ts", "function f(x) {{ if (x > 3) {{ {} }} }}", "{{ if (!(true)) {{ {} }} }}"),
        (
            "src/A.java",
            "class A {{ void f(int x) {{ if (x > 3) {{ {} }} }} }}",
            "{{ if (!(true)) {{ {} }} }}",
        ),
        (
            "src/A.cs",
            "class A {{ void F(int x) {{ if (x > 3) {{ {} }} }} }}",
            "{{ if (!(true)) {{ {} }} }}",
        ),
    ],
)
def test_an_exception_that_a_branch_raises_is_left_out(
    path: str, code: str, without_switch: str
) -> None:
    raises = 'raise E("no 3")' if path.endswith(".py") else 'throw new E("no 3");'
    found = [fault for fault in _list(path, code.format(raises)) if "left out" in fault.what]
    assert [(fault.code_without_switch, fault.by_value) for fault in found] == [
        (without_switch.format(raises), True)
    ]


def test_a_loop_that_ends_by_a_condition_keeps_its_steps() -> None:
    code = "def f(x):\n    while x:\n        x -= 1\n        y = 3\n        if x > z: break\n"
    assert _list("a.py", code) == []


def test_faults_name_line_and_function_in_the_order_of_the_text() -> None:
    code = "class A:\n    def f(self):\n        return x > y\n\ndef g():\n    a.add(y)\n"
    assert [(fault.line, fault.function) for fault in _list("a.py", code)] == [(3, "A.f"), (6, "g")]


def test_only_the_given_functions_get_faults() -> None:
    side = Side("a.py", b"def f(x):\n    return x > y\n\ndef g(x):\n    return x > y\n")
    assert [each.function for each in list_faults(side, side.functions[1:])] == ["g"]


def test_code_in_another_encoding_than_utf8_is_left_alone() -> None:
    side = Side("a.py", b"# coding: latin-1\ndef f(x):\n    return '\xe4' + g(x > y)\n")
    assert [each.what for each in list_faults(side, side.functions)] == ["`x > y` negated"]


_BEFORE = b"import a\n\ndef f(x):\n    return x > y\n\ndef g(x):\n    return x < y\n"


def _move(after: bytes, path: str = "a.py") -> Fault | None:
    before = Side("a.py", _BEFORE)
    fault = list_faults(before, before.functions)[0]
    return move_fault(fault, before, Side(path, after))


def test_a_fault_moves_with_its_function() -> None:
    after = b"import a\nimport b\n\n\ndef g(x):\n    return 3\n\ndef f(x):\n    return x > y\n"
    moved = _move(after, "lib/b.py")
    side = Side("lib/b.py", after)
    assert moved == next(each for each in list_faults(side, side.functions) if each.function == "f")


@pytest.mark.parametrize(
    "after",
    [
        b"def f(x):\n    return x >= y\n",
        b"def g(x):\n    return x > y\n",
        b"@cached\ndef f(x):\n    return x > y\n",
        b"class A:\n    def f(x):\n        return x > y\n",
        b"def f(x):\n    return x > y\n\ndef f(x):\n    return x > y\n",
        b"",
    ],
)
def test_a_fault_goes_where_its_function_is_edited_gone_or_there_twice(after: bytes) -> None:
    assert _move(after) is None


def test_of_overloads_the_one_with_the_same_text_keeps_the_fault() -> None:
    one = b"boolean f(int x) { return x > y; }"
    other = b"boolean f(long x) { return x < y; }"
    before = Side("A.java", b"class A { " + one + b" " + other + b" }")
    after = Side("A.java", b"class A { " + other + b"\n" + one + b" }")
    faults = list_faults(before, before.functions)
    moved = [move_fault(fault, before, after) for fault in faults]
    assert moved == list_faults(after, after.functions)[::-1]


def test_a_chain_of_sixty_thousand_operators_costs_a_moment() -> None:
    side = Side("a.js", b"function f() { return " + b"a && " * 60_000 + b"b }")
    assert side.root is not None
    assert len(list_faults(side, side.functions)) < 1000


def test_thousands_of_statements_are_listed_and_switched() -> None:
    code = "def f(x):\n    while y:\n        g()\n" + "    x += y\n" * 5_000
    side = Side("a.py", code.encode())
    faults = list_faults(side, side.functions)
    assert len(write_switched_files(faults, lambda _path: side.source, "V").numbers) == 5_000


@pytest.mark.parametrize(
    ("code", "name", "qualified"),
    [
        ("res.send = function send(body) { return body; };", "send", "res.send"),
        ("Cart.prototype.total = function () { return 3; };", "total", "Cart.prototype.total"),
        ("exports.total = () => 3;", "total", "total"),
    ],
)
def test_a_function_that_is_assigned_is_found_by_what_its_callers_write(
    code: str, name: str, qualified: str
) -> None:
    [function] = Side("a.js", code.encode()).functions
    assert (function.name, function.qualified) == (name, qualified)
