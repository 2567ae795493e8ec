"""Edits on a real disk: no link followed, everything or nothing."""

import os
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


def test_files_are_changed_made_and_deleted(top: Path) -> None:
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
    """Why, after a look that nothing at all has changed, inside and outside."""
    before = whole_tree(top.parent)
    with pytest.raises(NotApplicableError) as caught:
        apply(top, block("src/a.sh", "one", "1"), *blocks)
    assert_same(whole_tree(top.parent), before)
    return str(caught.value)


def test_a_linked_folder_is_not_entered(top: Path) -> None:
    (top / "way").symlink_to(top.parent / "outside")
    assert "a file or a link, not a folder" in refused(top, block("way/x", "x", "y"))
    assert "a file or a link, not a folder" in refused(top, block("way/new", "", "y"))
    assert "a file or a link, not a folder" in refused(top, Block(1, "way/x", delete=True))


def test_a_link_is_no_file(top: Path) -> None:
    (top / "link").symlink_to(top.parent / "outside" / "x")
    (top / "nowhere").symlink_to(top.parent / "outside" / "new")
    assert "a symbolic link" in refused(top, block("link", "x", "y"))
    assert "a symbolic link" in refused(top, Block(1, "link", delete=True))
    assert "a symbolic link" in refused(top, block("nowhere", "", "y"))


def test_what_is_no_plain_file(top: Path) -> None:
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
def test_whatever_fails_on_the_way_all_is_as_before(
    top: Path, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-th change of a name fails, as on a full or broken disk."""
    edits = plan_edits(
        [
            block("src/a.sh", "one", "1"),
            block("b.txt", "b", "2"),
            block("x/new.txt", "", "n"),
            Block(4, "src/gone", delete=True),
        ],
        checkout_files.make_reader(gone(top)),
    )
    before = whole_tree(top)
    rename, calls = os.rename, [0]

    def broken(*args: object, **kwargs: object) -> None:
        calls[0] += 1
        if calls[0] == failing:
            raise OSError(28, "No space left on device", "x")
        rename(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", broken)
    with pytest.raises(NotApplicableError, match=r"^(src/|b|x/).*No space left"):
        checkout_files.apply(top, edits)
    assert_same(whole_tree(top), before)


def gone(top: Path) -> Path:
    (top / "src" / "gone").write_text("gone\n")
    return top


def test_a_signal_on_the_way_leaves_all_as_before(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edits = plan_edits(
        [block("b.txt", "b", "2"), block("n", "", "n")], checkout_files.make_reader(top)
    )
    before = whole_tree(top)

    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    put = checkout_files._replace_file
    monkeypatch.setattr(
        checkout_files,
        "_replace_file",
        lambda staged, done: put(staged, done) if staged.has_old else interrupted(),
    )
    with pytest.raises(KeyboardInterrupt):
        checkout_files.apply(top, edits)
    assert_same(whole_tree(top), before)


def test_a_file_that_has_changed_since_is_left_alone(top: Path) -> None:
    edits = plan_edits(
        [block("src/a.sh", "one", "1"), block("n", "", "n")], checkout_files.make_reader(top)
    )
    (top / "src" / "a.sh").write_text("one\nmine\n")
    before = whole_tree(top)
    with pytest.raises(NotApplicableError, match="has changed since it was read"):
        checkout_files.apply(top, edits)
    assert_same(whole_tree(top), before)
