"""A room in every tier that this machine has; where one is missing its tests are skipped."""

import functools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.host.sandbox import uid
from gitlab_nightshift.host.sandbox.probe import Missing, survey
from gitlab_nightshift.host.sandbox.records import Tier
from tests.host.sandbox.tools import Room, room

CONFINED = (Tier.NAMESPACES, Tier.UID, Tier.LANDLOCK)
KEPT = (Tier.UID, Tier.LANDLOCK)


@functools.cache
def missing() -> dict[Tier, str]:
    """The tiers that do not work here, and why."""
    reasons = {}
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        for found in survey(Path(folder)):
            if isinstance(found, Missing):
                reasons[found.tier] = found.reason
            elif found.identity:
                uid.release(found.identity)
    return reasons


def need(tier: Tier) -> None:
    """Skip a test whose tier this machine does not have."""
    if reason := missing().get(tier):
        pytest.skip(f"{tier}: {reason}")


@pytest.fixture(params=CONFINED)
def any_room(request: pytest.FixtureRequest) -> Iterator[Room]:
    """A room in each tier."""
    need(request.param)
    with room(request.param) as opened:
        yield opened


@pytest.fixture(params=KEPT)
def kept_room(request: pytest.FixtureRequest) -> Iterator[Room]:
    """A room in each tier with a keeper."""
    need(request.param)
    with room(request.param) as opened:
        yield opened


@pytest.fixture
def landlock_room() -> Iterator[Room]:
    """A room in the tier that needs nothing but the kernel."""
    need(Tier.LANDLOCK)
    with room(Tier.LANDLOCK) as opened:
        yield opened


@pytest.fixture
def root() -> None:
    """A test that has to change users."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
