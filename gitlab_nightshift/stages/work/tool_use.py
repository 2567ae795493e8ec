"""What an agent's tool calls show: the files that it read, the commands that it ran."""

import dataclasses
import posixpath
import shlex
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.records.usage import MOST_CALLS, ToolCall, ToolUse
from gitlab_nightshift.text.lazy_patterns import compile_lazily

READS = frozenset({"Read", "read"})
_NO_SHELL = READS | {"Edit", "Write", "StructuredOutput", "apply_patch", "search", "edit", "finish"}
_READERS = frozenset(
    """cat head tail less more sed nl grep egrep fgrep rg awk wc ls find tree file stat diff cmp
    cut sort uniq column jq bat cd pwd echo printf true test git""".split()
)
"""Programs that only read: a command of these alone proves nothing."""
# A shell's control operators, longest first (POSIX shell, Token Recognition): "&&" is not two "&".
_SEPARATOR = compile_lazily(r"\|\||&&|[;|\n&]")


@dataclass(frozen=True)
class FilesRead:
    """How many files were read; None if unknown. ``at_least``: perhaps more."""

    count: int | None
    at_least: bool = False

    def __str__(self) -> str:
        if self.count is None:
            return "files scanned: unknown"
        if self.at_least and not self.count:
            return "files scanned: unknown, read by a shell"
        word = "file" if self.count == 1 else "files"
        return f"{'at least ' if self.at_least else ''}{self.count} {word} scanned"


NONE_READ = FilesRead(0)


def merge_calls(
    answered: ToolUse | None, reported: tuple[ToolCall, ...] | None, *, trusted: bool
) -> ToolUse | None:
    """The calls in the model's answers, with the results that the CLI reports. If no gateway saw
    the answers, or nothing of the model's runs beside the CLI (``trusted``), the calls that the
    CLI reports. None if unknown."""
    if reported is not None and (trusted or answered is None):
        return ToolUse("cli", _drop_ids(reported[:MOST_CALLS]), len(reported[MOST_CALLS:]))
    if answered is None:
        return None
    waiting = list(reported or ())
    found = tuple(_add_result(call, waiting) for call in answered.calls)
    return dataclasses.replace(answered, calls=_drop_ids(found))


def _add_result(call: ToolCall, waiting: list[ToolCall]) -> ToolCall:
    """The call with its first report, found by id, or else by subject."""
    same = [each for each in waiting if each.call_id == call.call_id]
    same += [each for each in waiting if call.subject and each.subject == call.subject]
    if not same:
        return call
    waiting.remove(same[0])
    return dataclasses.replace(call, reported=same[0].reported)


def _drop_ids(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    return tuple(dataclasses.replace(call, call_id="") for call in calls)


def count_files(uses: Iterable[ToolUse | None], root: Path, known: Collection[str]) -> FilesRead:
    """Count the project's files (``known``, relative to ``root``) that these beads read."""
    beads = list(uses)
    known_uses = [use for use in beads if use is not None]
    if beads and not known_uses:
        return FilesRead(None)
    paths = {path for use in known_uses for call in use.calls for path in _list_paths(call, root)}
    more = any(
        use.more or any(call.tool not in _NO_SHELL for call in use.calls) for use in known_uses
    )
    return FilesRead(len(paths.intersection(known)), more or len(known_uses) < len(beads))


def _list_paths(call: ToolCall, root: Path) -> Iterator[str]:
    """Paths below the root that a call reads, or passes to a reading program."""
    if call.tool in READS and call.reported != "failed":
        yield _make_relative(call.subject, root)
    if call.tool not in _NO_SHELL:
        for words in _split_commands(call.subject):
            if words[0] in _READERS:
                yield from (_make_relative(word, root) for word in words[1:])


def _make_relative(path: str, root: Path) -> str:
    return posixpath.relpath(posixpath.join(str(root), path), str(root))


def select_commands(use: ToolUse | None) -> ToolUse | None:
    """The shell calls that did more than read; None if unknown."""
    if use is None:
        return None
    shell = (call for call in use.calls if call.tool not in _NO_SHELL)
    return dataclasses.replace(use, calls=tuple(c for c in shell if not _only_reads(c.subject)))


def _only_reads(command: str) -> bool:
    rows = list(_split_commands(command))
    return bool(rows) and all(words[0] in _READERS for words in rows)


def _split_commands(command: str) -> Iterator[list[str]]:
    for part in _SEPARATOR.split(command):
        try:
            words = shlex.split(part)
        except ValueError:
            words = part.split()
        if words:
            yield words
