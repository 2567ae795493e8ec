"""Reports that commands are asked for: of real programs, and forged ones."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from gitlab_nightshift.proof.proof_commands import CommandRun, Runner, run_and_collect
from gitlab_nightshift.proof.reports.report_readers import CaseOutcome
from gitlab_nightshift.proof.reports.report_request import expand_command, prepare_request
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.sandbox.process import ProcessLimits
from gitlab_nightshift.system.raw_logs import build_logs
from tests.support.programs import need_program
from tests.support.tables import each
from tests.support.world import TOOLS

PASSED, FAILED, SKIPPED = CaseOutcome.PASSED, CaseOutcome.FAILED, CaseOutcome.SKIPPED
PYTHON = sys.executable
ONE = "def test_one():\n    pass\n"
JUNIT = "<testsuite><testcase name='x' classname='A'/></testsuite>"
POM_REPORT = "target/surefire-reports/TEST-A.xml"
GO = (
    'package shop\n\nimport "testing"\n\nfunc TestAdd(t *testing.T) {\n'
    '\tt.Run("zero", func(t *testing.T) {})\n}\n\nfunc TestLater(t *testing.T) { t.Skip() }\n\n'
    'func TestBad(t *testing.T) { t.Error("no good") }\n'
)
NODE = (
    "import test from 'node:test';\ntest('adds', () => {});\n"
    "test('later', { skip: true }, () => {});\ntest('fails', () => { throw new Error('x'); });\n"
)


def collect(folder: Path, command: str, files: Mapping[str, str], **env: str) -> CommandRun:
    root, scratch = folder / "checkout", folder / "scratch"
    scratch.mkdir(exist_ok=True)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    wanted = {"PATH": os.environ["PATH"], "HOME": str(scratch), **env}
    logs = build_logs(folder, Redactor(()))
    runner = Runner(root, wanted, scratch, logs, ProcessLimits, lambda _event: None)
    (run,) = run_and_collect(runner, [command], "x", lambda: None, lambda n: files.get(n, ""))
    return run


def test_go(tmp_path: Path) -> None:
    need_program("go")
    files = {"go.mod": "module shop\n\ngo 1.20\n", "shop_test.go": GO}
    built = subprocess.check_output(["go", "env", "GOCACHE"], text=True).strip()
    env = {"GOCACHE": built, "GOFLAGS": "-count=1 -vet=off"}  # the standard library is built once
    run = collect(tmp_path, "go test ./...", files, **env)
    assert run.collection.counts == {
        "shop::TestAdd/zero": Counter({PASSED: 1}),
        "shop::TestAdd": Counter({PASSED: 1}),
        "shop::TestLater": Counter({SKIPPED: 1}),
        "shop::TestBad": Counter({FAILED: 1}),
    }
    assert run.result.command == "go test ./..."
    assert "shop_test.go:11: no good\n" in run.result.output  # people read it, and agents
    assert '"Action"' not in run.result.output


RUST = (
    "/// Adds.\n/// ```\n/// assert_eq!(shop::add(1, 2), 3);\n/// ```\n"
    "pub fn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n\n#[cfg(test)]\nmod tests {\n"
    "    #[test]\n    fn adds() {}\n    #[test]\n    #[ignore]\n    fn later() {}\n}\n"
)


CARGO_TOML = '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n'
CARGO_QUIET = "cargo test -q --offline --no-fail-fast"


def find_cargo_home() -> dict[str, str]:
    names = ("HOME", "RUSTUP_HOME", "CARGO_HOME")
    return {"HOME": "/"} | {name: os.environ[name] for name in names if name in os.environ}


def test_cargo(tmp_path: Path) -> None:
    need_program("cargo")
    files = {"Cargo.toml": CARGO_TOML, "src/lib.rs": RUST}
    run = collect(tmp_path, "cargo test --offline", files, **find_cargo_home())
    assert run.collection.counts == {
        "tests::adds": Counter({PASSED: 1}),
        "tests::later": Counter({SKIPPED: 1}),
        "src/lib.rs - add": Counter({PASSED: 1}),
    }, run


@pytest.mark.parametrize("command", ["cargo test --offline --no-fail-fast", CARGO_QUIET])
def test_cargo_names_the_tests_of_each_binary_that_fails(tmp_path: Path, command: str) -> None:
    need_program("cargo")
    fails = '#[test]\nfn {}() {{\n    assert_eq!("    a\\nfailures:\\n    b", "c");\n}}\n'
    passes = "#[test]\n#[should_panic]\nfn three() {\n    panic!();\n}\n"
    files = {"src/lib.rs": fails.format("one"), "tests/more.rs": fails.format("two") + passes}
    run = collect(tmp_path, command, {"Cargo.toml": CARGO_TOML, **files}, **find_cargo_home())
    assert not run.result.ok
    assert run.collection.counts == {
        "one": Counter({FAILED: 1}),
        "two": Counter({FAILED: 1}),
        "three": Counter({PASSED: 1}),
    }, run


def test_cargo_tests_that_end_the_process_leave_no_report(tmp_path: Path) -> None:
    """They are listed, and cargo ends with 0."""
    need_program("cargo")
    files = {
        "src/lib.rs": "#[test]\nfn ends() {\n    std::process::exit(0);\n}\n"
        "#[test]\nfn fails() {\n    std::thread::sleep(std::time::Duration::from_secs(9));\n"
        "    panic!();\n}\n"
    }
    run = collect(
        tmp_path,
        "cargo test --offline",
        {"Cargo.toml": CARGO_TOML, **files},
        **find_cargo_home(),
        RUST_TEST_THREADS="2",
    )
    assert run.result.ok
    assert "2 tests started, and the results count 0" in run.collection.unknown


SUBTESTS = (
    "import unittest\n\n\nclass A(unittest.TestCase):\n    def test_a(self):\n"
    "        for n in (1, 2, 3):\n            with self.subTest(n=n):\n"
    "                self.assertEqual(n, {})\n"
)


@pytest.mark.parametrize(
    ("expected", "outcomes"), [("n", Counter({PASSED: 1})), ("1", Counter({FAILED: 2}))]
)
def test_subtests_of_unittest(
    tmp_path: Path, expected: str, outcomes: Counter[CaseOutcome]
) -> None:
    files = {"test_a.py": SUBTESTS.format(expected)}
    run = collect(tmp_path, f"{PYTHON} -m unittest", files)
    assert run.collection.counts == {"test_a.A.test_a": outcomes}


@pytest.mark.parametrize("own", ["", '[profile.default.junit]\npath = "own.xml"\n'])
def test_nextest(tmp_path: Path, own: str) -> None:
    need_program("cargo-nextest")
    manifest = '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n'
    home = {name: os.environ[name] for name in ("RUSTUP_HOME", "CARGO_HOME") if name in os.environ}
    home = {"HOME": os.environ.get("HOME", "/"), **home}
    fails = "\n#[test]\nfn fails() {\n    assert!(false);\n}\n"
    files = {"Cargo.toml": manifest, "src/lib.rs": RUST + fails, ".config/nextest.toml": own}
    run = collect(tmp_path, "cargo nextest run --no-fail-fast --offline", files, **home)
    assert run.collection.counts == {
        "shop::tests::adds": Counter({PASSED: 1}),
        "shop::fails": Counter({FAILED: 1}),
    }, run


def test_node(tmp_path: Path) -> None:
    scripts = '{"type": "module", "scripts": {"test": "node --test test/"}}'
    files = {"package.json": scripts, "test/shop.test.js": NODE}
    run = collect(tmp_path, "npm test", files)
    counts = {name.rpartition("::")[2]: times for name, times in run.collection.counts.items()}
    assert counts["adds"] == Counter({PASSED: 1})
    assert counts["later"] == Counter({SKIPPED: 1})
    assert counts["fails"] == Counter({FAILED: 1})


BATS = '@test "adds" { true; }\n@test "later" { skip; }\n@test "fails" { false; }\n'
MINITEST = (
    "require 'minitest/autorun'\n\nclass Shop < Minitest::Test\n  def test_adds = assert(true)\n"
    "  def test_later = skip\n  def test_fails = assert(false)\nend\n"
)


PHPUNIT = (
    "<?php\nfinal class ShopTest extends PHPUnit\\Framework\\TestCase {\n"
    "    public function test_adds(): void { $this->assertSame(2, 1 + 1); }\n"
    "    public function test_later(): void { $this->markTestSkipped(); }\n"
    "    public function test_fails(): void { $this->assertTrue(false); }\n}\n"
)
RSPEC = (
    'describe "shop" do\n  it("adds") { expect(2).to eq 2 }\n  it("later") { skip }\n'
    '  it("fails") { expect(1).to eq 2 }\nend\n'
)


@pytest.mark.parametrize(
    ("program", "command", "files", "name"),
    [
        ("bats", "bats .", {"a.bats": BATS}, ""),
        (
            "ruby",
            "make test",
            {"a_test.rb": MINITEST, "Makefile": "test:\n\t@ruby a_test.rb\n"},
            "a_test.rb::Shop::test_",
        ),
        ("phpunit", "phpunit .", {"ShopTest.php": PHPUNIT}, "ShopTest.php::test_"),
        ("rspec", "rspec", {"spec/a_spec.rb": RSPEC}, "./spec/a_spec.rb::shop "),
    ],
)
def test_other_runners(
    tmp_path: Path, program: str, command: str, files: dict[str, str], name: str
) -> None:
    need_program(program)
    run = collect(tmp_path, command, files)
    wanted = {"adds": PASSED, "later": SKIPPED, "fails": FAILED}
    assert run.collection.counts == {
        f"{name}{word}": Counter({outcome: 1}) for word, outcome in wanted.items()
    }, run


@each(
    ("command", "files", "names"),
    [
        ("make check", {"Makefile": "check: unit\nunit:\n\t@$(RUN)\nRUN = PY -m pytest -q\n"}, 1),
        ("make", {"Makefile": "all: ; @PY -m pytest -q\n"}, 1),
        ("make lint", {"Makefile": "lint:\n\t@true\ncheck:\n\t@PY -m pytest\n"}, None),
        ("PY -m pytest -q --junitxml=own.xml", {}, None),
        ("PY -m pytest -q -p no:junitxml", {}, None),
        ("PY -m unittest -q", {}, 0),
        ("sh -c 'true'", {}, None),
        ("sh -e ci/test.sh", {"ci/test.sh": "cd .\nPY -m pytest -q\n"}, 1),
        ("sh ci/test.sh", {"ci/test.sh": "make\n", "Makefile": "all:\n\t@PY -m pytest -q\n"}, 1),
    ],
)
def test_runners_that_a_command_starts(
    tmp_path: Path, command: str, files: dict[str, str], names: int | None
) -> None:
    """A missing report never counts as an empty one."""
    wanted = {n: text.replace("PY", PYTHON) for n, text in files.items()} | {"test_a.py": ONE}
    tests = collect(tmp_path, command.replace("PY", PYTHON), wanted).collection
    assert bool(tests.unknown) is (names is None), tests
    assert len(tests.counts) == (names or 0)


NESTED = (
    "import os, subprocess, sys\n\n\ndef test_inner(tmp_path):\n"
    "    (tmp_path / 'test_c.py').write_text('def test_c():\\n    assert 0\\n')\n"
    "    subprocess.run([sys.executable, '-m', 'pytest', tmp_path], check=False)\n"
)


@each(
    ("command", "files", "names"),
    [
        (f"{PYTHON} -m pytest -q", {"a/test_a.py": ONE, "b/test_b.py": ONE}, "test_one test_one"),
        (
            f"{PYTHON} -m pytest -q",
            {"a/test_a.py": ONE, "b/test_b.py": NESTED},
            "test_one test_inner",
        ),
        (
            "node --test",
            {"a/a.test.js": "require('node:test')('a', () => {});\n"}
            | {"b/b.test.js": "require('node:test')('b', () => {});\n"},
            "a b",
        ),
    ],
)
def test_several_runs_of_one_command(
    tmp_path: Path, command: str, files: dict[str, str], names: str
) -> None:
    """The reports add up; what a test itself starts is none of them."""
    make = {"Makefile": f"test:\n\t{command} a/\n\t{command} b/\n"}
    tests = collect(tmp_path, "make test", {**make, **files}).collection
    assert [name.rpartition("::")[2] for name in sorted(tests.counts)] == names.split(), tests
    assert tests.count_cases() == tests.count_cases(PASSED) == 2


@each(
    ("report", "why"),
    [
        (f"printf '%s' \"{JUNIT}\" > FILE", ""),
        ("ln -s /etc/passwd FILE", "it is no regular file"),
        ("mkfifo FILE", "it is no regular file"),
        ("mkdir FILE", "it is no regular file"),
        ("truncate -s 1G FILE", "it is larger than 64000000 bytes"),
        ("printf '<x/>' > FILE", "not JUnit XML"),
        ("true", "no report was left by Maven"),
        (
            f"printf '%s' \"{JUNIT}\" > FILE; touch -d 2020-01-01 FILE",
            "no report was left by Maven",
        ),
        (f"printf '%s' \"{JUNIT}\" > other; ln other FILE", "it has several hard links"),
    ],
)
def test_unusable_report_files(tmp_path: Path, report: str, why: str) -> None:
    """Tests may write anything into the checkout."""
    folder = POM_REPORT.rpartition("/")[0]
    script = f"#!/bin/sh\nmkdir -p {folder}\n{report.replace('FILE', POM_REPORT)}\n"
    tests = collect(tmp_path, "sh mvn", {"mvn": script}).collection
    assert (why in tests.unknown) and bool(why) is bool(tests.unknown), tests
    assert list(tests.counts) == ([] if why else ["A::x"])
    shutil.rmtree(tmp_path / "checkout")


def test_the_projects_sitecustomize_is_imported(tmp_path: Path) -> None:
    test = "import unittest, sys\n\n\nclass A(unittest.TestCase):\n    def test_a(self):\n"
    test += "        self.assertEqual(sys.own, 1)\n"
    files = {"test_a.py": test, "site/sitecustomize.py": "import sys\n\nsys.own = 1\n"}
    own = str(tmp_path / "checkout/site")
    run = collect(tmp_path, f"{PYTHON} -m unittest", files, PYTHONPATH=own)
    assert run.result.ok, run.result.output
    assert run.collection.counts == {"test_a.A.test_a": Counter({PASSED: 1})}


def test_reports_of_an_earlier_run_are_gone(tmp_path: Path) -> None:
    command = f"{PYTHON} -m pytest -q"
    assert collect(tmp_path, command, {"test_a.py": ONE}).collection.counts
    tests = collect(tmp_path, f"{command} --version", {}).collection
    assert tests.unknown == "no report was left by pytest"


@each(
    ("program", "added"),
    [
        ("jest.js", "--json --outputFile=S/reports/node-N.json"),
        (
            "vitest.mjs",
            "--reporter=default --reporter=json --outputFile.json=S/reports/node-N.json",
        ),
        ("mocha.js", "--reporter S/reports/hooks/node_runners.cjs"),
        ("mocha.js -R dot --reporter=tap", "--reporter S/reports/hooks/node_runners.cjs"),
        ("jest-worker.js", ""),
        ("other.js", ""),
    ],
)
def test_node_runners_are_recognized_by_program(tmp_path: Path, program: str, added: str) -> None:
    """Stand-ins by the real names: Jest 30, Vitest 4 and Mocha 12 wrote what they are asked for."""
    scripts = f'{{"scripts": {{"test": "node {program} unit # jest"}}}}'
    code = "console.log('ran', process.argv.slice(2).join(' '), process.pid);\n"
    name, *_ = program.split()
    run = collect(tmp_path, "npm test", {"package.json": scripts, name: code})
    (line,) = [line for line in run.result.output.split("\n") if line.startswith("ran ")]
    *words, pid = line.split()[1:]
    shown = " ".join(words).replace(str(tmp_path / "scratch"), "S").replace(f"-{pid}.", "-N.")
    assert shown == f"unit {added}".strip()


@each(
    ("asked", "shown"),
    [
        ("", "✔ adds"),
        ("--test-reporter=tap", "ok 1 - adds"),
        ("--test-reporter tap --test-reporter-destination stdout", "ok 1 - adds"),
    ],
)
def test_node_keeps_the_chosen_reporter(tmp_path: Path, asked: str, shown: str) -> None:
    need_program("node")
    scripts = f'{{"scripts": {{"test": "node --test {asked}"}}}}'
    test = "require('node:test')('adds', () => {});\n"
    run = collect(tmp_path, "npm test", {"package.json": scripts, "a.test.js": test})
    assert run.result.ok, run.result.output
    assert run.collection.counts == {"adds": Counter({PASSED: 1})}
    assert shown in run.result.output


@each(
    ("asked", "shown"),
    [("", "a\n    ✔ b"), ("--reporter dot", ".!\n"), ("-R tap", "ok 1 a b"), ("-R=none", "✔ b")],
)
def test_mocha_keeps_the_chosen_reporter(tmp_path: Path, asked: str, shown: str) -> None:
    """A reporter that is not there would end Mocha; here the usual one takes its place."""
    need_program("node")
    test = 'describe("a", () => { it("b", () => {}); it("c", () => { throw Error() }) })\n'
    mocha = TOOLS.parent / "mocha/bin/mocha.js"
    run = collect(tmp_path, f"node {mocha} --no-color {asked} t.js", {"t.js": test})
    assert run.collection.counts == {
        "t.js::a b": Counter({PASSED: 1}),
        "t.js::a c": Counter({FAILED: 1}),
    }
    assert shown in run.result.output


@each(
    ("command", "argv"),
    [
        ("go test ./...", "go test -json ./..."),
        ("ctest -j 2", "ctest -j 2 --output-junit S/reports/ctest.xml"),
        ("vendor/bin/phpunit", "vendor/bin/phpunit --log-junit S/reports/phpunit.xml"),
        ("npx bats -r t", "npx bats --formatter tap -r t"),
        ("make test", "make test"),
    ],
)
def test_words_on_the_command_line(tmp_path: Path, command: str, argv: str) -> None:
    request = prepare_request(command, {}, tmp_path, tmp_path, lambda _name: "")
    assert " ".join(request.argv).replace(str(tmp_path), "S") == argv


def test_variables_that_are_set_already_are_kept(tmp_path: Path) -> None:
    env = {"PYTEST_ADDOPTS": "-x", "PYTHONPATH": "src", "OTHER": "1"}
    text = "all:\n\tpytest\n\tpython -m unittest\n"
    request = prepare_request("make", env, tmp_path, tmp_path, lambda _name: text)
    assert request.env["PYTEST_ADDOPTS"].startswith("-x --junitxml=")
    assert request.env["PYTHONPATH"] == f"{tmp_path}/reports/hooks:src"
    assert request.env["OTHER"] == "1"


@each(
    ("command", "files", "line"),
    [
        ("npm test", {"package.json": '{"scripts": {"test": "jest", "pretest": "tsc"}}'}, "jest"),
        ("yarn unit", {"package.json": '{"scripts": {"unit": "vitest run"}}'}, "vitest run"),
        ("npm test", {"package.json": '{"scripts": []}'}, "npm test"),
        ("npm test", {"package.json": "["}, "npm test"),
        ("composer test", {"composer.json": '{"scripts": {"test": ["phpunit"]}}'}, "phpunit"),
        ("tox -q", {"tox.ini": "[testenv]\ncommands = pytest {posargs}"}, "pytest {posargs}"),
        ("make a", {"Makefile": "a: b\nb: a\n\t-make a \\\n\t  -k\n"}, "make a"),
    ],
)
def test_recipes_are_followed(command: str, files: dict[str, str], line: str) -> None:
    read = lambda name: files.get(name, "")  # noqa: E731
    assert any(line in each for each in expand_command(command, read).split("\n"))
