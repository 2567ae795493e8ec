"""Changed trees are written correctly, and with few git processes."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitlab_nightshift.repository import apply_change
from gitlab_nightshift.repository.git import Git, build_isolated_git, split_names
from gitlab_nightshift.repository.private_repository import (
    MOST_CACHED_INDEXES,
    Repository,
    RepositoryParts,
    create_private_repository,
    list_diff_files,
    open_scratch_index,
    read_blobs,
)
from gitlab_nightshift.repository.tree_objects import (
    list_differences,
    resolve_tree,
    write_tree_with_files,
)
from tests.repository.conftest import Box
from tests.repository.tools import commit, git, write

EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The tree without a file, which git knows without storing it."""


@pytest.fixture
def private(box: Box) -> Repository:
    write(box.root, "run.sh", "#!/bin/sh\n")
    (box.root / "run.sh").chmod(0o755)
    commit(box.root)
    return box.create_private()


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The verbs of the git commands that the block runs."""
    verbs: list[str] = []
    build = Git._build_command

    def note(self: Git, settings: tuple[str, ...], *args: str) -> list[str]:
        verbs.append(args[0])
        return build(self, settings, *args)

    with monkeypatch.context() as patched:
        patched.setattr(Git, "_build_command", note)
        yield verbs


def test_files_keep_their_mode_and_are_added_and_removed(box: Box, private: Repository) -> None:
    head = git(box.root, "rev-parse", "HEAD")
    files = {"run.sh": b"exit 1\n", "README.md": None, "new/deep.txt": b"new\n"}
    tree = write_tree_with_files(private, head, files)
    listed = private.run("ls-tree", "-r", tree).decode()
    found = {(row.split()[0], row.split("\t")[1]) for row in listed.splitlines()}
    assert {("100755", "run.sh"), ("100644", "new/deep.txt")} <= found
    assert "README.md" not in listed
    assert private.run("cat-file", "blob", f"{tree}:run.sh") == b"exit 1\n"


def test_git_is_started_only_for_unread_folders(
    box: Box, private: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = git(box.root, "rev-parse", "HEAD")
    with counted(monkeypatch) as first:
        tree = write_tree_with_files(private, head, {"README.md": b"one\n"})
    with counted(monkeypatch) as second:
        write_tree_with_files(private, head, {f"new/{n}.txt": b"x\n" for n in range(50)})
        assert [*list_differences(private, head, tree)] == ["README.md"]
    assert first == ["cat-file"]
    assert second == []


FILES = ["a", "a.b", "a/b", "a-b", "deep/er/x", "deep/er.txt", "deep/y", "run.sh", "é", "z"]


@given(
    old=st.dictionaries(st.sampled_from(FILES), st.binary(max_size=2)),
    new=st.dictionaries(st.sampled_from(FILES), st.none() | st.binary(max_size=2)),
)
@settings(max_examples=40)
def test_written_trees_and_differences_are_those_of_git(
    old: dict[str, bytes], new: dict[str, bytes | None]
) -> None:
    """Also if a file replaces a folder, or names are sorted differently with "/"."""
    with TemporaryDirectory() as folder:
        root = Path(folder)
        made = build_isolated_git(root / "home", os.environ["PATH"])
        private = create_private_repository(made, root / "git", RepositoryParts((), "sha1"))
        files = drop_clashes(old)
        base = write_tree_with_files(private, EMPTY, files)
        kept = {path: data for path, data in files.items() if path not in new}
        wanted = drop_clashes({**{p: d for p, d in new.items() if d is not None}, **kept})
        gone = dict.fromkeys(files.keys() - wanted.keys())
        tree = write_tree_with_files(private, base, {**gone, **wanted})
        rows = private.run("ls-tree", "-r", "-z", tree).decode().split("\0")
        assert {row.partition("\t")[2] for row in rows if row} == wanted.keys()
        assert private.run("fsck", "--strict", "--no-dangling") == b""
        raw = split_names(private.run("diff-tree", "-r", "-z", "--raw", "--no-renames", base, tree))
        seen = {path: meta.split(" ") for meta, path in zip(raw[::2], raw[1::2], strict=True)}
        assert list_differences(private, base, tree) == {
            path: None if status == "D" else (mode, blob)
            for path, (_, mode, _, blob, status) in seen.items()
        }


def drop_clashes(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Without files below a name that is a file itself."""
    return {
        path: data
        for path, data in files.items()
        if not any(other != path and path.startswith(f"{other}/") for other in files)
    }


def test_a_cached_index_is_that_of_its_tree(box: Box, private: Repository) -> None:
    head = git(box.root, "rev-parse", "HEAD")
    trees = [
        write_tree_with_files(private, head, {"README.md": f"{n}\n".encode()}) for n in range(9)
    ]
    for tree in (*trees, resolve_tree(private, head)):
        with open_scratch_index(private, tree) as index:
            assert private.run("write-tree", index=index).decode().strip() == tree
    assert len(list((private.folder / "indexes").iterdir())) <= MOST_CACHED_INDEXES + 1


def test_objects_with_full_ids_are_read_once(
    box: Box, private: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, old = git(box.root, "rev-parse", "HEAD"), box.base
    blob = git(box.root, "rev-parse", "HEAD:README.md")
    before = list_diff_files(private, old, head), read_blobs(private, [blob])
    with counted(monkeypatch) as verbs:
        assert (list_diff_files(private, old, head), read_blobs(private, [blob])) == before
        assert verbs == []
    assert [file.path for file in before[0]] == ["run.sh"]


@pytest.mark.parametrize("setting", ["", "* text=auto eol=crlf\n"])
def test_a_tree_is_applied_as_git_checks_it_out(
    box: Box, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With attributes, git itself writes the files. They are written in batches."""
    monkeypatch.setattr(apply_change, "FILES_PER_BATCH", 2)
    if setting:
        write(box.root, ".gitattributes", setting)
        commit(box.root)
    with box.open() as checkout:
        files = {f"src/{n}.txt": b"one\ntwo\n" for n in range(5)}
        tree = write_tree_with_files(checkout.repository, checkout.base_sha, files)
        assert checkout.apply_tree(tree) == ()
        wanted = b"one\r\ntwo\r\n" if setting else b"one\ntwo\n"
        assert {(box.root / path).read_bytes() for path in files} == {wanted}
        assert checkout.capture().tree_id == tree
