"""What tools say of their own settings, once they have resolved them: both sides compared.

``resolved_settings.toml`` says what each is asked. An answer is one of untrusted code: it is data
of a bounded size, and what cannot be read of it is not known.
"""

import posixpath
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from gitlab_nightshift.printable_text import make_printable
from gitlab_nightshift.records.verdicts import Finding
from gitlab_nightshift.verdict.reviewed_change import Changeset
from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.tooling.directions import parse_direction
from gitlab_nightshift.verdict.tooling.tool_answers import Answer
from gitlab_nightshift.verdict.tooling.tool_rules import find_rule

MOST_SOURCES = 500
"""So many files go into one command line."""
MOST_PLACES = 5
"""So many files or folders are asked for one by one."""
_SHOWN = 3
_LONGEST = 300


@dataclass(frozen=True)
class Tool:
    """A row of the table."""

    name: str
    flag: str
    settings: tuple[tuple[str, str], ...]
    touches: str
    sources: str
    code: str
    ask: tuple[tuple[str, ...], ...]
    looser: tuple[tuple[str, str, str], ...]
    neutral: str
    same_as: str

    def is_set_by(self, path: str) -> bool:
        """True for a file of settings."""
        return any(re.search(pattern, path) for pattern, _ in self.settings)

    def is_source(self, path: str) -> bool:
        """True for a file that the tool checks."""
        return bool(self.sources and re.search(self.sources, path)) and not self.is_set_by(path)

    def is_touched_by(self, path: str) -> bool:
        """True for a file that may alter the answer."""
        return bool(re.search(self.touches, path)) or self.is_set_by(path)

    def is_named_in(self, path: str, data: bytes | None) -> bool:
        """True for a file of settings that is the tool's own or speaks of it."""
        own = any(re.search(pattern, path) and not detail for pattern, detail in self.settings)
        return own or (
            self.is_set_by(path)
            and self.name.partition("-")[0].encode() in (data or b"") + path.encode()
        )

    def is_led_by(self, paths: Iterable[str]) -> bool:
        """True where one of these files is code that may answer in the tool's place."""
        return bool(self.code) and any(re.search(self.code, path) for path in paths)

    @property
    def asks_by_file(self) -> bool:
        """True where files of settings are asked for one by one: a new one has no before."""
        return any(command[-1] == "{settings}" for command in self.ask)

    def decides(self, finding: Finding) -> bool:
        """True for what was read of this tool's settings."""
        return finding.name == self.flag and any(
            re.search(path, finding.file) and re.match(detail, finding.detail)
            for path, detail in self.settings
        )


@dataclass(frozen=True)
class Question:
    """A command; ``files`` are those that its answer is about, the first one by name."""

    kind: str
    argv: tuple[str, ...]
    files: tuple[str, ...] = ("",)


@dataclass(frozen=True)
class Comparison:
    """What is looser in words, and whether something differs of which no row knows the way."""

    looser: tuple[str, ...] = ()
    unclear: bool = False


@cache
def list_tools() -> tuple[Tool, ...]:
    """All that can be asked."""
    return tuple(_build_tool(name, row) for name, row in RuleTable(__file__).entries.items())


def _build_tool(name: str, row: Mapping[str, Any]) -> Tool:
    lists = {key: tuple(map(tuple, row[key])) for key in ("settings", "ask", "looser")}
    return Tool(name=name, **{**row, **lists})


def list_touched_tools(change: Changeset) -> Iterator[Tool]:
    """Those that are set somewhere and whose answer the change may alter."""
    paths = {path for file in change.files for path in (file.path, file.old_path)}
    for tool in list_tools():
        if any(map(tool.is_touched_by, paths)) and any(map(tool.is_set_by, change.paths() | paths)):
            yield tool


def find_deciding_tool(finding: Finding) -> Tool | None:
    """Whose settings a finding is about, where it can be asked."""
    return next((tool for tool in list_tools() if tool.decides(finding)), None)


# --- questions ------------------------------------------------------------------------------------


def plan_questions(
    tool: Tool, paths: Sequence[str], gone: Sequence[str]
) -> tuple[Question, ...] | None:
    """What to ask of a tree with these files; None where that is too much to be asked for all.

    ``gone`` are files that were there before.
    """
    planned: list[Question] = []
    for kind, *command in tool.ask:
        found = _plan_question(tool, kind, command, sorted(paths), gone)
        if len(found) > MOST_PLACES or (kind == "each" and len(found[0].files) > MOST_SOURCES):
            return None
        planned += found
    return tuple(planned)


def _plan_question(
    tool: Tool, kind: str, command: Sequence[str], paths: Sequence[str], gone: Sequence[str]
) -> list[Question]:
    last, start = command[-1], tuple(command[:-1])
    settings = [path for path in paths if tool.is_set_by(path)]
    if last == "{settings}":
        return [Question(kind, (*start, f"./{path}"), (path,)) for path in settings]
    sources = tuple(path for path in paths if tool.is_source(path))
    if last == "{sources}":
        return [Question(kind, (*start, *(f"./{path}" for path in sources)), sources)]
    if last == "{source}":
        groups = _group_by_settings(sources, [*settings, *filter(tool.is_set_by, gone)])
        return [Question(kind, (*start, f"./{files[0]}"), tuple(files)) for files in groups]
    return [Question(kind, tuple(command))]


def _group_by_settings(sources: Sequence[str], settings: Sequence[str]) -> list[list[str]]:
    """The files of each folder that has settings of its own."""
    folders = {posixpath.dirname(path) for path in settings}
    groups: dict[str, list[str]] = {}
    for path in sources:
        folder = posixpath.dirname(path)
        while folder and folder not in folders:
            folder = posixpath.dirname(folder)
        groups.setdefault(folder, []).append(path)
    return list(groups.values())


# --- answers --------------------------------------------------------------------------------------


def compare_answers(tool: Tool, before: Answer, after: Answer) -> Comparison:
    """What an answer demands less than the one before."""
    looser: dict[str, None] = {}
    unclear = any(name not in after for name in before if not before.get("", {}).get("checked"))
    judged: dict[tuple[str, Hashable, Hashable], str | None] = {}
    for name in before.keys() & after.keys():
        for key in before[name].keys() | after[name].keys():
            old, new = before[name].get(key), after[name].get(key)
            if old == new:
                continue
            known = (key, _make_hashable(old), _make_hashable(new))
            if known not in judged:
                judged[known] = _describe_loosening(tool, key, old, new)
            text = judged[known]
            unclear = unclear or text is None
            if text:
                looser[text] = None
    return Comparison(tuple(sorted(looser)), unclear)


def _make_hashable(value: Any) -> Hashable:
    return value if isinstance(value, tuple) else repr(value)


def _describe_loosening(tool: Tool, key: str, old: Any, new: Any) -> str | None:
    """Empty where nothing is looser; None where no row knows."""
    for pattern, direction, words in tool.looser:
        if re.fullmatch(pattern, key):
            text = parse_direction(direction)(old, new)
            items = text.partition(" ")[2]
            return f"{items} {words}" if text and words and items else text and f"{key} {text}"
    if tool.neutral and re.fullmatch(tool.neutral, key):
        return ""
    own = key.replace("_", "-") if tool.same_as == "mypy" else key
    rule = find_rule(f"{tool.same_as}.{own}") if tool.same_as else None
    text = rule[1](old, new) if rule else ""
    return (text and f"{key} {text}") if rule else None


def format_comparison(tool: Tool, seen: Comparison) -> str:
    """The decisive differences in one sentence."""
    more = len(seen.looser) - _SHOWN
    text = "; ".join(seen.looser[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"As {tool.name} itself resolves its settings: {make_printable(text)[:_LONGEST]}."
