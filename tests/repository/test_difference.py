"""The difference of two trees: both sides of every file, and the lines that changed."""

import os
import subprocess
from pathlib import Path

import pytest

from gitlab_nightshift.repository.difference import ChangedFile, read_difference
from gitlab_nightshift.repository.private_repository import build_diff_patch, list_diff_files
from tests.repository.conftest import Box
from tests.repository.tools import commit, git, write
from tests.support.scripts import ScriptCase, read_cases, run_script

COMMANDS = """
commit() { git add -A; git commit -q --allow-empty -m more; }
ten() { seq -f 'line %g' 10; }
"""


def read_changes_since(box: Box, base: str) -> tuple[ChangedFile, ...]:
    """What the HEAD of the checkout changes: the same also if its patch is known already."""
    repository = box.create_private()
    trees = git(box.root, "rev-parse", base, "HEAD").split()
    found, files = read_difference(repository, *trees), list_diff_files(repository, *trees)
    repository.differences.clear()
    build_diff_patch(repository, *trees)
    assert list_diff_files(repository, *trees) == files
    assert [*map(vars, read_difference(repository, *trees))] == [*map(vars, found)]
    return found


def describe(file: ChangedFile) -> str:
    """Status, names, modes where they differ, and hunks: old line and count > new ones."""
    name = file.path if file.path == file.old_path else f"{file.old_path}=>{file.path}"
    modes = f"{file.old_mode}>{file.new_mode}"
    hunks = [f"{h.old},{h.old_count}>{h.new},{h.new_count}" for h in file.hunks]
    more = [modes] * (file.old_mode != file.new_mode) + ["binary"] * file.binary + hunks
    return " ".join([file.status, name, *more])


def read_side(root: Path, revision: str, path: str) -> bytes | None:
    """What git holds there."""
    row = git(root, "ls-tree", revision, "--", f":(literal){path}")
    if not row:
        return None
    _, kind, blob = row.partition("\t")[0].split()
    if kind == "commit":
        return f"Subproject commit {blob}\n".encode()
    return subprocess.check_output(["git", "cat-file", "blob", blob], cwd=root)


def get_lines(data: bytes | None, numbers: tuple[int, ...]) -> list[tuple[int, str]]:
    lines = (data or b"").decode("utf-8", "replace").split("\n")
    return [(number, lines[number - 1].rstrip("\r")) for number in numbers]


@pytest.mark.parametrize(
    "case", read_cases(Path(__file__).with_name("differences.cases")), ids=repr
)
def test_differences_are_read(box: Box, case: ScriptCase) -> None:
    run_script(box.root, COMMANDS + case.script)
    found = read_changes_since(box, "HEAD~1")
    assert [describe(file) for file in found] == case.expected
    for file in found:
        old = read_side(box.root, "HEAD~1", file.raw_old_path)
        new = read_side(box.root, "HEAD", file.raw_path)
        sides = [side if side is None or not file.binary else b"" for side in (old, new)]
        assert [file.old, file.new] == sides
        assert [(line.number, line.text) for line in file.deleted] == get_lines(
            old, file.deleted_numbers
        )
        assert [(line.number, line.text) for line in file.added] == get_lines(
            new, file.added_numbers
        )


@pytest.mark.parametrize(
    "name", [os.fsdecode(b"odd \xff\nname"), 'quo"te\\', "-rf", ":(top)x", "tab\tname", "ü.py"]
)
def test_odd_names(box: Box, name: str) -> None:
    write(box.root, name, "x\n")
    commit(box.root)
    [found] = read_changes_since(box, box.base)
    assert (found.raw_path, found.added_numbers) == (name, (1,))


def test_many_changed_lines_have_their_numbers(box: Box) -> None:
    run_script(box.root, COMMANDS + "seq 0 999 > long; commit; sed -i 's/7$/seven/' long; commit")
    [found] = read_changes_since(box, "HEAD~1")
    assert [line.text for line in found.deleted] == [str(n) for n in range(1000) if n % 10 == 7]
