"""Edits on a real disk: no link is followed, and all are made or none."""

import os
from itertools import count
from pathlib import Path

import pytest

from gitlab_nightshift.agents.model import checkout_files
from gitlab_nightshift.agents.model.answers import Block
from gitlab_nightshift.agents.model.edits import NotApplicableError, plan_edits
from tests.support.trees import assert_same, whole_tree


def block(path: str, old: str, new: str) -> Block:
    return Block(1, path, tuple(old.splitlines()), tuple(new.splitlines()))


def apply(top: Path, *blocks: Block) -> None:
    checkout_files.apply(top, plan_edits(blocks, checkout_files.make_reader(top)))


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "top"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.sh").write_text("one\ntwo\n")
    (folder / "src" / "a.sh").chmod(0o750)
    (folder / "b.txt").write_text("b\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_text("x\n")
    return folder


def test_files_are_changed_created_and_deleted(top: Path) -> None:
    apply(
        top,
        block("src/a.sh", "two", "2"),
        block("new/deep/n.txt", "", "n"),
        Block(3, "b.txt", delete=True),
    )
    assert (top / "src/a.sh").read_text() == "one\n2\n"
    assert (top / "src/a.sh").stat().st_mode & 0o777 == 0o750
    assert (top / "new/deep/n.txt").read_text() == "n\n"
    assert (top / "new/deep/n.txt").stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in top.rglob("*")) == ["a.sh", "deep", "n.txt", "new", "src"]


def refused(top: Path, *blocks: Block) -> str:
    """The reason of a refusal, which has changed nothing inside or outside of ``top``."""
    before = whole_tree(top.parent)
    with pytest.raises(NotApplicableError) as caught:
        apply(top, block("src/a.sh", "one", "1"), *blocks)
    assert_same(whole_tree(top.parent), before)
    return str(caught.value)


def test_a_linked_folder_is_not_entered(top: Path) -> None:
    (top / "link").symlink_to(top.parent / "outside")
    assert "a file or a link, not a folder" in refused(top, block("link/x", "x", "y"))
    assert "a file or a link, not a folder" in refused(top, block("link/new", "", "y"))
    assert "a file or a link, not a folder" in refused(top, Block(1, "link/x", delete=True))


def test_a_link_is_no_file(top: Path) -> None:
    (top / "link").symlink_to(top.parent / "outside" / "x")
    (top / "nowhere").symlink_to(top.parent / "outside" / "new")
    assert "a symbolic link" in refused(top, block("link", "x", "y"))
    assert "a symbolic link" in refused(top, Block(1, "link", delete=True))
    assert "a symbolic link" in refused(top, block("nowhere", "", "y"))


def test_files_that_are_not_plain_are_refused(top: Path) -> None:
    os.link(top.parent / "outside" / "x", top / "hard")
    os.mkfifo(top / "pipe")
    with (top / "large").open("wb") as file:
        file.truncate(checkout_files.LARGEST_FILE + 1)
    assert "several hard links" in refused(top, block("hard", "x", "y"))
    assert "not a regular file" in refused(top, block("pipe", "x", "y"))
    assert "larger than" in refused(top, block("large", "x", "y"))
    assert refused(top, block("src", "", "y"))
    assert "a file or a link, not a folder" in refused(top, block("b.txt/x", "", "y"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to(top: Path) -> None:
    (top / "closed").mkdir(mode=0o555)
    assert refused(top, block("closed/new", "", "y"))


@pytest.mark.parametrize("failing", range(1, 7))
def test_any_failure_undoes_everything(
    top: Path, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-th rename fails, as on a full or broken disk."""
    (top / "src" / "old").write_text("old\n")
    edits = plan_edits(
        [
            block("src/a.sh", "one", "1"),
            block("b.txt", "b", "2"),
            block("x/new.txt", "", "n"),
            Block(4, "src/old", delete=True),
        ],
        checkout_files.make_reader(top),
    )
    before = whole_tree(top)
    rename, calls = os.rename, count(1)

    def fail_once(*args: object, **kwargs: object) -> None:
        if next(calls) == failing:
            raise OSError(28, "No space left on device", "x")
        rename(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", fail_once)
    with pytest.raises(NotApplicableError, match=r"^(src/|b|x/).*No space left"):
        checkout_files.apply(top, edits)
    assert_same(whole_tree(top), before)


def test_a_signal_undoes_everything(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edits = plan_edits(
        [block("b.txt", "b", "2"), block("n", "", "n")], checkout_files.make_reader(top)
    )
    before = whole_tree(top)

    replace_file = checkout_files._replace_file

    def interrupt_new(staged: checkout_files._StagedFile, log: checkout_files._UndoLog) -> None:
        if not staged.has_old:
            raise KeyboardInterrupt
        replace_file(staged, log)

    monkeypatch.setattr(checkout_files, "_replace_file", interrupt_new)
    with pytest.raises(KeyboardInterrupt):
        checkout_files.apply(top, edits)
    assert_same(whole_tree(top), before)


def test_a_file_that_has_changed_since_it_was_read_is_left_alone(top: Path) -> None:
    edits = plan_edits(
        [block("src/a.sh", "one", "1"), block("n", "", "n")], checkout_files.make_reader(top)
    )
    (top / "src" / "a.sh").write_text("one\nmine\n")
    before = whole_tree(top)
    with pytest.raises(NotApplicableError, match="has changed since it was read"):
        checkout_files.apply(top, edits)
    assert_same(whole_tree(top), before)
