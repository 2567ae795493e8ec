"""A sandbox in every tier that this machine has; where one is missing its tests are skipped."""

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
from tests.sandbox.tools import Room, furnished, open_folder

__all__ = ["box"]
SEARCH = visible_system._find_private_paths
CONFINED = (Tier.NAMESPACES, Tier.UID, Tier.LANDLOCK)
KEPT = (Tier.UID, Tier.LANDLOCK)


@functools.cache
def _searched(tops: tuple[str, ...], _user: int) -> PrivatePaths:
    return SEARCH(list(tops))


@pytest.fixture(autouse=True)
def _machine_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own folders, which no test here changes: a search costs 20,000 names."""

    def search(tops: list[str]) -> PrivatePaths:
        real = vars(visible_system)["SYSTEM_FOLDERS"] is SYSTEM_FOLDERS
        return _searched(tuple(tops), os.geteuid()) if real else SEARCH(tops)

    monkeypatch.setattr(visible_system, "_find_private_paths", search)


@functools.cache
def found() -> dict[Tier, Sandbox | UnavailableTier]:
    """What every tier is here. The user of one stays taken until this process ends."""
    with open_folder() as folder:
        return {one.tier: one for one in probe_tiers(folder)}


def need(tier: Tier) -> Sandbox:
    """Skip a test whose tier this machine does not have."""
    one = found()[tier]
    if isinstance(one, UnavailableTier):
        pytest.skip(f"{tier}: {one.reason}")
    return one


@contextlib.contextmanager
def room(tier: Tier) -> Iterator[Room]:
    """A new sandboxed checkout in a tier that was tried before."""
    sandbox = need(tier)
    with open_folder() as root:
        yield furnished(sandbox, root)


@pytest.fixture(params=CONFINED)
def any_room(request: pytest.FixtureRequest) -> Iterator[Room]:
    """A sandboxed checkout in each tier."""
    with room(request.param) as opened:
        yield opened


@pytest.fixture(params=KEPT)
def kept_room(request: pytest.FixtureRequest) -> Iterator[Room]:
    """A sandboxed checkout in each tier with a monitor."""
    with room(request.param) as opened:
        yield opened


@pytest.fixture
def landlock_room() -> Iterator[Room]:
    """A sandboxed checkout in the tier that needs nothing but the kernel."""
    with room(Tier.LANDLOCK) as opened:
        yield opened


@pytest.fixture
def root() -> None:
    """A test that has to change users."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
