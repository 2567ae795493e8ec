"""A small world for whole nights: the GitLab stand-in, a project, a checkout as a runner makes it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gitlab_nightshift.demo.checkout import Layout, gitlab_checkout
from gitlab_nightshift.demo.standin import Standin
from gitlab_nightshift.demo.standin_state import Project

BOT_TOKEN = "glpat-BotTokenOfTheNight01"
JOB_TOKEN = "glcbt-JobTokenOfThisJob02"
MODEL_KEY = "sk-test-ModelKeyOfTheNight03"
SECRETS = (BOT_TOKEN, JOB_TOKEN, MODEL_KEY)
TOOLS = Path(__file__).parents[1] / "node" / "node_modules" / ".bin"

FILES = {
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
    "nightshift.yaml": "reviewer: rita\nverify_commands: [make test]\n",
}


@dataclass
class Done:
    """A command's end."""

    exit_status: int
    stdout: str
    stderr: str


@dataclass
class World:
    """Everything that a night meets; ``env`` is the job's environment."""

    gitlab: Standin
    project: Project
    checkout: Path
    sha: str
    env: dict[str, str]
    before: dict[str, tuple[str, int, bytes]] = field(default_factory=dict)

    def nightshift(self, *args: str, **env: str) -> Done:
        """Run the real command in the checkout."""
        with self.start(*args, **env) as process:
            out, err = process.communicate(timeout=120)
        return Done(process.returncode, out, err)

    def start(self, *args: str, **env: str) -> "subprocess.Popen[str]":
        """Start the real command, for tests that do something to it."""
        return subprocess.Popen(
            [sys.executable, "-m", "gitlab_nightshift", *args],
            cwd=self.checkout,
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def product(self, name: str) -> Any:
        """A JSON product of the night."""
        return json.loads((self.checkout / "nightshift" / name).read_text())

    @property
    def result(self) -> Any:
        return self.product("result.json")

    @property
    def merge_requests(self) -> list[Any]:
        return list(self.project.merge_requests)

    def tree(self) -> dict[str, tuple[str, int, bytes]]:
        """The whole checkout but nightshift/: kind, mode and bytes of everything, .git too."""
        return {
            name: entry
            for name, entry in whole_tree(self.checkout).items()
            if name.split("/")[0] != "nightshift"
        }


def whole_tree(top: Path) -> dict[str, tuple[str, int, bytes]]:
    """Kind, mode and bytes (or link target) of all that is below a folder."""
    found = {}
    for path in sorted(top.rglob("*")):
        name, status = str(path.relative_to(top)), path.lstat()
        if path.is_symlink():
            found[name] = ("link", 0, os.fsencode(path.readlink()))
        elif path.is_dir():
            found[name] = ("dir", status.st_mode, b"")
        else:
            found[name] = ("file", status.st_mode, path.read_bytes())
    return found


@contextmanager
def world(
    folder: Path, *, layout: Layout = "include", files: Mapping[str, str] = FILES, depth: int = 20
) -> Iterator[World]:
    """A stand-in with one project, and a checkout of it with the environment of a scheduled job."""
    with Standin(folder / "gitlab") as gitlab:
        bot, rita = gitlab.add_user("night-bot", "Night Shift"), gitlab.add_user("rita", "Rita")
        assert rita.id
        gitlab.add_token(BOT_TOKEN, bot, scopes=("api", "write_repository"), access_level=30)
        gitlab.add_token(JOB_TOKEN, bot, scopes=("read_repository",), access_level=20)
        project = gitlab.add_project("acme/shop")
        fill(project.bare_repository, folder / "seed", files)
        checkout = folder / "builds" / "acme" / "shop"
        checkout.parent.mkdir(parents=True)
        sha = gitlab_checkout(project, checkout, layout=layout, token=JOB_TOKEN, depth=depth)
        made = World(gitlab, project, checkout, sha, job_environment(folder, gitlab, project, sha))
        made.before = made.tree()
        yield made


def fill(bare: Path, seed: Path, files: Mapping[str, str]) -> None:
    """Push a history: the files, then a dozen commits that touch only ``notes.txt``."""
    seed.mkdir()
    git(seed, "init", "-q", "-b", "main")
    for name, text in files.items():
        (seed / name).parent.mkdir(parents=True, exist_ok=True)
        (seed / name).write_text(text)
        (seed / name).chmod(0o755 if name.endswith(".sh") else 0o644)
    commit(seed, "Start the shop")
    for number in range(12):
        (seed / "notes.txt").write_text(f"note {number}\n")
        commit(seed, f"Write note {number}")
    git(seed, "push", "-q", str(bare), "main")


def commit(seed: Path, message: str) -> None:
    git(seed, "add", "-A")
    git(seed, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", message)


def git(folder: Path, *args: str) -> str:
    """Git as a test's own tool, without the machine's configuration."""
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *args], cwd=folder, env=env, check=True, capture_output=True)
    return done.stdout.decode()


def job_environment(folder: Path, gitlab: Standin, project: Project, sha: str) -> dict[str, str]:
    """What the docker executor gives a scheduled job, as far as it matters here."""
    for name in ("home", "tmp"):
        (folder / name).mkdir()
    return {
        "PATH": f"{TOOLS}:{os.environ['PATH']}",
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
        "UNRELATED_SECRET": "nobody-should-see-this",
    }
