"""All files of a tree: a derived listing is that of git."""

import os
from random import Random

import pytest

from gitlab_nightshift.repository import tree_listing
from gitlab_nightshift.repository.git import GitError
from gitlab_nightshift.repository.packed_listing import ListedFile, TreeListing
from gitlab_nightshift.repository.tree_listing import list_names, list_tree
from tests.repository.conftest import Box
from tests.repository.tools import ODD_NAME, commit, git, link, write


def test_a_derived_listing_is_that_of_git(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    write(box.root, "a-b", "x")
    old = commit(box.root)
    for path in (ODD_NAME, "a/b", "a.c", "src/app.py/inner", "é"):
        if path.startswith("src/app.py"):
            (box.root / "src/app.py").unlink()
        write(box.root, path, os.fsencode(path))
    link(box.root, "link", "/etc/passwd")
    (box.root / "README.md").chmod(0o755)
    git(box.root, "update-index", "--add", "--cacheinfo", "160000", "e" * 40, "module")
    new = commit(box.root)
    listed = list_tree(box.create_private("whole"), new)
    private = box.create_private("git")
    list_tree(private, old)
    monkeypatch.setattr(tree_listing, "_read_listing", None)
    assert [*list_tree(private, new).items()] == [*listed.items()], "in the same order"
    assert list_names(private, new) == listed.keys() == list_names(box.create_private("names"), new)


def _choose_path(random: Random) -> str:
    names = ("a", "a-b", "a.c", "b", ODD_NAME, "é")
    return "/".join(random.choice(names) for _ in range(random.randrange(1, 4)))


def test_a_derived_listing_is_sorted() -> None:
    random = Random(37)
    made, files = TreeListing([]), dict[str, ListedFile]()
    for number in range(300):
        file = ListedFile("100644", f"{number:040x}", number)
        changes = {_choose_path(random): random.choice((None, file)) for _ in range(3)}
        made = made.replace(changes)
        files = {path: each for path, each in {**files, **changes}.items() if each}
        assert [*made.items()] == sorted(files.items(), key=lambda item: os.fsencode(item[0]))
        assert ([*made], len(made)) == ([path for path, _ in made.items()], len(files))
        assert all(made[path] == each for path, each in files.items())
        assert not any(path in made for path in changes.keys() - files.keys())


def test_a_very_different_tree_is_listed_by_git(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    private = box.create_private("git")
    list_tree(private, box.base)
    monkeypatch.setattr(tree_listing, "MOST_DIFFERING", 1)
    write(box.root, "one", "1")
    write(box.root, "two", "2")
    assert {"one", "two"} <= list_tree(private, commit(box.root)).keys()


def test_a_missing_tree_is_an_error(box: Box) -> None:
    for ask in (list_tree, list_names):
        with pytest.raises(GitError):
            ask(box.create_private(ask.__name__), "0" * 40)
