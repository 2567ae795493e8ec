import os
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gitlab_nightshift.proof.running.fault_kinds import list_faults
from gitlab_nightshift.proof.running.faults import KEPT, SWITCH, Fault
from gitlab_nightshift.proof.running.switches import (
    build_reached_name,
    find_refused_faults,
    turn_on,
    write_faulty_file,
    write_switched_files,
)
from gitlab_nightshift.proof.syntax.file_side import Side
from tests.proof.running.projects import ASSERTED, PROJECTS, SAMPLES, VARIABLE, Project


def _need(language: str) -> Project:
    project = PROJECTS[language]
    if not project.is_here:
        pytest.skip(f"no toolchain of {language}")
    return project


def _switch(project: Project, folder: Path) -> dict[Fault, int]:
    written = write_switched_files(project.list_faults(), project.read, VARIABLE)
    project.write(folder, written.files)
    return dict(written.numbers)


@pytest.mark.parametrize("language", PROJECTS)
def test_tests_pass_with_all_faults_off(language: str, tmp_path: Path) -> None:
    project = _need(language)
    _switch(project, tmp_path)
    said = project.run_build(tmp_path)
    assert project.run_tests(tmp_path, {})[0] == 0, said


@pytest.mark.parametrize("language", PROJECTS)
def test_each_fault_has_a_switch(language: str, tmp_path: Path) -> None:
    project = PROJECTS[language]
    assert set(_switch(project, tmp_path)) == set(project.list_faults())


@pytest.mark.parametrize("language", PROJECTS)
def test_each_single_fault_changes_what_the_code_does(language: str, tmp_path: Path) -> None:
    project = _need(language)
    numbers = _switch(project, tmp_path)
    project.run_build(tmp_path)
    for fault, number in numbers.items():
        status, said = project.run_tests(tmp_path, turn_on(VARIABLE, [number]))
        assert status != 0, fault
        assert ASSERTED in said or not fault.by_value, (fault, said)


@pytest.mark.parametrize("language", ["python", "javascript", "go", "rust", "java"])
def test_code_records_the_faults_that_it_reaches(language: str, tmp_path: Path) -> None:
    project, seen = _need(language), tmp_path / "seen"
    numbers = _switch(project, tmp_path)
    project.run_build(tmp_path)
    assert project.run_tests(tmp_path, {build_reached_name(VARIABLE): str(seen)})[0] == 0
    assert set(seen.read_text().split()) - {"0"} == {str(number) for number in numbers.values()}


@pytest.mark.parametrize(
    ("language", "load"),
    [("python", "python3 -c 'import shop'"), ("javascript", "node -e 'require(\"./shop\")'")],
)
def test_code_that_reaches_no_fault_records_that_it_was_loaded(
    language: str, load: str, tmp_path: Path
) -> None:
    _switch(_need(language), tmp_path)
    env = os.environ | {build_reached_name(VARIABLE): str(tmp_path / "seen")}
    subprocess.run(shlex.split(load), cwd=tmp_path, env=env, check=True)
    assert (tmp_path / "seen").read_text() == "0\n"


@pytest.mark.parametrize("language", ["python", "javascript", "ruby", "php"])
def test_each_fault_that_is_always_on_changes_what_the_code_does(
    language: str, tmp_path: Path
) -> None:
    project = _need(language)
    source = project.read(project.product) or b""
    for fault in project.list_faults():
        project.write(tmp_path, {project.product: write_faulty_file(fault, source)})
        assert project.run_tests(tmp_path, {})[0] != 0, fault


def test_several_faults_are_on_together(tmp_path: Path) -> None:
    project = _need("javascript")
    numbers = {fault.what: number for fault, number in _switch(project, tmp_path).items()}
    twice = [numbers["`total > 10` negated"], numbers["`total > 10 && member` negated"]]
    script = 'console.log(require("./shop").price(11, true))'
    environment = {"PATH": str(Path(shutil.which("node") or "").parent)}
    said = [
        subprocess.check_output(
            ["node", "-e", script], cwd=tmp_path, env=environment | turn_on(VARIABLE, on), text=True
        )
        for on in (twice[:1], twice)
    ]
    assert said == ["m11\n", "low\n"]  # the inner one, and undone by the outer one


@pytest.mark.parametrize("language", SAMPLES)
def test_line_numbers_stay_the_same(language: str) -> None:
    path, source = _read_sample(language)
    side = Side(path, source)
    faults = list_faults(side, side.functions)
    files = write_switched_files(faults, lambda _path: source, VARIABLE).files
    before, after = source.split(b"\n"), files[path].split(b"\n")
    changed = [at for at, line in enumerate(before[:-1], 1) if after[at - 1] != line]
    first = 1 if language != "python" else 4  # what the switch needs
    assert {*changed} - {fault.line for fault in faults} <= {first, 2, 3}
    assert {fault.line for fault in faults} <= {*changed}


@pytest.mark.parametrize("language", SAMPLES)
def test_what_is_written_parses(language: str) -> None:
    path, source = _read_sample(language)
    side = Side(path, source)
    faults = list_faults(side, side.functions)
    written = write_switched_files(faults, lambda _path: source, VARIABLE)
    assert len(written.numbers) == len(faults) >= 8
    for name, data in written.files.items():
        root = Side(name, data).root
        assert root is not None
        assert not root.has_error
    for fault in faults:
        root = Side(path, write_faulty_file(fault, source)).root
        assert root is not None
        assert not root.has_error, fault


def _read_sample(language: str) -> tuple[str, bytes]:
    project = SAMPLES[language]
    return project.product, project.read(project.product) or b""


def _list_python_faults(source: bytes) -> list[Fault]:
    side = Side("shop.py", source)
    return list_faults(side, side.functions)


BEGINNINGS = [
    b"",
    b'"""Doc."""\n',
    b'"""Doc."""\nfrom __future__ import annotations\n',
    b"#!/usr/bin/env python\nimport os\n",
    b"if True:\n    import os\n",
    b"# coding: utf-8\n# Copyright\n# Text\n",
    b"#!/usr/bin/env python\n# coding: utf-8\n",
    b"#!/usr/bin/env python\n# coding: utf-8\n\n",
    b'"""Doc."""  # and more\n',
]


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_switches_work_in_python_files(begin: bytes) -> None:
    source = begin + b"def f(x):\n    return x > 3\n"
    faults = _list_python_faults(source)
    written = write_switched_files(faults, lambda _path: source, VARIABLE)
    doc = "Doc." if b"Doc" in begin else None
    code = written.files["shop.py"] + b"\nprint(f(5), __doc__)\n"
    on = turn_on(VARIABLE, [written.numbers[faults[0]]])
    said = [
        subprocess.check_output(["python3", "-c", code.decode()], env=env, text=True).strip()
        for env in (on, {})
    ]
    assert said == [f"False {doc}", f"True {doc}"]


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_python_files_record_reached_faults(begin: bytes, tmp_path: Path) -> None:
    """Without what tests replace, or take for a mistake of the code."""
    source = begin + b"def f(x):\n    return x > 3\n"
    faults = _list_python_faults(source)
    written = write_switched_files(faults, lambda _path: source, VARIABLE)
    code = written.files["shop.py"] + b"\nimport builtins\nbuiltins.open = None\nf(5), f(5)\n"
    env = {build_reached_name(VARIABLE): str(tmp_path / "seen")}
    argv = ["python3", "-X", "dev", "-c", code.decode()]
    assert subprocess.run(argv, env=env, capture_output=True, check=True).stderr == b""
    noted = (tmp_path / "seen").read_text().split()
    assert sorted({*noted, "0"}) == sorted(["0", *map(str, written.numbers.values())])
    assert len(noted) == len(set(noted)), "each once"


def test_of_overlapping_faults_the_first_is_kept() -> None:
    source = b"def f(x):\n    return x + 3 > 4\n"
    at = source.index(b"x + 3")
    first = Fault("a.py", 2, "", "f", at, at + 5, "0", f"({KEPT} * {SWITCH})", by_value=True)
    crossing = replace(first, start=at + 4, end=at + 9)
    written = write_switched_files([first, crossing], lambda _path: source, VARIABLE)
    assert list(written.numbers) == [first]


def test_a_fault_that_breaks_the_syntax_is_left_out_alone() -> None:
    source = b"def f(x):\n    return x + 3 > 4\n\n\ndef g(x):\n    return not x\n"
    faults = _list_python_faults(source)
    broken = [replace(faults[0], code_with_switch=f"{KEPT} ({SWITCH}"), *faults[1:]]
    written = write_switched_files(broken, lambda _path: source, VARIABLE)
    assert set(written.numbers) == set(faults[1:])


def test_a_missing_or_unsupported_file_gets_no_switch() -> None:
    fault = Fault("a.lua", 1, "", "", 0, 1, "2", "", by_value=True)
    faults = [fault, replace(_list_python_faults(b"def f(x): return x > 3")[0], path="gone.py")]
    read = {"a.lua": b"1 == 2"}.get
    assert not write_switched_files(faults, read, VARIABLE).files


@pytest.mark.parametrize(
    ("first", "lines"),
    [
        ("", "// @ts-nocheck \n"),
        ("// Prices", "// @ts-nocheck  Prices\n"),
        ("import a from 'a'", "// @ts-nocheck\nimport a from 'a'; "),
        ('import a from "a";', '// @ts-nocheck\nimport a from "a"; '),
        ("import {", "// @ts-nocheck\nimport { "),
        ("/* Prices", "// @ts-nocheck\n/* Prices "),
        ("const a =", "const a =\n"),
        ("#!/usr/bin/env node", "#!/usr/bin/env node\n"),
    ],
)
def test_type_checks_are_turned_off_if_the_first_line_allows_it(first: str, lines: str) -> None:
    second = {"import {": "a } from 'a';", "/* Prices": "*/", "const a =": "3;"}.get(first, "g();")
    source = f"{first}\n{second}\nfunction f(x: number) {{ return x > y }}\n".encode()
    side = Side("shop.ts", source)
    faults = list_faults(side, side.functions)
    data = write_switched_files(faults, lambda _path: source, VARIABLE).files["shop.ts"].decode()
    assert data.startswith(f"{lines}{second}\n")
    assert data.split("\n")[2].startswith("function f(x: number) { return ((x > y)")


def test_go_asks_anew_for_each_fault_though_go_test_keeps_results(tmp_path: Path) -> None:
    project = _need("go")
    numbers = _switch(project, tmp_path)
    argv = replace(project, build=(), test=("go", "test", "./..."))
    cached = [argv.run_tests(tmp_path, {})[1] for _ in range(2)][1]
    assert "(cached)" in cached
    assert argv.run_tests(tmp_path, turn_on(VARIABLE, [min(numbers.values())]))[0] != 0


def test_go_files_that_are_not_built_get_no_switch() -> None:
    source = b"//go:build ignore\n\npackage main\n\nfunc f(a int) bool { return a > 3 }\n"
    side = Side("gen.go", source)
    faults = list_faults(side, side.functions)
    assert faults
    assert not write_switched_files(faults, lambda _path: source, VARIABLE).files


@pytest.mark.parametrize("language", ["go", "rust", "java"])
def test_a_fault_that_a_compiler_refuses_is_found_in_its_output(
    language: str, tmp_path: Path
) -> None:
    project = _need(language)
    faults = project.list_faults()
    wrong = next(fault for fault in faults if "`total > 10` negated" in fault.what)
    faults[faults.index(wrong)] = bad = replace(wrong, code_with_switch=f"({KEPT} + {SWITCH})")
    written = write_switched_files(faults, project.read, VARIABLE)
    project.write(tmp_path, written.files)
    refused = find_refused_faults(faults, project.run_build(tmp_path))
    assert bad in refused
    assert {fault.line for fault in refused} == {bad.line}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("src/x.ts", "src/x.ts(12,5): error TS2367: This comparison appears to be"),
        ("src/x.ts", "\x1b[96msrc/x.ts\x1b[0m:\x1b[93m12\x1b[0m:5 - error TS2367"),
        ("src/x.go", "# shop/src\n./x.go:12:3: invalid operation"),
        ("lib/src/x.rs", "error[E0308]: mismatched types\n  --> src/x.rs:12:5"),
        ("src/X.java", "[ERROR] /work/a b/src/X.java:[12,5] incompatible types"),
        ("src/X.java", "src/X.java:12: error: incompatible types"),
        ("src/x.kt", "e: file:///work/src/x.kt:12:5 Type mismatch"),
        ("src/x.cs", "/work/src/x.cs(12,5): error CS0029: Cannot implicitly"),
        ("src/x.scala", "[error] /work/src/x.scala:12:5: type mismatch"),
    ],
)
def test_a_line_is_found_in_every_compilers_words(path: str, said: str) -> None:
    named = Fault(path, 12, "", "f", 0, 1, "", "", by_value=True)
    others = [replace(named, line=11), replace(named, path="other/" + path.replace("x.", "y."))]
    assert find_refused_faults([named, *others], said) == (named,)


def test_an_error_inside_a_long_expression_refuses_the_fault_that_begins_above() -> None:
    named = Fault("x.go", 12, "", "f", 0, 1, "", "", by_value=True)
    later = replace(named, line=15)
    assert find_refused_faults([named, later], "./x.go:14:3: mismatched types") == (named,)


def test_an_output_of_one_long_word_is_looked_through_in_time() -> None:
    fault = Fault("a.py", 1, "", "", 0, 1, "", "", by_value=True)
    assert find_refused_faults([fault], "x" * 2_000_000 + " /tmp/p/a.py:1: error") == (fault,)
