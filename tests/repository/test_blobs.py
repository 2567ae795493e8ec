"""The bytes of files in a private repository."""

import os

import pytest

from gitlab_nightshift.repository.blobs import read_blobs, write_blob
from gitlab_nightshift.repository.git import find_repository_paths
from gitlab_nightshift.repository.private_repository import (
    Repository,
    create_private_repository,
    list_diff_files,
)
from gitlab_nightshift.repository.tree_objects import make_tree, resolve_tree
from tests.repository.conftest import Box
from tests.repository.tools import commit, git, write

ODD = os.fsdecode(b"odd \xff\nname")


@pytest.fixture
def private(box: Box) -> Repository:
    return create_private_repository(
        box.git, box.private / "git", find_repository_paths(box.git, box.root)
    )


def test_blobs_are_checked(box: Box, private: Repository) -> None:
    good = git(box.root, "rev-parse", "HEAD:README.md")
    tree = git(box.root, "rev-parse", "HEAD^{tree}")
    found = read_blobs(private, [good, "0" * 40, good])
    assert found == {good: b"hello\n"}
    assert read_blobs(private, []) == {}
    assert read_blobs(private, [tree]) == {}


def test_written_blobs_are_what_git_would_have_written(private: Repository) -> None:
    for data in (b"", b"hello\n", b"blob 3\0abc", os.urandom(100_000)):
        name = write_blob(private, data, 40)
        assert name == write_blob(private, data, 40), "a second time"
        assert private.run("hash-object", "--stdin", stdin=data).decode().strip() == name
        assert private.run("cat-file", "blob", name) == data
    assert private.run("fsck", "--strict", "--no-dangling") == b""


def test_a_tree_is_made_of_names_modes_and_blobs(box: Box, private: Repository) -> None:
    new = box.base
    for path, data in (
        ("src/app.py/inner", "x\n"),
        (ODD, "y\n"),
        ("deep/er/tool.sh", "z\n"),
    ):
        if (box.root / "src/app.py").is_file():
            (box.root / "src/app.py").unlink()
        write(box.root, path, data)
        new = commit(box.root)
    found = list_diff_files(private, box.base, new)
    entries = [(file.mode, file.blob, file.path) for file in found]
    assert make_tree(private, box.base, entries) == resolve_tree(private, new)
    assert make_tree(private, box.base, []) == resolve_tree(private, box.base)


def test_no_tree_is_made_with_names_that_are_gits_own(box: Box, private: Repository) -> None:
    blob = git(box.root, "rev-parse", "HEAD:README.md")
    for path in (".git/config", "a/.GIT/x", "../x", "/x", "a//b", "git~1/x", ".git\u200c/x", "."):
        with pytest.raises(ValueError):
            make_tree(private, box.base, [("100644", blob, path)])
    readme = ("100644", blob, "README.md")
    with pytest.raises(ValueError):  # no difference
        make_tree(private, box.base, [readme])
    with pytest.raises(ValueError):  # the same path twice
        make_tree(private, box.base, [("000000", "0" * 40, "README.md"), readme])
