"""Settings of runners, builds and compilers: looser is reported, as strict or stricter is not."""

from itertools import pairwise

from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.verdict.flags import judge
from gitlab_nightshift.verdict.reviewed_change import Context
from tests.support.pairs import change_of
from tests.support.tables import each

RAKE = """\
require "rake/testtask"

Rake::TestTask.new do |t|
  t.pattern = "test/**/*_test.rb"
  t.warning = true
end

RSpec::Core::RakeTask.new(:spec) do |t|
  t.rspec_opts = "--color"
end

RuboCop::RakeTask.new

task default: %i[test spec rubocop]

task :types do
  sh "bundle exec srb tc"
end
"""
GRADLE = """\
plugins {
    id "java"
    id "checkstyle"
}
tasks.withType(JavaCompile) {
    options.compilerArgs += ["-Xlint:all", "-Werror"]
}
test {
    useJUnitPlatform()
}
check.dependsOn integrationTest, spotlessCheck
"""
POM = """\
<project><build><plugins><plugin>
<artifactId>maven-compiler-plugin</artifactId>
<configuration>
<compilerArgs>
<arg>-Xlint:all</arg>
<arg>-Werror</arg>
</compilerArgs>
<failOnWarning>true</failOnWarning>
</configuration>
<executions><execution>
<phase>verify</phase>
<goals>
<goal>check</goal>
</goals>
</execution></executions>
</plugin></plugins></build></project>
"""
SBT = """\
scalacOptions ++= Seq("-Xlint", "-Xfatal-warnings")
addCommandAlias("ci", "scalafmtCheckAll; scalafixAll --check; test")
"""
CSPROJ = """\
<Project Sdk="Microsoft.NET.Sdk">
  <PropertyGroup>
    <Nullable>enable</Nullable>
    <TreatWarningsAsErrors>true</TreatWarningsAsErrors>
    <WarningLevel>9</WarningLevel>
  </PropertyGroup>
</Project>
"""
CARGOC = """\
[alias]
ci = "test --all-features"
lint = ["clippy", "--all-targets", "--", "-D", "warnings"]

[build]
rustflags = ["-D", "warnings"]
"""
TASK = """\
version: "3"
tasks:
  check:
    deps: [lint, test]
  lint:
    cmds:
      - golangci-lint run
  test:
    cmds:
      - go test ./...
"""
COMPOSER = """\
{"scripts": {"test": "phpunit", "check": ["@lint", "@test"], "lint": "phpstan analyse --level 8"}}
"""
TOX = """\
[tox]
env_list = py312, lint

[testenv]
commands =
    pytest

[testenv:lint]
commands =
    ruff check .
"""
NOX = """\
import nox

nox.options.sessions = ["lint", "tests"]


@nox.session
def tests(session):
    session.run("pytest", "tests")


@nox.session
def lint(session):
    session.run("ruff", "check", ".")
"""
INV = """\
from invoke import task


@task
def test(c):
    c.run("pytest -q")
"""
JUST = """\
check: lint test

lint:
    ruff check .

test:
    pytest
"""
PHPSTAN = """\
parameters:
    level: 8
    paths:
        - src
"""
MOCHA = """\
{
  "spec": ["test/**/*.spec.js"],
  "forbidOnly": true
}
"""
PRE = """\
repos:
  - repo: https://github.com/astral-sh/ruff-pre-commit
    rev: v0.5.0
    hooks:
      - id: ruff
      - id: ruff-format
  - repo: https://github.com/pre-commit/mirrors-mypy
    rev: v1.10.0
    hooks:
      - id: mypy
"""

LOOSER = [
    ("test-skipped", ".rspec", "--require spec_helper\n", "helper\n", "helper\n--tag ~currency\n"),
    (
        "test-skipped",
        ".rspec",
        "--require spec_helper\n",
        "helper\n",
        "helper --exclude-pattern spec/slow/**/*\n",
    ),
    (
        "test-skipped",
        ".rspec",
        "--require spec_helper\n--tag ~slow\n",
        "slow\n",
        "slow\n--tag ~db\n",
    ),
    ("test-skipped", "pytest.ini", "[pytest]\naddopts = -q\n", "-q", "-q --ignore=tests/db"),
    ("test-skipped", "pytest.ini", "[pytest]\naddopts = -q\n", "-q", "-q -m 'not slow'"),
    (
        "test-skipped",
        "setup.cfg",
        "[tool:pytest]\naddopts = -q\n",
        "-q",
        "-q --deselect tests/a.py::test_b",
    ),
    (
        "test-skipped",
        ".mocharc.json",
        MOCHA,
        '"forbidOnly": true',
        '"forbidOnly": true, "ignore": ["test/db.spec.js"]',
    ),
    ("test-skipped", ".mocharc.json", MOCHA, '"test/**/*.spec.js"', '"test/**/fast.spec.js"'),
    (
        "test-skipped",
        ".mocharc.yml",
        "spec: test\n",
        "spec: test\n",
        "spec: test\nignore:\n  - test/db.js\n",
    ),
    ("test-skipped", ".mocharc.yml", "spec: test\n", "spec: test\n", "spec: test\ngrep: fast\n"),
    (
        "test-skipped",
        "package.json",
        '{"mocha": {"spec": "test"}}',
        '"test"',
        '"test", "ignore": "test/db.js"',
    ),
    (
        "test-skipped",
        "package.json",
        '{"ava": {"files": ["test/**"]}}',
        '"test/**"',
        '"test/**", "!test/db.js"',
    ),
    (
        "test-skipped",
        "spec/support/jasmine.json",
        '{"spec_files": ["**/*[sS]pec.js"]}\n',
        '"**/*[sS]pec.js"',
        '"**/*[sS]pec.js", "!**/dbSpec.js"',
    ),
    (
        "test-skipped",
        "playwright.config.ts",
        "export default { testDir: 'e2e' };\n",
        "'e2e'",
        "'e2e',\n  grepInvert: /@slow/",
    ),
    (
        "test-skipped",
        "cypress.config.js",
        "module.exports = { e2e: {} };\n",
        "{}",
        "{ excludeSpecPattern: ['**/cart.cy.js'] }",
    ),
    (
        "test-skipped",
        "vitest.config.ts",
        "export default { test: { include: ['a/**'] } };\n",
        "['a/**']",
        "['a/**'], exclude: ['a/db.test.ts']",
    ),
    (
        "test-skipped",
        "build.gradle",
        GRADLE,
        "useJUnitPlatform()",
        "useJUnitPlatform { excludeTags 'slow' }",
    ),
    (
        "test-skipped",
        "build.gradle",
        GRADLE,
        "useJUnitPlatform()",
        "useJUnitPlatform()\n    filter { excludeTestsMatching '*DbTest' }",
    ),
    (
        "test-skipped",
        "build.gradle.kts",
        "tasks.test { useJUnitPlatform() }\n",
        "useJUnitPlatform()",
        'useJUnitPlatform { excludeTags("slow") }',
    ),
    (
        "test-skipped",
        "build.sbt",
        SBT,
        "addCommand",
        'Test / testOptions += Tests.Argument("-l", "Slow")\naddCommand',
    ),
    (
        "test-skipped",
        "Cargo.toml",
        '[package]\nname = "a"\n\n[lib]\nname = "a"\n',
        "[lib]\n",
        "[lib]\ntest = false\n",
    ),
    (
        "test-skipped",
        "Cargo.toml",
        '[package]\nname = "a"\n',
        'name = "a"\n',
        'name = "a"\nautotests = false\n',
    ),
    (
        "test-skipped",
        ".config/nextest.toml",
        "[profile.default]\nfail-fast = false\n",
        "false\n",
        'false\ndefault-filter = "not test(db)"\n',
    ),
    (
        "test-skipped",
        "phpunit.xml",
        "<phpunit><testsuites><a><directory>a</directory></a></testsuites></phpunit>\n",
        "</directory>",
        "</directory><exclude>tests/Db</exclude>",
    ),
    (
        "test-skipped",
        "testng.xml",
        '<suite name="a"><test name="b"><groups><run></run></groups></test></suite>\n',
        "<run>",
        '<run><exclude name="slow"/>',
    ),
    (
        "test-skipped",
        "src/test/resources/junit-platform.properties",
        "a=b\n",
        "a=b\n",
        "a=b\njunit.jupiter.execution.order=x\njunit.platform.excludeTags=slow\n",
    ),
    (
        "test-skipped",
        "a.runsettings",
        "<RunSettings><A><MaxCpuCount>0</MaxCpuCount></A></RunSettings>\n",
        "</MaxCpuCount>",
        "</MaxCpuCount><TestCaseFilter>Category!=Db</TestCaseFilter>",
    ),
    (
        "test-skipped",
        "test/test_helper.exs",
        "ExUnit.start()\n",
        "ExUnit.start()",
        "ExUnit.start(exclude: [:db])",
    ),
    (
        "test-skipped",
        "spec/spec_helper.rb",
        "RSpec.configure do |config|\nend\n",
        "|config|\n",
        "|config|\n  config.filter_run_excluding :db\n",
    ),
    (
        "test-skipped",
        "karma.conf.js",
        "module.exports = (c) => c.set({ files: ['test/*.js'] });\n",
        "] }",
        "], exclude: ['test/db.js'] }",
    ),
    ("ci-loosened", "Rakefile", RAKE, "test/**/*_test.rb", "test/**/job_test.rb"),
    ("ci-loosened", "Rakefile", RAKE, "%i[test spec rubocop]", "%i[test]"),
    ("ci-loosened", "Rakefile", RAKE, "RuboCop::RakeTask.new\n", ""),
    (
        "ci-loosened",
        "Rakefile",
        RAKE,
        "t.warning = true",
        "t.warning = true\n  t.fail_on_error = false",
    ),
    ("ci-loosened", "Rakefile", RAKE, "srb tc", "srb tc || true"),
    ("test-skipped", "Rakefile", RAKE, "--color", "--color --tag ~db"),
    (
        "ci-loosened",
        "lib/tasks/lint.rake",
        'task :lint do\n  sh "rubocop"\nend\n',
        '"rubocop"',
        '"rubocop || true"',
    ),
    ("ci-loosened", "build.gradle", GRADLE, "integrationTest, spotlessCheck", "integrationTest"),
    (
        "ci-loosened",
        "build.gradle",
        GRADLE,
        "useJUnitPlatform()",
        "useJUnitPlatform()\n    enabled = false",
    ),
    (
        "ci-loosened",
        "build.gradle",
        GRADLE,
        "useJUnitPlatform()",
        "useJUnitPlatform()\n    onlyIf { false }",
    ),
    (
        "ci-loosened",
        "build.gradle",
        GRADLE,
        "useJUnitPlatform()",
        "useJUnitPlatform()\n    ignoreFailures = true",
    ),
    ("linter-loosened", "build.gradle", GRADLE, '    id "checkstyle"\n', ""),
    ("types-loosened", "build.gradle", GRADLE, ', "-Werror"', ""),
    (
        "types-loosened",
        "build.gradle.kts",
        "kotlin { compilerOptions { allWarningsAsErrors.set(true) } }\n",
        "true",
        "false",
    ),
    (
        "types-loosened",
        "build.gradle.kts",
        "kotlin { compilerOptions { progressiveMode = true } }\n",
        "progressiveMode",
        "suppressWarnings = true\n  progressiveMode",
    ),
    ("types-loosened", "pom.xml", POM, "<arg>-Werror</arg>\n", ""),
    ("types-loosened", "pom.xml", POM, "<failOnWarning>true", "<failOnWarning>false"),
    ("ci-loosened", "pom.xml", POM, "<phase>verify", "<phase>none"),
    ("ci-loosened", "pom.xml", POM, "<goal>check</goal>", "<goal>report</goal>"),
    ("ci-loosened", "pom.xml", POM, "</compilerArgs>", "</compilerArgs><skip>true</skip>"),
    ("types-loosened", "build.sbt", SBT, ', "-Xfatal-warnings"', ""),
    ("types-loosened", "build.sbt", SBT, '"-Xfatal-warnings"', '"-nowarn"'),
    (
        "types-loosened",
        "build.sbt",
        SBT,
        "addCommand",
        'Compile / scalacOptions -= "-Xfatal-warnings"\naddCommand',
    ),
    ("ci-loosened", "build.sbt", SBT, "scalafmtCheckAll; ", ""),
    ("ci-loosened", ".cargo/config.toml", CARGOC, '"test --all-features"', '"test --lib"'),
    (
        "types-loosened",
        ".cargo/config.toml",
        CARGOC,
        'rustflags = ["-D", "warnings"]',
        "rustflags = []",
    ),
    ("ci-loosened", "Taskfile.yml", TASK, "[lint, test]", "[lint]"),
    ("ci-loosened", "Taskfile.yml", TASK, "golangci-lint run", "golangci-lint run || true"),
    ("ci-loosened", "composer.json", COMPOSER, '"@lint", ', ""),
    ("ci-loosened", "composer.json", COMPOSER, '"phpunit"', '"phpunit || true"'),
    (
        "ci-loosened",
        "composer.json",
        COMPOSER.replace("phpunit", "phpspec run"),
        '"phpspec run"',
        '"phpspec run || true"',
    ),
    ("ci-loosened", "tox.ini", TOX, "py312, lint", "py312"),
    ("ci-loosened", "tox.ini", TOX, "    pytest\n", "    pytest\nignore_outcome = true\n"),
    ("ci-loosened", "noxfile.py", NOX, '["lint", "tests"]', '["lint"]'),
    ("ci-loosened", "noxfile.py", NOX, '"tests")', '"tests", success_codes=[0, 1])'),
    ("ci-loosened", "tasks.py", INV, '"pytest -q")', '"pytest -q", warn=True)'),
    ("ci-loosened", "justfile", JUST, "lint test\n", "lint\n"),
    ("ci-loosened", "justfile", JUST, "    pytest\n", "    -pytest\n"),
    (
        "ci-loosened",
        "pyproject.toml",
        '[tool.poe.tasks]\ncheck = ["lint", "test"]\nlint = "ruff check ."\ntest = "pytest"\n',
        '["lint", "test"]',
        '["test"]',
    ),
    ("linter-loosened", ".pre-commit-config.yaml", PRE, "      - id: ruff\n", ""),
    (
        "linter-loosened",
        ".pre-commit-config.yaml",
        PRE,
        PRE[PRE.index("  - repo: https://github.com/pre-commit/mirrors-mypy") :],
        "",
    ),
    ("types-loosened", "phpstan.neon", PHPSTAN, "8", "5"),
    (
        "types-loosened",
        "phpstan.neon",
        PHPSTAN,
        "- src\n",
        '- src\n    ignoreErrors:\n        - "#a#"\n',
    ),
    ("types-loosened", "phpstan.neon", PHPSTAN.replace("src", "%dir%/src"), "8", "5"),
    ("types-loosened", "phpstan.neon", PHPSTAN.replace("    ", "\t"), "8", "5"),
    ("types-loosened", "App.csproj", CSPROJ, "Errors>true", "Errors>false"),
    ("types-loosened", "App.csproj", CSPROJ, "<Nullable>enable", "<Nullable>disable"),
    ("types-loosened", "App.csproj", CSPROJ, "9", "1"),
    (
        "types-loosened",
        "Directory.Build.props",
        CSPROJ,
        "    <TreatWarningsAsErrors>true</TreatWarningsAsErrors>\n",
        "",
    ),
    ("types-loosened", "lib/a.rb", "# typed: strict\n\nx = 1\n", "strict", "false"),
    ("types-loosened", "lib/a.rb", "# typed: strict\n\nx = 1\n", "# typed: strict\n", ""),
    (
        "types-loosened",
        "src/a.php",
        "<?php\ndeclare(strict_types=1);\n$a = 1;\n",
        "declare(strict_types=1);\n",
        "",
    ),
    ("types-loosened", "src/lib.rs", "#![deny(warnings)]\nfn a() {}\n", "deny", "warn"),
    (
        "types-loosened",
        "src/lib.rs",
        "#![deny(warnings, missing_docs)]\nfn a() {}\n",
        ", missing_docs",
        "",
    ),
    ("types-loosened", "src/a.js", "// @ts-check\nexport const a = 1;\n", "// @ts-check\n", ""),
    ("types-loosened", "src/a.py", "# pyright: strict\nx = 1\n", "strict", "basic"),
]
HONEST = [
    ("Rakefile", RAKE, "test/**/*_test.rb", "{test,spec}/**/*_test.rb"),
    ("Rakefile", RAKE, "%i[test spec rubocop]", "%i[rubocop test spec types]"),
    ("Rakefile", RAKE, "--color", "--color --format progress"),
    ("Rakefile", RAKE, "bundle exec srb tc", "srb tc"),
    (
        ".rspec",
        "--require spec_helper\n",
        "helper\n",
        "helper\n--format documentation\n--order random\n",
    ),
    ("pytest.ini", "[pytest]\naddopts = -q\n", "-q", "-q --strict-markers -ra\ntestpaths = tests"),
    (
        "build.gradle",
        GRADLE,
        "integrationTest, spotlessCheck",
        "spotlessCheck, integrationTest, pmdMain",
    ),
    ("build.gradle", GRADLE, '"-Xlint:all", "-Werror"', '"-Werror", "-Xlint:all", "-parameters"'),
    ("pom.xml", POM, "<phase>verify", "<phase>package"),
    ("build.sbt", SBT, '"-Xfatal-warnings"', '"-Werror"'),
    (".cargo/config.toml", CARGOC, "lint =", 'fmt = "fmt --check"\nlint ='),
    ("Taskfile.yml", TASK, "go test ./...", "go test -race ./..."),
    ("composer.json", COMPOSER, '"phpunit"', '"phpunit --colors=always"'),
    ("tox.ini", TOX, "py312, lint", "py312, py313, lint, docs"),
    ("noxfile.py", NOX, '["lint", "tests"]', '["tests", "lint"]'),
    ("noxfile.py", NOX, '"pytest", "tests"', '"pytest", "-q", "tests"'),
    (".pre-commit-config.yaml", PRE, "v0.5.0", "v0.6.1"),
    ("lib/a.rb", "# typed: true\n\nx = 1\n", "true", "strict"),
    ("src/lib.rs", "#![warn(missing_docs)]\nfn a() {}\n", "warn", "deny"),
    ("src/lib.rs", "#![deny(warnings)]\nfn a() {}\n", "deny", "forbid"),
    (
        "App.csproj",
        CSPROJ,
        "    <Nullable>enable</Nullable>",
        "    <ImplicitUsings>enable</ImplicitUsings>\n    <Nullable>enable</Nullable>",
    ),
    (
        "Cargo.toml",
        '[package]\nname = "a"\n',
        'name = "a"\n',
        'name = "a"\ndescription = "ignore and skip"\n',
    ),
    (
        "config/app.yml",
        "ignore: [a]\nskip: false\n",
        "skip: false",
        "skip: true\nignore_errors: true\nretries: 3",
    ),
    ("config/settings.json", '{"exclude": ["a"], "skip": true}\n', '"a"', '"a", "b"'),
    ("src/config.py", "IGNORED = ['a']\n", "'a'", "'a', 'b'"),
    ("docker-compose.yml", "services:\n  a:\n    command: run\n", "run", "run || true"),
    (".gitignore", "dist\n", "dist\n", "dist\n*.log\n"),
    (".dockerignore", "dist\n", "dist\n", "dist\ntests\n"),
    ("helm/values.yaml", "test:\n  enabled: true\n", "true", "false"),
    ("src/main/resources/application.yml", "retry: 1\nskip: false\n", "1", "5"),
    ("locales/en.yml", "skip: Skip\nignore: Ignore\n", "Skip\n", "Skip this step\n"),
    ("README.md", "Run `make test`.\n", "make test", "make test || true"),
]
LOOSENED = frozenset(
    ("linter-loosened", "types-loosened", "coverage-loosened", "ci-loosened", "test-skipped")
)


def _loosened(path: str, before: str, after: str) -> set[str]:
    found = judge(change_of({path: before}, {path: after}), Context(Settings()))
    return {each.name for each in found} & LOOSENED


@each(("flag", "path", "text", "old", "new"), LOOSER)
def test_looser(flag: str, path: str, text: str, old: str, new: str) -> None:
    assert old in text
    assert flag in _loosened(path, text, text.replace(old, new))


@each(("flag", "path", "text", "old", "new"), LOOSER)
def test_stricter(flag: str, path: str, text: str, old: str, new: str) -> None:
    assert _loosened(path, text.replace(old, new), text) == set()


@each(("path", "text", "old", "new"), HONEST)
def test_as_strict(path: str, text: str, old: str, new: str) -> None:
    assert old in text
    assert _loosened(path, text, text.replace(old, new)) == set()


def test_a_source_file_that_goes_takes_no_settings_along() -> None:
    files = {
        "lib/a.rb": "# typed: strict\nx = 1\n",
        "src/a.php": "<?php declare(strict_types=1);\n",
    }
    found = judge(change_of(files, {}), Context(Settings()))
    assert {each.name for each in found} & LOOSENED == set()


@each("link", ["[{}]", "{{<<: [{}]}}"])
def test_settings_of_aliases_of_aliases_are_not_written_out(link: str) -> None:
    """Ten lines that stand for billions of values would hold up whatever reads them."""
    names = "abcdefghijk"
    lines = [f"{b}: &{b} " + link.format(", ".join([f"*{a}"] * 9)) for a, b in pairwise(names)]
    text = "\n".join(["a: &a {x: 1}", *lines, "k2: *k", ""])
    assert _loosened(".golangci.yml", "run: {}\n", text) == set()
