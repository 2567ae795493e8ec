"""Asks the test runners that a command starts for reports, and collects these. The runners are
found by expanding the command: recipes of Make, scripts of npm, and so on."""

import json
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gitlab_nightshift.proof.reports.report_readers import (
    LARGEST_REPORT,
    CollectedTests,
    ReportedCase,
    UnreadableResultsError,
    build_collection,
    check_results,
    read_listing,
    read_printed_results,
    read_report,
)
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.repository.tree_objects import read_tree_file
from gitlab_nightshift.system.openat import (
    RefusedFileError,
    change_owner,
    open_folder,
    read_regular,
    remove,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily

ReadText = Callable[[str], str]  # reads a file at the repository's root; "" if it does not exist

_DEEPEST = 4  # recipes may call each other, and hostile ones call themselves
_MAKE = compile_lazily(r"(?:^|\s)make(?:\s+-\S+)*(?:\s+([\w.-]+))?")
_NPM_SCRIPT = compile_lazily(r"(?:^|\s)(?:npm|pnpm|yarn|bun)(?:\s+run)?\s+(?:run\s+)?([\w:.-]+)")
_COMPOSER = compile_lazily(r"(?:^|\s)composer(?:\s+run(?:-script)?)?\s+([\w:.-]+)")
# A script of the repository: one that a shell runs, or a program whose path does not lead out.
_SCRIPT_FILE = compile_lazily(
    r"^(?:(?:ba|da|z)?sh\s+(?:-\w+\s+)*|(?=[\w.-]*/))(?:\./)?((?:\.?[\w-][\w.-]*/)*[\w-][\w.-]*)"
)
# Task runners with their files, whose lines all count as commands, whatever their format.
_TASK_RUNNERS = {
    "tox": ("tox.ini", "pyproject.toml", "setup.cfg"),
    "nox": ("noxfile.py",),
    "just": ("justfile", "Justfile", ".justfile"),
    "poe": ("pyproject.toml",),
    "rake": ("Rakefile",),
}


def build_text_reader(repository: Repository, tree: str) -> ReadText:
    """A function that reads files of a tree or commit, each only once."""
    return cache(
        lambda name: (read_tree_file(repository, tree, name) or b"").decode("utf-8", "replace")
    )


def expand_command(command: str, read: ReadText, depth: int = 0) -> str:
    """The command and all commands that it is known to run, one per line."""
    lines = [command]
    if depth < _DEEPEST:
        lines += [expand_command(line, read, depth + 1) for line in _list_started(command, read)]
    return "\n".join(lines)


def _list_started(command: str, read: ReadText) -> list[str]:
    """The lines of the recipes and scripts that a command runs."""
    lines: list[str] = []
    for match in _MAKE.finditer(command):
        text = "".join(map(read, ("GNUmakefile", "makefile", "Makefile")))
        lines += _list_make_lines(text, match[1] or "all")
    for match in _NPM_SCRIPT.finditer(command):
        lines += _list_scripts(read("package.json"), match[1])
    for match in _COMPOSER.finditer(command):
        lines += _list_scripts(read("composer.json"), match[1])
    if script := _SCRIPT_FILE.match(command):
        lines += read(script[1]).splitlines()
    words = command.replace("/", " ").split()
    for tool, files in _TASK_RUNNERS.items():
        if tool in words:
            lines += [line for name in files for line in read(name).splitlines()]
    return lines


def _list_make_lines(text: str, target: str) -> list[str]:
    """All assignments of the file, as variables are not expanded and any may be part of a recipe;
    then the recipes of a target and its prerequisites."""
    lines = text.replace("\\\n", " ").splitlines()
    found = [line.strip() for line in lines if _is_assignment(line)]
    pending, seen = [target], set[str]()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        in_rule = False
        for line in lines:
            if line.startswith("\t"):
                found += [line.strip().lstrip("@-+")] if in_rule else []
            elif ":" in line and not _is_assignment(line):
                targets, _, prerequisites = line.partition(":")
                prerequisites, _, recipe = prerequisites.lstrip(":").partition(";")
                in_rule = name in targets.split()
                if in_rule:
                    found.append(recipe.strip().lstrip("@-+"))
                    pending += prerequisites.split("#")[0].split()
    return found


def _is_assignment(line: str) -> bool:
    return not line.startswith("\t") and "=" in line


def _list_scripts(text: str, name: str) -> list[str]:
    try:
        scripts: Any = json.loads(text or "{}")["scripts"]
        chosen = [scripts[key] for key in (f"pre{name}", name, f"post{name}") if key in scripts]
    except (ValueError, LookupError, TypeError, RecursionError):
        return []
    lists = (script if isinstance(script, list) else [script] for script in chosen)
    return [str(line) for lines in lists for line in lines]


@dataclass(frozen=True)
class _ReportOptions:
    """How a test runner is asked for a report, without changing which tests run or fail.

    ``command`` matches a command, or a recipe that it runs, that starts the runner. ``variables``
    are added to those of the environment; ``words`` go into the command line after the word
    ``insert_after``, or to its end. Variables also reach a runner that Make, npm or tox starts;
    words only one that the command names itself. ``dropped_words`` are options that hide output.

    ``hooks`` are this program's own files that the runner loads. In variables and words,
    ``{reports}`` and ``{hooks}`` stand for folders. ``files`` are reports that the runner writes
    anyway, as globs below the checkout. ``printed``: its output is the report, in the format of
    this file extension. ``list_words``: the runner has no report; with the first of these words
    after ``--`` it lists all tests, with the second the ignored ones.
    """

    command: re.Pattern[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    insert_after: str = ""
    hooks: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    printed: str = ""
    list_words: tuple[tuple[str, ...], ...] = ()
    dropped_words: tuple[str, ...] = ()


def _read_options(table: RuleTable, entry: Mapping[str, Any]) -> _ReportOptions:
    keys = {"words", "hooks", "files", "dropped_words"} & entry.keys()
    tuples = {key: tuple(entry[key]) for key in keys}
    tuples["list_words"] = tuple(map(tuple, entry.get("list_words", ())))
    return _ReportOptions(**{**entry, **tuples, "command": table.compile(entry["command"])})


_TABLE = RuleTable(__file__)
_OPTIONS = {name: _read_options(_TABLE, entry) for name, entry in _TABLE.entries.items()}
HOOKS = Path(__file__).parent / "hooks"
REPORTS = "reports"
MOST_REPORTS = 5_000


@dataclass(frozen=True)
class ReportRequest:
    """A command, changed so that its runners report: ``argv`` and ``env`` start it, ``runners`` are
    the names of its runners. ``started`` is a Unix time in seconds: older reports are from other
    runs."""

    command: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    runners: tuple[str, ...]
    scratch: Path
    checkout: Path
    started: float

    @property
    def output_format(self) -> str:
        """The file extension for the format of the command's output; "" if that is no report."""
        return next(filter(None, (_OPTIONS[name].printed for name in self.runners)), "")

    @property
    def listings(self) -> tuple[tuple[str, ...], ...]:
        """Commands to run if this one passes: one lists all tests, the other the ignored ones."""
        start = self.argv if "--" in self.argv else (*self.argv, "--")
        options = (_OPTIONS[name] for name in self.runners)
        return tuple((*start, *words) for each in options for words in each.list_words)


def prepare_request(
    command: str, env: Mapping[str, str], scratch: Path, checkout: Path, read: ReadText
) -> ReportRequest:
    """Find the command's runners, and make a new folder for reports in ``scratch``.

    ``read`` reads files of the base.
    """
    runners = _find_runners(command, read)
    folders = {"reports": str(scratch / REPORTS), "hooks": str(scratch / REPORTS / "hooks")}
    _make_reports_folder(scratch, [hook for name in runners for hook in _OPTIONS[name].hooks])
    new_env, argv = dict(env), shlex.split(command)
    for name in runners:
        options = _OPTIONS[name]
        for variable, value in options.variables.items():
            _add_value(new_env, variable, value.format(**folders))
        # Arguments after "--" are for the tests, not for the runner.
        end = argv.index("--") if "--" in argv else len(argv)
        own = [word for word in argv[:end] if word not in options.dropped_words]
        argv = [*own, *argv[end:]]
        after = (n for n, word in enumerate(argv, 1) if Path(word).name == options.insert_after)
        index = next(after, len(own))
        argv[index:index] = [word.format(**folders) for word in options.words]
    return ReportRequest(command, tuple(argv), new_env, runners, scratch, checkout, time.time())


def _find_runners(command: str, read: ReadText) -> tuple[str, ...]:
    text = expand_command(command, read)
    # Variables also reach a runner that Make starts, words only one that the command names itself.
    searched = {n: command if o.words or o.list_words else text for n, o in _OPTIONS.items()}
    return tuple(n for n, options in _OPTIONS.items() if options.command.search(searched[n]))


def _add_value(env: dict[str, str], name: str, value: str) -> None:
    """Add to the value of a variable: options at the end, but a folder of Python modules in front,
    as the hook in it imports the module that it shadows."""
    old = env.get(name, "")
    if value in old:  # two runners may load the same hook
        return
    if name == "PYTHONPATH":
        env[name] = os.pathsep.join(filter(None, (value, old)))
    else:
        env[name] = f"{old} {value}".strip()


def _make_reports_folder(scratch: Path, hooks: list[str]) -> None:
    """Make the folder for reports, with the hooks, and give it to the owner of ``scratch``: tests
    may run as another user."""
    with open_folder(scratch) as fd:
        owner = os.fstat(fd)
        if REPORTS in os.listdir(fd):  # noqa: PTH208 - an open folder, not a path
            remove(REPORTS, fd)
        os.mkdir(REPORTS, 0o700, dir_fd=fd)
        with open_folder(REPORTS, fd) as reports:
            os.mkdir("hooks", 0o700, dir_fd=reports)
            with open_folder("hooks", reports) as folder:
                for name in dict.fromkeys(hooks):
                    _copy_hook(name, folder, (owner.st_uid, owner.st_gid))
                change_owner(folder, (owner.st_uid, owner.st_gid))
            change_owner(reports, (owner.st_uid, owner.st_gid))


def _copy_hook(name: str, dir_fd: int, owner: tuple[int, int]) -> None:
    # With O_EXCL no link is followed (open(2)).
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=dir_fd)
    with os.fdopen(fd, "wb") as file:
        file.write((HOOKS / name).read_bytes())
        change_owner(fd, owner)


def collect_reports(request: ReportRequest, printed: Sequence[bytes | None]) -> CollectedTests:
    """The tests in the reports of a command that has ended. ``printed`` is the command's output, if
    that is the report, and the outputs of its ``listings``; an incomplete output is None.

    The tests are unknown without a known runner or without a report.
    """
    if not request.runners:
        return CollectedTests(request.command, unknown="its test runner is not one that reports")
    try:
        cases, reports = _read_all(request, printed)
    except (UnreadableResultsError, RefusedFileError) as error:
        return CollectedTests(request.command, unknown=f"its report cannot be read: {error}")
    if not reports:
        why = f"no report was left by {', '.join(request.runners)}"
        return CollectedTests(request.command, unknown=why)
    return build_collection(request.command, cases)


def _read_all(
    request: ReportRequest, printed: Sequence[bytes | None]
) -> tuple[list[ReportedCase], int]:
    """The cases, and the number of reports."""
    cases: list[ReportedCase] = []
    paths = list(_list_reports(request))
    for root, path in paths[:MOST_REPORTS]:
        cases += read_report(path, read_regular(root, path, LARGEST_REPORT))
    texts = [text for text in printed if text is not None]
    if len(texts) < len(printed):
        raise UnreadableResultsError("it is incomplete")
    if texts:
        cases += _read_printed(request, texts)
    prefix = f"{request.checkout}/"
    relative = [ReportedCase(case.name.replace(prefix, ""), case.outcome) for case in cases]
    # Listings without a case are no report.
    printed_reports = len(texts) if cases or not request.listings else 0
    return relative, len(paths) + printed_reports


def _read_printed(request: ReportRequest, texts: Sequence[bytes]) -> list[ReportedCase]:
    """The cases in a command's output; if it passed, those in its two listings."""
    if request.listings and len(texts) > 1:
        check_results(texts[0])
        return read_listing(*texts[1:])
    if request.listings:
        return read_printed_results(texts[0])
    return read_report(f"printed.{request.output_format}", texts[0])


def _list_reports(request: ReportRequest) -> Iterator[tuple[Path, str]]:
    """The reports, each as a folder and a path in it. They need not be regular files: others are
    refused when they are read."""
    globs = [(request.scratch / REPORTS, f"*.{end}") for end in ("xml", "json", "jsonl")]
    for name in request.runners:
        globs += [(request.checkout, pattern) for pattern in _OPTIONS[name].files]
    for root, pattern in globs:
        for path in sorted(root.glob(pattern)):
            # An older report is from another run; file systems may round times.
            if path.lstat().st_mtime >= request.started - 1:
                yield root, path.relative_to(root).as_posix()
