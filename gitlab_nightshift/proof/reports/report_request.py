"""Asks the test runners that a command starts for reports, and collects these. What a command
starts is found by expanding it: recipes of Make, scripts of npm, and so on."""

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
_SCRIPT = compile_lazily(r"(?:^|\s)(?:npm|pnpm|yarn|bun)(?:\s+run)?\s+(?:run\s+)?([\w:.-]+)")
_COMPOSER = compile_lazily(r"(?:^|\s)composer(?:\s+run(?:-script)?)?\s+([\w:.-]+)")
# A script of the repository: one that a shell runs, or a program whose path does not lead out.
_FILE = compile_lazily(
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


def expand_command(command: str, read: ReadText, deep: int = 0) -> str:
    """The command and all commands that it is known to run, one per line."""
    lines = [command]
    if deep < _DEEPEST:
        for each in _list_recipes(command, read):
            lines.append(expand_command(each, read, deep + 1))
    return "\n".join(lines)


def _list_recipes(command: str, read: ReadText) -> list[str]:
    found: list[str] = []
    for match in _MAKE.finditer(command):
        text = "".join(map(read, ("GNUmakefile", "makefile", "Makefile")))
        found += _list_make_lines(text, match[1] or "all")
    for match in _SCRIPT.finditer(command):
        found += _list_scripts(read("package.json"), match[1])
    for match in _COMPOSER.finditer(command):
        found += _list_scripts(read("composer.json"), match[1])
    if script := _FILE.match(command):
        found += read(script[1]).splitlines()
    words = command.replace("/", " ").split()
    for tool, files in _TASK_RUNNERS.items():
        if tool in words:
            found += [line for name in files for line in read(name).splitlines()]
    return found


def _list_make_lines(text: str, target: str) -> list[str]:
    """All assignments of the file, as variables are not expanded and any may be part of a recipe;
    then the recipes of a target and its prerequisites."""
    joined = text.replace("\\\n", " ").splitlines()
    found = [line.strip() for line in joined if _is_assignment(line)]
    waiting, seen = [target], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        inside = False
        for line in joined:
            if line.startswith("\t"):
                found += [line.strip().lstrip("@-+")] if inside else []
            elif ":" in line and not _is_assignment(line):
                targets, _, needed = line.partition(":")
                needed, _, recipe = needed.lstrip(":").partition(";")
                inside = name in targets.split()
                found += [recipe.strip().lstrip("@-+")] if inside else []
                waiting += needed.split("#")[0].split() if inside else []
    return found


def _is_assignment(line: str) -> bool:
    return not line.startswith("\t") and "=" in line


def _list_scripts(text: str, name: str) -> list[str]:
    try:
        scripts: Any = json.loads(text or "{}")["scripts"]
        chosen = [scripts[key] for key in (f"pre{name}", name, f"post{name}") if key in scripts]
    except (ValueError, LookupError, TypeError, RecursionError):
        return []
    lines = [line for each in chosen for line in (each if isinstance(each, list) else [each])]
    return [str(line) for line in lines]


@dataclass(frozen=True)
class _RunnerStyle:
    """How a test runner is asked for a report, without changing which tests run or fail.

    ``command`` matches a command, or a recipe that it runs, that starts the runner. ``variables``
    are added to those of the environment; ``words`` go into the command line behind the word
    ``after``, or to its end. Variables also reach a runner that Make, npm or tox starts; words only
    one that the command names itself. ``drop`` are options to remove, as they hide output.

    ``hooks`` are this program's own files that the runner loads. In variables and words,
    ``{reports}`` and ``{hooks}`` stand for folders. ``files`` are reports that the runner writes
    anyway, as globs below the checkout. ``printed``: its output is the report, in the format of
    this file extension. ``list_words``: the runner has no report; with the first of these words
    after ``--`` it lists all tests, with the second the ignored ones.
    """

    command: re.Pattern[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    after: str = ""
    hooks: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    printed: str = ""
    list_words: tuple[tuple[str, ...], ...] = ()
    drop: tuple[str, ...] = ()


def _read_style(table: RuleTable, row: Mapping[str, Any]) -> _RunnerStyle:
    tuples = {key: tuple(row[key]) for key in ("words", "hooks", "files", "drop") if key in row}
    tuples["list_words"] = tuple(map(tuple, row.get("list_words", ())))
    return _RunnerStyle(**{**row, **tuples, "command": table.compile(row["command"])})


_TABLE = RuleTable(__file__)
_STYLES = {name: _read_style(_TABLE, row) for name, row in _TABLE.entries.items()}
HOOKS = Path(__file__).parent / "hooks"
REPORTS = "reports"
MOST_REPORTS = 5_000


@dataclass(frozen=True)
class ReportRequest:
    """A command, changed so that its runners report: ``argv`` and ``env`` start it, ``styles`` are
    the names of its runners. ``started`` is a Unix time in seconds: older reports are from other
    runs."""

    command: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    styles: tuple[str, ...]
    scratch: Path
    checkout: Path
    started: float

    @property
    def output_format(self) -> str:
        """The file extension for the format of the command's output; "" if that is no report."""
        return next((_STYLES[n].printed for n in self.styles if _STYLES[n].printed), "")

    @property
    def listings(self) -> tuple[tuple[str, ...], ...]:
        """Commands to run if this one passes: one lists all tests, the other the ignored ones."""
        start = self.argv if "--" in self.argv else (*self.argv, "--")
        return tuple((*start, *words) for name in self.styles for words in _STYLES[name].list_words)


def prepare_request(
    command: str, env: Mapping[str, str], scratch: Path, checkout: Path, read: ReadText
) -> ReportRequest:
    """Find the command's runners, and make a new folder for reports in ``scratch``.

    ``read`` reads files of the base.
    """
    text = expand_command(command, read)
    # Variables also reach a runner that Make starts, words only one that the command names itself.
    searched = {n: command if s.words or s.list_words else text for n, s in _STYLES.items()}
    chosen = tuple(n for n, style in _STYLES.items() if style.command.search(searched[n]))
    places = {"reports": str(scratch / REPORTS), "hooks": str(scratch / REPORTS / "hooks")}
    _make_reports_folder(scratch, [hook for name in chosen for hook in _STYLES[name].hooks])
    added, argv = dict(env), shlex.split(command)
    for name in chosen:
        style = _STYLES[name]
        for variable, value in style.variables.items():
            _add_value(added, variable, value.format(**places))
        # What follows "--" is for the tests, not for the runner.
        end = argv.index("--") if "--" in argv else len(argv)
        argv = [word for at, word in enumerate(argv) if at > end or word not in style.drop]
        behind = [n for n, word in enumerate(argv, 1) if Path(word).name == style.after]
        at = behind[0] if behind else argv.index("--") if "--" in argv else len(argv)
        argv[at:at] = [word.format(**places) for word in style.words]
    return ReportRequest(command, tuple(argv), added, chosen, scratch, checkout, time.time())


def _add_value(env: dict[str, str], name: str, value: str) -> None:
    """Add to the value of a variable: options at the end, but a folder of Python modules in front,
    as the hook there imports the module that it shadows."""
    before = env.get(name, "")
    if value in before:  # two styles may load the same hook
        return
    if name == "PYTHONPATH":
        env[name] = os.pathsep.join(filter(None, (value, before)))
    else:
        env[name] = f"{before} {value}".strip()


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
    that is the report, and the outputs of its ``listings``; None is an output that is incomplete.

    The tests are unknown without a known runner or without a report.
    """
    if not request.styles:
        return CollectedTests(request.command, unknown="its test runner is not one that reports")
    try:
        cases, reports = _read_all(request, printed)
    except (UnreadableResultsError, RefusedFileError) as error:
        return CollectedTests(request.command, unknown=f"its report cannot be read: {error}")
    if not reports:
        why = f"no report was left by {', '.join(request.styles)}"
        return CollectedTests(request.command, unknown=why)
    return build_collection(request.command, cases)


def _read_all(
    request: ReportRequest, printed: Sequence[bytes | None]
) -> tuple[list[ReportedCase], int]:
    cases: list[ReportedCase] = []
    paths = list(_list_reports(request))
    for root, path in paths[:MOST_REPORTS]:
        cases += read_report(path, read_regular(root, path, LARGEST_REPORT))
    texts = [text for text in printed if text is not None]
    if len(texts) < len(printed):
        raise UnreadableResultsError("it is incomplete")
    if texts:
        cases += _read_printed(request, texts)
    shown = f"{request.checkout}/"
    # Listings without a case are no report.
    plain = [ReportedCase(case.name.replace(shown, ""), case.outcome) for case in cases]
    return plain, len(paths) + (len(texts) if cases or not request.listings else 0)


def _read_printed(request: ReportRequest, texts: Sequence[bytes]) -> list[ReportedCase]:
    """The cases in a command's output; if it passed, those in its two listings."""
    if request.listings and len(texts) > 1:
        check_results(texts[0])
        return read_listing(*texts[1:])
    if request.listings:
        return read_printed_results(texts[0])
    return read_report(f"printed.{request.output_format}", texts[0])


def _list_reports(request: ReportRequest) -> Iterator[tuple[Path, str]]:
    """The reports, each by its folder and its path below that. They may be no regular files: these
    are refused when they are read."""
    places = [(request.scratch / REPORTS, f"*.{end}") for end in ("xml", "json", "jsonl")]
    for name in request.styles:
        places += [(request.checkout, pattern) for pattern in _STYLES[name].files]
    for root, pattern in places:
        for path in sorted(root.glob(pattern)):
            # An older report is from another run; file systems may round times.
            if path.lstat().st_mtime >= request.started - 1:
                yield root, path.relative_to(root).as_posix()
