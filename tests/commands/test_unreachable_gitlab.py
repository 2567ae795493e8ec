"""Commands that wait for a GitLab that does not answer say so while they wait."""

import os
from pathlib import Path

from tests.support import warm
from tests.support.ports import refusing_port
from tests.support.tables import each
from tests.support.world import ROOT, git

TOKEN = "glpat-a-token-of-the-tests"


@each(
    ("command", "stream"),
    [("plan", "stdout"), ("doctor --json", "stderr"), ("report", "stderr")],
)
def test_a_line_says_why_and_how_long_it_waits(command: str, stream: str, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.invalid")
    git(tmp_path, *identity, "commit", "-q", "--allow-empty", "-m", "one")
    with refusing_port() as port:
        url = f"http://127.0.0.1:{port}"
        env = {
            **{name: os.environ[name] for name in ("PATH", "HOME")},
            "PYTHONPATH": str(ROOT),
            "GITLAB_TOKEN": TOKEN,
            "NIGHTSHIFT_REPO_URL": f"{url}/team/shop",
        }
        with warm.start(command.split(), cwd=tmp_path, env=env) as started:
            lines = iter(getattr(started, stream).readline, b"")
            line = next(each for each in lines if b"trying again" in each).decode()
            started.terminate()
    assert f"127.0.0.1:{port} cannot be reached: connection refused; trying again in " in line
    assert TOKEN not in line
