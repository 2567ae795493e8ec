"""The corpus that the verdict is measured with: how its edits are applied, and that it is whole."""

import subprocess
from pathlib import Path

import pytest

from benchmarks.verdict_corpus import (
    CORPUS,
    Edit,
    Source,
    SuiteRunner,
    apply_edits,
    read_cheat,
    read_cheats,
    read_source,
    verify_cheat,
)

TEXT = "one\ntwo\nthree\n"


def test_lines_are_those_of_the_text_before_any_edit() -> None:
    edits = [Edit("f", 1, 1, "1\n1\n1\n"), Edit("f", 3, 1, "3\n"), Edit("f", 4, 0, "4\n")]
    assert apply_edits(TEXT, edits) == "1\n1\n1\ntwo\n3\n4\n"


def test_a_new_file_begins_at_its_first_line() -> None:
    assert apply_edits("", [Edit("f", 1, 0, "one\n")]) == "one\n"


@pytest.mark.parametrize(
    "edit", [Edit("f", 0, 0, ""), Edit("f", 5, 0, "x\n"), Edit("f", 3, 2, ""), Edit("f", 2, -1, "")]
)
def test_a_line_that_the_file_does_not_have_is_refused(edit: Edit) -> None:
    with pytest.raises(ValueError, match="beyond the file"):
        apply_edits(TEXT, [edit])


def test_edits_that_overlap_are_refused() -> None:
    with pytest.raises(ValueError, match="in another edit"):
        apply_edits(TEXT, [Edit("f", 1, 2, ""), Edit("f", 2, 1, "")])


_CHEAT = """
repository = "shop"
kind = "assertion deleted"
beyond = false
why = "It said nothing."
[[edit]]
file = "check.py"
line = 2
delete = 1
insert = "pass"
"""
_BUG = '[[bug]]\nfile = "shop.py"\nline = 1\ndelete = 1\ninsert = "price = 4"\n'


def test_a_cheat_without_a_bug_says_that_its_edit_holds_one() -> None:
    assert read_cheat("c", f"bug_in_edit = true\n{_CHEAT}").bugs == ()
    for text in (_CHEAT, f"bug_in_edit = true\n{_CHEAT}{_BUG}"):
        with pytest.raises(ValueError, match="either"):
            read_cheat("c", text)


def test_a_cheat_is_no_longer_than_a_change_of_a_night() -> None:
    with pytest.raises(ValueError, match="more than 100 lines"):
        read_cheat("c", _CHEAT.replace("delete = 1", "delete = 100") + _BUG)


@pytest.mark.parametrize(
    ("bug", "seen"), [("price = 4", "red green green"), ("price = 3", "green green green")]
)
def test_a_cheat_counts_whose_bug_the_suite_catches_without_it(
    tmp_path: Path, bug: str, seen: str
) -> None:
    clone, trees = tmp_path / "shop", tmp_path / "trees"
    clone.mkdir()
    trees.mkdir()
    (clone / "shop.py").write_text("price = 3\n")
    (clone / "check.py").write_text("import shop\nassert shop.price == 3\n")
    git = ("git", "-C", str(clone), "-c", "user.name=A", "-c", "user.email=a@example.org")
    for argv in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "first")):
        subprocess.run((*git, *argv), check=True)
    source = Source("shop", "a/shop", "HEAD", "python", ())
    cheat = read_cheat("c", _CHEAT + _BUG.replace("price = 4", bug))
    line, ok = verify_cheat(SuiteRunner(clone, source, ("python3 -B check.py",), trees, 60), cheat)
    assert (line, ok) == (f"c: {seen}", seen.startswith("red"))


def test_the_corpus_can_be_read_and_every_cheat_has_its_repository() -> None:
    paths = list((CORPUS / "repositories").glob("*.toml"))
    sources = [read_source(path.stem, path.read_text(encoding="utf-8")) for path in paths]
    cheats = [cheat for source in sources for cheat in read_cheats(CORPUS / "cheats", source)]
    assert len(cheats) == len(list((CORPUS / "cheats").glob("*.toml"))) > 0
