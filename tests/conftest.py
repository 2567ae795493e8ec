"""For all tests: nothing is left of one that failed, and generated examples have no deadline."""

from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest

from gitlab_nightshift.host.descendants import subreaper
from tests.support import kept
from tests.support.leftovers import end_processes, living, unmount_all

pytest.register_assert_rewrite("tests.support.trees", "tests.support.world")

hypothesis.settings.register_profile(
    "nightshift", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("nightshift")
subreaper()


@pytest.fixture(scope="session", autouse=True)
def _kept_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    kept.folder = tmp_path_factory.mktemp("kept")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    yield from _leaving_nothing(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    yield from _leaving_nothing(item)


def _leaving_nothing(item: pytest.Item) -> Generator[None]:
    """A test that stopped halfway has not ended what it started, so this does, before its folder is
    removed: that would take what is mounted there with it."""
    before = living()
    try:
        yield
    except BaseException:
        end_processes(before)
        folder = getattr(item, "funcargs", {}).get("tmp_path")
        if isinstance(folder, Path):
            unmount_all(folder)
        raise


def pytest_sessionfinish() -> None:
    kept.end_services()
    end_processes(set())
