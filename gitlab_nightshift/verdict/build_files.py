"""What a repository's build files imply: the commands that build and test it."""

import json
import re
from collections.abc import Callable, Collection

Read = Callable[[str], bytes | None]

_MAKE_TARGETS = ("test", "check", "lint", "build", "fmt")
_NPM_SCRIPTS = ("test", "lint", "build", "typecheck")
_NPM_BY_LOCK = {
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lock": "bun",
    "bun.lockb": "bun",
}
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
    "mix.exs": ("mix compile", "mix test", "mix format --check-formatted"),
    "Package.swift": ("swift build", "swift test"),
    "pubspec.yaml": ("dart analyze", "dart test"),
    "deno.json": ("deno test", "deno lint"),
    "stack.yaml": ("stack build", "stack test"),
    "MODULE.bazel": ("bazel build //...", "bazel test //..."),
}


def build_commands(files: Collection[str], read: Read) -> tuple[str, ...]:
    """Commands that build or test, from the files at the root; ``read`` gives a file's bytes."""
    found: list[str] = []
    makefile = next((name for name in ("GNUmakefile", "makefile", "Makefile") if name in files), "")
    found += _find_make_commands(read(makefile) if makefile else None)
    for name, commands in _BY_FILE.items():
        found += commands if name in files else ()
    npm = next((program for lock, program in _NPM_BY_LOCK.items() if lock in files), "npm")
    found += _find_npm_commands(read("package.json") if "package.json" in files else None, npm)
    if any("/" not in name and name.endswith((".sln", ".csproj", ".fsproj")) for name in files):
        found += ("dotnet build", "dotnet test")
    return tuple(dict.fromkeys(found))


def list_default_allowed_commands(files: Collection[str], read: Read) -> tuple[str, ...]:
    """The default of ``allowed_commands``: git, and what the build files imply."""
    return ("git", *build_commands(files, read))


def _find_make_commands(text: bytes | None) -> list[str]:
    rules = re.findall(rb"^([\w.][\w. \t-]*):(?![:=]*=)", text or b"", re.MULTILINE)
    targets = {target for rule in rules for target in rule.split()}
    return [f"make {name}" for name in _MAKE_TARGETS if name.encode() in targets]


def _find_npm_commands(text: bytes | None, program: str) -> list[str]:
    try:
        scripts = json.loads(text or b"{}").get("scripts", {})
    except (ValueError, AttributeError, RecursionError):
        return []
    known = [name for name in _NPM_SCRIPTS if isinstance(scripts, dict) and name in scripts]
    return [
        "npm test" if (program, name) == ("npm", "test") else f"{program} run {name}"
        for name in known
    ]
