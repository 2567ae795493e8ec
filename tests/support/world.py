"""A world for whole nights: the GitLab stand-in, a project, a checkout as a runner makes it."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gitlab_nightshift.demo.demo_night import Layout, create_checkout
from gitlab_nightshift.demo.standin_state import StandinMergeRequest
from tests.support import kept, warm
from tests.support.agent import Agent, Play
from tests.support.graphql_api import GRAPHQL
from tests.support.lint_endpoints import LINT_ENDPOINTS
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject
from tests.support.trees import Tree, assert_same, processes_in, unpacked, wait_for, whole_tree

BOT_TOKEN = "glpat-BotTokenOfTheNight01"
JOB_TOKEN = "glcbt-JobTokenOfThisJob02"
MODEL_KEY = "sk-test-ModelKeyOfTheNight03"
UNRELATED = "nobody-should-see-this"
SECRETS = (BOT_TOKEN, JOB_TOKEN, UNRELATED, MODEL_KEY)
"""None of them may appear in what an agent is given or sees."""
PLACEHOLDER = re.compile(r"sk-ant-placeholder-[0-9a-f]{48}")
GATEWAY = re.compile(r"http://127\.0\.0\.1:\d+")
ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tests" / "node" / "node_modules" / ".bin"
CLAUDE = TOOLS / "claude"
OUTPUT = "nightshift"
PATH = f"{sys.base_prefix}/bin:{os.environ['PATH']}"
"""The interpreter itself comes first: the script of a version manager costs more than a bead."""

FEW_FAULTS = """
import importlib
running = "gitlab_nightshift.proof.running"
importlib.import_module(f"{running}.changed_tests").MOST_FAULTS = 1
importlib.import_module(f"{running}.canaries").MOST_FAULTS = 1
singles = importlib.import_module(f"{running}.single_canaries")
singles.FEWEST_TRIES = singles.MOST_TRIES = 1
"""
"""Run before the patch of every world: most tests are not about how many faults are planted."""

Files = Mapping[str, str | bytes]
Process = subprocess.Popen[bytes] | warm.Started

FILES: Files = {
    "Makefile": "test:\n\tpython3 -m unittest -q\n",
    "shop.py": (
        "def total(prices, discount=0):\n"
        '    """Sum of prices less a discount in percent."""\n'
        "    return sum(prices) * (100 - discount) / 100\n"
    ),
    "test_shop.py": (
        "import unittest\n\nfrom shop import total\n\n\n"
        "class TotalTest(unittest.TestCase):\n"
        "    def test_plain(self):\n"
        "        self.assertEqual(total([1, 2]), 3)\n"
    ),
    "run.sh": "#!/bin/sh\nexec make test\n",
    "docs/näme with space.md": "# A name with a space\n",
    ".gitignore": "*.pyc\n__pycache__/\nbuild/\n",
}
PROVING = "reviewer: rita\nverify_commands: [make test]\n"
"""A nightshift.yaml under which the program itself proves the change."""
IMPLIED = "reviewer: rita\n"
"""What proves a change is what the build files say."""
PLAIN = f"{IMPLIED}verify_commands: ['true']\n"
"""Nothing of the project's own is run: what its tests say is not the subject."""
GO_ON = "Retry of this job, which pays nothing again, or nightshift publish nightshift/bundle"
"""After a failed publish in a job."""
UNSELECTED = "policy: {flags: {outside-selection: off}}\n"
"""A change may touch files that Analyze did not select."""
ANYWHERE = PLAIN + UNSELECTED


@dataclass
class Done:
    """A command's end."""

    exit_status: int
    stdout: str
    stderr: str

    @property
    def log(self) -> str:
        """The job log as a person reads it: without colours and section markers."""
        return re.sub(r"\x1b\[0Ksection_[^\r]*\r\x1b\[0K|\x1b\[[0-9;]*m", "", self.stdout)

    @property
    def last_line(self) -> str:
        return self.log.strip().splitlines()[-1]


@dataclass
class World:
    """Everything that a night meets; ``env`` is the job's environment.

    The command runs with ``python`` (None: forked by ``warm.py``, after the Python code ``patch``)
    and as ``user`` (None: the one that runs the tests; another needs a ``python``).
    """

    gitlab: FullStandin
    project: FullProject
    folder: Path
    checkout: Path
    sha: str
    env: dict[str, str]
    agent: Agent
    before: Tree = field(default_factory=dict)
    python: Path | None = None
    patch: str = ""
    user: int | None = None
    started: list[Process] = field(default_factory=list)

    def nightshift(self, *args: str, **env: str) -> Done:
        """Run the real command in the checkout."""
        return ended(self.start(*args, **env))

    def ends(self, status: int, *args: str, **env: str) -> Done:
        """Run the real command, which ends with this status and leaves all as it was: the checkout,
        the folders around it, and no process of its own."""
        before = self.tree(), {*self.left_over(), *processes_in(self.folder)}
        done = self.nightshift(*args, **env)
        assert done.exit_status == status, done.log + done.stderr
        assert_same(self.tree(), before[0])
        assert {*self.left_over(), *processes_in(self.folder)} <= before[1]
        return done

    def start(self, *args: str, **env: str) -> Process:
        """Start the real command, for tests that do something to it. It ends with the world."""
        self.started.append(self._start(args, {**self.env, **env}))
        return self.started[-1]

    def _start(self, args: Sequence[str], whole: Mapping[str, str]) -> Process:
        if self.python is None:
            return warm.start(args, cwd=self.checkout, env=whole, before=FEW_FAULTS + self.patch)
        return subprocess.Popen(
            [self.python, "-P", "-m", "gitlab_nightshift", *args],
            cwd=self.checkout,
            env=whole,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
        )

    def product(self, name: str) -> Any:
        """A JSON product of the night."""
        return json.loads((self.checkout / OUTPUT / name).read_text())

    def end(self) -> None:
        """Kill what a test has left of the commands that it started."""
        for process in self.started:
            with process:
                if process.poll() is None:
                    process.kill()

    @property
    def result(self) -> Any:
        return self.product("result.json")

    @property
    def bundle(self) -> Any:
        return self.product("bundle/bundle.json")

    def list_events(self, kind: str = "") -> list[Any]:
        """The events that the last command has left: all of them, or those of a kind."""
        lines = (self.checkout / OUTPUT / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if kind in ("", event["event"])]

    @property
    def ran(self) -> list[tuple[str, int | None]]:
        """Each command that the program itself ran, and its exit status."""
        results = [event["result"] for event in self.list_events("command_ended")]
        return [(result["command"], result["exit_status"]) for result in results]

    @property
    def merge_requests(self) -> list[StandinMergeRequest]:
        return list(self.project.merge_requests)

    @property
    def written(self) -> list[tuple[str, str]]:
        """Method and path of every request that may have changed something in GitLab."""
        writing = (r for r in self.gitlab.requests if r.method != "GET")
        reading = ("git-upload-pack", "/api/graphql")
        return [(r.method, r.path) for r in writing if not r.path.endswith(reading)]

    def tree(self) -> Tree:
        """The whole checkout but nightshift/: kind, mode and bytes of everything, .git too."""
        found = whole_tree(self.checkout).items()
        return {name: entry for name, entry in found if name.split("/")[0] != OUTPUT}

    def look(self) -> None:
        """Take the checkout as it is now for the one that has to be left."""
        self.before = self.tree()

    def assert_restored(self) -> None:
        """The checkout is as before, no process of the night is alive, nothing is left over."""
        assert_same(self.tree(), self.before)
        assert self.left_over() == []
        assert processes_in(self.folder) == []

    def assert_nothing_spent(self, done: Done, status: int, *texts: str) -> None:
        """It ended with this status, said why in one line, and no agent was asked anything."""
        assert done.exit_status == status, done.stdout + done.stderr
        said = (done.log + done.stderr).strip().splitlines()
        for text in texts:
            assert any(text in line for line in said), said
        assert self.agent.seen == []
        assert self.written == []
        assert "Traceback" not in done.stdout + done.stderr
        self.assert_restored()

    def left_over(self) -> list[str]:
        """What the night left outside the checkout."""
        known = {self.checkout, self.checkout.with_name("shop.tmp")}
        places = (*self.checkout.parent.iterdir(), *(self.folder / "tmp").iterdir())
        return sorted(str(path) for path in places if path not in known)

    def products(self) -> dict[str, bytes]:
        """Every file of nightshift/, unpacked."""
        output = self.checkout / OUTPUT
        files = sorted(path for path in output.rglob("*") if path.is_file())
        return {str(path.relative_to(output)): unpacked(path) for path in files}

    def commit(self, branch: str = "main") -> str:
        """The commit of a branch in GitLab."""
        return git(self.project.bare_repository, "rev-parse", branch).strip()

    def checked_out_anew(self, *, layout: Layout = "include", depth: int = 20) -> None:
        """Another job: a fresh checkout at the same place; products are gone."""
        subprocess.run(["rm", "-rf", self.checkout, f"{self.checkout}.tmp"], check=True)
        self.sha = check_out(self.project, self.checkout, layout, depth)
        self.env["CI_COMMIT_SHA"] = self.sha
        self.look()


def ended(process: Process, timeout_s: float = warm.LIMIT_S) -> Done:
    return Done(*finish(process, timeout_s))


def finish(process: Process, timeout_s: float) -> tuple[int, str, str]:
    """Wait for a command; one that does not end is killed, and that is a failure."""
    with process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return process.wait(), out.decode(), err.decode()


def wait_in(night: Process, true: Callable[[], Any], what: str) -> None:
    """Wait until a night has got somewhere; one that ends first or gets stuck shows its log."""
    with suppress(AssertionError):
        wait_for(lambda: night.poll() is not None or true(), what)
    if not true():
        over = night.poll()
        night.kill()
        pytest.fail(f"waited in vain: {what}; its exit status: {over}\n{ended(night).log}")


@contextmanager
def world(
    folder: Path,
    plays: Mapping[str, Play] | None = None,
    *,
    config: str = PLAIN,
    layout: Layout = "include",
    files: Files = FILES,
    depth: int = 20,
    commits: int = 13,
) -> Iterator[World]:
    """A stand-in with one project, and a checkout of it with the environment of a scheduled job.

    ``plays`` is what the agent does, ``config`` the text of nightshift.yaml ("" for none).
    """
    with FullStandin(folder / "gitlab") as gitlab:
        bot = gitlab.add_user("night-bot", "Night Shift")
        gitlab.add_user("rita", "Rita")
        gitlab.add_token(BOT_TOKEN, bot, scopes=("api", "write_repository"), access_level=30)
        gitlab.add_token(JOB_TOKEN, bot, scopes=("read_repository",), access_level=20)
        gitlab.more_endpoints += [GRAPHQL, *LINT_ENDPOINTS]
        project = gitlab.add_project("acme/shop")
        own = {"nightshift.yaml": config} if config else {}
        fill(project.bare_repository, folder / "seed", {**files, **own}, commits)
        checkout = folder / "builds" / "acme" / "shop"
        checkout.parent.mkdir(parents=True)
        sha = check_out(project, checkout, layout, depth)
        agent = Agent(folder / "agent", plays or {}, CLAUDE)
        env = job_environment(folder, gitlab, project, sha, agent)
        made = World(gitlab, project, folder, checkout, sha, env, agent)
        made.look()
        try:
            yield made
        finally:
            made.end()
        assert gitlab.errors == []


def fill(bare: Path, seed: Path, files: Files, commits: int) -> None:
    """Give a bare repository a history, and its author's checkout beside it."""
    create_history(seed, files, commits)
    shutil.copytree(seed / ".git/objects", bare / "objects", dirs_exist_ok=True)
    shutil.copy(seed / ".git/refs/heads/main", bare / "refs/heads/main")


def check_out(project: FullProject, folder: Path, layout: Layout, depth: int) -> str:
    """A runner's checkout and the job's files beside it; made once for a commit, and copied."""
    sha = (project.bare_repository / "refs/heads/main").read_text().strip()
    if (sha, layout, depth) not in _checkouts:
        made = Path(tempfile.mkdtemp(prefix="checkout-", dir=kept.folder)) / "shop"
        create_checkout(project, made, layout=layout, token=JOB_TOKEN, depth=depth)
        git(made, "repack", "-adqn")  # few files are copied and compared faster than many
        _checkouts[sha, layout, depth] = (made, project.http_url)
    made, url = _checkouts[sha, layout, depth]
    changed = {
        str(made): str(folder.absolute()),
        urlsplit(url).netloc: urlsplit(project.http_url).netloc,
    }
    for end in ("", ".tmp"):
        shutil.copytree(f"{made}{end}", f"{folder}{end}", symlinks=True)
    job_files = Path(f"{folder}.tmp").rglob("*")
    for path in (folder / ".git/config", folder / ".git/FETCH_HEAD", *job_files):
        if path.is_file():
            text = path.read_text()
            for old, new in changed.items():
                text = text.replace(old, new)
            path.write_text(text)
    git(folder, "update-index", "-q", "--refresh")
    return sha


_checkouts: dict[tuple[str, Layout, int], tuple[Path, str]] = {}


def create_history(folder: Path, files: Files, commits: int) -> None:
    """A repository: first the files, then further commits that touch only ``notes.txt``.

    Made once for all tests of this process, and copied.
    """
    shutil.copytree(_history(tuple(sorted(files.items())), commits), folder, symlinks=True)


@cache
def _history(files: tuple[tuple[str, str | bytes], ...], commits: int) -> Path:
    seed = Path(tempfile.mkdtemp(prefix="seed-", dir=kept.folder))
    seed.chmod(0o755)  # a copy has its mode, and another user may have to pass through
    git(seed, "init", "-q", "-b", "main")
    for sample in (seed / ".git/hooks").glob("*.sample"):
        sample.unlink()
    write_files(seed, dict(files))
    commit(seed, "Start the shop")
    notes = "".join(_note(number) for number in range(commits - 1))
    git(seed, "-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", stdin=notes)
    git(seed, "reset", "-q", "--hard")
    git(seed, "repack", "-adq")  # few files are copied faster than many
    return seed


def _note(number: int) -> str:
    """A commit, as fast-import reads it: many for the price of one process."""
    text, message = f"note {number}\n", f"Write note {number}\n"
    return (
        f"commit refs/heads/main\ncommitter Ada <ada@example.org> {int(time.time())} +0000\n"
        f"data {len(message)}\n{message}"
        + ("" if number else "from refs/heads/main^0\n")
        + f"M 644 inline notes.txt\ndata {len(text)}\n{text}\n"
    )


def write_files(folder: Path, files: Files) -> None:
    for name, data in files.items():
        path = folder / os.fsdecode(os.fsencode(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        path.chmod(0o755 if name.endswith(".sh") else 0o644)


def commit(seed: Path, message: str) -> None:
    git(seed, "add", "-A")
    git(seed, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", message)


def git(folder: Path, *args: str, stdin: str = "") -> str:
    """Git as a test's own tool, without the machine's configuration."""
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *args],
        cwd=folder,
        env=env,
        input=os.fsencode(stdin),
        check=True,
        capture_output=True,
    )
    return os.fsdecode(done.stdout)


def job_environment(
    folder: Path, gitlab: FullStandin, project: FullProject, sha: str, agent: Agent
) -> dict[str, str]:
    """What the docker executor gives a scheduled job, as far as it matters here."""
    for name in ("home", "tmp"):
        (folder / name).mkdir()
    return {
        "PATH": f"{agent.bin}:{TOOLS}:{PATH}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "LANG": "C.UTF-8",
        "GITLAB_CI": "true",
        "CI": "true",
        "CI_SERVER_URL": gitlab.url,
        "CI_PROJECT_ID": str(project.id),
        "CI_PROJECT_PATH": project.path,
        "CI_PROJECT_URL": f"{gitlab.url}/{project.path}",
        "CI_DEFAULT_BRANCH": "main",
        "CI_COMMIT_REF_NAME": "main",
        "CI_COMMIT_SHA": sha,
        "CI_PIPELINE_ID": "4711",
        "CI_PIPELINE_URL": f"{gitlab.url}/{project.path}/-/pipelines/4711",
        "CI_PIPELINE_SOURCE": "schedule",
        "CI_PIPELINE_CREATED_AT": "2026-11-16T01:00:00Z",
        "CI_JOB_TOKEN": JOB_TOKEN,
        "CI_REPOSITORY_URL": f"http://gitlab-ci-token:{JOB_TOKEN}@127.0.0.1/acme/shop.git",
        "GITLAB_USER_LOGIN": "olga",
        "GITLAB_USER_NAME": "Olga Owner",
        "GITLAB_USER_EMAIL": "olga@example.org",
        "GITLAB_TOKEN": BOT_TOKEN,
        "ANTHROPIC_API_KEY": MODEL_KEY,
        "NIGHTSHIFT_ISOLATION": "none",  # what a fake agent tells lies outside the checkout
        "UNRELATED_SECRET": UNRELATED,
    }
