"""Which changes touch executed code, and which symbols they touch."""

import os

import pytest

from gitlab_nightshift.proof.reviewed_change import (
    changes_code,
    compute_digest,
    list_changed_symbols,
    read_change,
)
from gitlab_nightshift.repository.git import build_isolated_git
from gitlab_nightshift.repository.private_repository import Repository
from tests.support.changes import commit
from tests.support.pairs import change_of

PYTHON = "def total(x):\n    if x:\n        x += 1\n    return x\n"
READ = {
    "README.md": ("# Shop\n", "# The shop\n"),
    "docs/guide.rst": (None, "Guide\n"),
    "LICENSE": ("MIT\n", "MIT licence\n"),
    "comment.py": (PYTHON, PYTHON.replace("    if", "    # Zero stays.\n    if")),
    "docstring.py": (PYTHON, PYTHON.replace("    if", '    """Sum it up."""\n    if')),
    "moved.js": ("f(1); // one\n", "// one\nf(1);\n"),
    "doc.go": ("package a\n\nfunc F() {}\n", "package a\n\n// F does nothing.\nfunc F() {}\n"),
}
EXECUTED = {
    "value.py": (PYTHON, PYTHON.replace("+= 1", "+= 2")),
    "indented.py": (PYTHON, PYTHON.replace("    return", "        return")),
    "new.py": (None, "# Only a comment.\n"),
    "gone.py": (PYTHON, None),
    "broken.py": (PYTHON, PYTHON.replace("+= 1", "+= (")),
    "formatted.py": ("def f():\n    return 1\n", 'def f():\n    f"{print(1)}"\n    return 1\n'),
    "strict.js": ("f(1);\n", "'use strict';\nf(1);\n"),
    "tags.go": ("package a\n", "//go:build linux\npackage a\n"),
    "ruby.rb": ("a = 'b'\n", "# frozen_string_literal: true\na = 'b'\n"),
    "settings.toml": ("a = 1\n", "a = 1 # one\n"),
    "CMakeLists.txt": ("project(a)\n", "project(b)\n"),
    "Makefile": ("test:\n", "test: lint\n"),
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    folder = tmp_path_factory.mktemp("changes")
    git = build_isolated_git(folder / "home", os.environ["PATH"])
    git.run("init", "--quiet", "--bare", "--template=", str(folder / "git"), cwd=folder)
    return Repository(git, folder / "git")


def change(repository: Repository, files: dict[str, tuple[str | None, str | None]]) -> bool:
    sides: list[dict[str, bytes]] = [{"keep": b"kept\n"}, {"keep": b"kept\n"}]
    for path, texts in files.items():
        for side, text in zip(sides, texts, strict=True):
            if text is not None:
                side[path] = text.encode()
    stream = b"".join(
        commit(f"refs/{n}", side) for n, side in zip(("before", "after"), sides, strict=True)
    )
    repository.run("fast-import", "--quiet", "--force", stdin=stream)
    return changes_code(read_change(repository, "refs/before", "refs/after"))


@pytest.mark.parametrize("path", READ)
def test_changes_of_documents_and_comments(repository: Repository, path: str) -> None:
    assert not change(repository, {path: READ[path]})


@pytest.mark.parametrize("path", EXECUTED)
def test_changes_of_executed_code(repository: Repository, path: str) -> None:
    assert change(repository, {path: EXECUTED[path]})


def test_one_file_of_code_among_documents_counts(repository: Repository) -> None:
    assert not change(repository, dict(READ))
    assert change(repository, {**READ, "value.py": EXECUTED["value.py"]})


# --- functions and lines --------------------------------------------------------------------------


BEFORE = """\
import os


class Cart:
    items = []

    def total(self):
        return 0

    def gone(self):
        return 1


def other():
    return 2
"""


def test_symbols_are_the_innermost_names_of_both_sides() -> None:
    after = BEFORE.replace("return 0", "return 7").replace(
        "    def gone(self):\n        return 1\n", ""
    )
    found = list_changed_symbols(change_of({"cart.py": BEFORE}, {"cart.py": after}))
    assert found == ("Cart.total", "Cart.gone")


def test_a_class_is_touched_by_its_own_lines() -> None:
    after = BEFORE.replace("items = []", "items = [1]")
    assert list_changed_symbols(change_of({"a.py": BEFORE}, {"a.py": after})) == ("Cart",)


def test_changes_without_symbols() -> None:
    after = {"a.py": BEFORE.replace("import os", "import re"), "a.xyz": "b", "README.md": "c"}
    before = {"a.py": BEFORE, "a.xyz": "a", "README.md": "a"}
    assert list_changed_symbols(change_of(before, after)) == ()


def test_the_digest_depends_on_lines_not_on_their_order() -> None:
    def digest(before: str, after: str, name: str = "a.py") -> str:
        return compute_digest(change_of({name: before}, {name: after}))

    there = digest("a\nb\n", "a\nb\nx = 1\n")
    assert digest("a\nb\n", "a\n\n    x  =  1\nb\n") == there
    others = (digest("a\n", "a\nx = 2\n"), digest("a\n", "a\nx = 1\n", "b.py"))
    assert there not in (*others, digest("x = 1\na\n", "a\n"), "")
    assert compute_digest(change_of({"a": "x\n"}, {"b": "x\n"})) == ""
