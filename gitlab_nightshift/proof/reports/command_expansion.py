"""Expands a command to all commands that it runs: recipes of Make, scripts of npm, and so on."""

import json
from collections.abc import Callable
from typing import Any

from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.repository.tree_objects import read_tree_file
from gitlab_nightshift.text.lazy_patterns import compile_lazily

ReadText = Callable[[str], str]  # reads a file at the repository's root; "" if it does not exist

_DEEPEST = 4
_MAKE = compile_lazily(r"(?:^|\s)make(?:\s+-\S+)*(?:\s+([\w.-]+))?")
_SCRIPT = compile_lazily(r"(?:^|\s)(?:npm|pnpm|yarn|bun)(?:\s+run)?\s+(?:run\s+)?([\w:.-]+)")
_COMPOSER = compile_lazily(r"(?:^|\s)composer(?:\s+run(?:-script)?)?\s+([\w:.-]+)")
# A script of the repository: a shell script, or a program by a path that does not lead out.
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
    """Reads files of a tree or commit."""
    return lambda name: (read_tree_file(repository, tree, name) or b"").decode("utf-8", "replace")


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
    """The recipes of a target and its prerequisites, after all assignments of the file: variables
    are not expanded."""
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
