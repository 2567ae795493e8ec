"""Where runs of the corpus in several processes find the lock that keeps them apart."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all workers of this test run see."""
    own = tmp_path_factory.getbasetemp()
    return own if worker_id == "master" else own.parent
