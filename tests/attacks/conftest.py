"""The folder of the lock that keeps runs of the corpus in several processes apart."""

from pathlib import Path

import pytest

from tests.support import kept


@pytest.fixture(scope="session")
def shared() -> Path:
    """A folder that all workers of this test run see."""
    assert kept.shared
    return kept.shared
