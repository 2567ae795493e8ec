"""What build files imply: the default of ``allowed_commands``."""

from collections.abc import Mapping

from gitlab_nightshift.proof.implied_commands import build_commands, list_default_allowed_commands
from gitlab_nightshift.settings.model import Settings
from tests.support.tables import each

PYTEST = ("pytest", "python -m pytest")
MAKEFILE = b"""\
CC := gcc
build := x
lint ::= y
all: build
.PHONY: fmt
test check: deps ## run
\tlint: no target
build::
\tcc x
"""
SCRIPTS = b'{"scripts": {"test": "jest", "lint": "eslint .", "start": "x", "build": "tsc"}}'


def implied(files: Mapping[str, bytes]) -> tuple[str, ...]:
    return build_commands(files.keys(), files.get)


@each(
    ("name", "commands"),
    [
        ("build.sbt", ("sbt compile", "sbt test", "sbt fmtCheck", "sbt fmt")),
        ("pyproject.toml", PYTEST),
        ("pytest.ini", PYTEST),
        ("setup.cfg", PYTEST),
        ("tox.ini", ("tox",)),
        ("noxfile.py", ("nox",)),
        ("pom.xml", ("mvn compile", "mvn test")),
        ("mvnw", ("./mvnw compile", "./mvnw test")),
        ("build.gradle.kts", ("gradle build", "gradle test")),
        ("gradlew", ("./gradlew build", "./gradlew test")),
        ("go.mod", ("go build ./...", "go test ./...", "go vet ./...")),
        ("Cargo.toml", ("cargo build", "cargo check", "cargo test", "cargo clippy")),
        ("Gemfile", ("bundle exec rake test", "bundle exec rspec")),
        ("composer.json", ("composer test", "vendor/bin/phpunit")),
        ("mix.exs", ("mix compile", "mix test", "mix format --check-formatted")),
        ("Package.swift", ("swift build", "swift test")),
        ("pubspec.yaml", ("dart analyze", "dart test")),
        ("deno.json", ("deno test", "deno lint")),
        ("stack.yaml", ("stack build", "stack test")),
        ("MODULE.bazel", ("bazel build //...", "bazel test //...")),
        ("Shop.sln", ("dotnet build", "dotnet test")),
        ("Shop.csproj", ("dotnet build", "dotnet test")),
        ("README.md", ()),
    ],
)
def test_one_build_file(name: str, commands: tuple[str, ...]) -> None:
    assert implied({name: b""}) == commands
    assert implied({f"sub/{name}": b""}) == (), "only at the root"
    assert list_default_allowed_commands({name}, lambda _: b"") == ("git", *commands)
    Settings(allowed_commands=list(commands), verify_commands=list(commands))


@each("name", ["Makefile", "makefile", "GNUmakefile"])
def test_make_targets_that_are_there(name: str) -> None:
    assert implied({name: MAKEFILE}) == ("make test", "make check", "make build")


def test_make_reads_one_makefile() -> None:
    files = {"Makefile": b"test:\n", "GNUmakefile": b"check:\n"}
    assert implied(files) == ("make check",)


@each(
    ("lock", "commands"),
    [
        ("package-lock.json", ("npm test", "npm run lint", "npm run build")),
        ("yarn.lock", ("yarn run test", "yarn run lint", "yarn run build")),
        ("pnpm-lock.yaml", ("pnpm run test", "pnpm run lint", "pnpm run build")),
        ("bun.lock", ("bun run test", "bun run lint", "bun run build")),
    ],
)
def test_scripts_by_the_package_manager_in_use(lock: str, commands: tuple[str, ...]) -> None:
    assert implied({"package.json": SCRIPTS, lock: b""}) == commands


@each(
    "text",
    [b"", b"{", b"\xff", b"[]", b"5", b'{"scripts": null}', b'{"scripts": ["test"]}', b"[" * 99999],
)
def test_a_broken_package_json_implies_nothing(text: bytes) -> None:
    assert implied({"package.json": text}) == ()


def test_a_file_that_cannot_be_read_implies_nothing() -> None:
    assert build_commands({"Makefile", "package.json"}, lambda _: None) == ()


def test_several_build_files_and_no_command_twice() -> None:
    files = {"Makefile": b"test:\n", "pyproject.toml": b"", "setup.py": b"", "Cargo.toml": b""}
    found = implied(files)
    assert found[:3] == ("make test", *PYTEST)
    assert len(found) == len(set(found)) == 7
