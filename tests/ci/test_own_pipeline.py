"""This project's own pipeline: valid, and which of its jobs run when."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gitlab_nightshift.onboarding.pipeline_rules import find_merge_request_jobs, find_scheduled_jobs
from gitlab_nightshift.onboarding.project_files import parse_config
from tests.ci.conftest import ROOT, invalid, listed

FILE = ROOT / ".gitlab-ci.yml"


def test_it_is_valid_and_its_jobs_run_where_they_should() -> None:
    text = FILE.read_text()
    assert invalid(FILE) == set()
    config = parse_config(text, FILE.name)
    assert find_scheduled_jobs(config, "main").sure == ("tests", "bundle", "newcomer", "pages")
    assert find_merge_request_jobs(config, "topic", "main").sure == ("tests", "bundle")
    pushed = {name for name, when in listed(text).items() if when != "never"}
    assert pushed == {"tests", "bundle", "pages"}


def test_a_version_is_published_when_it_is_tested_and_built() -> None:
    """And by no job that this waits for beside them: others need more of the runner."""
    config = parse_config(FILE.read_text(), FILE.name)
    assert config["publish"]["needs"] == ["tests", "bundle"]
    assert "allow_failure" not in config["tests"]


@pytest.mark.parametrize("status", [0, 100])
def test_the_tests_need_no_packages_of_the_system(tmp_path: Path, status: int) -> None:
    """In a closed network apt-get fails; what it would have brought is skipped by its name."""
    for name, code in {"apt-get": status, "npm": 0}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (tmp_path / name).chmod(0o755)
    lines = parse_config(FILE.read_text(), FILE.name)["tests"]["before_script"]
    script = "\n".join(["set -eo pipefail", *lines])
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    said = subprocess.check_output(["bash", "-c", script], env=path, text=True)
    assert ("No packages of Debian here" in said) is (status != 0)


def test_what_its_jobs_start_is_there() -> None:
    config = parse_config(FILE.read_text(), FILE.name)
    scripts = " ".join(
        " ".join(job.get("script", ())) for job in config.values() if "script" in job
    )
    named = {word for word in scripts.split() if word.startswith("ci/")}
    assert named == {"ci/bundle/try_bundle.sh", "ci/image/Dockerfile"}
    assert all((ROOT / word).exists() for word in named)
    assert (ROOT / "ci/bundle/try_newcomer.py").exists() and "ci.bundle.try_newcomer" in scripts
