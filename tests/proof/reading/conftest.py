"""One private repository for all flags of a session."""

from pathlib import Path

import pytest

from tests.support.judging import Judge, judging


@pytest.fixture(scope="session")
def raised(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return judging(Path(tmp_path_factory.mktemp("flags")))
