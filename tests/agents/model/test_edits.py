"""Blocks apply exactly or not at all. A model's old text is found exactly, or but for white space,
or not at all."""

from collections.abc import Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gitlab_nightshift.agents.model.answers import Block, parse_blocks
from gitlab_nightshift.agents.model.edits import (
    Edit,
    NotApplicableError,
    UnreadableFileError,
    build_block,
    find_path_problem,
    plan_edits,
    write_blocks,
)
from gitlab_nightshift.agents.model.texts import BLOCKS


def block(path: str, old: str, new: str, number: int = 1) -> Block:
    return Block(number, path, tuple(old.splitlines()), tuple(new.splitlines()))


def plan(files: Mapping[str, bytes], *blocks: Block) -> dict[str, bytes | None]:
    return {edit.path: edit.after for edit in plan_edits(blocks, files.get)}


def problems(files: Mapping[str, bytes], *blocks: Block) -> tuple[str, ...]:
    with pytest.raises(NotApplicableError) as caught:
        plan_edits(blocks, files.get)
    return caught.value.problems


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\nb\nc\n", "b", "x\ny", b"a\nx\ny\nc\n"),
        (b"a\nb\nc\n", "b\nc", "", b"a\n"),
        (b"a\n", "a", "", b""),
        (b"a\nab\n", "a", "x", b"x\nab\n"),  # whole lines only
        (b"a\nb", "b", "c", b"a\nc"),  # the end stays without a line feed
        (b"a\nb", "b", "b\nc", b"a\nb\nc"),
        (b"a\nb", "a\nb", "a", b"a"),
        (b"a\r\nb\r\nc\r\n", "b", "x\ny", b"a\r\nx\r\ny\r\nc\r\n"),
        (b"a\r\nb", "b", "b\nc", b"a\r\nb\r\nc"),
        (b"a\nb\r\nc\n", "a\nb\nc", "a\nx\nb\nc", b"a\nx\nb\r\nc\n"),  # kept lines keep their ends
        (b"\xef\xbb\xbfa\nb\n", "a", "x", b"\xef\xbb\xbfx\nb\n"),
        (b"caf\xe9\nb\n", "b", "x", b"caf\xe9\nx\n"),  # bytes that are not UTF-8 are kept
        (b"a\rb\nc\n", "c", "x", b"a\rb\nx\n"),
        (b"a\n\nb\n", "a\n\nb", "a\nb", b"a\nb\n"),
        ("ä\u2028b\nc\n".encode(), "c", "x", "ä\u2028b\nx\n".encode()),
    ],
)
def test_exactly_the_lines_are_replaced(before: bytes, old: str, new: str, after: bytes) -> None:
    old_lines, new_lines = (tuple(x.split("\n")) if x else () for x in (old, new))
    assert plan({"f": before}, Block(1, "f", old_lines, new_lines)) == {"f": after}


def test_the_order_of_blocks_does_not_matter() -> None:
    one, two = block("f", "a", "b", 1), block("f", "b", "c", 2)
    assert plan({"f": b"a\nb\n"}, one, two) == {"f": b"b\nc\n"}
    assert plan({"f": b"a\nb\n"}, two, one) == {"f": b"b\nc\n"}


def test_files_are_created_and_deleted() -> None:
    blocks = [block("new", "", "x\ny"), Block(2, "old", delete=True)]
    edits = plan_edits(blocks, {"old": b"1\n2"}.get)
    assert edits == (Edit("new", None, b"x\ny\n", 2, 0), Edit("old", b"1\n2", None, 0, 2))
    assert [edit.action for edit in edits] == ["created", "deleted"]
    assert plan({"empty": b""}, block("empty", "", "x")) == {"empty": b"x\n"}
    assert plan({"bin": b"\0"}, Block(1, "bin", delete=True)) == {"bin": None}


def test_only_changed_lines_are_counted() -> None:
    [edit] = plan_edits([block("f", "a\nb\nc", "a\nx\ny\nc")], {"f": b"a\nb\nc\n"}.get)
    assert (edit.added, edit.deleted, edit.action) == (2, 1, "edited")


@pytest.mark.parametrize(
    ("blocks", "why"),
    [
        ([block("f", "z", "x")], "block 1 (f): SEARCH does not occur in the file"),
        ([block("f", "a\nz", "x")], "; from line 2 on the file has 'b'"),
        ([block("f", "d\nz", "x")], "; it goes on after the file's last line 5"),
        ([block("f", "b", "x")], "block 1 (f): SEARCH occurs more than once"),
        ([block("f", "a", "a")], "REPLACE is the same as SEARCH"),
        ([block("f", "a\nb", "1", 1), block("f", "b\nc", "2", 2)], "overlaps with block 1"),
        ([block("f", "a", "1", 1), block("f", "a", "2", 2)], "overlaps with block 1"),
        ([block("f", "", "x")], "an empty SEARCH makes a new file, but this one exists"),
        ([block("n", "", "")], "SEARCH and REPLACE are both empty"),
        ([block("n", "a", "b")], "there is no such file"),
        ([Block(1, "n", delete=True)], "there is no such file to delete"),
        ([Block(1, "f", delete=True), block("f", "a", "b", 2)], "by one block alone (1, 2)"),
        ([block("n", "", "x", 1), block("n", "", "y", 2)], "by one block alone (1, 2)"),
        ([block("bin", "a", "b")], "a binary file"),
        ([block("empty", "a", "b")], "SEARCH does not occur"),
        ([Block(1, "empty", ("",), ("x",))], "SEARCH does not occur"),
    ],
)
def test_blocks_that_do_not_fit_are_named(blocks: list[Block], why: str) -> None:
    files = {"f": b"a\nb\nc\nb\nd\n", "bin": b"a\0\n", "empty": b""}
    [problem] = problems(files, *blocks)
    assert why in problem


def test_all_problems_are_named_at_once() -> None:
    texts = problems({"f": b"a\n"}, block("f", "z", "x", 1), block("/x", "", "y", 2))
    assert [text.partition(":")[0] for text in texts] == ["block 1 (f)", "block 2 (/x)"]


def test_a_file_that_may_not_be_read_is_named() -> None:
    def read(path: str) -> bytes:
        raise UnreadableFileError("a part of the path is a symbolic link")

    with pytest.raises(NotApplicableError, match=r"block 1 \(f\): a part of the path"):
        plan_edits([block("f", "a", "b")], read)


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "../x", "a/../b", "./a", "a//b", "a/", "", ".", ".."),
        *(".git/config", "sub/.GIT/hooks/x", "a\0b", "a\nb", "\x1b[2J", "git~1/config"),
        *(".git\u200c/config", "x" * 256, "d/" * 600 + "x", ".git. /x", "..\\.git\\config"),
    ],
)
def test_paths_that_cannot_be_in_a_checkout(path: str) -> None:
    assert find_path_problem(path)
    assert problems({path: b"a\n"}, block(path, "a", "b"))


@pytest.mark.parametrize("path", ["a", ".gitignore", "src/ä b.py", ".github/x", "..a", "~/x", "-x"])
def test_paths_that_can_be_in_a_checkout(path: str) -> None:
    assert find_path_problem(path) == ""


WORDS = st.sampled_from(["a", "b", "", "  a", "ä"])
TEXTS = st.lists(WORDS, max_size=6)
ENDS = st.sampled_from(["\n", "\r\n"])


def edit_simply(lines: list[str], edits: list[tuple[list[str], list[str]]]) -> list[str] | None:
    """The simplest implementation: the lines after all edits, None if these do not apply."""
    replaced, replacements = set[int](), []
    for old, new in edits:
        size = len(old)
        starts = [n for n in range(len(lines) - size + 1) if lines[n : n + size] == old]
        indexes = set(range(starts[0], starts[0] + size)) if starts else set()
        if len(starts) != 1 or replaced & indexes or old == new:
            return None
        replaced |= indexes
        replacements.append((starts[0], size, new))
    for start, size, new in sorted(replacements, reverse=True):
        lines = [*lines[:start], *new, *lines[start + size :]]
    return lines


@given(TEXTS, ENDS, st.booleans(), st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=3))
def test_blocks_apply_exactly_or_not_at_all(
    lines: list[str], end: str, closed: bool, edits: list[tuple[list[str], list[str]]]
) -> None:
    assume(all(old for old, _ in edits))
    lines = lines if closed or not lines or lines[-1] else [*lines, "z"]
    end = end if closed or len(lines) > 1 else "\n"  # a file without line ends
    before = (end.join(lines) + (end if closed and lines else "")).encode()
    blocks = [Block(n, "f", tuple(old), tuple(new)) for n, (old, new) in enumerate(edits, 1)]
    expected = edit_simply(lines, edits)
    if expected is None:
        assert problems({"f": before}, *blocks)
        return
    after = (end.join(expected) + (end if closed and expected else "")).encode()
    assert plan({"f": before}, *blocks) == {"f": after}


USUAL = ["", "}"] * 60
LONG = ["start", *USUAL, "one", *USUAL, "two", *USUAL, "end"]


@pytest.mark.parametrize(
    ("before", "after", "blocks"),
    [
        (None, "a\nb", [((), ("a", "b"))]),
        ("a\nb\nc\nd\ne", "a\nb\nx\nd\ne", [(("b", "c", "d"), ("b", "x", "d"))]),
        ("a\nb\na\nb\nc", "a\nx\na\nb\nc", [(("a", "b", "a"), ("a", "x", "a"))]),
        ("a\n" * 5 + "b", "a\n" * 6 + "b", [(("a",) * 5 + ("b",), ("a",) * 6 + ("b",))]),
        (
            "\n".join(LONG),
            "\n".join({"one": "1", "two": "2"}.get(line, line) for line in LONG),
            [(("}", "one", ""), ("}", "1", "")), (("}", "two", ""), ("}", "2", ""))],
        ),
    ],
)
def test_written_blocks_are_small_and_make_exactly_the_edit(
    before: str | None, after: str, blocks: list[tuple[tuple[str, ...], tuple[str, ...]]]
) -> None:
    files = {"a": f"{before}\n".encode()} if before is not None else {}
    edit = Edit("a", files.get("a"), f"{after}\n".encode(), 0, 0)
    written = write_blocks([edit])
    assert [(each.search, each.replace) for each in written] == blocks
    assert [each.number for each in written] == list(range(1, len(blocks) + 1))
    assert plan(files, *written) == {"a": edit.after}


def test_the_example_for_models_can_be_parsed() -> None:
    [block] = parse_blocks(BLOCKS.partition("\n\n- ")[0])
    assert block.path == "path/of/file.py"


FILE = """\
class Shop:
    def total(self, prices):
        return sum(prices)

    def count(self, prices):
        return len(prices)
"""


def edited(text: str, old: str, new: str) -> str:
    block = build_block("f", text, old, new)
    [edit] = plan_edits([block], lambda path: text.encode())
    assert edit.after is not None
    return edit.after.decode()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sum(prices)", "float(sum(prices))"),
        ("        return sum(prices)\n", "        return 1\n"),
        ("        return sum(prices)\n", ""),
        ("        return sum(prices)\n\n", "\n"),
        ("class Shop:\n", "class Shop:\n    x = 1\n"),
        ("        return len(prices)\n", "        return 2\n        # the end\n"),
        ("prices):\n        return sum(", "values):\n        return sum("),
        ("total(self, prices):\n", "total(self): "),
        (FILE, "x = 1\n"),
    ],
)
def test_a_text_that_occurs_once_is_replaced_exactly(old: str, new: str) -> None:
    assert edited(FILE, old, new) == FILE.replace(old, new)


def test_line_ends_of_the_file_are_kept() -> None:
    text = FILE.replace("\n", "\r\n")
    assert edited(text, "return sum(prices)\n", "return 1\n") == text.replace("sum(prices)", "1")


def test_an_edit_with_other_indentation_is_indented_like_the_file() -> None:
    old = "def count(self, prices):\n    return len(prices)"
    new = "def count(self, prices):\n    # All of them.\n    return len(prices)"
    assert edited(FILE, old, new) == FILE.replace(
        "        return len", "        # All of them.\n        return len"
    )


@pytest.mark.parametrize(
    ("old", "why"),
    [
        ("prices", "occurs 4 times"),
        ("return   sum( values )", "not there; the nearest place is line 3:\n        return sum"),
        ("def nothing_like_it(at, all)", "the old text is not there$"),
        ("self, prices ) :", "the old text is not there"),
    ],
)
def test_a_text_that_does_not_occur_once_is_refused_with_the_nearest_place(
    old: str, why: str
) -> None:
    with pytest.raises(NotApplicableError, match=why.replace("(", r"\(")):
        build_block("f", FILE, old, "x")


def test_places_that_differ_only_in_white_space_are_named() -> None:
    with pytest.raises(NotApplicableError, match="at lines 1, 2; copy it exactly"):
        build_block("f", "a = 1\na  =  1\n", " a = 1 ", "b")


LINES = st.lists(st.sampled_from(["a", "b", "  a", "", "c d"]), max_size=8)


@given(LINES, LINES, LINES, LINES)
def test_any_edit_is_applied_exactly_or_refused(
    before: list[str], old: list[str], new: list[str], after: list[str]
) -> None:
    text = "\n".join([*before, *old, *after, ""])
    old_text, new_text = "\n".join(old), "\n".join(new)
    if not old_text:
        return
    try:
        result = edited(text, old_text, new_text)
    except NotApplicableError:
        return
    assert text.count(old_text) > 1 or result == text.replace(old_text, new_text)


@given(LINES, LINES)
def test_blocks_that_are_written_make_the_same_edit(before: list[str], after: list[str]) -> None:
    old, new = ("".join(f"{line}\n" for line in lines).encode() for lines in (before, after))
    if old == new or not before or not after:
        return
    blocks = write_blocks([Edit("f", old, new, 0, 0)])
    [edit] = plan_edits(blocks, lambda path: old)
    assert edit.after == new
