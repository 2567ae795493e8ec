"""The corpus of changes: each one judged as expected, and the totals that are promised."""

from functools import cache
from pathlib import Path

import pytest

from gitlab_nightshift.host.repository import Repository
from tests.support.changes import Judged, Recorded, corpus_repository, judged, read_corpus
from tests.support.quality import kept, sides

corpus = cache(read_corpus)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return corpus_repository(Path(tmp_path_factory.mktemp("corpus")), corpus())


@pytest.fixture(scope="module")
def whole(repository: Repository) -> list[Judged]:
    return [judged(repository, recorded) for recorded in corpus()]


@pytest.mark.parametrize("recorded", corpus(), ids=lambda recorded: recorded.name)
def test_each_change_is_judged_as_expected(repository: Repository, recorded: Recorded) -> None:
    found = judged(repository, recorded)
    assert not found.missed
    assert not found.alarms


def test_promises_are_kept(whole: list[Judged]) -> None:
    """``make quality`` prints what fails here."""
    assert kept(*sides(whole))
