"""A GitLab with thousands of projects: no repositories are behind them, and nights end as told.

    with FleetStandin(folder) as gitlab:
        gitlab.add_fleet("acme", 300)
        ...  # nightshift fleet plan, fleet run
        gitlab.end_nights(cost_usd=1.5)
        gitlab.pass_days(1)

In a process of its own, with the same methods: ``open_fleet_server``.
"""

import contextlib
import itertools
import json
import random
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gitlab_nightshift.demo.standin_state import StandinAnswer, StandinMergeRequest, build_timestamp
from tests.support import gitlab_facts
from tests.support.graphql_api import GRAPHQL
from tests.support.group_endpoints import add_groups
from tests.support.setup_endpoints import add_setup
from tests.support.standin import FullStandin
from tests.support.standin_faults import Fault, FaultyHandler
from tests.support.standin_pipelines import add_scheduled
from tests.support.standin_records import FullProject, StandinSchedule, as_full

ROOT = Path(__file__).parents[2]
PLAN_TOKEN, RUN_TOKEN = "glpat-PlanTokenOfTheFleet1", "glpat-RunTokenOfTheFleet01"
OWNER_TOKEN = "glpat-OwnerTokenOfTheFleet"
ACCOUNT = "fleet-bot"
SCHEDULE = "Night shift (fleet)"
INCLUDE = "include:\n  - component: $CI_SERVER_FQDN/acme/gitlab-nightshift/nightshift@0.1.0\n"
SETTINGS = (
    "verify_commands: [make test]\nmax_budget_usd: 2\n"
    "category_schedule: {mon: tests, tue: tests, wed: tests, thu: tests, fri: tests, sat: tests,"
    " sun: tests}\n"
)
"""With nights also at weekends, whenever the tests run."""
FILES = {"nightshift.yaml": SETTINGS, ".gitlab-ci.yml": INCLUDE}
TIMES = ("created_at", "updated_at", "merged_at", "closed_at")


class FleetHandler(FaultyHandler):
    """Answers late, if told so, and refuses more requests a minute than it is told to take."""

    def respond(self) -> None:
        """Answer one request."""
        standin = self.server.state
        assert isinstance(standin, FleetStandin)
        url = urlsplit(self.path)
        if url.path.startswith("/standin/"):
            self._obey(standin, url.path.removeprefix("/standin/"))
            return
        time.sleep(standin.page_delay_s if url.path == "/api/graphql" else standin.delay_s)
        super().respond()

    do_GET = do_POST = do_PUT = do_DELETE = respond  # noqa: N815

    def _obey(self, standin: "FleetStandin", name: str) -> None:
        given = json.loads(b"".join(self.read_body()) or b"{}")
        with standin.lock:
            result = getattr(standin, name)(**given)
        self.send_answer(StandinAnswer(200, {"result": result}))


class FleetStandin(FullStandin):
    """``page_delay_s`` is how long GraphQL takes, ``delay_s`` REST. Of all requests, the share
    ``failing`` goes wrong at random; more than ``most_per_minute`` of a user are refused."""

    handler = FleetHandler

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        root.mkdir(parents=True, exist_ok=True)
        self.page_delay_s = self.delay_s = self.failing = 0.0
        self.most_per_minute = 0
        self._random, self._minutes = random.Random(7), dict[int, int]()
        self._count_lock = threading.Lock()
        self._ids["schedule"] = itertools.count(900_001)
        self.more_endpoints.append(GRAPHQL)
        self.group_settings, self.project_settings = add_groups(self), add_setup(self)
        self.account = self.add_user(ACCOUNT, "Fleet", bot=True)
        self.people = [self.add_user(f"dev{n}", f"Dev {n}") for n in range(1, 41)]
        self.add_token(PLAN_TOKEN, self.account, ("read_api",), 30)
        self.add_token(RUN_TOKEN, self.account, ("api",), 40)
        self.add_token(OWNER_TOKEN, self.account, ("api",), 50)

    def add_light_project(self, path: str, **facts: Any) -> FullProject:
        """A project whose files are ``files`` alone."""
        facts = {"files": dict(FILES), "pipeline_jobs": {"nightshift": "running"}, **facts}
        made = FullProject(
            id=self.allocate_id("project"),
            path=path,
            web_url=f"{self.url}/{path}",
            default_branch="main",
            visibility="private",
            protected_branches=["main"],
            bare_repository=self.root / "none",
            git=self.git,
            **facts,
        )
        self.projects.append(made)
        return made

    def add_fleet(self, group: str, count: int, *, set_up: bool = True) -> None:
        """Projects in subgroups of 50, each with a reviewer; ``set_up`` as ``fleet init`` does."""
        for number in range(count):
            reviewer = self.people[number % len(self.people)].username
            files = {**FILES, "nightshift.yaml": f"{SETTINGS}reviewer: {reviewer}\n"}
            path = f"{group}/team-{number // 50}/project-{number}"
            made = self.add_light_project(path, files=files if set_up else {"README.md": "#"})
            if set_up:
                made.schedules.append(self.build_schedule())

    def build_schedule(self, **facts: Any) -> StandinSchedule:
        """The fleet's, inactive."""
        return StandinSchedule(
            self.allocate_id("schedule"),
            **{"owner": self.account, "description": SCHEDULE, "active": False, **facts},
        )

    # --- what happens at night ----------------------------------------------------------------

    def end_nights(
        self, cost_usd: float = 1.5, dying: float = 0.0, proposing: float = 0.5, merging: float = 0
    ) -> dict[str, int]:
        """All running nights end: the share ``dying`` without a result, of the others the share
        ``proposing`` with a merge request, of which ``merging`` are merged."""
        ended = {"ended": 0, "died": 0, "proposed": 0}
        for project in map(as_full, self.projects):
            for at, job in enumerate(project.jobs):
                if job.status not in ("running", "pending"):
                    continue
                dies = self._random.random() < dying
                ended["died" if dies else "ended"] += 1
                kept = self.root / "no-artifacts" if dies else self.keep_result(cost_usd)
                status = "failed" if dies else "success"
                project.jobs[at] = replace(job, status=status, artifacts=kept)
                self._finish(project, job.pipeline)
                if not dies and self._random.random() < proposing:
                    ended["proposed"] += 1
                    made = self.add_night_request(project, str(job.pipeline))
                    if self._random.random() < merging:
                        made.change_state("merged")
        return ended

    def _finish(self, project: FullProject, pipeline: int) -> None:
        for at, each in enumerate(project.pipelines):
            if each.id == pipeline:
                project.pipelines[at] = replace(each, finished_at=build_timestamp())

    def keep_result(self, cost_usd: float | None) -> Path:
        """A job's artifacts with a result of this cost."""
        folder = self.root / "results" / str(cost_usd)
        if not folder.exists():
            (folder / "nightshift").mkdir(parents=True)
            result = {"outcome": "MR_CREATED", "total_cost_usd": cost_usd, "category_used": "tests"}
            (folder / "nightshift/result.json").write_text(json.dumps(result))
        return folder

    def add_night_request(self, project: FullProject, run: str) -> StandinMergeRequest:
        """An open merge request of a night, for the project's reviewer."""
        iid = len(project.merge_requests) + 1
        text = (project.files or {}).get("nightshift.yaml", "")
        reviewers = [each for each in self.people if f"reviewer: {each.username}\n" in text]
        made = StandinMergeRequest(
            self.allocate_id("merge_request"),
            iid,
            f"{project.web_url}/-/merge_requests/{iid}",
            self.account,
            f"night-shift/idea-{run}",
            project.default_branch,
            f"[night-shift/tests] Idea {iid}",
            labels=["night-shift"],
            reviewers=reviewers,
            source_project_id=project.id,
            created_at=build_timestamp(),
            updated_at=build_timestamp(),
        )
        project.merge_requests.append(made)
        return made

    def add_past_nights(self, nights: int, cost_usd: float = 1.5) -> None:
        """Nights that all projects have had, one a day until yesterday."""
        for _ in range(nights):
            for project in map(as_full, self.projects):
                number = project.schedules[0].id if project.schedules else 0
                add_scheduled(self, project, number, self.account)
            self.end_nights(cost_usd)
            self.pass_days(1)

    def pass_days(self, days: float) -> None:
        """All that has been is so much longer ago."""
        for project in map(as_full, self.projects):
            project.last_activity_at = _move(project.last_activity_at, days)
            project.pipelines[:] = [
                replace(
                    each,
                    created_at=_move(each.created_at, days),
                    finished_at=each.finished_at and _move(each.finished_at, days),
                )
                for each in project.pipelines
            ]
            for request in project.merge_requests:
                for name in TIMES:
                    if moment := getattr(request, name):
                        setattr(request, name, _move(moment, days))

    def configure(self, **values: float) -> None:
        """Set delays, shares and limits."""
        for name, value in values.items():
            assert hasattr(self, name), name
            setattr(self, name, value)

    def count(self) -> dict[str, Any]:
        """What was asked and made so far: requests by method and last part of the path; nights of
        the last 12 hours by project, where there are any."""
        asked: dict[str, int] = {}
        for each in self.requests:
            name = f"{each.method} {each.path.rpartition('/')[2]}"
            asked[name] = asked.get(name, 0) + 1
        since = (datetime.now(UTC) - timedelta(hours=12)).isoformat()
        nights = {
            project.path: found
            for project in map(as_full, self.projects)
            if (found := sum(each.created_at > since[:19] for each in project.pipelines))
        }
        return {"requests": asked, "nights": nights, "errors": [repr(e) for e in self.errors]}

    # --- what goes wrong ----------------------------------------------------------------------

    def take_fault(self, method: str, path: str) -> Fault | None:
        """A planned fault, else one at random, else GitLab's limit of requests."""
        found = super().take_fault(method, path)
        with self._count_lock:
            if found is None and self._random.random() < self.failing:
                return self._random.choice(_FAULTS)
            minute = int(time.monotonic() // 60)
            self._minutes[minute] = self._minutes.get(minute, 0) + 1
            if found is None and 0 < self.most_per_minute < self._minutes[minute]:
                return _TOO_MANY
        return found


def _move(moment: str, days: float) -> str:
    moved = datetime.fromisoformat(moment) - timedelta(days=days)
    return moved.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _build_fault(status: int, body: Any, **headers: str) -> Fault:
    return Fault("", re.compile(""), 1, StandinAnswer(status, body, headers))


_TOO_MANY = _build_fault(429, "Retry later\n", **{"Retry-After": "1"})
_FAULTS = (
    _TOO_MANY,
    _build_fault(502, "<html><title>502 Bad Gateway</title></html>"),
    replace(_build_fault(200, ""), answer=None),
)


# --- in a process of its own ----------------------------------------------------------------------


@dataclass(frozen=True)
class FleetServer:
    """A stand-in elsewhere; ``pid`` is its process."""

    url: str
    pid: int

    def call(self, method: str, **values: Any) -> Any:
        """Call a method of :class:`FleetStandin` there."""
        data = json.dumps(values).encode()
        request = urllib.request.Request(f"{self.url}/standin/{method}", data)
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)["result"]


@contextlib.contextmanager
def open_fleet_server(folder: Path) -> Iterator[FleetServer]:
    """A stand-in that another process serves while the block runs."""
    command = [sys.executable, "-P", "-c", _SERVE, str(ROOT), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        try:
            yield FleetServer(process.stdout.readline().decode().strip(), process.pid)
        finally:
            process.stdin.close()
            process.wait(60)


_SERVE = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.support.fleet_standin import serve
serve(sys.argv[2])
"""


def serve(folder: str) -> None:
    """Serve until stdin ends, which it does with whoever started this."""
    gitlab_facts.check_all_requests()
    with FleetStandin(Path(folder)) as standin:
        print(standin.url, flush=True)
        sys.stdin.read()


def build_env(url: str, token: str) -> Mapping[str, str]:
    """The environment of a job in the control project."""
    return {"CI_SERVER_URL": url, "GITLAB_TOKEN": token}
