"""Indexes of a few files, as git reads and writes them."""

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitlab_nightshift.repository.object_rows import Row
from gitlab_nightshift.repository.small_index import read_index, write_index
from tests.repository.tools import git

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


def listed(top: Path, index: Path) -> dict[str, Row]:
    out = git(top, "ls-files", "-s", "-z", env={"GIT_INDEX_FILE": str(index)})
    rows = (row.split("\t", 1) for row in out.split("\0") if row)
    return {path: (meta.split()[0], meta.split()[1]) for meta, path in rows}


@given(rows=ROWS)
@settings(max_examples=25, deadline=None)
def test_git_reads_what_is_written(top: Path, rows: dict[str, tuple[str, bytes]]) -> None:
    kind = (
        hashlib.sha1 if git(top, "rev-parse", "--show-object-format") == "sha1" else hashlib.sha256
    )
    wanted = {path: (mode, kind(data).hexdigest()) for path, (mode, data) in rows.items()}
    index = top / "index"
    write_index(index, wanted, 2 * kind().digest_size)
    assert read_index(index, 2 * kind().digest_size) == wanted
    assert listed(top, index) == wanted


def test_what_git_writes_is_read(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for name in ("a", "deep/er/" + "long" * 1100, os.fsdecode(b"odd \xff\nname"), "é"):
        git(tmp_path, "update-index", "--add", "--cacheinfo", "100755", "e" * 40, name)
    (tmp_path / "new").write_text("x")
    git(tmp_path, "add", "--intent-to-add", "new")  # makes it version 3
    index = tmp_path / ".git/index"
    assert read_index(index, 40) == listed(tmp_path, index)


def test_an_index_of_another_kind_is_refused(tmp_path: Path) -> None:
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
