"""What an agent's tool calls show: the files that it read, the commands that it ran."""

import dataclasses
import posixpath
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.records.usage import MOST_CALLS, ToolCall, ToolUse
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import count_words

# Capitalized names are Claude Code's, apply_patch is codex's, the others are of this program's
# own agent for plain models (agents/model/tools.py).
READS = frozenset({"Read", "read"})
"""Tools that read a file."""
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
        least = "at least " if self.at_least else ""
        return f"{least}{count_words(self.count, 'file')} scanned"


NONE_READ = FilesRead(0)


def merge_calls(
    answered: ToolUse | None, reported: tuple[ToolCall, ...] | None, *, trusted: bool
) -> ToolUse | None:
    """The tool calls of a bead; None if unknown.

    These are the calls in the model's answers, as the gateway saw them (``answered``), with the
    results that the CLI reports. The CLI's report alone counts without a gateway, or if it is
    ``trusted``: no process that the model starts could forge it.
    """
    if reported is not None and (trusted or answered is None):
        return ToolUse("cli", _drop_ids(reported[:MOST_CALLS]), len(reported[MOST_CALLS:]))
    if answered is None:
        return None
    unmatched = list(reported or ())
    calls = tuple(_add_result(call, unmatched) for call in answered.calls)
    return dataclasses.replace(answered, calls=_drop_ids(calls))


def _add_result(call: ToolCall, unmatched: list[ToolCall]) -> ToolCall:
    """The call with the result of its first report, found by id or else by subject. That report is
    removed from ``unmatched``."""
    matches = [each for each in unmatched if each.call_id == call.call_id]
    matches += [each for each in unmatched if call.subject and each.subject == call.subject]
    if not matches:
        return call
    unmatched.remove(matches[0])
    return dataclasses.replace(call, reported=matches[0].reported)


def _drop_ids(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    return tuple(dataclasses.replace(call, call_id="") for call in calls)


def count_files(
    by_bead: Sequence[ToolUse | None], root: Path, tracked: Collection[str]
) -> FilesRead:
    """Count the ``tracked`` files (paths below ``root``) that beads read."""
    uses = [use for use in by_bead if use is not None]
    if by_bead and not uses:
        return FilesRead(None)
    paths = {path for use in uses for call in use.calls for path in _list_paths(call, root)}
    # A shell may read files that its command does not name.
    more = any(use.more or any(call.tool not in _NO_SHELL for call in use.calls) for use in uses)
    return FilesRead(len(paths.intersection(tracked)), more or len(uses) < len(by_bead))


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
    chosen = []
    for call in use.calls:
        programs = {words[0] for words in _split_commands(call.subject)}
        if call.tool not in _NO_SHELL and not (programs and programs <= _READERS):
            chosen.append(call)
    return dataclasses.replace(use, calls=tuple(chosen))


def _split_commands(command: str) -> Iterator[list[str]]:
    """The words of each command in a line of shell."""
    for single in _SEPARATOR.split(command):
        try:
            words = shlex.split(single)
        except ValueError:  # a separator was within quotes
            words = single.split()
        if words:
            yield words
