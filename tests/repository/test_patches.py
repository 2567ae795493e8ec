"""Patches are applied in an index of few files with the result of a full one."""

import os
from pathlib import Path

import pytest

from gitlab_nightshift.repository import patches
from gitlab_nightshift.repository.git import GitError
from gitlab_nightshift.repository.patches import apply_patch, list_patch_paths
from gitlab_nightshift.repository.private_repository import Repository, build_diff_patch
from gitlab_nightshift.repository.tree_objects import resolve_tree
from tests.repository.conftest import Box
from tests.repository.tools import commit, git, write

ODD = [os.fsdecode(b"odd \xff\nname"), 'quo"te\\', "tab\tname", "ü.py", "a b/c d", "-- x", "b/a/b"]


def apply_to_whole(repository: Repository, onto: str, patch: bytes) -> str:
    return patches._apply_in_full_index(repository, onto, patch, None, "--binary")


def test_a_patch_of_any_kind_is_applied_in_a_small_index(
    box: Box, private: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*ODD, "gone", "moved", "becomes/folder", "becomes.file/x"):
        write(box.root, name, "one\ntwo\n")
    write(box.root, "binary", b"\0\1")
    base = commit(box.root)
    for name in ODD:
        write(box.root, name, "one\n-- two\n++ three\n")
    write(box.root, "binary", b"\0\2", 0o755)
    git(box.root, "mv", "moved", "moved-away")
    git(box.root, "rm", "-q", "gone", "becomes/folder", "becomes.file/x")
    write(box.root, "becomes/folder/inner", "x\n")
    write(box.root, "becomes.file", "x\n")
    (box.root / "src/app.py").chmod(0o755)
    write(box.root, "empty")
    head = commit(box.root)
    monkeypatch.setattr(patches, "_apply_in_full_index", None)  # it is not needed for any of them
    made = build_diff_patch(private, base, head)
    renamed = git(box.root, "diff", "--binary", "--find-renames", base, head).encode() + b"\n"
    for patch in (made, renamed):
        assert apply_patch(private, base, patch) == resolve_tree(private, head)
    named = {*list_patch_paths(made)}
    assert {*ODD, "gone", "moved", "moved-away", "empty", "binary", "src/app.py"} <= named


NEW_FILE = """\
diff --git a/{0} b/{0}
new file mode 100644
--- /dev/null
+++ b/{0}
@@ -0,0 +1 @@
+x
"""


@pytest.mark.parametrize(
    "patch",
    [
        NEW_FILE.format("README.md"),
        NEW_FILE.format("src"),
        NEW_FILE.format("README.md/x"),
        NEW_FILE.format("src/app.py/x"),
        NEW_FILE.format(".git/config"),
        NEW_FILE.format("../x"),
        'diff --git "a/READ\\115E.md" "b/READ\\115E.md"\nnew file mode 100644\n',
        "diff --git a//README.md b//README.md\nnew file mode 100644\n",
        "diff --git a/README.md b/README.md \nnew file mode 100644\n",
        "diff --git README.md README.md\nnew file mode 100644\n",
        "",
        "nothing",
    ],
)
def test_what_a_full_index_refuses_is_refused(private: Repository, box: Box, patch: str) -> None:
    """Above all a new file that exists already: an index without it would accept the patch."""
    with pytest.raises(GitError):
        apply_to_whole(private, box.base, patch.encode())
    with pytest.raises(GitError):
        apply_patch(private, box.base, patch.encode())


def test_a_file_that_is_not_found_in_the_patch_is_safe(
    private: Repository, box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git may know other ways to name a file."""
    monkeypatch.setattr(patches, "list_patch_paths", lambda _patch: iter(()))
    with pytest.raises(GitError):
        apply_patch(private, box.base, NEW_FILE.format("README.md").encode())


def test_no_index_is_left_behind(private: Repository, box: Box) -> None:
    apply_patch(private, box.base, NEW_FILE.format("new").encode())
    assert not [*Path(private.folder).glob("index-*")]
