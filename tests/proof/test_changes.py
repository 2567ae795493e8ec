"""The corpus of changes: the verdict on each, and the promised totals."""

from pathlib import Path

from tests.support.changes import corpus_repository, judged, read_corpus
from tests.support.quality import kept, sides


def test_each_change_is_judged_as_expected(tmp_path: Path) -> None:
    """``make quality`` prints what fails here."""
    corpus = read_corpus()
    repository = corpus_repository(tmp_path, corpus)
    whole = [judged(repository, recorded) for recorded in corpus]
    assert len(whole) > 150
    wrong = [(e.recorded.name, e.missed, e.alarms) for e in whole if e.missed or e.alarms]
    assert wrong == []
    assert kept(*sides(whole)), "the promises"
