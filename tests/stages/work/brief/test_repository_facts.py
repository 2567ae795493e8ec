"""What git says of a commit: files with sizes, the main line, where its history ends."""

import os
from pathlib import Path

import pytest

from gitlab_nightshift.repository.git import GitError, build_isolated_git
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.stages.work.brief.repository_facts import (
    MOST_COMMITS,
    RepositoryFacts,
    read_repository_facts,
)
from tests.support.world import git

ODD = os.fsdecode(b"odd \xff\nname")
ME = ("-c", "user.name=A", "-c", "user.email=a@example.org")


def opened(top: Path, folder: Path) -> Repository:
    return Repository(build_isolated_git(folder / "home", os.environ["PATH"]), top / ".git")


def committed(top: Path, subject: str) -> None:
    git(top, "add", "-A")
    git(top, *ME, "commit", "-q", "--allow-empty", "-m", subject)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    made = tmp_path / "top"
    (made / "src").mkdir(parents=True)
    git(made, "init", "-q", "-b", "main")
    (made / "src/a.py").write_text("one\n")
    (made / ODD).write_text("odd")
    (made / "link").symlink_to("/etc/passwd")
    committed(made, "first")
    return made


def read(top: Path, folder: Path) -> RepositoryFacts:
    return read_repository_facts(opened(top, folder), "HEAD")


def test_files_with_their_sizes_and_no_link(top: Path, tmp_path: Path) -> None:
    facts = read(top, tmp_path)
    assert {file.path: file.size for file in facts.files} == {"src/a.py": 4, ODD: 3}


def test_commits_with_what_they_changed_newest_first(top: Path, tmp_path: Path) -> None:
    (top / "src/a.py").write_text("two\n")
    (top / ODD).write_text("odder")
    committed(top, "second: with a colon")
    git(top, "checkout", "-q", "-b", "side")
    (top / "b.py").write_text("b\n")
    committed(top, "on the side")
    git(top, "checkout", "-q", "main")
    git(top, *ME, "merge", "-q", "--no-ff", "-m", "merged", "side")
    facts = read(top, tmp_path)
    assert [(c.subject, set(c.files)) for c in facts.commits] == [
        ("merged", {"b.py"}),
        ("second: with a colon", {"src/a.py", ODD}),
        ("first", set()),
    ]
    assert facts.cut is False
    when = git(top, "show", "-s", "--format=%ct", "HEAD")
    assert facts.committed_at == float(when)


def test_a_shallow_history_is_known_and_its_end_changed_nothing(top: Path, tmp_path: Path) -> None:
    for number in range(3):
        committed(top, f"more {number}")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{top}", str(shallow))
    facts = read(shallow, tmp_path)
    assert [(c.subject, c.files) for c in facts.commits] == [("more 2", ()), ("more 1", ())]
    assert facts.cut is True
    assert len(facts.files) == 2


def test_no_more_commits_than_are_of_use(top: Path, tmp_path: Path) -> None:
    stream = "".join(
        f"commit refs/heads/long\ncommitter A <a@b> {n} +0000\ndata 1\nx\n"
        for n in range(MOST_COMMITS + 5)
    )
    git(top, "fast-import", "--quiet", stdin=stream)
    facts = read_repository_facts(opened(top, tmp_path), "long")
    assert len(facts.commits) == MOST_COMMITS
    assert facts.cut is False


def test_a_name_that_looks_like_a_commit_does_no_harm(top: Path, tmp_path: Path) -> None:
    (top / "\x01123").write_text("x")
    (top / "\x01").write_text("x")
    committed(top, "hostile")
    assert [c.subject for c in read(top, tmp_path).commits] == ["hostile", "first"]


def test_what_is_no_commit_is_an_error(top: Path, tmp_path: Path) -> None:
    with pytest.raises(GitError):
        read_repository_facts(opened(top, tmp_path), "0" * 40)
