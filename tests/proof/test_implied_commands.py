"""Which commands build files imply if the settings name none."""

from collections.abc import Mapping

from gitlab_nightshift.proof.implied_commands import (
    RepositoryFiles,
    find_test_commands,
    list_build_commands,
    list_default_allowed_commands,
)
from gitlab_nightshift.settings.model import Settings
from tests.support.tables import each

SCRIPTS = b'{"scripts": {"test": "jest", "lint": "eslint ."}}'
FROM_INIT = b'{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'
PYTEST = {"pyproject.toml": b"[tool.pytest.ini_options]\n", "tests/test_a.py": b""}
UNITTEST = {"setup.py": b"", "test_shop.py": b""}


def imply(files: Mapping[str, bytes], *installed: str) -> tuple[str, ...]:
    return find_test_commands(
        RepositoryFiles(files.keys(), files.get, lambda path: path in installed)
    )


@each(
    ("files", "commands"),
    [
        ({"Makefile": b"all:\ntest: build\n", "package.json": SCRIPTS}, ("make test",)),
        ({"Makefile": b"check:\n"}, ("make check",)),
        ({"Makefile": b"build:\n", "go.mod": b""}, ("go test ./...",)),
        ({"package.json": SCRIPTS}, ("npm test",)),
        ({"package.json": SCRIPTS, "yarn.lock": b""}, ("yarn test",)),
        ({"package.json": FROM_INIT}, ()),
        ({"package.json": b'{"scripts": {"lint": "x"}}'}, ()),
        ({"package.json": b"[]"}, ()),
        (PYTEST, ("python3 -m pytest",)),
        ({**PYTEST, "poetry.lock": b""}, ("poetry run python -m pytest",)),
        ({**PYTEST, "uv.lock": b""}, ("uv run --offline --no-sync python -m pytest",)),
        (UNITTEST, ("python3 -m unittest",)),
        ({**UNITTEST, "requirements-dev.txt": b"pytest>=8\n"}, ("python3 -m pytest",)),
        ({**UNITTEST, "pyproject.toml": b"# not pytest\n"}, ("python3 -m unittest",)),
        ({"tox.ini": b"[tox]\n"}, ("tox",)),
        ({"noxfile.py": b"", "setup.cfg": b""}, ("nox",)),
        ({"setup.py": b""}, ()),
        ({"build.sbt": b""}, ("sbt test",)),
        ({"pom.xml": b""}, ("mvn -B -o test",)),
        ({"pom.xml": b"", "mvnw": b""}, ("./mvnw -B -o test",)),
        ({"build.gradle.kts": b"", "gradlew": b""}, ("./gradlew --offline test",)),
        ({"go.mod": b"", "a_test.go": b""}, ("go test ./...",)),
        ({"Cargo.toml": b""}, ("cargo test --offline",)),
        ({"Gemfile": b"", "spec/a_spec.rb": b""}, ("bundle exec rspec",)),
        ({"Gemfile": b"", "Rakefile": b"", "test/a_test.rb": b""}, ("bundle exec rake test",)),
        ({"Rakefile": b"", "test/a_test.rb": b""}, ("rake test",)),
        ({"composer.json": b'{"scripts": {"test": "phpunit"}}'}, ("composer test",)),
        ({"composer.json": b"{}", "phpunit.xml.dist": b""}, ("vendor/bin/phpunit",)),
        ({"Shop.sln": b""}, ("dotnet test --no-restore",)),
        ({"mix.exs": b""}, ("mix test",)),
        ({"go.mod": b"", "package.json": SCRIPTS}, ("npm test", "go test ./...")),
        ({"README.md": b""}, ()),
        ({"sub/go.mod": b""}, ()),
    ],
)
def test_the_build_files_say_what_to_run(
    files: Mapping[str, bytes], commands: tuple[str, ...]
) -> None:
    assert imply(files) == commands


def test_the_interpreter_of_the_checkout_is_used() -> None:
    assert imply(PYTEST, ".venv/bin/python") == (".venv/bin/python -m pytest",)
    assert imply(UNITTEST, "venv/bin/python") == ("venv/bin/python -m unittest",)


# --- the default of allowed_commands --------------------------------------------------------------


PYTEST_COMMANDS = ("pytest", "python -m pytest")
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
NPM_SCRIPTS = b'{"scripts": {"test": "jest", "lint": "eslint .", "start": "x", "build": "tsc"}}'


def list_allowed(files: Mapping[str, bytes]) -> tuple[str, ...]:
    return list_build_commands(files.keys(), files.get)


@each(
    ("name", "commands"),
    [
        ("build.sbt", ("sbt compile", "sbt test", "sbt fmtCheck", "sbt fmt")),
        ("pyproject.toml", PYTEST_COMMANDS),
        ("pytest.ini", PYTEST_COMMANDS),
        ("setup.cfg", PYTEST_COMMANDS),
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
    assert list_allowed({name: b""}) == commands
    assert list_allowed({f"sub/{name}": b""}) == (), "only at the root"
    assert list_default_allowed_commands({name}, lambda _: b"") == ("git", *commands)
    Settings(allowed_commands=list(commands), verify_commands=list(commands))


@each("name", ["Makefile", "makefile", "GNUmakefile"])
def test_make_targets_imply_commands(name: str) -> None:
    assert list_allowed({name: MAKEFILE}) == ("make test", "make check", "make build")


def test_make_reads_one_makefile() -> None:
    files = {"Makefile": b"test:\n", "GNUmakefile": b"check:\n"}
    assert list_allowed(files) == ("make check",)


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
    assert list_allowed({"package.json": NPM_SCRIPTS, lock: b""}) == commands


@each(
    "text",
    [b"", b"{", b"\xff", b"[]", b"5", b'{"scripts": null}', b'{"scripts": ["test"]}', b"[" * 99999],
)
def test_a_broken_package_json_implies_nothing(text: bytes) -> None:
    assert list_allowed({"package.json": text}) == ()


def test_a_file_that_cannot_be_read_implies_nothing() -> None:
    assert list_build_commands({"Makefile", "package.json"}, lambda _: None) == ()


def test_several_build_files_and_no_command_twice() -> None:
    files = {"Makefile": b"test:\n", "pyproject.toml": b"", "setup.py": b"", "Cargo.toml": b""}
    found = list_allowed(files)
    assert found[:3] == ("make test", *PYTEST_COMMANDS)
    assert len(found) == len(set(found)) == 7
