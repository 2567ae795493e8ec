"""Where the git of a worktree lies."""

from pathlib import Path

from gitlab_nightshift.repository.git_folders import list_git_folders
from tests.repository.tools import git, repository


def test_a_checkout_with_its_own_git_has_none_elsewhere(tmp_path: Path) -> None:
    repository(tmp_path / "shop", {"a.py": "A = 1\n"})
    assert list_git_folders(tmp_path / "shop") == []
    assert list_git_folders(tmp_path) == []


def test_a_worktree_names_its_own_folder_and_the_common_one(tmp_path: Path) -> None:
    repository(tmp_path / "shop", {"a.py": "A = 1\n"})
    git(tmp_path / "shop", "worktree", "add", "-q", str(tmp_path / "other"))
    common = (tmp_path / "shop/.git").resolve()
    assert list_git_folders(tmp_path / "other") == [common / "worktrees/other", common]


def test_a_file_that_names_nothing_opens_nothing(tmp_path: Path) -> None:
    for text in ("", "gitdir:", "other: /", "\0"):
        (tmp_path / ".git").write_text(text)
        assert list_git_folders(tmp_path) in ([], [tmp_path.resolve()])
