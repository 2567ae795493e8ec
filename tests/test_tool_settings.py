"""Which changes of which files are settings of tools: they measure a change, and no night makes
them."""

import pytest

from gitlab_nightshift.policy import change_rules
from gitlab_nightshift.policy.change_rules import find_violations
from gitlab_nightshift.policy.protected_files import (
    SHARED,
    TOOL_FILES,
    find_settings_files,
    list_changed_settings,
)
from gitlab_nightshift.policy.settings_parser import LARGEST
from gitlab_nightshift.records.products import ChangeSize
from gitlab_nightshift.settings.load import build_settings
from tests.support.tables import each


def describe(path: str, old: str | bytes | None, new: str | bytes | None) -> str:
    before, after = (side.encode() if isinstance(side, str) else side for side in (old, new))
    return list_changed_settings([(path, before, after)]).get(path, "")


def violations(path: str, tools: dict[str, str], **settings: object) -> tuple[str, ...]:
    change = ChangeSize((path,), 1, 0)
    return find_violations(change, tools, build_settings(settings), (), ".gitlab-ci.yml")


PYPROJECT = """\
[project]
name = "shop"
version = "1.0"
dependencies = ["requests>=2"]

[tool.ruff.lint]
select = ["E", "F", "I"]

[tool.mypy]
strict = true

[[tool.mypy.overrides]]
module = "shop.*"

[tool.coverage.report]
fail_under = 90

[tool.pytest.ini_options]
filterwarnings = ["error"]

[tool.poetry.group.dev]
optional = false
"""
SETUP = "[metadata]\nname = a\n\n[options]\nzip_safe = no\n\n[mypy-shop.cart]\nstrict = True\n"
PACKAGE = """\
{"name": "shop", "scripts": {"test": "jest --ci", "lint:js": "eslint .", "start": "node ."},
 "jest": {"coverageThreshold": {"global": {"branches": 80}}}}
"""
DENO = '{\n  // ours\n  "lint": {"rules": {"exclude": []}},\n  "imports": {"a": "b"},\n}\n'
CARGO = (
    '[package]\nname = "a"\n\n[lints.clippy]\nunwrap_used = "deny"\n\n'
    '[[test]]\nname = "all"\nharness = true\n'
)
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <name>shop</name>
  <properties><skipTests>false</skipTests><java.version>21</java.version></properties>
  <build><plugins>
    <plugin><artifactId>maven-surefire-plugin</artifactId>
      <configuration><groups>fast</groups></configuration></plugin>
    <plugin><artifactId>maven-jar-plugin</artifactId><version>1</version></plugin>
  </plugins></build>
</project>
"""
GRADLE = """\
version = '1.0'
tasks.named('test') {
    useJUnitPlatform()
}
jacocoTestCoverageVerification {
    violationRules { rule { limit { minimum = 0.8 } } }
}
jar {
    archiveBaseName = 'shop'
}
"""
SBT = 'name := "x"\nscalacOptions ++= Seq(\n  "-Xlint",\n)\nTest / fork := true\n'
CSPROJ = """\
<Project><PropertyGroup><Nullable>enable</Nullable></PropertyGroup>
<PropertyGroup><Version>1</Version><NoWarn>CS1</NoWarn></PropertyGroup></Project>
"""
MAKE = """\
CFLAGS = -Wall
VERSION = 1

build:
\tcc -o shop shop.c

test: build
\t@echo testing
\tpytest -q

clean:
\trm -f shop
"""
JUST = "lint:\n    ruff check .\n\nserve:\n    flask run\n"
RAKE = """\
Rake::TestTask.new do |t|
  t.pattern = "test/**/*_test.rb"
end

task :release do
  sh "gem push"
end
"""
VITE = "export default { base: '/', test: { exclude: ['a'] }, plugins: [] };\n".replace(", ", ",\n")
CMAKE = 'project(shop)\nadd_test(NAME a\n  COMMAND a --fast)\nset(CMAKE_CXX_FLAGS "-Wall")\n'

CHANGED = [
    ("pyproject.toml", PYPROJECT, '"F", ', "", "tool.ruff.lint.select"),
    ("web/pyproject.toml", PYPROJECT, "true", "false", "tool.mypy.strict"),
    ("pyproject.toml", PYPROJECT, "shop.*", "shop.a", "tool.mypy.overrides.module"),
    ("pyproject.toml", PYPROJECT, "= 90", "= 70", "tool.coverage.report.fail_under"),
    (
        "pyproject.toml",
        PYPROJECT,
        '"error"',
        '"default"',
        "tool.pytest.ini_options.filterwarnings",
    ),
    ("setup.cfg", SETUP, "True", "False", "mypy-shop.cart.strict"),
    ("setup.cfg", SETUP, "[mypy", "[tool:pytest]\naddopts = -x\n[mypy", "tool:pytest.addopts"),
    ("tox.ini", "[testenv]\ncommands = pytest\n", "pytest", "true", "testenv.commands"),
    ("package.json", PACKAGE, "--ci", "--ci || true", "scripts.test"),
    ("package.json", PACKAGE, "eslint .", "true", "scripts.lint:js"),
    ("package.json", PACKAGE, "80", "60", "jest.coverageThreshold.global.branches"),
    ("deno.json", DENO, "[]", '["no-var"]', "lint.rules.exclude"),
    ("Cargo.toml", CARGO, "deny", "allow", "lints.clippy.unwrap_used"),
    ("Cargo.toml", CARGO, "= true", "= false", "test:all.harness"),
    ("Cargo.toml", CARGO, '"a"\n\n', '"a"\nautotests = false\n\n', "package.autotests"),
    (".cargo/config.toml", '[alias]\nci = "test"\n', "test", "check", "alias.ci"),
    ("pom.xml", POM, "false", "true", "properties.skipTests"),
    (
        "pom.xml",
        POM,
        "fast",
        "slow",
        "build.plugins.plugin:maven-surefire-plugin.configuration.groups",
    ),
    ("build.gradle", GRADLE, "0.8", "0.5", "jacocoTestCoverageVerification"),
    ("build.gradle", GRADLE, "Platform()", "Platform { excludeTags 'x' }", "test"),
    ("build.gradle", GRADLE, "jacoco", "/* x */ if (off) jacoco", "jacocoTestCoverageVerification"),
    ("build.gradle", GRADLE, "tasks", "/*\ntasks", "test"),
    ("build.sbt", SBT, '  "-Xlint",\n', "", "scalacOptions"),
    ("build.sbt", SBT, "true", "false", "Test /"),
    ("a/Shop.csproj", CSPROJ, "enable", "disable", "PropertyGroup.Nullable"),
    ("Directory.Build.props", CSPROJ, "CS1", "CS1;CS2", "PropertyGroup.NoWarn"),
    ("Makefile", MAKE, "-q", "-q || true", "test:"),
    ("Makefile", MAKE, "-Wall", "-w", "CFLAGS ="),
    ("sub/rules.mk", MAKE, "build:", "MAKEFLAGS += -i\nbuild:", "MAKEFLAGS"),
    ("Makefile", MAKE, "test: build", "# a \\\ntest: build", "test:"),
    ("Makefile", MAKE, "test: build", "ifdef NEVER\ntest: build", "ifdef"),
    ("Makefile", MAKE, "\tpytest", "\t//bin/rm -r tests\n\tpytest", "test:"),
    ("Makefile", MAKE, "build:", f"{'x' * 501}: test\nbuild:", "a long line"),
    ("justfile", JUST, "ruff", "-ruff", "lint:"),
    ("Taskfile.yml", "tasks:\n  test:\n    cmds: [pytest]\n", "pytest", "true", "tasks.test.cmds"),
    ("Rakefile", RAKE, "*_test", "a_test", "Rake::TestTask.new"),
    ("composer.json", '{"scripts": {"test": "phpunit"}}', "phpunit", "true", "scripts.test"),
    ("vite.config.ts", VITE, "['a']", "['a', 'b']", "test:"),
    ("CMakeLists.txt", CMAKE, "--fast", "--none", "add_test"),
    ("spec/spec_helper.rb", "SimpleCov.start\n", "start", "start 'x'", "SimpleCov"),
    ("ruff.toml", '[lint]\nselect = ["E"]\n', '"E"', "", "lint.select"),
    (".golangci.yml", "linters:\n  enable: [a, b]\n", ", b", "", "linters.enable"),
    (".rubocop.yml", "Metrics:\n  Max: 10\n", "10", "40", "Metrics.Max"),
    ("tsconfig.json", '{"compilerOptions": {"strict": true},}', "true", "0", "compilerOptions"),
    ("phpunit.xml", '<phpunit failOnRisky="true"/>', "true", "false", "@failOnRisky"),
    ("eslint.config.mjs", "export default [a];\n", "a", "", "the whole file"),
    (".rspec", "--color\n", "\n", "\n--tag ~db\n", "the whole file"),
    ("phpstan.neon", "parameters:\n\tlevel: 8\n", "8", "5", "the whole file"),
    (".editorconfig", "root = true\n[*]\nindent_size = 2\n", "2", "4", "*.indent_size"),
]


@each(("path", "text", "old", "new", "told"), CHANGED)
def test_a_changed_setting_is_named(path: str, text: str, old: str, new: str, told: str) -> None:
    assert old in text
    assert told in describe(path, text, text.replace(old, new))
    assert describe(path, text.replace(old, new), text), "the way back is a change, too"


OTHERS = [
    ("pyproject.toml", PYPROJECT, "1.0", "1.1"),
    ("pyproject.toml", PYPROJECT, ">=2", ">=3"),
    ("pyproject.toml", PYPROJECT, "optional = false", "optional = true"),
    ("pyproject.toml", PYPROJECT, "[tool.mypy]", "# strict is best\n[tool.mypy]"),
    ("setup.cfg", SETUP, "= no", "= yes"),
    ("package.json", PACKAGE, "node .", "node app"),
    ("package.json", PACKAGE, '"name": "shop", ', ""),
    ("deno.json", DENO, '"b"', '"c"'),
    ("Cargo.toml", CARGO, '"a"\n', '"b"\n'),
    ("pom.xml", POM, ">1<", ">2<"),
    ("pom.xml", POM, "<name>shop", "<name>store"),
    ("build.gradle", GRADLE, "1.0", "1.1"),
    ("build.gradle", GRADLE, "'shop'", "'store'"),
    ("build.gradle", GRADLE, "tasks", "// by JUnit\ntasks"),
    ("build.sbt", SBT, '"x"', '"y"'),
    ("a/Shop.csproj", CSPROJ, ">1<", ">2<"),
    ("Makefile", MAKE, "cc", "gcc"),
    ("Makefile", MAKE, "= 1", "= 2"),
    ("Makefile", MAKE, "rm", "rm -r"),
    ("justfile", JUST, "flask run", "flask run --debug"),
    ("Rakefile", RAKE, "push", "push --quiet"),
    ("vite.config.ts", VITE, "'/'", "'/shop/'"),
    ("CMakeLists.txt", CMAKE, "(shop)", "(store)"),
    ("src/settings.toml", "strict = true\n", "true", "false"),
    ("src/config.py", "IGNORED = ['a']\n", "'a'", ""),
    ("docker-compose.yml", "services: {test: {command: a}}\n", "a}", "b}"),
    (".gitlab-ci.yml", "test: {script: [pytest]}\n", "pytest", "true"),
]


@each(("path", "text", "old", "new"), OTHERS)
def test_what_else_stands_in_a_shared_file_is_none(
    path: str, text: str, old: str, new: str
) -> None:
    assert old in text
    assert describe(path, text, text.replace(old, new)) == ""


@each(
    ("path", "old", "new"),
    [
        ("pyproject.toml", PYPROJECT, PYPROJECT + "[["),
        ("pyproject.toml", "[[", PYPROJECT),
        ("package.json", PACKAGE, b"\xff\xfe"),
        ("package.json", PACKAGE, "[" * 100_000),
        ("setup.cfg", SETUP, "[flake8\nignore = E"),
        ("pom.xml", POM, '<!DOCTYPE x [<!ENTITY a "b">]><project>&a;</project>'),
        ("Taskfile.yml", "tasks: {}\n", "tasks: {\n"),
        ("Makefile", MAKE, MAKE + "#" * LARGEST),
    ],
)
def test_a_shared_file_that_cannot_be_read_is_a_change(
    path: str, old: str, new: str | bytes
) -> None:
    assert describe(path, old, new) == "the file cannot be read"


@each("path", ["mypy.ini", ".rspec", "pyproject.toml"])
def test_settings_that_come_or_go_are_a_change(path: str) -> None:
    assert describe(path, None, PYPROJECT)
    assert describe(path, PYPROJECT, None)
    assert describe(path, PYPROJECT, PYPROJECT) == ""


def test_a_shared_file_without_settings_may_come_and_go() -> None:
    assert describe("pyproject.toml", None, '[project]\nname = "shop"\n') == ""
    assert describe("Makefile", "build:\n\tcc\n", None) == ""


@each(
    "text",
    [
        *(mark * 30_000 for mark in ("/*", '"\\', "'\\", " ", "(", ", ", "a: ", "#\n", "test")),
        "test:\n" * 30_000,
        f"<a id='{'plugin:' * 30_000}'/>",
        "".join(f"test{n}:\n\ta\n" for n in range(20_000)),
    ],
)
def test_a_file_made_to_take_long_does_not(text: str) -> None:
    """Each of these takes hours where something is looked for from every beginning anew."""
    for path in (
        "a.gradle",
        "Makefile",
        "package.json",
        "setup.cfg",
        "gradle.properties",
        "pom.xml",
    ):
        describe(path, text, text + "\ntest: x\n")


def test_what_is_told_is_short_and_on_one_line() -> None:
    """Names come from a hostile file."""
    many = "".join(f'[tool.ruff."a\\n{n}\\u202e{"x" * 200}"]\nb = 1\n' for n in range(50))
    told = describe("pyproject.toml", None, many)
    assert len(told) < 400 and told.isprintable() and told.endswith("46 more")


def test_every_row_of_the_table_can_be_used() -> None:
    for shared in SHARED:
        assert bool(shared.tables) is (shared.blocks is None), shared.patterns
        assert shared.list_changed("x.json", b"{}", b"{}") == []
    named = [pattern for pattern in TOOL_FILES if "*" not in pattern and "/" not in pattern]
    assert find_settings_files(f"deep/down/{name}" for name in named) == [
        f"deep/down/{name}" for name in named
    ]


def test_a_night_is_told_what_where_why_and_what_to_do() -> None:
    [why] = violations("tox.ini", {"tox.ini": "testenv.commands"})
    assert why == (
        "tox.ini contains tool settings (testenv.commands), which measure this change: restore"
        " them, and fix the code instead."
    )


def test_a_file_of_its_own_is_known_by_its_name_whatever_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that an agent's bytes have taken over reports nothing."""
    [why] = violations("web/ruff.toml", {})
    assert why.startswith("web/ruff.toml contains tool settings (the whole file)")
    monkeypatch.setattr(change_rules, "TOOL_FILES", ())
    assert violations("web/ruff.toml", {}) == ()


@each(("level", "refused"), [("fail", True), ("warn", False), ("off", False)])
def test_the_policy_may_allow_them_as_it_may_dependency_files(level: str, refused: bool) -> None:
    policy = {"flags": {"tool-settings": level, "dependency-file": level}}
    assert bool(violations("ruff.toml", {}, policy=policy)) is refused
    assert bool(violations("uv.lock", {}, policy=policy)) is refused
