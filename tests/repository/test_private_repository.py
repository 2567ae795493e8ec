"""Trees, patches and commits in a private repository."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gitlab_nightshift.repository import private_repository as verbs
from gitlab_nightshift.repository.git import CommitIdentity, GitError, find_repository_paths
from gitlab_nightshift.repository.patches import apply_patch, find_relation
from gitlab_nightshift.repository.private_repository import (
    Relation,
    Repository,
    create_private_repository,
    list_diff_files,
    read_blobs,
    write_blob,
)
from gitlab_nightshift.repository.tree_objects import resolve_tree, write_checked_tree
from tests.repository.conftest import Box
from tests.repository.tools import ODD_NAME, commit, git, listing, write

ANN = CommitIdentity("Ann Ümlaut", "ann@example.org")
BOB = CommitIdentity("Bob", "bob@example.org")


def next_commit(box: Box, path: str, data: str | bytes) -> str:
    write(box.root, path, data)
    return commit(box.root)


def patch(box: Box, old: str, new: str) -> bytes:
    shape = ("--binary", "--full-index", "--no-renames", "--no-color")
    return os.fsencode(git(box.root, "diff", *shape, old, new)) + b"\n"


def test_a_private_repository_borrows_and_changes_nothing(box: Box, private: Repository) -> None:
    assert private.folder.stat().st_mode & 0o777 == 0o700
    assert verbs.has_commit(private, box.base)
    assert not verbs.has_commit(private, "0" * 40)
    assert not verbs.has_commit(private, resolve_tree(private, box.base))
    before = listing(box.root, git_too=True)
    verbs.commit_tree(
        private,
        resolve_tree(private, box.base),
        parent=box.base,
        message=b"x",
        author=ANN,
        committer=ANN,
        date="1700000000 +0000",
    )
    assert listing(box.root, git_too=True) == before


def test_a_shallow_checkout_stays_shallow(box: Box, tmp_path: Path) -> None:
    next_commit(box, "a", "a")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{box.root}", "shallow")
    found = find_repository_paths(box.git, tmp_path / "shallow")
    private = create_private_repository(box.git, box.private / "git", found)
    assert private.run("rev-list", "--count", git(box.root, "rev-parse", "HEAD")) == b"1\n"


def test_a_patch_gives_the_tree_it_was_made_of(box: Box, private: Repository) -> None:
    (box.root / "README.md").unlink()
    (box.root / "link").symlink_to("src")
    write(box.root, "src/app.py", "trailing space \r\n")
    (box.root / "src/app.py").chmod(0o755)
    write(box.root, "binary", bytes(range(256)))
    new = next_commit(box, ODD_NAME, "x")
    made = verbs.build_diff_patch(private, box.base, new)
    assert apply_patch(private, box.base, made) == resolve_tree(private, new)
    assert verbs.build_diff_patch(private, box.base, box.base) == b""
    with pytest.raises(GitError):
        apply_patch(private, new, made)


@pytest.mark.parametrize(
    "path",
    [
        *("../outside", "/etc/passwd", "a/../../b"),
        *(".git/config", ".GIT/hooks/x", "git~1/x", ".g\u200cit/config"),
    ],
)
def test_a_patch_cannot_write_outside(box: Box, private: Repository, path: str) -> None:
    text = "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n"
    text += f"+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    with pytest.raises(GitError):
        apply_patch(private, box.base, text.encode())
    assert not (box.private / "outside").exists()


def test_differences_have_line_counts(box: Box, private: Repository) -> None:
    write(box.root, "binary", b"\0\n\0\nx")
    old = next_commit(box, "gone", "1\n2\n")
    (box.root / "gone").unlink()
    (box.root / "README.md").unlink()
    (box.root / "README.md").symlink_to("src")
    (box.root / "src/app.py").chmod(0o755)
    write(box.root, "binary", b"\0")
    new = next_commit(box, ODD_NAME, "x")
    found = {
        f.path: (f.status, f.added, f.deleted) for f in verbs.list_diff_files(private, old, new)
    }
    assert found == {
        "gone": ("D", 0, 2),
        "README.md": ("T", 1, 1),
        "src/app.py": ("M", 0, 0),
        "binary": ("M", 1, 3),
        ODD_NAME: ("A", 1, 0),
    }


def test_a_commit_is_the_same_every_time(box: Box, private: Repository) -> None:
    tree = resolve_tree(private, box.base)

    def made(date: str, author: CommitIdentity) -> str:
        return verbs.commit_tree(
            private,
            tree,
            parent=box.base,
            message="Subject ü\n\n# no comment\n".encode(),
            author=author,
            committer=BOB,
            date=date,
        )

    first = made("2025-01-31T03:04:05+00:00", ANN)
    assert first == made("1738292645 +0000", ANN)
    assert first != made("1738292645 +0000", BOB)
    shown = private.run("cat-file", "commit", first).decode()
    assert f"tree {tree}\nparent {box.base}\n" in shown
    assert "author Ann Ümlaut <ann@example.org> 1738292645 +0000\n" in shown
    assert "committer Bob <bob@example.org> 1738292645 +0000\n" in shown
    assert shown.endswith("\n\nSubject ü\n\n# no comment\n")
    assert "gpgsig" not in shown


LINES = "".join(f"line {number}\n" for number in range(20))


@pytest.mark.parametrize(
    ("path", "data", "relation"),
    [
        ("unrelated", "x\n", Relation.APPLIES),
        ("file", LINES.replace("line 1\n", "moved\n"), Relation.APPLIES),
        ("file", LINES.replace("line 10\n", "changed\n"), Relation.CONTAINED),
        ("file", "new first line\n" + LINES.replace("line 10\n", "changed\n"), Relation.CONTAINED),
        ("file", LINES.replace("line 10\n", "otherwise\n"), Relation.CONFLICT),
    ],
)
def test_relation_to_a_branch_that_moved(
    box: Box, private: Repository, path: str, data: str, relation: Relation
) -> None:
    base = next_commit(box, "file", LINES)
    change = patch(box, base, next_commit(box, "file", LINES.replace("line 10\n", "changed\n")))
    git(box.root, "reset", "-q", "--hard", base)
    assert find_relation(private, next_commit(box, path, data), change) is relation


def test_relation_of_new_and_deleted_files(box: Box, private: Repository) -> None:
    base = git(box.root, "rev-parse", "HEAD")
    (box.root / "README.md").unlink()
    change = patch(box, base, next_commit(box, "new", "x\n"))
    git(box.root, "reset", "-q", "--hard", base)
    (box.root / "README.md").unlink()
    assert find_relation(private, next_commit(box, "new", "x\n"), change) is Relation.CONTAINED
    git(box.root, "reset", "-q", "--hard", base)
    assert find_relation(private, next_commit(box, "new", "y\n"), change) is Relation.CONFLICT


def test_a_repository_without_its_lender_has_no_commits(box: Box, tmp_path: Path) -> None:
    source = replace(find_repository_paths(box.git, box.root), objects=(tmp_path / "nothing",))
    private = create_private_repository(box.git, box.private / "git", source)
    assert not verbs.has_commit(private, box.base)


def test_missing_blobs_and_other_objects_are_left_out(box: Box, private: Repository) -> None:
    good = git(box.root, "rev-parse", "HEAD:README.md")
    tree = git(box.root, "rev-parse", "HEAD^{tree}")
    found = read_blobs(private, [good, "0" * 40, good])
    assert found == {good: b"hello\n"}
    assert read_blobs(private, []) == {}
    assert read_blobs(private, [tree]) == {}


def test_written_blobs_are_those_of_git(private: Repository) -> None:
    for data in (b"", b"hello\n", b"blob 3\0abc", os.urandom(100_000)):
        name = write_blob(private, data, 40)
        assert name == write_blob(private, data, 40), "a second time"
        assert private.run("hash-object", "--stdin", stdin=data).decode().strip() == name
        assert private.run("cat-file", "blob", name) == data
    assert private.run("fsck", "--strict", "--no-dangling") == b""


def test_a_tree_is_written_from_names_modes_and_blobs(box: Box, private: Repository) -> None:
    new = box.base
    for path, data in (
        ("src/app.py/inner", "x\n"),
        (ODD_NAME, "y\n"),
        ("deep/er/tool.sh", "z\n"),
    ):
        if (box.root / "src/app.py").is_file():
            (box.root / "src/app.py").unlink()
        write(box.root, path, data)
        new = commit(box.root)
    found = list_diff_files(private, box.base, new)
    entries = [(file.mode, file.blob, file.path) for file in found]
    assert write_checked_tree(private, box.base, entries) == resolve_tree(private, new)
    assert write_checked_tree(private, box.base, []) == resolve_tree(private, box.base)


def test_a_tree_with_unsafe_names_is_refused(box: Box, private: Repository) -> None:
    blob = git(box.root, "rev-parse", "HEAD:README.md")
    for path in (".git/config", "a/.GIT/x", "../x", "/x", "a//b", "git~1/x", ".git\u200c/x", "."):
        with pytest.raises(ValueError):
            write_checked_tree(private, box.base, [("100644", blob, path)])
    readme = ("100644", blob, "README.md")
    with pytest.raises(ValueError):  # no difference
        write_checked_tree(private, box.base, [readme])
    with pytest.raises(ValueError):  # the same path twice
        write_checked_tree(private, box.base, [("000000", "0" * 40, "README.md"), readme])
