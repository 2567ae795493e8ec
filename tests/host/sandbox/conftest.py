"""A room in every tier that this machine has; where one is missing its tests are skipped."""

import contextlib
import functools
import os
from collections.abc import Iterator

import pytest

from gitlab_nightshift.host.sandbox.launch import Sandbox
from gitlab_nightshift.host.sandbox.probe import Missing, survey
from gitlab_nightshift.host.sandbox.records import Tier
from tests.host.sandbox.tools import Room, furnished, open_folder

CONFINED = (Tier.NAMESPACES, Tier.UID, Tier.LANDLOCK)
KEPT = (Tier.UID, Tier.LANDLOCK)


@functools.cache
def found() -> dict[Tier, Sandbox | Missing]:
    """What every tier is here. The user of one stays taken until this process ends."""
    with open_folder() as folder:
        return {one.tier: one for one in survey(folder)}


def need(tier: Tier) -> Sandbox:
    """Skip a test whose tier this machine does not have."""
    one = found()[tier]
    if isinstance(one, Missing):
        pytest.skip(f"{tier}: {one.reason}")
    return one


@contextlib.contextmanager
def room(tier: Tier) -> Iterator[Room]:
    """A new room in a tier that was tried before."""
    sandbox = need(tier)
    with open_folder() as root:
        yield furnished(sandbox, root)


@pytest.fixture(params=CONFINED)
def any_room(request: pytest.FixtureRequest) -> Iterator[Room]:
    """A room in each tier."""
    with room(request.param) as opened:
        yield opened


@pytest.fixture(params=KEPT)
def kept_room(request: pytest.FixtureRequest) -> Iterator[Room]:
    """A room in each tier with a keeper."""
    with room(request.param) as opened:
        yield opened


@pytest.fixture
def landlock_room() -> Iterator[Room]:
    """A room in the tier that needs nothing but the kernel."""
    with room(Tier.LANDLOCK) as opened:
        yield opened


@pytest.fixture
def root() -> None:
    """A test that has to change users."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
