"""The demo's GitLab stand-in with all else that tests ask of a GitLab, and what goes wrong."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.demo import demo_night
from gitlab_nightshift.demo.demo_night import Demo
from gitlab_nightshift.demo.standin import Standin
from gitlab_nightshift.demo.standin_api import Endpoint, StandinCall
from gitlab_nightshift.demo.standin_state import StandinAnswer, Visibility
from tests.support import standin_ci_settings as ci_settings
from tests.support import standin_endpoints as endpoints
from tests.support import standin_merge_requests as merge_requests
from tests.support import standin_people as people
from tests.support import standin_pipelines as pipelines
from tests.support import standin_threads as threads
from tests.support.standin_faults import Fault, FaultyHandler
from tests.support.standin_records import FullProject

FIRST_IDS = {"issue": 80001, "pipeline": 60001, "note": 90001, "job": 110001}


class FullStandin(Standin):
    """Its projects have issues, pipelines and members; ``groups`` has those of groups: path → user
    → role, ``worker_delay_s`` how long a played schedule waits for its pipeline."""

    handler: type[FaultyHandler] = FaultyHandler

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._ids |= {kind: itertools.count(first) for kind, first in FIRST_IDS.items()}
        self.groups: dict[str, dict[int, int]] = {}
        self.faults: list[Fault] = []
        self.plays: pipelines.Plays = {}
        self.worker_delay_s = 0.0
        self.more_endpoints += (
            *endpoints.ENDPOINTS,
            *merge_requests.ENDPOINTS,
            *people.ENDPOINTS,
            *threads.ENDPOINTS,
            *pipelines.ENDPOINTS,
            *ci_settings.ENDPOINTS,
        )

    def check_request(self, call: StandinCall, endpoint: Endpoint) -> None:
        """Before each request, the worker does what is due."""
        pipelines.create_played(self, self.plays, self.worker_delay_s)
        super().check_request(call, endpoint)

    def add_project(
        self,
        path: str,
        default_branch: str = "main",
        visibility: Visibility = "private",
        protected_branches: Iterable[str] = ("main",),
    ) -> FullProject:
        """A new project, ``group/name``, with an empty repository to push to."""
        plain = super().add_project(path, default_branch, visibility, protected_branches)
        made = self.projects[-1] = FullProject(**vars(plain))
        return made

    def fail_next(
        self,
        method: str,
        path_pattern: str,
        status: int,
        body: Any,
        headers: Mapping[str, str] | None = None,
        *,
        times: int = 1,
    ) -> None:
        """Answer the next matching requests with this instead of performing them.

        ``path_pattern`` is searched (a regular expression) in the path as sent, without the query.
        """
        answer = StandinAnswer(status, body, dict(headers or {}))
        self.faults.append(Fault(method, re.compile(path_pattern), times, answer))

    def drop_next(self, method: str, path_pattern: str, *, times: int = 1) -> None:
        """Perform the next matching requests, but close the connection without an answer."""
        self.faults.append(Fault(method, re.compile(path_pattern), times, None))

    def take_fault(self, method: str, path: str) -> Fault | None:
        """The fault for this request, if there is one, counted as used once."""
        with self.lock:
            fault = next((fault for fault in self.faults if fault.matches(method, path)), None)
            if fault:
                fault.times -= 1
                self.faults = [fault for fault in self.faults if fault.times]
            return fault


@contextmanager
def open_full_demo(folder: Path, env: Mapping[str, str]) -> Iterator[Demo]:
    """The demo with a whole stand-in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_night, "Standin", FullStandin)
        with demo_night.open_demo(folder, env) as demo:
            yield demo
