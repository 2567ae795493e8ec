"""The working copy that a runner makes, in both layouts."""

from pathlib import Path
from typing import get_args

import pytest

from gitlab_nightshift.demo.runner_checkout import Layout, create_checkout
from gitlab_nightshift.demo.standin_requests import Credential
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject

from .conftest import JOB, Git

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


def test_where_the_token_stands(
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


def test_other_depths_and_branches(
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
