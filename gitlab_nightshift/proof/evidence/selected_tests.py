"""Commands that run a few tests alone, by language.

To add a language, add an entry to ``_BUILDERS``. Each command has a pattern that counts the tests
that ran, in its output: if none ran, the exit status proves nothing.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

_SPECIAL = frozenset("\"'\\;,#*?!")


@dataclass(frozen=True)
class SelectedTests:
    """Tests to run: their files, their plain names, and, if there are few, their files and
    qualified names (``CartTest.test_total``)."""

    files: tuple[str, ...]
    names: tuple[str, ...]
    qualified: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class FocusedCommand:
    """A command that runs chosen tests, and a pattern for the number of tests that ran."""

    argv: tuple[str, ...]
    count_pattern: re.Pattern[str]

    def count_tests(self, output: str) -> int:
        """At least how many tests ran, by the output: 0 for none, or unknown. Numbers (groups of
        the pattern) may overlap, so the largest counts; without groups, each match is a test."""
        matches = list(self.count_pattern.finditer(output))
        if not self.count_pattern.groups:
            return len(matches)
        return max((int(n) for match in matches for n in match.groups() if n), default=0)


@dataclass(frozen=True)
class ProjectTests:
    """How a project is tested: by which commands, and whether a path of the checkout exists."""

    commands: tuple[str, ...]
    exists: Callable[[str], bool]


def build_focused_commands(
    language: str, chosen: SelectedTests, project: ProjectTests
) -> tuple[FocusedCommand, ...]:
    """The commands to try, the most likely first; none for a language without a known runner, or
    if the name of a file is not safe in a command."""
    build = _BUILDERS.get(language)
    return tuple(build(chosen, project)) if build and all(map(_is_plain, chosen.files)) else ()


def _is_plain(path: str) -> bool:
    """True for a path that can be neither an option, nor code in the Ruby, sbt or Maven arguments
    that it is inserted into."""
    return path.isprintable() and not path.startswith("-") and not _SPECIAL & {*path}


def _build_python_commands(
    chosen: SelectedTests, project: ProjectTests
) -> Iterator[FocusedCommand]:
    pythons = [f"{folder}/bin/python" for folder in (".venv", "venv")]
    python = next((path for path in pythons if project.exists(path)), "python3")
    start = _find_command_prefix("pytest", project.commands) or (python, "-m", "pytest")
    quiet = ("-q", "-p", "no:cacheprovider")  # its cache would be a file of the checkout
    ids = [f"{path}::{name.replace('.', '::')}" for path, name in chosen.qualified]
    pytest = FocusedCommand(
        (*start, *quiet, *(ids or chosen.files)), re.compile(r"\b(\d+) (?:passed|failed)")
    )
    start = _find_command_prefix("unittest", project.commands) or (python, "-m", "unittest")
    # A pattern with * has to match the whole name, others any part of it (unittest, option -k).
    named = [word for name in chosen.names for word in ("-k", f"*.{name}")]
    unittest = FocusedCommand((*start, *named, *chosen.files), re.compile(r"^Ran (\d+) test", re.M))
    first = any("unittest" in command for command in project.commands)
    yield from (unittest, pytest) if first else (pytest, unittest)


def _build_javascript_commands(
    chosen: SelectedTests, project: ProjectTests
) -> Iterator[FocusedCommand]:
    local = "node_modules/.bin/"
    # -t and -g take a regular expression; ava and tape are given files alone.
    names = "|".join(re.escape(name) for name in chosen.names)
    runners = {
        "vitest": (("run", "-t", names), r"^\s*Tests\s.*?(\d+) (?:passed|failed)"),
        "jest": (("-t", names), r"^Tests:.*?(\d+) (?:passed|failed)"),
        "mocha": (("-g", names), r"^\s*(\d+) (?:passing|failing)"),
        "ava": ((), r"(\d+) tests? (?:passed|failed)"),
        "tape": ((), r"^# tests (\d+)$"),
    }
    for name, (words, pattern) in runners.items():
        if project.exists(local + name):
            yield FocusedCommand((local + name, *words, *chosen.files), re.compile(pattern, re.M))
    ran_by_node = re.compile(r"^(?:#|ℹ) (?:pass|fail) (\d+)", re.M)
    yield FocusedCommand(
        ("node", "--test", f"--test-name-pattern={names}", *chosen.files), ran_by_node
    )


def _build_go_commands(chosen: SelectedTests, project: ProjectTests) -> Iterator[FocusedCommand]:
    folders = dict.fromkeys(f"./{PurePosixPath(path).parent}" for path in chosen.files)
    names = "|".join(re.escape(name) for name in chosen.names)
    options = _list_options("go", project.commands)
    # -count=1: no cached results ("go help test").
    argv = ("go", "test", *options, "-count=1", "-v", "-run", f"^({names})$", *folders)
    yield FocusedCommand(argv, re.compile(r"^--- (?:PASS|FAIL): ", re.M))


def _build_jvm_commands(chosen: SelectedTests, project: ProjectTests) -> Iterator[FocusedCommand]:
    classes = tuple(PurePosixPath(path).stem for path in chosen.files)
    methods = "+".join(chosen.names) if len(classes) == 1 else ""
    tests = f"{classes[0]}#{methods}" if re.fullmatch(r"[\w+]+", methods) else ",".join(classes)
    pattern = re.compile(r"Tests run: (\d+)|Total (\d+)|(\d+) tests? completed")
    commands = " ".join(project.commands)
    if "mvn" in commands:
        start, options = _find_project_start(("mvn", "./mvnw"), project.commands)
        options = (word for word in options if word not in _OFFLINE)
        yield FocusedCommand((*start, *_OFFLINE, *options, "test", f"-Dtest={tests}"), pattern)
    if "gradle" in commands:
        start, options = _find_project_start(("gradle", "./gradlew"), project.commands)
        options = (word for word in options if word != "--offline")
        # Tasks that are up to date do not run, and only -i names the tests that passed.
        chosen_classes = (word for name in classes for word in ("--tests", f"*{name}"))
        argv = (*start, "--offline", "-i", *options, "cleanTest", "test", *chosen_classes)
        yield FocusedCommand(argv, re.compile(r"^\S.* > .* (?:PASSED|FAILED)$", re.M))
    if "sbt" in commands:
        argv = ("sbt", f"testOnly {' '.join(f'*{name}' for name in classes)}")
        yield FocusedCommand(argv, pattern)


def _find_project_start(
    programs: Sequence[str], commands: Sequence[str]
) -> tuple[tuple[str, ...], Iterator[str]]:
    """How the project's own commands start one of these programs, and the options that follow."""
    found = (_find_command_prefix(program, commands) for program in programs)
    start = next(filter(None, found), (programs[0],))
    return start, _list_options(start[-1], commands)


def _build_rust_commands(chosen: SelectedTests, project: ProjectTests) -> Iterator[FocusedCommand]:
    options = [word for word in _list_options("cargo", project.commands) if word != "--offline"]
    if any(re.search(r"\bcargo (\+\S+ )?nextest run\b", each) for each in project.commands):
        argv = ("cargo", "nextest", "run", "--offline", *options, "--", *chosen.names)
        yield FocusedCommand(argv, re.compile(r"Summary \[.*?\] +(\d+)(?:/\d+)? tests? run"))
        return
    # --tests: without doc tests (cargo-test(1), "Target Selection"). Names are matched in part: the
    # harness has no regular expressions, and --exact wants whole paths.
    argv = ("cargo", "test", "--offline", "--tests", *options, "--", *chosen.names)
    yield FocusedCommand(argv, re.compile(r"test result: \w+\. (\d+) passed; (\d+) failed"))


def _build_ruby_commands(chosen: SelectedTests, project: ProjectTests) -> Iterator[FocusedCommand]:
    bundled = ("bundle", "exec") if any("bundle" in each for each in project.commands) else ()
    if all(path.endswith("_spec.rb") for path in chosen.files):
        yield FocusedCommand(
            (*bundled, "rspec", *chosen.files), re.compile(r"^(\d+) examples?", re.M)
        )
        return
    load = "".join(f"require './{path}';" for path in chosen.files)
    argv = (*bundled, "ruby", "-Ilib", "-Itest", "-e", load)
    yield FocusedCommand(argv, re.compile(r"^(\d+) (?:runs|tests),", re.M))


def _build_php_commands(chosen: SelectedTests, project: ProjectTests) -> Iterator[FocusedCommand]:
    for path in chosen.files:
        argv = ("vendor/bin/phpunit", path)
        yield FocusedCommand(argv, re.compile(r"OK \((\d+) test|Tests: (\d+)"))


_BUILDERS: dict[str, Callable[[SelectedTests, ProjectTests], Iterator[FocusedCommand]]] = {
    "python": _build_python_commands,
    **dict.fromkeys(("javascript", "typescript", "tsx"), _build_javascript_commands),
    "go": _build_go_commands,
    **dict.fromkeys(("java", "kotlin", "scala"), _build_jvm_commands),
    "rust": _build_rust_commands,
    "ruby": _build_ruby_commands,
    "php": _build_php_commands,
}


_OFFLINE = ("-B", "-o")
# Options that hide how many tests ran, or that this module sets itself.
_DROPPED = frozenset("-q --quiet -v --verbose -count=1 --no-fail-fast".split())
# Options of Maven, Gradle, sbt, go and cargo whose value is the next word.
_WITH_VALUE = frozenset(
    "-s --settings -gs -f --file -pl --projects -P -t -T -g -I -p --init-script -tags -mod -timeout"
    " --features -F --manifest-path --target-dir --target --profile --package --exclude"
    " -run -bench --test --tests -E --filter-expr --filterset".split()
)
# Options that select tests, by how they start: the selection here replaces them.
_SELECTORS = ("-run", "-bench", "-Dtest=", "--test", "--lib", "--doc", "-E", "--filter")


def _list_options(program: str, commands: Sequence[str]) -> Iterator[str]:
    """The options of the project's own command, such as features and profiles, without those that
    select tests."""
    start = [*(_find_command_prefix(program, commands) or ())]
    lines = (shlex.split(command) for command in commands)
    line = next((words for words in lines if start and words[: len(start)] == start), [])
    words = iter(line[len(start) :])
    for word in words:
        value = next(words, "") if word in _WITH_VALUE else ""
        if word == "--":
            return
        if word.startswith("-") and word not in _DROPPED and not word.startswith(_SELECTORS):
            yield from filter(None, (word, value))


def _find_command_prefix(program: str, commands: Sequence[str]) -> tuple[str, ...] | None:
    """The words of a command up to the program: ``poetry run pytest``, without its arguments."""
    for command in commands:
        words = shlex.split(command)
        for number, word in enumerate(words):
            if PurePosixPath(word).name == PurePosixPath(program).name:
                return tuple(words[: number + 1])
    return None
