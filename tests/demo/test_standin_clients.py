"""The stand-in's answers, as a client understands them that is not python-gitlab."""

import json
import subprocess
from pathlib import Path

from gitlab_nightshift.demo.standin_state import User
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject, StandinSchedule

from .conftest import MAINTAINER_TOKEN

SCRIPT = Path(__file__).parents[1] / "node/gitbeaker.mjs"


def test_gitbeaker_understands_each_answer(
    gitlab: FullStandin, project: FullProject, branch: str, reviewer: User
) -> None:
    project.members[reviewer.id] = 30
    project.schedules.append(StandinSchedule(1, reviewer))
    project.pipeline_jobs = {"nightshift": "manual"}
    words = (gitlab.url, MAINTAINER_TOKEN, project.path, branch, reviewer.username)
    done = subprocess.run(
        ["node", str(SCRIPT), *words], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        **{"user": "night-bot", "token": True, "users": ["grace"], "busy": None, "members": True},
        **{"project": "team/sub/app", "branch": branch, "commit": "Improve it", "compared": 1},
        **{"protected": ["main"], "labels": ["night-shift"], "rules": 0},
        **{"opened": [1], "shown": branch, "edited": "Another title", "diffs": 3},
        **{"notes": ["First"], "thread": 1, "note": "Third", "approved": False, "rebased": True},
        **{"issue": "Dashboard", "page": "Other", "issues": 1, "system": True},
        **{"schedule": "NIGHTSHIFT", "variables": 0, "pipelines": 1, "pipeline": True},
        **{"job": "nightshift", "played": "pending"},
    }
