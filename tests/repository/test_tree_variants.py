"""Variants of a tree: what they hold, and how few git processes they take."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gitlab_nightshift.repository.blobs import read_blobs
from gitlab_nightshift.repository.git import Git, find_repository_paths
from gitlab_nightshift.repository.private_repository import (
    MOST_KEPT,
    Repository,
    create_private_repository,
    list_diff_files,
    open_scratch_index,
    resolve_tree,
)
from gitlab_nightshift.repository.tree_objects import write_modified_tree
from tests.repository.conftest import Box
from tests.repository.tools import commit, git, write


@pytest.fixture
def private(box: Box) -> Repository:
    write(box.root, "run.sh", "#!/bin/sh\n")
    (box.root / "run.sh").chmod(0o755)
    commit(box.root)
    parts = find_repository_paths(box.git, box.root)
    return create_private_repository(box.git, box.private / "git", parts)


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The verbs of the git commands that the block runs."""
    verbs: list[str] = []
    run = Git.run

    def note(self: Git, verb: str, *args: str, **options: object) -> bytes:
        verbs.append(verb)
        return run(self, verb, *args, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(Git, "run", note)
        yield verbs


def test_files_keep_their_mode_and_come_and_go(box: Box, private: Repository) -> None:
    head = git(box.root, "rev-parse", "HEAD")
    files = {"run.sh": b"exit 1\n", "README.md": None, "new/deep.txt": b"new\n"}
    tree = write_modified_tree(private, head, files)
    listed = private.run("ls-tree", "-r", tree).decode()
    found = {(row.split()[0], row.split("\t")[1]) for row in listed.splitlines()}
    assert {("100755", "run.sh"), ("100644", "new/deep.txt")} <= found
    assert "README.md" not in listed
    assert private.run("cat-file", "blob", f"{tree}:run.sh") == b"exit 1\n"


def test_a_variant_of_many_files_takes_as_many_processes_as_one_of_one(
    box: Box, private: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = git(box.root, "rev-parse", "HEAD")
    with counted(monkeypatch) as first:
        write_modified_tree(private, head, {"README.md": b"one\n"})
    with counted(monkeypatch) as second:
        tree = write_modified_tree(private, head, {f"{n}.txt": b"x\n" for n in range(50)})
    with counted(monkeypatch) as third, open_scratch_index(private, tree):
        pass
    assert first == ["read-tree", "ls-tree", "update-index", "write-tree"]
    assert second == ["ls-tree", "update-index", "write-tree"]
    assert third == []


def test_a_kept_index_is_that_of_its_tree_whatever_came_later(
    box: Box, private: Repository
) -> None:
    head = git(box.root, "rev-parse", "HEAD")
    trees = [write_modified_tree(private, head, {"README.md": f"{n}\n".encode()}) for n in range(9)]
    for tree in (*trees, resolve_tree(private, head)):
        with open_scratch_index(private, tree) as index:
            assert private.run("write-tree", index=index).decode().strip() == tree
    assert len(list((private.folder / "indexes").iterdir())) <= MOST_KEPT + 1


def test_what_a_full_id_names_is_read_once(
    box: Box, private: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, old = git(box.root, "rev-parse", "HEAD"), box.base
    blob = git(box.root, "rev-parse", "HEAD:README.md")
    before = list_diff_files(private, old, head), read_blobs(private, [blob])
    with counted(monkeypatch) as verbs:
        assert (list_diff_files(private, old, head), read_blobs(private, [blob])) == before
        assert verbs == []
    assert [file.path for file in before[0]] == ["run.sh"]
