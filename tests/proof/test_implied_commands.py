"""What proves a change where the settings name no command."""

from collections.abc import Mapping

from gitlab_nightshift.proof.implied_commands import BuildFiles, find_test_commands
from tests.support.tables import each

SCRIPTS = b'{"scripts": {"test": "jest", "lint": "eslint ."}}'
FROM_INIT = b'{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'
PYTEST = {"pyproject.toml": b"[tool.pytest.ini_options]\n", "tests/test_a.py": b""}
UNITTEST = {"setup.py": b"", "test_shop.py": b""}


def implied(files: Mapping[str, bytes], *there: str) -> tuple[str, ...]:
    return find_test_commands(BuildFiles(files.keys(), files.get, lambda path: path in there))


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
    assert implied(files) == commands


def test_the_interpreter_that_the_job_made_is_used() -> None:
    assert implied(PYTEST, ".venv/bin/python") == (".venv/bin/python -m pytest",)
    assert implied(UNITTEST, "venv/bin/python") == ("venv/bin/python -m unittest",)
