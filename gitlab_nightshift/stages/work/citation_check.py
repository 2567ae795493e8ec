"""Checks Analyze's quotations against the files: a wrong quotation means that it guessed."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

from gitlab_nightshift.records.bead_results import AnalysisCandidate, AnalysisResult
from gitlab_nightshift.stages.work.named_paths import PathResolver
from gitlab_nightshift.system.file_names import format_path, path_exists
from gitlab_nightshift.system.openat import RefusedFileError, read_regular
from gitlab_nightshift.text.lazy_patterns import compile_lazily

# path:line, then perhaps a column, and the quotation in backticks.
_CITATION = compile_lazily(
    r"\s*[`'\"]?(?P<path>[^`'\"]{1,4096}?):(?P<line>\d{1,7})(?!\d)(?P<rest>.*)", re.DOTALL
)
_ELLIPSIS = compile_lazily(r"\.{3}|…")
_LARGEST = 5_000_000
"""Bytes; larger files are not read, and quotations from them not checked."""
_SHORTEST_QUOTE = 6
"""Characters; anything shorter may be a remark."""

Read = Callable[[str], bytes | None]
"""A file's bytes by its path; None if it does not exist, b"" if it cannot be read."""


def drop_unfounded(
    analysis: AnalysisResult, checkout: Path, paths: PathResolver
) -> tuple[AnalysisResult, list[str]]:
    """Drop candidates whose ``evidence`` is wrong; also return why each was dropped.

    A candidate without evidence stays: only ``files`` and ``description`` are required. If the
    selected candidate is dropped, the best one with correct evidence replaces it; without one
    the analysis found nothing.
    """
    read = _build_reader(checkout, paths)
    kept: list[AnalysisCandidate] = []
    dropped: dict[str, str] = {}
    for candidate in (*analysis.candidates, *([analysis.selected] if analysis.selected else ())):
        problem = find_citation_problem(candidate, read)
        if problem:
            dropped[candidate.description] = problem
        else:
            kept.append(candidate)
    return _select_again(analysis, kept, dropped), list(dropped.values())


def _select_again(
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


def find_citation_problem(candidate: AnalysisCandidate, read: Read) -> str:
    """What is wrong with the first wrong piece of evidence; "" if all are right."""
    for text in candidate.evidence:
        if problem := _find_problem(text, read):
            return problem
    return ""


def _find_problem(text: str, read: Read) -> str:
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
    if not _is_quote_correct(match["rest"], "".join(lines)):
        return f"{shown} is quoted, but the quoted text is not in that file"
    return ""


def _is_quote_correct(rest: str, text: str) -> bool:
    """True if the text between backticks is in the file, as one quotation or as several.
    Whitespace, and what an ellipsis omits, are not compared."""
    # Code may itself contain backticks, so first everything between the outermost is tried.
    _, *quoted = rest.split("`")
    if len(quoted) < 2:
        return True
    whole = "".join(text.split())
    return _contains_quote(whole, "`".join(quoted[:-1])) or all(
        _contains_quote(whole, one) for one in quoted[:-1:2]
    )


def _contains_quote(whole: str, quote: str) -> bool:
    parts = ("".join(part.split()) for part in _ELLIPSIS.split(quote))
    return all(part in whole for part in parts if len(part) >= _SHORTEST_QUOTE)


def _build_reader(checkout: Path, paths: PathResolver) -> Read:
    def read(path: str) -> bytes | None:
        if paths.is_behind_link(path):
            return b""
        found = paths.resolve(path)
        if found is None or not path_exists(checkout / found):
            return None
        try:
            return read_regular(checkout, found, _LARGEST)
        except RefusedFileError:
            return b""

    return read
