"""The table of processes: complete, used by every start, and shown in SECURITY.md."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import gitlab_nightshift
from gitlab_nightshift.sandbox import process_table
from gitlab_nightshift.sandbox.process_places import find_rights
from gitlab_nightshift.sandbox.process_table import (
    ADDRESSES,
    CHAT,
    ROWS,
    Attributes,
    Confined,
    ProcessRow,
)
from tests.separation import test_planted, test_planted_delegation
from tests.support import process_tables

PACKAGE = Path(gitlab_nightshift.__file__).parent
SEVERAL = ("live", "objects", "named", "repository", "temporary", "output")
PLACES = {name: f"/{name}" for name in ("private", "results", "own")} | {
    name: (f"/{name}",) for name in SEVERAL
}
STARTS = {
    "cli.py": "the command, sealed",
    "sealed_start.py": "the start itself",
    "sealed_entry.py": "the command, in a child that is watched over",
    "sandbox/stage_process.py": "a row; the command, for a Python caller",
    "sandbox/process.py": "programs: git, agents, commands",
    "sandbox/launched_process.py": "programs in the sandbox",
    "sandbox/broker_client.py": "the broker, and through it programs in the sandbox",
    "sandbox/confinement.py": "trials of bwrap",
    "sandbox/probe_run.py": "the proof, in the sandbox",
    "sandbox/inside/": "in the sandbox",
}
"""The modules that start processes, and which ones."""
CALLS = {"Popen", "fork", "execve", "execv", "posix_spawn", "prepare_stage", "prepare_start"}


def list_calls() -> Iterator[tuple[str, str]]:
    """The module and the function of each call in the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).rpartition(".")[2]
                yield path.relative_to(PACKAGE).as_posix(), name


def test_a_process_without_a_row_is_found() -> None:
    """A module with ``main(data)`` is started from a row; nothing else starts a process."""
    modules = {row.module for row in ROWS}
    mains = {
        ".".join(("gitlab_nightshift", *path.relative_to(PACKAGE).with_suffix("").parts))
        for path in PACKAGE.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == "main"
        if len(node.args.args) == 1 and "Any" in ast.unparse(node.args.args[0])
    }
    assert mains == modules - {process_table.SUPERVISOR.module}
    starting = {path for path, name in list_calls() if name in CALLS}
    unlisted = {path for path in starting if not path.startswith(tuple(STARTS))}
    assert unlisted == set(), "start it from a row (sandbox/stage_process.py)"


def test_every_row_is_in_the_table() -> None:
    assert {row for row in vars(process_table).values() if isinstance(row, ProcessRow)} == {*ROWS}
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_can_be_filled_in(row: ProcessRow) -> None:
    importlib.import_module(row.module)
    if row.confined in (Confined.AT_START, Confined.ON_TASK):
        rights = find_rights(row, PLACES, {"PATH": "/usr/bin"})
        assert all(path.startswith("/") for path in (*rights.readable, *rights.writable))


def test_all_files_excludes_the_credentials_in_home(tmp_path: Path) -> None:
    """Their names can be listed, as HOME may be the checkout."""
    for name in (".ssh/id", ".netrc", "shop/a.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    rights = find_rights(process_table.CHECK, PLACES, {"HOME": str(tmp_path)})
    within = [path for path in rights.readable if path.startswith(str(tmp_path))]
    assert within == [str(tmp_path / "shop")]
    assert not {"/", str(tmp_path.parent), str(tmp_path)} & {*rights.readable}
    assert {"/", "/usr"} <= {*rights.readable, *rights.listable}
    assert "/" in find_rights(process_table.CHECK, PLACES, {"HOME": "/nowhere"}).readable


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_processes_that_read_agents_bytes_are_confined(row: ProcessRow) -> None:
    if row.agent_bytes and not row.secrets:
        assert row.confined is not Confined.NOT


def test_code_is_planted_in_every_confined_process() -> None:
    confined = [row for row in ROWS if row.confined in (Confined.AT_START, Confined.ON_TASK)]
    planted = {*test_planted.OF_ROWS, *test_planted_delegation.OF_ROWS, ADDRESSES.name, CHAT.name}
    commands = {command for row in confined if row.name not in planted for command in row.commands}
    assert commands == test_planted.COMMANDS.keys()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_rows_and_planted_code_agree_on_attributes(row: ProcessRow) -> None:
    """``separation/test_planted.py`` compares its tables with the rights of the planted code."""
    if row.confined is Confined.AS_WORK:
        assert row.attributes is Attributes.WRITTEN
        assert not any({*test_planted.UNSEEN} & left for left in test_planted.LEFT.values())
    elif row.confined is Confined.NOT:
        assert row.attributes is Attributes.ANY
    else:
        rows = {**test_planted.OF_ROWS, **test_planted_delegation.OF_ROWS}
        commands = [test_planted.COMMANDS.get(name, set()) for name in row.commands]
        for got in [rows[row.name]] if row.name in rows else commands:
            expected = test_planted.UNSEEN if row.attributes is Attributes.ANY else ()
            assert {*test_planted.UNSEEN} & got == {*expected}


def test_the_page_shows_the_table() -> None:
    text = process_tables.PAGE.read_text(encoding="utf-8")
    assert process_tables.complete_page(text) == text, "make docs"
