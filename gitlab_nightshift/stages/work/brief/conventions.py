"""Files that say how work is done in a project, each with its first lines."""

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from gitlab_nightshift.system.openat import RefusedFileError, open_parent, open_regular

_PROSE = frozenset("AGENTS.md CLAUDE.md CONTRIBUTING CONTRIBUTING.md CONTRIBUTING.rst".split())
_READMES = frozenset(("README", "README.md", "README.rst", "README.adoc"))
"""What a project is: only the one at the top is of use."""
_RULES = frozenset(
    """.clang-format .clang-tidy .editorconfig .eslintrc .eslintrc.cjs .eslintrc.js .eslintrc.json
    .eslintrc.yml .flake8 .golangci.yaml .golangci.yml .pre-commit-config.yaml .prettierrc
    .prettierrc.json .pylintrc .rubocop.yml .ruff.toml .scalafix.conf .scalafmt.conf
    .stylelintrc.json biome.json checkstyle.xml clippy.toml credo.exs detekt.yml eslint.config.js
    eslint.config.mjs eslint.config.ts mypy.ini phpcs.xml phpstan.neon ruff.toml rustfmt.toml
    tslint.json""".split()
)
"""Settings of formatters and linters, by the names that their tools look for."""
_PROJECT = "pyproject.toml"
"""Holds the settings of Python's tools, below what is of no use here."""
_TOOLS = ("[tool.ruff", "[tool.black", "[tool.mypy", "[tool.pytest", "[tool.pylint", "[tool.isort")
MOST_FILES = 12
_LINES_OF_PROSE, _LINES_OF_PROJECT, _LINES = 8, 10, 4
"""How many lines are shown of a text for people, of a Python project, of a tool's settings."""
_FIRST = 32_768
"""Bytes of a file that are read."""


def list_convention_files(paths: Iterable[str]) -> list[str]:
    """The files, those of the top folder and those for people first."""
    known = [path for path in paths if _is_convention(path)]
    known.sort(key=lambda path: (path.count("/"), not _is_prose(path), path))
    return known[:MOST_FILES]


def _find_name(path: str) -> str:
    return path.rpartition("/")[2]


def _is_prose(path: str) -> bool:
    return path in _READMES or _find_name(path) in _PROSE


def _is_convention(path: str) -> bool:
    return path == _PROJECT or _find_name(path) in _RULES or _is_prose(path)


def quote_conventions(checkout: Path, paths: Collection[str]) -> Iterator[list[str]]:
    """For each file its name and then its first lines that are not empty. No link is followed."""
    for path in list_convention_files(paths):
        text = _read_first(checkout, path).decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip(" \t#-=*/<!>;")]
        yield [path, *_choose_lines(path, lines)]


def _choose_lines(path: str, lines: list[str]) -> list[str]:
    if path == _PROJECT:
        return _choose_tool_lines(lines)[:_LINES_OF_PROJECT]
    return lines[: _LINES_OF_PROSE if _is_prose(path) else _LINES]


def _choose_tool_lines(lines: list[str]) -> list[str]:
    """The sections of the tools that say how code and tests look."""
    chosen: list[str] = []
    inside = False
    for line in lines:
        if line.startswith("["):
            inside = line.startswith(_TOOLS)
        if inside:
            chosen.append(line)
    return chosen


def _read_first(checkout: Path, path: str) -> bytes:
    try:
        with open_parent(checkout, path) as (fd, name), open_regular(name, fd) as file:
            return os.read(file, _FIRST)
    except (OSError, RefusedFileError):
        return b""
