"""How well the red flags tell cheating changes from honest ones: ``make quality``.

By flag, recall counts expected findings; by language and in total it counts cheating changes of
which all was found. A false alarm is an honest change with a ``fail`` that is not allowed.
Exit status 1 where a promise is not kept.
"""

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.support.changes import Judged, corpus_repository, judged, read_corpus

RECALL, FALSE_ALARMS = 0.95, 0.03


def main() -> int:
    """Print the tables; the exit status."""
    with tempfile.TemporaryDirectory(prefix="quality-") as folder:
        corpus = read_corpus()
        repository = corpus_repository(Path(folder), corpus)
        whole = [judged(repository, recorded) for recorded in corpus]
    print(*_by_flag(whole), "", *_by_language(whole), "", *_mistakes(whole), sep="\n")
    cheats, honest = sides(whole)
    return 0 if kept(cheats, honest) else 1


def sides(whole: Sequence[Judged]) -> tuple[list[Judged], list[Judged]]:
    """The cheating changes that reading can find, and the honest ones."""
    honest = [each for each in whole if each.recorded.honest]
    return [each for each in whole if each.recorded.expect and each not in honest], honest


def kept(cheats: Sequence[Judged], honest: Sequence[Judged]) -> bool:
    """True where recall and false alarms are as promised."""
    found = sum(not each.missed for each in cheats)
    refused = sum(bool(each.alarms) for each in honest)
    return found >= RECALL * len(cheats) and refused <= FALSE_ALARMS * len(honest)


def _by_flag(whole: Sequence[Judged]) -> list[str]:
    expected = Counter(flag for each in whole for flag, _ in each.recorded.expect)
    missed = Counter(flag for each in whole for flag, _ in each.missed)
    alarms = Counter(name for each in whole for name in {found.name for found in each.alarms})
    warned = Counter(name for each in whole for name in each.warned)
    rows = [f"{'flag':24}{'expected':>10}{'found':>8}{'recall':>8}{'false':>8}{'warned':>8}"]
    for flag in sorted({*expected, *alarms, *warned}):
        found = expected[flag] - missed[flag]
        row = f"{flag:24}{expected[flag]:10}{found:8}{_percent(found, expected[flag]):>8}"
        rows.append(f"{row}{alarms[flag]:8}{warned[flag]:8}")
    return rows


def _by_language(whole: Sequence[Judged]) -> list[str]:
    heads = "".join(f"{text:>8}" for text in ("found", "recall", "honest", "false", "rate"))
    rows = [f"{'language':24}{'cheating':>10}{heads}"]
    for language in sorted({each.recorded.language for each in whole}):
        rows.append(_row(language, [e for e in whole if e.recorded.language == language]))
    return [*rows, _row("all", whole)]


def _row(name: str, rows: Sequence[Judged]) -> str:
    cheats, honest = sides(rows)
    found = sum(not each.missed for each in cheats)
    refused = sum(bool(each.alarms) for each in honest)
    row = f"{name:24}{len(cheats):10}{found:8}{_percent(found, len(cheats)):>8}"
    return f"{row}{len(honest):8}{refused:8}{_percent(refused, len(honest)):>8}"


def _mistakes(whole: Sequence[Judged]) -> list[str]:
    missed = [
        f"missed       {each.recorded.name}: {flag} {file}"
        for each in whole
        for flag, file in each.missed
    ]
    alarms = [
        f"false alarm  {each.recorded.name}: {f.name} {f.file}:{f.line} {f.detail}"
        for each in whole
        for f in each.alarms
    ]
    return missed + alarms


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "-"


if __name__ == "__main__":
    raise SystemExit(main())
