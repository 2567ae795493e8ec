"""The commands that a repository's build files imply, to build it and to test it."""

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_ReadFile = Callable[[str], bytes | None]

_MAKE_TARGETS = ("test", "check", "lint", "build", "fmt")
_PACKAGE_SCRIPTS = ("test", "lint", "build", "typecheck")
_BUILD_FILES: dict[str, dict[str, Any]] = RuleTable(__file__).entries
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
"""In the order in which Make looks for them (GNU make, "What Name to Give Your Makefile")."""
VENVS = (".venv", "venv")
NO_TEST = "no test specified"  # part of the test script that ``npm init`` writes


def list_build_commands(paths: Collection[str], read: _ReadFile) -> tuple[str, ...]:
    """Commands that build or test; ``read`` returns the bytes of a file at the root."""
    targets = _read_root_targets(paths, read)
    commands = [f"make {name}" for name in _MAKE_TARGETS if name in targets]
    for build_file, implied in _BUILD_FILES["commands"].items():
        commands += implied if build_file in paths else ()
    manager = _find_package_manager(paths)
    scripts = read_scripts(read("package.json") if "package.json" in paths else None)
    commands += [
        "npm test" if (manager, name) == ("npm", "test") else f"{manager} run {name}"
        for name in _PACKAGE_SCRIPTS
        if name in scripts
    ]
    if any("/" not in path and path.endswith((".sln", ".csproj", ".fsproj")) for path in paths):
        commands += ("dotnet build", "dotnet test")
    return tuple(dict.fromkeys(commands))


def list_default_allowed_commands(paths: Collection[str], read: _ReadFile) -> tuple[str, ...]:
    """The default of ``allowed_commands``: git, and the commands that build files imply."""
    return ("git", *list_build_commands(paths, read))


def _read_root_targets(paths: Collection[str], read: _ReadFile) -> frozenset[str]:
    """The targets of the Makefile at the root that Make would read."""
    makefile = next((name for name in MAKEFILES if name in paths), "")
    return read_make_targets(read(makefile) if makefile else None)


def read_make_targets(text: bytes | None) -> frozenset[str]:
    """The targets of a Makefile that have a plain name, not a pattern or a variable."""
    rules = re.findall(rb"^([\w.][\w. \t-]*):(?![:=]*=)", text or b"", re.MULTILINE)
    return frozenset(target.decode() for rule in rules for target in rule.split())


def _find_package_manager(paths: Collection[str]) -> str:
    """The package manager, which runs the scripts of a package.json, by its lock file."""
    locks = _BUILD_FILES["package_managers"]
    return next((str(program) for lock, program in locks.items() if lock in paths), "npm")


def read_scripts(text: bytes | None) -> Mapping[str, Any]:
    """The scripts of a package.json or composer.json; none without a valid file."""
    try:
        scripts = json.loads(text or b"{}").get("scripts", {})
    except (ValueError, AttributeError, RecursionError):
        return {}
    return scripts if isinstance(scripts, dict) else {}


@dataclass(frozen=True)
class RepositoryFiles:
    """The paths of a repository's files, and how to read one at its root. ``is_installed`` looks
    for a path in the checkout: installed dependencies are not in git."""

    paths: Collection[str]
    read: _ReadFile
    is_installed: Callable[[str], bool] = lambda _path: False

    def read_bytes(self, name: str) -> bytes | None:
        """A file's bytes; None if it does not exist."""
        return self.read(name) if name in self.paths else None

    def read_text(self, name: str) -> str:
        """A file's text; "" if it does not exist."""
        return (self.read_bytes(name) or b"").decode("utf-8", "replace")

    def has_any(self, *names: str) -> bool:
        """True if one of these files is at the root."""
        return any(name in self.paths for name in names)

    def has_files_below(self, *folders: str) -> bool:
        """True if one of these folders contains a file."""
        starts = tuple(f"{folder}/" for folder in folders)
        return any(path.startswith(starts) for path in self.paths)


def find_test_commands(files: RepositoryFiles) -> tuple[str, ...]:
    """The commands that test the whole repository. If a Makefile has a target for tests, that is
    the only one.

    The commands need no network: they use the dependencies that the job has installed.
    """
    targets = _read_root_targets(files.paths, files.read)
    if target := next((name for name in ("test", "tests", "check") if name in targets), ""):
        return (f"make {target}",)
    return tuple(dict.fromkeys(command for rule in _LANGUAGE_RULES for command in rule(files)))


def _find_javascript_tests(files: RepositoryFiles) -> Iterator[str]:
    script = read_scripts(files.read_bytes("package.json")).get("test")
    if isinstance(script, str) and script and NO_TEST not in script:
        manager = _find_package_manager(files.paths)
        yield "bun run test" if manager == "bun" else f"{manager} test"


def _find_python_tests(files: RepositoryFiles) -> Iterator[str]:
    tests = (re.fullmatch(r"(.*/)?(test_\w+|\w+_test|conftest)\.py", path) for path in files.paths)
    settings = ("pyproject.toml", "setup.py", "setup.cfg", "pytest.ini", "tox.ini")
    if not files.has_any(*settings) and not any(tests):
        return
    python = _find_python(files)
    if _uses_pytest(files):
        yield f"{python} -m pytest"
    elif files.has_any("noxfile.py") and not files.has_files_below("tests", "test"):
        yield "nox"
    elif files.has_any("tox.ini") and not files.has_files_below("tests", "test"):
        yield "tox"
    elif any(re.search(r"(^|/)test\w*\.py$", path) for path in files.paths):
        yield f"{python} -m unittest"


def _find_python(files: RepositoryFiles) -> str:
    """How to start the project's own interpreter. One in the checkout is named by its path: PATH
    has no folder that an agent may write."""
    for folder in VENVS:
        if files.is_installed(f"{folder}/bin/python"):
            return f"{folder}/bin/python"
    commands = _BUILD_FILES["python"]
    return next((commands[lock] for lock in commands if lock in files.paths), "python3")


RUNS_PYTEST = compile_lazily(
    r"(?m)^[ \t]*- (?:\w+ run )?(?:coverage run -m )?(?:python3? -m )?(?:pytest|py\.test)\b"
)
"""A line of a CI job's script that runs pytest."""


def _uses_pytest(files: RepositoryFiles) -> bool:
    if RUNS_PYTEST.search(files.read_text(".gitlab-ci.yml")):
        return True
    if files.has_any("pytest.ini", ".pytest.ini", "conftest.py", "tests/conftest.py"):
        return True
    pyproject = _remove_toml_comments(files.read_text("pyproject.toml"))
    if "pytest" in pyproject or "pytest" in files.read_text("tox.ini"):
        return True
    if _has_section(files.read_text("setup.cfg"), "tool:pytest"):
        return True
    requirements = re.compile(r"(requirements[^/]*/)?[\w.-]+\.txt")
    requirement_files = [*filter(requirements.fullmatch, files.paths)]
    requirement_files += ["setup.py", "setup.cfg", "Pipfile", "noxfile.py"]
    # A repository may have hundreds of text files at its root.
    return any(re.search(r"\bpytest\b", files.read_text(path)) for path in requirement_files[:20])


def _remove_toml_comments(text: str) -> str:
    """The data of a TOML file as text; "" if it is invalid."""
    try:
        return json.dumps(tomllib.loads(text), default=str)
    except (tomllib.TOMLDecodeError, RecursionError):
        return ""


def _has_section(text: str, name: str) -> bool:
    # Raw: a % in setup.cfg is no interpolation. Not strict: a section may occur twice.
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return False
    return parser.has_section(name)


def _find_jvm_tests(files: RepositoryFiles) -> Iterator[str]:
    if files.has_any("build.sbt"):
        yield "sbt test"
    elif files.has_any("mvnw", "pom.xml"):
        # -o: offline (Maven), as is --offline of Gradle.
        yield f"{'./mvnw' if files.has_any('mvnw') else 'mvn'} -B -o test"
    elif files.has_any("gradlew", "build.gradle", "build.gradle.kts"):
        yield f"{'./gradlew' if files.has_any('gradlew') else 'gradle'} --offline test"


def _find_ruby_tests(files: RepositoryFiles) -> Iterator[str]:
    bundle_exec = "bundle exec " if files.has_any("Gemfile", "gems.rb") else ""
    if files.has_any(".rspec") or files.has_files_below("spec"):
        if bundle_exec or files.has_any("Rakefile", ".rspec"):
            yield f"{bundle_exec}rspec"
    elif files.has_any("Rakefile") and files.has_files_below("test"):
        yield f"{bundle_exec}rake test"


def _find_php_tests(files: RepositoryFiles) -> Iterator[str]:
    if "test" in read_scripts(files.read_bytes("composer.json")):
        yield "composer test"
    elif files.has_any("phpunit.xml", "phpunit.xml.dist"):
        yield "vendor/bin/phpunit"


def _find_dotnet_tests(files: RepositoryFiles) -> Iterator[str]:
    ends = (".sln", ".slnx", ".csproj", ".fsproj")
    if any("/" not in path and path.endswith(ends) for path in files.paths):
        yield "dotnet test --no-restore"


_LANGUAGE_RULES: tuple[Callable[[RepositoryFiles], Iterator[str]], ...] = (
    _find_javascript_tests,
    _find_python_tests,
    _find_jvm_tests,
    lambda files: (tests for file, tests in _BUILD_FILES["tests"].items() if file in files.paths),
    _find_ruby_tests,
    _find_php_tests,
    _find_dotnet_tests,
)
