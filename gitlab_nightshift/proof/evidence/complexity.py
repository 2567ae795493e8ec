"""Compares complexity and duplication of the changed files before and after, with lizard."""

from collections.abc import Iterable
from dataclasses import dataclass

from gitlab_nightshift.proof.evidence.lab import Evidence, EvidenceSubject, raise_flag
from gitlab_nightshift.proof.syntax.file_side import read_sides
from gitlab_nightshift.records.verdicts import Check, CheckOutcome

TITLE = "Complexity"
REPEATED_LINES = 6
"""A run of at least this many lines that occurs twice counts as repeated."""
MARGIN = 1


@dataclass(frozen=True)
class ComplexityFigures:
    """Figures of several files: total cyclomatic complexity, that of the worst function, and lines
    that occur more than once."""

    total: int = 0
    worst: int = 0
    repeated: int = 0

    def __str__(self) -> str:
        worst = f"{self.worst} in the worst function"
        return f"{self.total} in all, {worst}, {self.repeated} repeated lines"


def compare_complexity(subject: EvidenceSubject) -> Evidence:
    """The figures before and after; a refactoring that raises all of them is a red flag."""
    files = [
        file for file in subject.change.files if read_sides(file)[1].is_product and not file.binary
    ]
    if not files:
        return Evidence()
    before = _measure_files((file.old_path, file.old_lines) for file in files)
    after = _measure_files((file.path, file.new_lines) for file in files)
    if before is None or after is None:
        return Evidence((Check(TITLE, CheckOutcome.NOT_CHECKED, "lizard cannot read these files"),))
    text = f"before: {before}; after: {after}"
    if not _is_worse(before, after):
        return Evidence((Check(TITLE, CheckOutcome.UNDECIDED, text),))
    detail = f"The changed files are more complex or repeat more than before ({text})."
    path = max(files, key=lambda file: len(file.added)).path
    found = raise_flag("complexity-raised", subject.context, path, 0, detail)
    return Evidence((Check(TITLE, CheckOutcome.UNDECIDED, text),), found)


def _is_worse(before: ComplexityFigures, after: ComplexityFigures) -> bool:
    """True if one figure is higher, and none lower."""
    pairs = [
        (getattr(before, name), getattr(after, name)) for name in ("total", "worst", "repeated")
    ]
    return any(new > old + MARGIN for old, new in pairs) and not any(
        new < old for old, new in pairs
    )


def _measure_files(files: Iterable[tuple[str, list[str]]]) -> ComplexityFigures | None:
    import lizard  # type: ignore[import-untyped]

    total = worst = 0
    texts: list[list[str]] = []
    for path, lines in files:
        try:
            found = lizard.analyze_file.analyze_source_code(path, "\n".join(lines))
        except Exception:  # lizard raises what it likes for a file that it cannot parse
            return None
        each = [function.cyclomatic_complexity for function in found.function_list]
        total += sum(each)
        worst = max([worst, *each])
        texts.append([line.strip() for line in lines if line.strip()])
    return ComplexityFigures(total, worst, _count_repeated_lines(texts))


def _count_repeated_lines(texts: list[list[str]]) -> int:
    """Lines in runs that occur at least twice."""
    places: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for number, lines in enumerate(texts):
        for at in range(len(lines) - REPEATED_LINES + 1):
            run = tuple(lines[at : at + REPEATED_LINES])
            places.setdefault(run, []).append((number, at))
    twice = [place for found in places.values() if len(found) > 1 for place in found[1:]]
    return len({(number, at + n) for number, at in twice for n in range(REPEATED_LINES)})
