"""``nightshift demo`` as a new user runs it, and that what its recording claims is true."""

import gzip
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import pytest

from gitlab_nightshift.demo.demo_night import (
    ABOUT_FILE,
    OUTPUT,
    Layout,
    compute_last_tuesday,
    create_checkout,
)
from gitlab_nightshift.demo.standin_state import Credential
from tests.demo.record_night import unpaced
from tests.support import warm
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject
from tests.support.world import ended

from .conftest import JOB, Git

LOOPBACK = re.compile(r"socket.getaddrinfo 127\.0\.0\.1|socket.connect \('127\.0\.0\.1', \d+\)")
WATCH = """
import sys
from pathlib import Path
from gitlab_nightshift.demo import demo_night
from gitlab_nightshift.run import plan_process, publish_process

demo_night.RECORDING = Path({recording!r})
for each in (plan_process, publish_process):
    each.restrict_to = lambda _rights: None  # the hook has a file to write there
def hook(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        with open({log!r}, "a") as log:
            print(event, args[1] if event == "socket.connect" else args[0], file=log)

sys.addaudithook(hook)
"""


CALLER = {
    "GITLAB_CI": "true",
    "CI_PIPELINE_ID": "17",
    "CI_DEFAULT_BRANCH": "trunk",
    "GITLAB_TOKEN": "glpat-of-the-caller",
    "ANTHROPIC_API_KEY": "key-of-the-caller",
    "NIGHTSHIFT_CATEGORY": "docs",
    "NIGHTSHIFT_DRY_RUN": "true",
    "http_proxy": "http://127.0.0.1:9",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "MAKEFLAGS": "-n",
}


@dataclass
class Ran:
    """A demo's end."""

    folder: Path
    status: int
    out: str
    err: str
    connections: list[str]

    def json(self, name: str) -> Any:
        return json.loads((self.folder / OUTPUT / name).read_bytes())


def run_demo(tmp_path: Path, folder: Path, **more: str) -> Ran:
    """Run the command in a folder, with an environment of its own, watching its connections; the
    agents do not pause to be read."""
    log = tmp_path / "connections"
    watch = WATCH.format(log=str(log), recording=str(unpaced(tmp_path / "recording")))
    ran = start_demo(tmp_path, folder, watch, **more)
    ran.connections += log.read_text().splitlines() if log.exists() else []
    return ran


def start_demo(tmp_path: Path, folder: Path, before: str = "", **more: str) -> Ran:
    """Run it after this code."""
    (tmp_path / "tmp").mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path / "tmp")}
    done = ended(warm.start(["demo"], cwd=folder, env={**env, **more}, before=before))
    assert list((tmp_path / "tmp").iterdir()) == [], "the demo left something behind"
    return Ran(folder, done.exit_status, done.stdout, done.stderr, [])


def everything(folder: Path) -> Iterator[bytes]:
    for path in (path for path in folder.rglob("*") if path.is_file()):
        raw = path.read_bytes()
        yield gzip.decompress(raw) if path.suffix == ".gz" else raw


def test_a_whole_night_whatever_the_environment(tmp_path: Path) -> None:
    """In the place of an earlier demo; nothing of the caller's job or proxy reaches it."""
    folder = tmp_path / "a folder"
    output = folder / OUTPUT
    output.mkdir(parents=True)
    (output / ABOUT_FILE).write_text("of an earlier demo")
    (output / "old").touch()
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Caller\n\temail = caller@home\n")
    ran = run_demo(tmp_path, folder, **CALLER)

    assert (ran.status, ran.err) == (0, "")
    assert not (output / "old").exists()
    assert "caller" not in ran.out.lower()
    assert "warning:" not in ran.out
    assert not any(b"caller" in raw.lower() for raw in everything(output))
    assert "\x1b" not in ran.out
    assert "section_start" not in ran.out
    assert not re.search(r"gl(pat|cbt)-", ran.out)
    _assert_log(ran.out)
    _assert_view(ran.out)
    _assert_products(ran)

    assert sorted(path.name for path in folder.iterdir()) == [OUTPUT]
    assert not any(re.search(rb"gl(pat|cbt)-", raw) for raw in everything(folder))
    assert ran.connections
    # The proof of the sandbox asks the kernel for this machine's address: no packet is sent.
    beyond = {line for line in ran.connections if not LOOPBACK.fullmatch(line)}
    assert beyond <= {"socket.connect ('192.0.2.1', 53)"}


def _assert_log(out: str) -> None:
    """The story: a fallback, a refused attempt, a proven one."""
    assert out.startswith("A night in the sample project")
    story = (
        r"✔ Tuesday 20\d\d-\d\d-\d\d: refactoring, then tests",
        r"✔ make test · exit status 0",
        r"✘ no improvement: Five small modules, no dead code",
        r"✔ Test cost\(\) in tests/test_shipping.py on both sides of its limits",
        r"Bash git diff \w+",
        r"✘ Verify \(an agent\) says: With `>` for `>=` in cost\(\) all 24 tests would still pass",
        r"✔ make test · exit status 0",
        r"✔ Test the limits of the shipping prices",
        r"✔ MR_CREATED · http://127\.0\.0\.1:\d+/harbour-books/basket/-/merge_requests/1 · tests",
    )
    assert re.search(".*\n.*".join(story), out, re.DOTALL)


def _assert_view(out: str) -> None:
    view = out[out.index("What the reviewer finds") :]
    for text in (
        "[night-shift/tests] Test the limits of the shipping prices !1",
        "state     Open · `night-shift/test-shipping-limits` → `main`",
        "author    Night Shift @project_4001_bot",
        "reviewer  Dana Petrova @dana",
        "assignee  Dana Petrova @dana",
        "labels     night-shift   tests ",
        "on merge  delete the source branch",
        "`make test`: exit 0",
        "Commits (1)",
        "Mira Okafor <mira@harbour-books.example>",
        "tests/test_shipping.py +17 -0",
        '+        self.assertEqual(cost(Decimal("50.00"), 300), Decimal("0.00"))',
    ):
        assert text in view
    assert "<!--" not in view
    assert out.count("[night-shift/") == 1
    assert max(map(len, view.splitlines())) <= 96


def _assert_products(ran: Ran) -> None:
    result = ran.json("result.json")
    assert result["outcome"] == "MR_CREATED"
    assert result["category_used"] == "tests (fallback from refactoring)"
    assert (result["is_fallback"], result["error_code"]) == (True, "")
    assert [bead["bead"] for bead in result["beads"]] == [
        *("analyze", "analyze", "implement", "verify", "implement", "verify", "mr")
    ]
    assert result["mr_url"].endswith("/-/merge_requests/1")
    assert 0.1 < result["total_cost_usd"] < 5
    assert ran.json("published.json")["mr_iid"] == 1
    events = (ran.folder / OUTPUT / "events.jsonl").read_text().splitlines()
    assert json.loads(events[-1])["event"] == "run_ended"
    # No gateway counts a replay, and its figures come at a bead's end: nothing is known at first.
    told = [json.loads(line) for line in events]
    costs = [each["cost_usd"] for each in told if each["event"] == "progress"]
    assert costs[0] is None and all(costs[1:])
    cases = ElementTree.parse(ran.folder / OUTPUT / "junit.xml").getroot().findall("testcase")
    assert len(cases) in (14, 15, 16)  # beads, attempts, a command, evidence, the night
    assert "A merge request is open" in (ran.folder / OUTPUT / "report.html").read_text()
    assert "demo" in (ran.folder / OUTPUT / "ABOUT-THIS-DEMO.txt").read_text()


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_a_folder_that_is_not_a_demos_is_not_touched(tmp_path: Path, kind: str) -> None:
    output = tmp_path / OUTPUT
    if kind == "folder":
        output.mkdir()
        (output / "result.json").write_text("a real night")
    elif kind == "file":
        output.write_text("mine")
    else:
        output.symlink_to(tmp_path / "elsewhere")
    ran = start_demo(tmp_path, tmp_path)
    assert (ran.status, ran.out) == (2, "")
    assert "not of an earlier demo" in ran.err
    assert len(ran.err.splitlines()) == 1
    if kind == "folder":
        assert (output / "result.json").read_text() == "a real night"


def test_a_missing_program_is_one_line(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("git", "python3"):
        found = shutil.which(name)
        assert found
        (programs / name).symlink_to(found)
    ran = start_demo(tmp_path, tmp_path, PATH=str(programs))
    assert ran.status == 2
    assert ran.err == (
        "nightshift: E_CONFIG: the demo needs make, which is not on PATH: install it\n"
    )


def test_a_demo_that_is_stopped_leaves_nothing_running(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(temporary)}
    with warm.start(["demo", str(tmp_path / "left")], cwd=tmp_path, env=env) as process:
        assert any(b"Bash git ls-files" in line for line in process.stdout)
        process.terminate()
        process.communicate()
    assert process.returncode == 143
    assert list(temporary.iterdir()) == []
    result = json.loads((tmp_path / "left" / OUTPUT / "result.json").read_bytes())
    assert result["error_code"] == "E_TERMINATED"
    assert (tmp_path / "left" / OUTPUT / ABOUT_FILE).is_file()


def test_every_day_of_the_week_is_the_last_tuesday() -> None:
    monday = datetime(2026, 3, 2, 23, 59, tzinfo=UTC)
    found = [compute_last_tuesday(monday + timedelta(days=n)).date().isoformat() for n in range(9)]
    assert found == ["2026-02-24", *["2026-03-03"] * 7, "2026-03-10"]


CREDENTIAL = f"gitlab-ci-token:{JOB}@"


@pytest.fixture
def long_project(gitlab: FullStandin, project: FullProject, work: Path, git: Git) -> FullProject:
    for number in range(25):
        git("commit", "--quiet", "--allow-empty", "-m", f"n{number}", cwd=work)
    git("push", "--quiet", project.bare_repository, "main", cwd=work)
    return project


@pytest.mark.parametrize("layout", get_args(Layout))
def test_both_layouts(
    gitlab: FullStandin, long_project: FullProject, git: Git, tmp_path: Path, layout: Layout
) -> None:
    here = tmp_path / "builds" / "app"
    sha = create_checkout(long_project, here, layout=layout, token=JOB)
    main = git("rev-parse", "main", cwd=long_project.bare_repository)
    assert sha == main.stdout.strip()
    assert (here / "second.txt").read_text() == "second\n"
    assert git("rev-parse", "HEAD", cwd=here).stdout.strip() == sha
    git("symbolic-ref", "--quiet", "HEAD", cwd=here, status=1)
    assert git("branch", "--format=%(refname)", cwd=here).stdout.startswith("(HEAD detached at")
    assert git("for-each-ref", "refs/heads", cwd=here).stdout == ""
    assert git("rev-list", "--count", "HEAD", cwd=here).stdout.strip() == "20"
    assert git("status", "--porcelain", "--ignored", cwd=here).stdout == ""
    assert Credential("basic", "gitlab-ci-token", JOB) in gitlab.credentials_seen
    files = {path.name for path in here.with_name("app.tmp").iterdir()}
    assert {"TRIGGER_PAYLOAD", "gitlab_runner_env", "git-template"} <= files
    assert (".gitlab-runner.ext.conf" in files) == (layout == "include")
    gitlab.credentials_seen.clear()
    git("fetch", "--quiet", "origin", cwd=here)
    assert Credential("basic", "gitlab-ci-token", JOB) in gitlab.credentials_seen


def test_where_the_token_is_stored(
    gitlab: FullStandin, long_project: FullProject, git: Git, tmp_path: Path
) -> None:
    plain, included = tmp_path / "plain", tmp_path / "included"
    create_checkout(long_project, plain, layout="url", token=JOB)
    create_checkout(long_project, included, layout="include", token=JOB)
    assert CREDENTIAL in (plain / ".git" / "config").read_text()
    assert JOB not in (included / ".git" / "config").read_text()

    lines = git("config", "--list", "--show-origin", cwd=included).stdout.splitlines()
    [(origin, setting)] = [line.split("\t") for line in lines if JOB in line]
    assert origin == f"file:{included}.tmp/.gitlab-runner.ext.conf"
    clean = long_project.http_url
    assert setting.endswith(f"@{clean.removeprefix('http://')}.insteadof={clean}")
    assert f"file:.git/config\tremote.origin.url={clean}" in lines
    assert CREDENTIAL in git("remote", "-v", cwd=included).stdout


def test_a_checkout_of_another_depth_and_branch(
    long_project: FullProject, work: Path, git: Git, tmp_path: Path
) -> None:
    git("push", "--quiet", long_project.bare_repository, "main~3:refs/heads/a/b", cwd=work)
    here = tmp_path / "all"
    sha = create_checkout(long_project, here, layout="url", token=JOB, depth=0, ref="a/b")
    assert sha == git("rev-parse", "main~3", cwd=work).stdout.strip()
    assert git("rev-list", "--count", "HEAD", cwd=here).stdout.strip() == "24"
    assert git("rev-parse", "origin/a/b", cwd=here).stdout.strip() == sha
    with pytest.raises(ValueError, match="has no branch nowhere"):
        create_checkout(long_project, tmp_path / "x", layout="url", token=JOB, ref="nowhere")
