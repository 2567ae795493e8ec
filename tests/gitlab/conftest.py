"""Clocks that do not wait, and a façade for GitLab's error answers."""

from dataclasses import dataclass, field

import pytest

from gitlab_nightshift.gitlab import Clock, Project, open_project

SERVER = "https://gitlab.example"
API = f"{SERVER}/api/v4"
PROJECT = f"{API}/projects/7"
TOKEN = "glpat-secret-token-0001"


@dataclass
class FakeTime:
    """Seconds that pass only by sleeping."""

    at: float = 1000.0
    pauses: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.at += seconds

    @property
    def clock(self) -> Clock:
        return Clock(self.now, self.sleep)


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def project(time: FakeTime) -> Project:
    return open_project(SERVER, "7", TOKEN, clock=time.clock)
