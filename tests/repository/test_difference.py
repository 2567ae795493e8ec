"""The difference of two trees: both sides of every file, and the lines that changed."""

import os
from pathlib import Path

import pytest

from gitlab_nightshift.repository.difference import ChangedFile, Hunk, read_difference
from gitlab_nightshift.repository.git import find_repository_paths
from gitlab_nightshift.repository.private_repository import create_private_repository
from tests.repository.conftest import Box
from tests.repository.tools import commit, git, link, write

TEN = "".join(f"line {n}\n" for n in range(1, 11))


def difference(box: Box, files: dict[str, str | bytes]) -> dict[str, ChangedFile]:
    """What ``files`` change, by path."""
    for path, data in files.items():
        write(box.root, path, data)
    return since_base(box, box.base)


def since_base(box: Box, base: str) -> dict[str, ChangedFile]:
    new = commit(box.root)
    repository = create_private_repository(
        box.git, box.private / f"git-{new}", find_repository_paths(box.git, box.root)
    )
    found = read_difference(repository, base, new)
    return {each.raw_path: each for each in found}


def begin(box: Box, files: dict[str, str | bytes]) -> str:
    """A base that holds ``files``."""
    for path, data in files.items():
        write(box.root, path, data)
    return commit(box.root)


def test_nothing_differs(box: Box) -> None:
    assert difference(box, {}) == {}


def test_lines_are_numbered_on_both_sides(box: Box) -> None:
    base = begin(box, {"ten": TEN})
    write(box.root, "ten", TEN.replace("line 3\nline 4\n", "three\n") + "end\n")
    [found] = since_base(box, base).values()
    assert (found.status, found.path, found.old_path) == ("M", "ten", "ten")
    assert found.hunks == (Hunk(3, 2, 3, 1), Hunk(10, 0, 10, 1))
    assert (found.deleted_numbers, found.added_numbers) == ((3, 4), (3, 10))
    assert [(line.number, line.text) for line in found.deleted] == [(3, "line 3"), (4, "line 4")]
    assert [(line.number, line.text) for line in found.added] == [(3, "three"), (10, "end")]
    assert (found.old, found.new) == (TEN.encode(), (box.root / "ten").read_bytes())


def test_a_new_and_a_deleted_file(box: Box) -> None:
    (box.root / "README.md").unlink()
    found = difference(box, {"new.py": "a\nb\n"})
    assert (found["new.py"].status, found["new.py"].old, found["new.py"].added_numbers) == (
        "A",
        None,
        (1, 2),
    )
    gone = found["README.md"]
    assert (gone.status, gone.old, gone.new) == ("D", b"hello\n", None)
    assert (gone.deleted_numbers, gone.added_numbers) == ((1,), ())


def test_a_renamed_file_keeps_both_names_and_its_changes(box: Box) -> None:
    base = begin(box, {"old/name.py": TEN})
    (box.root / "old/name.py").unlink()
    write(box.root, "new/name.py", TEN.replace("line 5\n", "five\n"))
    [found] = since_base(box, base).values()
    assert (found.status, found.old_path, found.path) == ("R", "old/name.py", "new/name.py")
    assert (found.deleted_numbers, found.added_numbers) == ((5,), (5,))


def test_a_file_that_only_moved_has_no_changed_lines(box: Box) -> None:
    base = begin(box, {"a.py": TEN})
    git(box.root, "mv", "a.py", "b.py")
    [found] = since_base(box, base).values()
    assert (found.status, found.hunks, found.old, found.new) == (
        "R",
        (),
        TEN.encode(),
        TEN.encode(),
    )


def test_only_the_mode_changed(box: Box) -> None:
    (box.root / "src/app.py").chmod(0o755)
    found = difference(box, {})["src/app.py"]
    assert (found.old_mode, found.new_mode, found.hunks) == ("100644", "100755", ())


def test_a_file_that_becomes_a_link_is_one_file(box: Box) -> None:
    link(box.root, "README.md", "src")
    found = difference(box, {"zz": "last\n"})
    readme = found["README.md"]
    assert (readme.status, readme.new_mode, readme.new) == ("T", "120000", b"src")
    assert (readme.deleted_numbers, readme.added_numbers) == ((1,), (1,))
    assert found["zz"].added_numbers == (1,)  # its lines are not those of the link


def test_a_link_that_becomes_binary(box: Box) -> None:
    base = begin(box, {"aa": "x\n"})
    link(box.root, "aa", "src")
    base = commit(box.root)
    (box.root / "aa").unlink()
    found = since_base_with(box, base, {"aa": b"\0\1", "zz": "last\n"})
    assert (found["aa"].status, found["aa"].binary, found["zz"].added_numbers) == ("T", True, (1,))


def since_base_with(box: Box, base: str, files: dict[str, str | bytes]) -> dict[str, ChangedFile]:
    for path, data in files.items():
        write(box.root, path, data)
    return since_base(box, base)


def test_a_binary_file_has_no_lines(box: Box) -> None:
    base = begin(box, {"x.png": b"\x89PNG\0\n\n", "t": "a\n"})
    found = since_base_with(box, base, {"x.png": b"\x89PNG\0\n1\n", "new.bin": b"\0", "t": b"\0"})
    assert [(f.path, f.binary, f.hunks) for f in found.values()] == [
        ("new.bin", True, ()),
        ("t", True, ()),
        ("x.png", True, ()),
    ]


def test_no_newline_at_the_end(box: Box) -> None:
    base = begin(box, {"a": "one\ntwo", "b": "x"})
    found = since_base_with(box, base, {"a": "one\ntwo\n", "b": "y", "c": "z\n"})
    assert found["a"].hunks == (Hunk(2, 1, 2, 1),)
    assert found["b"].hunks == (Hunk(1, 1, 1, 1),)
    assert found["c"].hunks == (Hunk(0, 0, 1, 1),)


def test_line_ends_are_kept(box: Box) -> None:
    base = begin(box, {"a": "one\ntwo\n"})
    found = since_base_with(box, base, {"a": "one\r\ntwo\n"})
    assert (found["a"].new, found["a"].added_numbers) == (b"one\r\ntwo\n", (1,))


def test_lines_that_look_like_a_patch(box: Box) -> None:
    text = "diff --git a/x b/x\n@@ -1,5 +1,5 @@\nBinary files a and b differ\n-- x\n++ y\n"
    found = difference(box, {"a.patch": text, "b": "b\n"})
    assert (found["a.patch"].binary, found["a.patch"].added_numbers) == (False, (1, 2, 3, 4, 5))
    assert found["b"].added_numbers == (1,)


def test_empty_files(box: Box) -> None:
    base = begin(box, {"empty": "", "full": "a\n"})
    found = since_base_with(box, base, {"empty": "now\n", "full": "", "more": ""})
    assert found["empty"].hunks == (Hunk(0, 0, 1, 1),)
    assert (found["full"].new, found["full"].deleted_numbers) == (b"", (1,))
    assert (found["more"].status, found["more"].new, found["more"].hunks) == ("A", b"", ())


@pytest.mark.parametrize(
    "name", [os.fsdecode(b"odd \xff\nname"), 'quo"te\\', "-rf", ":(top)x", "tab\tname", "ü.py"]
)
def test_odd_names(box: Box, name: str) -> None:
    found = difference(box, {name: "x\n"})
    assert found[name].added_numbers == (1,)


def test_a_submodule_is_one_line(box: Box) -> None:
    one, two = "1" * 40, "2" * 40
    index = ("update-index", "--add", "--cacheinfo")
    git(box.root, *index, f"160000,{one},lib")
    git(box.root, "commit", "-q", "-m", "lib")
    base = git(box.root, "rev-parse", "HEAD")
    git(box.root, *index, f"160000,{two},lib")
    git(box.root, "commit", "-q", "-m", "newer lib")
    private = create_private_repository(
        box.git, box.private / "git", find_repository_paths(box.git, box.root)
    )
    [found] = read_difference(private, base, git(box.root, "rev-parse", "HEAD"))
    assert found.old == f"Subproject commit {one}\n".encode()
    assert found.new == f"Subproject commit {two}\n".encode()
    assert (found.deleted_numbers, found.added_numbers) == ((1,), (1,))


def test_the_users_settings_change_nothing(box: Box) -> None:
    config = ("diff.noprefix", "true", "diff.external", "false", "diff.renames", "false")
    for key, value in zip(config[::2], config[1::2], strict=True):
        git(box.root, "config", key, value)
    write(box.root, ".gitattributes", "*.py -diff\n")
    found = difference(box, {"src/app.py": "print('new')\n"})
    assert found["src/app.py"].hunks == (Hunk(1, 1, 1, 1),)


def test_a_thousand_lines(box: Box, tmp_path: Path) -> None:
    text = "".join(f"{n}\n" for n in range(1000))
    base = begin(box, {"long": text})
    write(box.root, "long", text.replace("7\n", "seven\n"))
    [found] = since_base(box, base).values()
    old = text.split("\n")
    assert [old[n - 1] for n in found.deleted_numbers] == [
        line for line in old if line.endswith("7")
    ]


def test_names_that_look_like_lines_of_a_patch_are_names(box: Box) -> None:
    names = ("a\ndiff --git b", "c\n@@ -9 +9 @@", "d\nBinary files e")
    base = begin(box, dict.fromkeys(names, "one\ntwo\n"))
    found = since_base_with(box, base, dict.fromkeys(names, "one\n2\n"))
    assert tuple(found) == names
    assert all(each.hunks == (Hunk(2, 1, 2, 1),) for each in found.values())
    assert not any(each.binary for each in found.values())
