"""Files that agents cite: resolves their paths, and checks the quotations in Analyze's evidence.

A path that cannot be a file of the checkout is dropped: no other path from an agent reaches git, a
process or the disk. A wrong quotation means that the agent guessed.
"""

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gitlab_nightshift.records.bead_results import (
    AnalysisCandidate,
    AnalysisResult,
    Draft,
    Handoff,
    ThreadAnswer,
)
from gitlab_nightshift.repository.tree_snapshot import EntryKind, Snapshot
from gitlab_nightshift.system.file_names import format_path, is_dot_git, list_parents, path_exists
from gitlab_nightshift.system.openat import RefusedFileError, read_regular
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import join_some

LONGEST_PATH, LONGEST_NAME = 4095, 255
"""Bytes; Linux's PATH_MAX less the NUL, and NAME_MAX (limits.h)."""
MOST_SHOWN, LONGEST_SHOWN = 5, 200
"""Dropped texts that a note shows, and the characters of each."""
# Agents may add lines to a path: src/a.py:12, src/a.py:12-20, src/a.py:12:5.
_LINES = compile_lazily(r":\d+(?:[-:,]\d+)*:?$")
_OPENING_QUOTE = compile_lazily(r"\s*[`'\"]?")
Citing = TypeVar("Citing", AnalysisCandidate, ThreadAnswer)


@dataclass(frozen=True)
class PathResolver:
    """The checkout's entries by path before any agent, without ``.git``. ``roots`` are the absolute
    paths by which an agent may know it."""

    roots: tuple[str, ...]
    entries: Snapshot

    def resolve(self, text: str) -> str | None:
        """The path, relative to the top, that an agent means by a text, lines left out: of a file
        that exists or could be created. None for anything else."""
        path = self._make_relative(text)
        if path is None or len(text) > LONGEST_PATH:
            return None
        if self._is_file(path):
            return path
        without_lines = _LINES.sub("", path)
        if without_lines != path and self._is_file(without_lines):
            return without_lines
        return path if self._can_become_file(path) else None

    def make_evidence_relative(self, text: str) -> str:
        """A piece of evidence, with its path made relative if it was below the checkout."""
        match = _OPENING_QUOTE.match(text)
        begin = match.end() if match else 0
        for root in self.roots:
            if text.startswith(f"{root}/", begin):
                return text[:begin] + text[begin + len(root) + 1 :]
        return text

    def is_behind_link(self, path: str) -> bool:
        """True if a path is a link or leads through one: links are not followed."""
        entries = (self.entries.get(each) for each in (*list_parents(path), path))
        return any(entry is not None and entry.kind is EntryKind.LINK for entry in entries)

    def _make_relative(self, text: str) -> str | None:
        root = next((root for root in self.roots if text.startswith(f"{root}/")), "")
        if text.startswith("/") and not root:
            return None
        parts = [part for part in text[len(root) :].split("/") if part not in ("", ".")]
        return "/".join(parts) or None

    def _is_file(self, path: str) -> bool:
        return path in self.entries and self.entries[path].kind is EntryKind.FILE

    def _can_become_file(self, path: str) -> bool:
        parts = path.split("/")
        if not path.isprintable() or ".." in parts or is_dot_git(path) or path in self.entries:
            return False
        names = [len(part.encode()) for part in parts]
        parents = (self.entries.get(parent) for parent in list_parents(path))
        return (
            max(names) <= LONGEST_NAME
            and sum(names) + len(names) <= LONGEST_PATH
            and all(entry is None or entry.kind is EntryKind.FOLDER for entry in parents)
        )


@dataclass(frozen=True)
class ResolvedHandoff:
    """A hand-off with resolved paths, and the texts in it that could not be resolved."""

    handoff: Handoff
    dropped: tuple[str, ...] = ()

    def describe_dropped(self) -> str:
        """The first dropped texts, escaped, on one line; "" for none."""
        shown = [format_path(text[:LONGEST_SHOWN]) or "''" for text in self.dropped]
        return join_some(shown, MOST_SHOWN)


def resolve_paths(handoff: Handoff, paths: PathResolver) -> ResolvedHandoff:
    """Resolve all paths of a hand-off. Candidates that name no file of the checkout are dropped;
    the selected one stays, without files."""
    dropped: dict[str, None] = {}
    if isinstance(handoff, AnalysisResult):
        resolved = [_resolve_candidate(each, paths, dropped) for each in handoff.candidates]
        kept = tuple(candidate for candidate in resolved if candidate.files)
        selected = handoff.selected and _resolve_candidate(handoff.selected, paths, dropped)
        handoff = dataclasses.replace(handoff, candidates=kept, selected=selected)
    if isinstance(handoff, Draft):
        answers = tuple(_resolve_files(each, paths, dropped) for each in handoff.answers)
        handoff = dataclasses.replace(handoff, answers=answers)
    return ResolvedHandoff(handoff, tuple(dropped))


def _resolve_candidate(
    candidate: AnalysisCandidate, paths: PathResolver, dropped: dict[str, None]
) -> AnalysisCandidate:
    evidence = tuple(map(paths.make_evidence_relative, candidate.evidence))
    resolved = dataclasses.replace(candidate, evidence=evidence)
    return _resolve_files(resolved, paths, dropped)


def _resolve_files(citing: Citing, paths: PathResolver, dropped: dict[str, None]) -> Citing:
    resolved = {text: paths.resolve(text) for text in citing.files}
    dropped |= dict.fromkeys(text for text, path in resolved.items() if path is None)
    files = tuple(dict.fromkeys(path for path in resolved.values() if path is not None))
    return dataclasses.replace(citing, files=files)


# path:line, then perhaps a column, and the quotation in backticks.
_CITATION = compile_lazily(
    r"\s*[`'\"]?(?P<path>[^`'\"]{1,4096}?):(?P<line>\d{1,7})(?!\d)(?P<quotes>.*)", re.DOTALL
)
_ELLIPSIS = compile_lazily(r"\.{3}|…")
_LARGEST = 5_000_000
"""Bytes. Larger files are not read, so quotations from them pass."""
_SHORTEST_QUOTE = 6
"""Characters; anything shorter may be a remark."""

Read = Callable[[str], bytes | None]
"""A file's bytes by its path; None if it does not exist, b"" if it cannot be read."""


def drop_unfounded(
    analysis: AnalysisResult, checkout: Path, paths: PathResolver
) -> tuple[AnalysisResult, list[str]]:
    """Drop candidates with wrong ``evidence``; also return why each was dropped.

    A candidate without evidence stays: only ``files`` and ``description`` are required. If the
    selected candidate is dropped, the best one with correct evidence replaces it; if there is none,
    the analysis found nothing.
    """
    read = _build_reader(checkout, paths)
    kept: list[AnalysisCandidate] = []
    dropped: dict[str, str] = {}
    for candidate in filter(None, (*analysis.candidates, analysis.selected)):
        problems = (_find_citation_problem(text, read) for text in candidate.evidence)
        if problem := next(filter(None, problems), ""):
            dropped[candidate.description] = problem
        else:
            kept.append(candidate)
    return _drop_candidates(analysis, kept, dropped), list(dropped.values())


def _drop_candidates(
    analysis: AnalysisResult, kept: list[AnalysisCandidate], dropped: dict[str, str]
) -> AnalysisResult:
    if not dropped:
        return analysis
    selected = analysis.selected
    if selected is None or selected.description in dropped:
        ranked = sorted((c for c in kept if c.evidence and c.files), key=lambda c: c.rank)
        selected = next(iter(ranked), None)
    candidates = tuple(c for c in analysis.candidates if c.description not in dropped)
    if selected is None:
        why = "; ".join(dropped.values())
        return AnalysisResult("NO_IMPROVEMENT", analysis.category_used, why, analysis.files_scanned)
    return dataclasses.replace(analysis, candidates=candidates, selected=selected)


def _find_citation_problem(text: str, read: Read) -> str:
    """What is wrong with a piece of evidence; "" if it is right, or cannot be checked."""
    match = _CITATION.match(text)
    if not match:
        return f"evidence does not name a file and line: {format_path(text[:200])}"
    path, line = match["path"].removeprefix("./"), int(match["line"])
    shown = f"{format_path(path[:200])}:{line}"
    data = read(path)
    if data is None:
        return f"{shown} is quoted, but there is no such file"
    if not data:
        return ""
    lines = data.decode("utf-8", "replace").splitlines()
    if not 1 <= line <= len(lines):
        return f"{shown} is quoted, but the file has {len(lines)} lines"
    if not _is_quote_correct(match["quotes"], "".join(lines)):
        return f"{shown} is quoted, but the quoted text is not in that file"
    return ""


def _is_quote_correct(quotes: str, text: str) -> bool:
    """True if the text between backticks is in the file, as one quotation or as several.
    Whitespace, and what an ellipsis omits, are not compared."""
    pieces = quotes.split("`")[1:-1]
    if not pieces:
        return True
    dense_text = "".join(text.split())
    # Code may itself contain backticks: everything between the outermost two is tried first.
    return _contains_quote(dense_text, "`".join(pieces)) or all(
        _contains_quote(dense_text, quote) for quote in pieces[::2]
    )


def _contains_quote(dense_text: str, quote: str) -> bool:
    parts = ("".join(part.split()) for part in _ELLIPSIS.split(quote))
    return all(part in dense_text for part in parts if len(part) >= _SHORTEST_QUOTE)


def _build_reader(checkout: Path, paths: PathResolver) -> Read:
    def read(path: str) -> bytes | None:
        if paths.is_behind_link(path):
            return b""
        resolved = paths.resolve(path)
        if resolved is None or not path_exists(checkout / resolved):
            return None
        try:
            return read_regular(checkout, resolved, _LARGEST)
        except RefusedFileError:
            return b""

    return read
