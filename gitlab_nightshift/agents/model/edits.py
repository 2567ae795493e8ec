"""Turns blocks into edits of files, in pure functions. Either all blocks apply, because each SEARCH
occurs exactly once in its file, or none.

The old text of a model's ``edit`` is looked for exactly, then without white space. If it is not
found, the refusal shows the most similar place, which is never edited itself.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import pairwise, takewhile

from gitlab_nightshift.agents.model.answers import Block
from gitlab_nightshift.system.file_names import is_dot_git

LONGEST_PATH = 1024
LONGEST_NAME = 255
_BOM = "\ufeff"
"""A byte order mark: kept, but not part of the first line."""

ReadFile = Callable[[str], bytes | None]
"""The bytes of the file at a path, None if there is none. Raises UnreadableFileError."""


class UnreadableFileError(Exception):
    """A file that blocks cannot change; the text is the reason."""


class NotApplicableError(Exception):
    """Blocks that do not fit; ``problems`` names each block and why."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True)
class Edit:
    """A file before and after, None for no file. ``added`` and ``deleted`` count lines."""

    path: str
    before: bytes | None
    after: bytes | None
    added: int
    deleted: int

    @property
    def action(self) -> str:
        """``created``, ``deleted`` or ``edited``."""
        if self.before is None:
            return "created"
        return "deleted" if self.after is None else "edited"


def plan_edits(blocks: Iterable[Block], read: ReadFile) -> tuple[Edit, ...]:
    """The edits that the blocks make, in the order of their files.

    Every SEARCH is looked up in the files as they are, so the order of blocks does not matter.
    Raises :class:`NotApplicableError` with all problems.
    """
    by_path: dict[str, list[Block]] = {}
    for block in blocks:
        by_path.setdefault(block.path, []).append(block)
    edits, problems = list[Edit](), list[str]()
    for path, file_blocks in by_path.items():
        try:
            edits.append(_edit_file(path, file_blocks, read))
        except NotApplicableError as error:
            problems += error.problems
    if problems:
        raise NotApplicableError(problems)
    return tuple(edits)


def find_path_problem(path: str) -> str:
    """Why a path cannot be a file of a checkout, "" if it can."""
    parts = path.split("/")
    if path.startswith("/"):
        return "the path is absolute; it starts at the top of the checkout"
    if not path.isprintable() or len(path) > LONGEST_PATH:
        return "the path is too long or holds characters that no path here has"
    if any(part in ("", ".", "..") for part in parts):
        return "the path is not plain: it cannot contain an empty part, . or .."
    if any(len(part.encode()) > LONGEST_NAME for part in parts):
        return "a name in the path is too long"
    return "the path leads into .git" if is_dot_git(path) else ""


def _edit_file(path: str, blocks: list[Block], read: ReadFile) -> Edit:
    if why := find_path_problem(path):
        raise NotApplicableError(f"{block}: {why}" for block in blocks)
    try:
        before = read(path)
    except UnreadableFileError as error:
        raise NotApplicableError(f"{block}: {error}" for block in blocks) from None
    whole_file = [block for block in blocks if block.delete or not block.search]
    if whole_file and len(blocks) > 1:
        names = ", ".join(str(block.number) for block in blocks)
        raise NotApplicableError(
            [f"{whole_file[0]}: a file is made or deleted by one block alone ({names})"]
        )
    if whole_file:
        return _edit_whole_file(whole_file[0], before)
    if before is None:
        raise NotApplicableError(f"{block}: there is no such file" for block in blocks)
    if b"\0" in before:
        raise NotApplicableError(f"{block}: a binary file" for block in blocks)
    return _TextFile(before).apply_blocks(path, blocks)


def _edit_whole_file(block: Block, before: bytes | None) -> Edit:
    """The edit of a block that creates or deletes a file."""
    if block.delete:
        if before is None:
            raise NotApplicableError([f"{block}: there is no such file to delete"])
        return Edit(block.path, before, None, 0, len(before.splitlines()))
    if before:
        raise NotApplicableError(
            [f"{block}: an empty SEARCH makes a new file, but this one exists"]
        )
    if not block.replace:
        raise NotApplicableError([f"{block}: SEARCH and REPLACE are both empty"])
    after = "".join(f"{line}\n" for line in block.replace).encode()
    return Edit(block.path, before, after, len(block.replace), 0)


@dataclass(frozen=True)
class _Replacement:
    """A block matched at lines ``start`` to ``end`` (exclusive), of which ``inner_start`` to
    ``inner_end`` really change, to ``lines``."""

    block: Block
    start: int
    end: int
    inner_start: int
    inner_end: int
    lines: tuple[str, ...]


class _TextFile:
    """A text file as lines and their line ends; bytes that are not UTF-8 are kept."""

    def __init__(self, data: bytes) -> None:
        self._before = data
        # Bytes that are not UTF-8 come back as they were (PEP 383).
        text = data.decode("utf-8", "surrogateescape")
        self._bom = _BOM if text.startswith(_BOM) else ""
        text = text.removeprefix(_BOM)
        *raw, last = text.split("\n")
        self._lines = [line.removesuffix("\r") for line in raw]
        self._ends = ["\r\n" if line.endswith("\r") else "\n" for line in raw]
        self._ends_without_newline = bool(last)  # the last line has no line end
        if last:
            self._lines.append(last)
            self._ends.append(self._ends[-1] if self._ends else "\n")
        self._framed_lines = _frame_lines(self._lines) if self._lines else ""

    def list_lines(self) -> tuple[str, ...]:
        return tuple(self._lines)

    def apply_blocks(self, path: str, blocks: list[Block]) -> Edit:
        replacements, problems = list[_Replacement](), list[str]()
        for block in blocks:
            try:
                replacements.append(self._locate_block(block))
            except NotApplicableError as error:
                problems += error.problems
        replacements.sort(key=lambda replacement: replacement.start)
        problems += (
            f"{later.block}: it overlaps with block {earlier.block.number}"
            for earlier, later in pairwise(replacements)
            if later.start < earlier.end
        )
        if problems:
            raise NotApplicableError(problems)
        added = sum(len(each.lines) for each in replacements)
        deleted = sum(each.inner_end - each.inner_start for each in replacements)
        return Edit(path, self._before, self._replace_lines(replacements), added, deleted)

    def _locate_block(self, block: Block) -> _Replacement:
        if block.search == block.replace:
            raise NotApplicableError([f"{block}: REPLACE is the same as SEARCH"])
        start = self._find_only_start(block)
        old, new = block.search, block.replace
        # Equal lines at both ends keep their own line ends, and are not counted as changed.
        head = _count_common(old, new)
        tail = _count_common(old[head:][::-1], new[head:][::-1])
        end = start + len(old)
        new_lines = new[head : len(new) - tail]
        return _Replacement(block, start, end, start + head, end - tail, new_lines)

    def _find_only_start(self, block: Block) -> int:
        needle = _frame_lines(block.search)
        first = self._framed_lines.find(needle)
        if first < 0:
            raise NotApplicableError(
                [f"{block}: SEARCH does not occur in the file{self._describe_mismatch(block)}"]
            )
        if self._framed_lines.find(needle, first + 1) >= 0:
            raise NotApplicableError(
                [f"{block}: SEARCH occurs more than once in the file; take more lines around it"]
            )
        return self._framed_lines.count("\n", 0, first)

    def _describe_mismatch(self, block: Block) -> str:
        """Where a SEARCH stops matching the file, if its first line occurs only once in the
        file."""
        if self._lines.count(block.search[0]) != 1:
            return ""
        start = self._lines.index(block.search[0])
        file_lines = self._lines[start : start + len(block.search)]
        same = _count_common(tuple(file_lines), block.search)
        if start + same >= len(self._lines):
            return f"; it goes on after the file's last line {start + same}"
        return f"; from line {start + same + 1} on the file has {file_lines[same][:200]!a}"

    def _replace_lines(self, replacements: list[_Replacement]) -> bytes:
        lines, ends, next_line = list[str](), list[str](), 0
        for replacement in replacements:
            lines += self._lines[next_line : replacement.inner_start]
            lines += replacement.lines
            ends += self._ends[next_line : replacement.inner_start]
            # New lines end like the first line of their block.
            ends += [self._ends[replacement.start]] * len(replacement.lines)
            next_line = replacement.inner_end
        lines += self._lines[next_line:]
        ends += self._ends[next_line:]
        if self._ends_without_newline and ends:
            ends[-1] = ""
        pairs = zip(lines, ends, strict=True)
        text = self._bom + "".join(line + end for line, end in pairs)
        return text.encode("utf-8", "surrogateescape")


def _frame_lines(lines: Iterable[str]) -> str:
    """Lines as a text in which a search finds only whole lines."""
    return "\n" + "\n".join(lines) + "\n"


def _count_common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """The number of equal lines at the start."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def write_blocks(edits: Iterable[Edit]) -> tuple[Block, ...]:
    """Blocks that make these edits, each with as little context as makes it unique."""
    blocks = list[Block]()
    for edit in edits:
        for block in _write_file_blocks(edit):
            blocks.append(replace(block, number=len(blocks) + 1))
    return tuple(blocks)


def _write_file_blocks(edit: Edit) -> list[Block]:
    if edit.after is None:
        return [Block(1, edit.path, delete=True)]
    before, after = (_TextFile(data or b"").list_lines() for data in (edit.before, edit.after))
    if edit.before is None:
        return [Block(1, edit.path, (), after)]
    # autojunk would ignore lines that are frequent in a long file, such as empty ones.
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for context in (1, 3, 10, len(before)):
        blocks = []
        for opcodes in matcher.get_grouped_opcodes(context):
            _, start, _, new_start, _ = opcodes[0]
            _, _, end, _, new_end = opcodes[-1]
            blocks.append(Block(1, edit.path, before[start:end], after[new_start:new_end]))
        if all(_occurs_once(before, block.search) for block in blocks):
            return blocks
    return [Block(1, edit.path, before, after)]


def _occurs_once(lines: tuple[str, ...], search: tuple[str, ...]) -> bool:
    text, needle = _frame_lines(lines), _frame_lines(search)
    first = text.find(needle) if search else -1
    return first >= 0 and text.find(needle, first + 1) < 0


# --- a model's edit as a block --------------------------------------------------------------------

MOST_COMPARED = 20_000
"""Lines of a file that are searched for a similar place."""
LEAST_SIMILARITY = 0.5
"""As difflib measures it, from 0 to 1."""


def build_block(path: str, text: str, old: str, new: str) -> Block:
    """The replacement of ``old`` by ``new`` in a file's ``text``, as a block of whole lines. Raises
    NotApplicableError, with a text for the model."""
    text, old, new = (part.replace("\r\n", "\n") for part in (text, old, new))
    start = text.find(old)
    if start >= 0 and text.find(old, start + 1) >= 0:
        raise NotApplicableError(
            [f"{path}: the old text occurs {text.count(old)} times; take more lines"]
        )
    if start >= 0:
        return _replace_exactly(path, text, start, old, new)
    lines, old_lines = text.split("\n"), old.strip("\n").split("\n")
    starts = _find_loosely(lines, old_lines)
    if len(starts) == 1:
        file_lines = lines[starts[0] : starts[0] + len(old_lines)]
        return Block(1, path, tuple(file_lines), _fit_indent(new, old_lines, file_lines))
    if starts:
        numbers = ", ".join(str(start + 1) for start in starts[:5])
        text = f"but for white space the old text is at lines {numbers}; copy it exactly"
        raise NotApplicableError([f"{path}: {text}"])
    nearest = _show_nearest(lines, old_lines)
    raise NotApplicableError([f"{path}: the old text is not there{nearest}"])


def _replace_exactly(path: str, text: str, start: int, old: str, new: str) -> Block:
    """A block of the whole lines around the text. A line end that ``old`` and ``new`` share stays
    outside: a block has lines without their ends."""
    end = start + len(old)
    first = text.rfind("\n", 0, start) + 1
    shared = old.endswith("\n") and (not new or new.endswith("\n"))
    stop = end - 1 if shared else text.find("\n", end)
    stop = len(text) if stop < 0 else stop
    search = tuple(text[first:stop].split("\n"))
    if shared and not new and first == start:
        return Block(1, path, search, ())
    after = text[first:start] + (new.removesuffix("\n") if shared else new + text[end:stop])
    return Block(1, path, search, tuple(after.split("\n")))


def _find_loosely(lines: Sequence[str], old_lines: Sequence[str]) -> list[int]:
    """The indexes in ``lines`` at which they are like ``old_lines`` but for white space."""
    squeezed = ["".join(line.split()) for line in lines]
    needle = ["".join(line.split()) for line in old_lines]
    if not any(needle):
        return []
    last = len(squeezed) - len(needle)
    return [start for start in range(last + 1) if squeezed[start : start + len(needle)] == needle]


def _fit_indent(new: str, old_lines: Sequence[str], file_lines: Sequence[str]) -> tuple[str, ...]:
    """The new lines, indented like the file's lines instead of the model's."""
    pairs = zip(old_lines, file_lines, strict=True)
    old_line, file_line = next(pair for pair in pairs if pair[0].strip())
    wrong, right = _read_indent(old_line), _read_indent(file_line)
    lines = new.strip("\n").split("\n") if new.strip("\n") else []
    return tuple(
        right + line.removeprefix(wrong) if line.strip() and line.startswith(wrong) else line
        for line in lines
    )


def _read_indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _show_nearest(lines: Sequence[str], old_lines: Sequence[str]) -> str:
    """A text that shows the place whose first line is the most similar; "" if none is similar, or
    two are equally."""
    first, matcher = old_lines[0].strip(), SequenceMatcher(autojunk=False)
    matcher.set_seq2(first)
    best, best_index, second = LEAST_SIMILARITY, -1, 0.0
    for index, line in enumerate(lines[:MOST_COMPARED]):
        matcher.set_seq1(line.strip()[:500])
        # quick_ratio is an upper bound of ratio, which is slow.
        if not first or matcher.quick_ratio() <= max(second, LEAST_SIMILARITY):
            continue
        similarity = matcher.ratio()
        if similarity > best:
            second = best if best_index >= 0 else 0.0
            best, best_index = similarity, index
        else:
            second = max(second, similarity)
    if best_index < 0 or second >= best:
        return ""
    shown = "\n".join(lines[best_index : best_index + len(old_lines)])[:2000]
    return f"; the nearest place is line {best_index + 1}:\n{shown}"
