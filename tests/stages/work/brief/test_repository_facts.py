"""What git tells about a commit: files with sizes, the main line, where its history ends."""

import os
from pathlib import Path

import pytest

from gitlab_nightshift.repository.git import GitError, build_isolated_git
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.stages.work.brief.repository_facts import (
    MOST_COMMITS,
    MOST_FOLDERS,
    RepositoryFacts,
    TrackedFile,
    describe_layout,
    format_size,
    list_largest,
    read_repository_facts,
)
from tests.support.tables import each
from tests.support.world import git

ODD = os.fsdecode(b"odd \xff\nname")
ME = ("-c", "user.name=A", "-c", "user.email=a@example.org")


def open_repository(top: Path, folder: Path) -> Repository:
    return Repository(build_isolated_git(folder / "home", os.environ["PATH"]), top / ".git")


def commit(top: Path, subject: str) -> None:
    git(top, "add", "-A")
    git(top, *ME, "commit", "-q", "--allow-empty", "-m", subject)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "top"
    (folder / "src").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "src/a.py").write_text("one\n")
    (folder / ODD).write_text("odd")
    (folder / "link").symlink_to("/etc/passwd")
    commit(folder, "first")
    return folder


def read(top: Path, folder: Path) -> RepositoryFacts:
    return read_repository_facts(open_repository(top, folder), "HEAD")


def test_files_with_their_sizes_and_no_link(top: Path, tmp_path: Path) -> None:
    facts = read(top, tmp_path)
    assert {file.path: file.size for file in facts.files} == {"src/a.py": 4, ODD: 3}


def test_commits_newest_first_with_the_files_that_they_changed(top: Path, tmp_path: Path) -> None:
    (top / "src/a.py").write_text("two\n")
    (top / ODD).write_text("odder")
    commit(top, "second: with a colon")
    git(top, "checkout", "-q", "-b", "side")
    (top / "b.py").write_text("b\n")
    commit(top, "on the side")
    git(top, "checkout", "-q", "main")
    git(top, *ME, "merge", "-q", "--no-ff", "-m", "merged", "side")
    facts = read(top, tmp_path)
    assert [(c.subject, set(c.files)) for c in facts.commits] == [
        ("merged", {"b.py"}),
        ("second: with a colon", {"src/a.py", ODD}),
        ("first", set()),
    ]
    assert facts.shallow is False
    when = git(top, "show", "-s", "--format=%ct", "HEAD")
    assert facts.committed_at == float(when)


def test_the_oldest_commit_of_a_shallow_clone_has_no_files(top: Path, tmp_path: Path) -> None:
    for number in range(3):
        commit(top, f"more {number}")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{top}", str(shallow))
    facts = read(shallow, tmp_path)
    assert [(c.subject, c.files) for c in facts.commits] == [("more 2", ()), ("more 1", ())]
    assert facts.shallow is True
    assert len(facts.files) == 2


def test_the_number_of_commits_is_bounded(top: Path, tmp_path: Path) -> None:
    stream = "".join(
        f"commit refs/heads/long\ncommitter A <a@b> {n} +0000\ndata 1\nx\n"
        for n in range(MOST_COMMITS + 5)
    )
    git(top, "fast-import", "--quiet", stdin=stream)
    facts = read_repository_facts(open_repository(top, tmp_path), "long")
    assert len(facts.commits) == MOST_COMMITS
    assert facts.shallow is False


def test_a_name_that_looks_like_a_commit_does_no_harm(top: Path, tmp_path: Path) -> None:
    (top / "\x01123").write_text("x")
    (top / "\x01").write_text("x")
    commit(top, "hostile")
    assert [c.subject for c in read(top, tmp_path).commits] == ["hostile", "first"]


def test_an_unknown_commit_is_an_error(top: Path, tmp_path: Path) -> None:
    with pytest.raises(GitError):
        read_repository_facts(open_repository(top, tmp_path), "0" * 40)


def files(*rows: tuple[str, int]) -> list[TrackedFile]:
    return [TrackedFile(*row) for row in rows]


def test_the_layout_has_the_repository_then_its_folders() -> None:
    lines = describe_layout(
        files(
            ("Makefile", 100),
            ("src/app/a.py", 2_000),
            ("src/app/b.py", 1_000),
            ("src/web/x.ts", 5_000_000),
            ("docs/guide.md", 300),
        )
    )
    assert lines == [
        "all: 5 files, 5.0 MB, Python 2, TypeScript 1, Markdown 1",
        "top folder itself: 1 file",
        "docs/: 1 file, 300 B, Markdown 1",
        "src/: 3 files, 5.0 MB, Python 2, TypeScript 1",
        "src/app/: 2 files, 3 kB, Python 2",
    ]


def test_a_chain_of_folders_is_one_line() -> None:
    lines = describe_layout(files(("src/main/java/A.java", 1), ("src/main/java/B.java", 1)))
    assert lines == ["all: 2 files, 2 B, Java 2", "src/main/java/: 2 files, 2 B, Java 2"]


def test_the_number_of_folders_is_bounded_and_the_top_level_stays() -> None:
    many = [(f"src/area{n}/f{m}.py", 10) for n in range(200) for m in range(3)]
    lines = describe_layout(files(*many, ("tests/test_a.py", 10)))
    assert len(lines) == MOST_FOLDERS + 1
    assert "tests/: 1 file, 10 B, Python 1" in lines


def test_the_layout_of_an_empty_repository() -> None:
    assert describe_layout([]) == ["all: 0 files"]


@each(("size", "text"), [(0, ""), (999, "999 B"), (1000, "1 kB"), (1_234_567, "1.2 MB")])
def test_sizes_for_a_person(size: int, text: str) -> None:
    assert format_size(size) == text


def test_the_largest_files_of_code() -> None:
    listed = files(
        ("data.json", 10**9), ("a.py", 50_000), ("b.go", 90_000), ("small.py", 9), ("x", 10**8)
    )
    assert list_largest(listed, 5) == ["b.go (90 kB)", "a.py (50 kB)"]
    assert list_largest(listed, 1) == ["b.go (90 kB)"]
