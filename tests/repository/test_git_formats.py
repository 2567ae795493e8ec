"""Git reads the repositories and indexes that are written without it, and the other way round."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitlab_nightshift.repository.git_formats import (
    UNBORN_HEAD,
    GitEntry,
    join_names,
    list_git_folders,
    parse_attributes,
    read_index,
    write_git_folder,
    write_index,
)
from tests.repository.tools import git, repository


def run_git(folder: Path, *args: str) -> str:
    argv = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *args]
    return subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_a_written_git_folder_is_like_one_of_git_init(tmp_path: Path, object_format: str) -> None:
    settings = {"core.bare": "false", "core.autocrlf": "input", "core.eol": "a\n[alias]\n"}
    write_git_folder(tmp_path / ".git", settings, head=UNBORN_HEAD, object_format=object_format)
    made = set(run_git(tmp_path, "config", "--local", "--list").split())
    subprocess.run(
        ["git", "init", "-q", "--template=", f"--object-format={object_format}", "theirs"],
        cwd=tmp_path,
        check=True,
    )
    theirs = set(run_git(tmp_path / "theirs", "config", "--local", "--list").split())
    probed = {"core.filemode=true", "core.logallrefupdates=true"}
    assert made == theirs - probed | {"core.autocrlf=input"}

    (tmp_path / "a.txt").write_text("a\r\n")
    run_git(tmp_path, "add", "a.txt")
    run_git(tmp_path, "commit", "-q", "-m", "first")
    assert run_git(tmp_path, "cat-file", "blob", "HEAD:a.txt") == "a\n"
    assert run_git(tmp_path, "rev-parse", "--show-object-format").strip() == object_format
    assert run_git(tmp_path, "fsck", "--strict") == ""


def test_a_git_folder_in_the_checkout_names_no_others(tmp_path: Path) -> None:
    repository(tmp_path / "shop", {"a.py": "A = 1\n"})
    assert list_git_folders(tmp_path / "shop") == []
    assert list_git_folders(tmp_path) == []


def test_a_worktree_names_its_own_folder_and_the_common_one(tmp_path: Path) -> None:
    repository(tmp_path / "shop", {"a.py": "A = 1\n"})
    git(tmp_path / "shop", "worktree", "add", "-q", str(tmp_path / "other"))
    common = (tmp_path / "shop/.git").resolve()
    assert list_git_folders(tmp_path / "other") == [common / "worktrees/other", common]


def test_a_file_that_names_no_folder_is_ignored(tmp_path: Path) -> None:
    for text in ("", "gitdir:", "other: /", "\0"):
        (tmp_path / ".git").write_text(text)
        assert list_git_folders(tmp_path) in ([], [tmp_path.resolve()])


NAMES = st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1)
ROWS = st.dictionaries(
    st.lists(NAMES.filter(lambda name: name not in (".", "..")), min_size=1, max_size=3).map(
        "/".join
    ),
    st.tuples(st.sampled_from(["100644", "100755", "120000", "160000"]), st.binary()),
    max_size=6,
)


@pytest.fixture(scope="module", params=["sha1", "sha256"])
def top(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("index")
    git(made, "init", "-q", f"--object-format={request.param}")
    return made


def listed(top: Path, index: Path) -> dict[str, GitEntry]:
    out = git(top, "ls-files", "-s", "-z", env={"GIT_INDEX_FILE": str(index)})
    rows = (row.split("\t", 1) for row in out.split("\0") if row)
    return {path: (meta.split()[0], meta.split()[1]) for meta, path in rows}


@given(rows=ROWS)
@settings(max_examples=25, deadline=None)
def test_git_reads_a_written_index(top: Path, rows: dict[str, tuple[str, bytes]]) -> None:
    kind = (
        hashlib.sha1 if git(top, "rev-parse", "--show-object-format") == "sha1" else hashlib.sha256
    )
    wanted = {path: (mode, kind(data).hexdigest()) for path, (mode, data) in rows.items()}
    index = top / "index"
    write_index(index, wanted, 2 * kind().digest_size)
    assert read_index(index, 2 * kind().digest_size) == wanted
    assert listed(top, index) == wanted


def test_an_index_of_git_is_read(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for name in ("a", "deep/er/" + "long" * 1100, os.fsdecode(b"odd \xff\nname"), "é"):
        git(tmp_path, "update-index", "--add", "--cacheinfo", "100755", "e" * 40, name)
    (tmp_path / "new").write_text("x")
    git(tmp_path, "add", "--intent-to-add", "new")  # makes it version 3
    index = tmp_path / ".git/index"
    assert read_index(index, 40) == listed(tmp_path, index)


def test_conflicts_and_other_versions_are_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    rows = "".join(f"100644 {n * 40} {n}\tfile\n" for n in "123")
    git(tmp_path, "update-index", "--index-info", stdin=rows.encode())
    index = tmp_path / ".git/index"
    with pytest.raises(ValueError, match="conflicts"):
        read_index(index, 40)
    git(tmp_path, "update-index", "--index-version", "4")
    with pytest.raises(ValueError, match="version 4"):
        read_index(index, 40)
    assert read_index(tmp_path / "none", 40) == {}


def test_an_attribute_may_have_an_empty_value(tmp_path: Path) -> None:
    repository(tmp_path, {".gitattributes": "a filter=\nb filter=lfs\nc filter\nd -filter\n"})
    out = subprocess.run(
        ["git", "check-attr", "-z", "--stdin", "filter"],
        cwd=tmp_path,
        input=join_names("abcde"),
        check=True,
        capture_output=True,
    ).stdout
    assert parse_attributes(out) == {"a": "", "b": "lfs", "c": "set"}
