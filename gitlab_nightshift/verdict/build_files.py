"""What a repository's build files imply: the commands that build and test it."""

import json
import re
from collections.abc import Callable, Collection

Read = Callable[[str], bytes | None]

_MAKE_TARGETS = ("test", "check", "lint", "build", "fmt")
_NPM_SCRIPTS = ("test", "lint", "build", "typecheck")
_BY_FILE: dict[str, tuple[str, ...]] = {
    "build.sbt": ("sbt compile", "sbt test", "sbt fmtCheck", "sbt fmt"),
    "pytest.ini": ("pytest", "python -m pytest"),
    "setup.py": ("pytest", "python -m pytest"),
    "setup.cfg": ("pytest", "python -m pytest"),
    "pyproject.toml": ("pytest", "python -m pytest"),
    "tox.ini": ("tox",),
    "noxfile.py": ("nox",),
    "mvnw": ("./mvnw compile", "./mvnw test"),
    "pom.xml": ("mvn compile", "mvn test"),
    "gradlew": ("./gradlew build", "./gradlew test"),
    "build.gradle": ("gradle build", "gradle test"),
    "build.gradle.kts": ("gradle build", "gradle test"),
    "go.mod": ("go build ./...", "go test ./...", "go vet ./..."),
    "Cargo.toml": ("cargo build", "cargo check", "cargo test", "cargo clippy"),
    "Gemfile": ("bundle exec rake test", "bundle exec rspec"),
    "composer.json": ("composer test", "vendor/bin/phpunit"),
}


def build_commands(files: Collection[str], read: Read) -> tuple[str, ...]:
    """Commands that build or test, from the files at the root; ``read`` gives a file's bytes."""
    found: list[str] = []
    for name in ("Makefile", "GNUmakefile", "makefile"):
        found += _make(read(name) if name in files else None)
    for name, commands in _BY_FILE.items():
        found += commands if name in files else ()
    found += _npm(read("package.json") if "package.json" in files else None)
    if any("/" not in name and name.endswith((".sln", ".csproj", ".fsproj")) for name in files):
        found += ("dotnet build", "dotnet test")
    return tuple(dict.fromkeys(found))


def default_allowed_commands(files: Collection[str], read: Read) -> tuple[str, ...]:
    """The default of ``allowed_commands``: git, and what the build files imply."""
    return ("git", *build_commands(files, read))


def _make(text: bytes | None) -> list[str]:
    targets = set(re.findall(rb"^([\w.-]+)\s*:(?!=)", text or b"", re.MULTILINE))
    return [f"make {name}" for name in _MAKE_TARGETS if name.encode() in targets]


def _npm(text: bytes | None) -> list[str]:
    try:
        scripts = json.loads(text or b"{}").get("scripts", {})
    except (ValueError, AttributeError):
        return []
    known = [name for name in _NPM_SCRIPTS if isinstance(scripts, dict) and name in scripts]
    return ["npm test" if name == "test" else f"npm run {name}" for name in known]
