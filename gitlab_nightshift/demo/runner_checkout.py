"""A working copy exactly as a GitLab runner makes it for a job."""

import json
from pathlib import Path
from typing import Literal
from urllib.parse import quote, urlsplit, urlunsplit

from gitlab_nightshift.demo.standin_repository import resolve
from gitlab_nightshift.demo.standin_state import StandinProject
from gitlab_nightshift.repository.git import Git

Layout = Literal["url", "include"]

JOB_USER = "gitlab-ci-token"
PIPELINE_ID = 4711

# The texts and their order are gitlab-runner's (shells/abstract.go, setupTemplateDir).
TEMPLATE = """[init]
\tdefaultBranch = none
[fetch]
\trecurseSubmodules = false
[credential]
\tinteractive = never
[gc]
\tautoDetach = false
"""
INCLUDE = """[include]
\tpath = {path}
"""
INSTEAD_OF = """[url "{with_token}"]
\tinsteadOf = {clean}
"""
REMOTE = """[remote "origin"]
\turl = {url}
\tfetch = +refs/heads/*:refs/remotes/origin/*
"""


def create_checkout(
    project: StandinProject,
    destination: Path,
    *,
    layout: Layout,
    token: str,
    depth: int = 20,
    ref: str | None = None,
) -> str:
    """Check a branch out as a job finds it and return the commit (``CI_COMMIT_SHA``).

    A fetch of ``depth`` commits (0 for all), HEAD detached, no local branch, and beside the
    checkout a folder ``<destination>.tmp`` with the job's files. Layout ``url`` (runner up to
    18.5) has the token in ``.git/config``; ``include`` (from 18.6) has a clean URL there and the
    token in an included file of that folder. Raises ValueError for an unknown branch.
    """
    branch = ref or project.default_branch
    sha = resolve(project.git, project.bare_repository, branch)
    if sha is None:
        raise ValueError(f"{project.path} has no branch {branch}")
    with_token = _with_token(project.http_url, token)
    files = destination.with_name(f"{destination.name}.tmp")
    _write_job_files(files, branch)
    template = TEMPLATE
    if layout == "include":
        included = files / ".gitlab-runner.ext.conf"
        included.write_text(INSTEAD_OF.format(with_token=with_token, clean=project.http_url))
        template += INCLUDE.format(path=included.absolute())
    _create_repository(destination, files / "git-template", template, project.git)
    url = with_token if layout == "url" else project.http_url
    with (destination / ".git" / "config").open("a") as config:
        config.write(REMOTE.format(url=url))
    _fetch(project, destination, branch, sha, depth)
    return sha


def _with_token(url: str, token: str) -> str:
    parts = urlsplit(url)
    credentials = f"{JOB_USER}:{quote(token, safe='')}"
    return urlunsplit(parts._replace(netloc=f"{credentials}@{parts.netloc}"))


def _write_job_files(files: Path, branch: str) -> None:
    """The folder beside the checkout: a file variable, and what jobs hand on to later steps."""
    files.mkdir(parents=True, exist_ok=True)
    (files / "TRIGGER_PAYLOAD").write_text(json.dumps({"ref": branch}))
    (files / "gitlab_runner_env").touch()


def _create_repository(destination: Path, template: Path, text: str, git: Git) -> None:
    template.mkdir(exist_ok=True)
    (template / "config").write_text(text)
    destination.mkdir(parents=True)
    git.run("init", "--quiet", f"--template={template.absolute()}", cwd=destination)


def _fetch(project: StandinProject, destination: Path, branch: str, sha: str, depth: int) -> None:
    refs = (
        f"+{sha}:refs/pipelines/{PIPELINE_ID}",
        f"+refs/heads/{branch}:refs/remotes/origin/{branch}",
    )
    flags = [f"--depth={depth}"] if depth else []
    fetch = ("origin", "--no-recurse-submodules", *refs, *flags, "--prune", "--quiet")
    allowed = {"GIT_ALLOW_PROTOCOL": "http:https"}
    project.git.run("fetch", *fetch, cwd=destination, env=allowed)
    project.git.run("checkout", "-f", "-q", sha, cwd=destination)
