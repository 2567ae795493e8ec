"""For all tests: nothing is left of one that failed, and generated examples have no deadline."""

import fcntl
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest

from gitlab_nightshift.system.processes import become_subreaper
from tests.support import kept
from tests.support.gitlab_facts import check_all_requests
from tests.support.leftovers import end_processes, living, unmount_all
from tests.support.stages import start_by_forks

pytest.register_assert_rewrite("tests.support.trees", "tests.support.world")

hypothesis.settings.register_profile(
    "nightshift", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile(
    "long", hypothesis.settings.get_profile("nightshift"), max_examples=2_000
)
hypothesis.settings.load_profile("nightshift")
become_subreaper()
start_by_forks()
check_all_requests()
if not (shutil.which("python3") or "").startswith((sys.base_prefix, sys.prefix)):
    # A version manager's python3 on PATH is a shell script that takes longer than Python itself.
    os.environ["PATH"] = f"{sys.base_prefix}/bin:{os.environ['PATH']}"
gc.disable()  # until all is collected: it lives as long as the process


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give each run a folder of its own: pytest's numbered ones are removed by the next run on this
    machine, and tests that look for processes by their folder would find those of the other."""
    if config.option.basetemp is None:
        folder = tempfile.mkdtemp(prefix="tests-")
        config.option.basetemp = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.fixture(scope="session", autouse=True)
def _kept_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> None:
    kept.folder = tmp_path_factory.mktemp("kept")
    own = tmp_path_factory.getbasetemp()
    kept.shared = own if worker_id == "master" else own.parent


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """The first worker compiles the tests' modules, which takes longer than to read them; the
    others wait for its cache."""
    if not hasattr(session.config, "workerinput"):
        return (yield)
    with Path(__file__).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_SH)
        return (yield)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)  # a look at all objects costs more than a small test
    gc.enable()


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
