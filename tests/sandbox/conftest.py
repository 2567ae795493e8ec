"""A sandbox in every tier that this machine has; tests of missing tiers are skipped."""

import contextlib
import functools
import os
from collections.abc import Iterator

import pytest

from gitlab_nightshift.sandbox import visible_system
from gitlab_nightshift.sandbox.launch import Sandbox
from gitlab_nightshift.sandbox.system_paths import SYSTEM_FOLDERS
from gitlab_nightshift.sandbox.tier_choice import UnavailableTier, probe_tiers
from gitlab_nightshift.sandbox.tiers import Tier
from gitlab_nightshift.sandbox.visible_system import PrivatePaths
from tests.repository.conftest import box
from tests.sandbox.tools import Room, create_room, open_folder

__all__ = ["box"]
FIND = visible_system._find_private_paths
CONFINED = (Tier.NAMESPACES, Tier.UID, Tier.LANDLOCK)
MONITORED = (Tier.UID, Tier.LANDLOCK)


@functools.cache
def _find_once(roots: tuple[str, ...], _user: int) -> PrivatePaths:
    return FIND(list(roots))


@pytest.fixture(autouse=True)
def _machine_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own folders, which no test here changes: a walk scans 20,000 names."""

    def find(roots: list[str]) -> PrivatePaths:
        real = vars(visible_system)["SYSTEM_FOLDERS"] is SYSTEM_FOLDERS
        return _find_once(tuple(roots), os.geteuid()) if real else FIND(roots)

    monkeypatch.setattr(visible_system, "_find_private_paths", find)


@functools.cache
def try_tiers() -> dict[Tier, Sandbox | UnavailableTier]:
    """The result for every tier. The uid tier's user stays reserved until this process ends."""
    with open_folder() as folder:
        return {result.tier: result for result in probe_tiers(folder)}


def need(tier: Tier) -> Sandbox:
    """Skip a test whose tier this machine does not have."""
    result = try_tiers()[tier]
    if isinstance(result, UnavailableTier):
        pytest.skip(f"{tier}: {result.reason}")
    return result


@contextlib.contextmanager
def room(tier: Tier) -> Iterator[Room]:
    """A new sandboxed checkout in a tier."""
    sandbox = need(tier)
    with open_folder() as root:
        yield create_room(sandbox, root)


@pytest.fixture(params=CONFINED)
def any_room(request: pytest.FixtureRequest) -> Iterator[Room]:
    """A sandboxed checkout in each tier."""
    with room(request.param) as opened:
        yield opened


@pytest.fixture(params=MONITORED)
def monitored_room(request: pytest.FixtureRequest) -> Iterator[Room]:
    """A sandboxed checkout in each tier with a monitor."""
    with room(request.param) as opened:
        yield opened


@pytest.fixture
def landlock_room() -> Iterator[Room]:
    """A sandboxed checkout in the tier that needs only the kernel."""
    with room(Tier.LANDLOCK) as opened:
        yield opened


@pytest.fixture
def root() -> None:
    """A test that has to change users."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
