"""``nightshift demo``: a complete night on this machine, without an account or a model.

The sample project is in a GitLab stand-in, the checkout is like a job's, and the agent replays a
recorded night; everything else is the real program.
"""

import contextlib
import json
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import quote, urlsplit, urlunsplit

from gitlab_nightshift.demo.standin import Standin
from gitlab_nightshift.demo.standin_repository import resolve
from gitlab_nightshift.demo.standin_state import StandinProject, User
from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.repository.git import Git, GitError
from gitlab_nightshift.sandbox.launch import Sandbox
from gitlab_nightshift.sandbox.tier_choice import probe_tiers
from gitlab_nightshift.system.file_names import open_short_folder

HERE = Path(__file__).parent
HISTORY = HERE / "sample" / "history.fast-import"
RECORDING = HERE / "recording"
PROJECT = "harbour-books/basket"
NEEDED_PROGRAMS = ("git", "make", "python3")
PASSED_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ", "TERM")
OUTPUT = "nightshift"
ABOUT_FILE = "ABOUT-THIS-DEMO.txt"
"""Marks a demo's results folder; a folder without it is not replaced."""
TUESDAY = 1
"""The weekday of the recorded night (``datetime.weekday``)."""
JOB_TIMEOUT_S = 3 * 3600

OPENING = """\
A night in the sample project harbour-books/basket. GitLab is a stand-in on this machine, and the
agent plays back answers that were written by hand: no account, no model, no cost. Tokens and
dollars below are estimates from the length of these answers, not measured with a model.
"""

ABOUT_TEXT = """\
Left by `nightshift demo`, which replaces this folder when it runs again.

A real night leaves the same files: report.html to read, result.json for programs, bundle/ with the
change (change.patch) and its proof, plan.json, published.json, events.jsonl, junit.xml and
nightshift.env for GitLab, logs/ with what the agents and the commands printed.

The project harbour-books/basket does not exist, and links in these files no longer work: GitLab was
a stand-in. The agents played back answers that were written by hand: costs and tokens are estimates
from their length, not measured with a model; durations are the demo's.
"""


Layout = Literal["url", "include"]
_JOB_USER = "gitlab-ci-token"
_PIPELINE_ID = 4711

# Texts and order as in gitlab-runner (shells/abstract.go, setupTemplateDir).
_TEMPLATE = """[init]
\tdefaultBranch = none
[fetch]
\trecurseSubmodules = false
[credential]
\tinteractive = never
[gc]
\tautoDetach = false
"""
_INCLUDE = """[include]
\tpath = {path}
"""
_INSTEAD_OF = """[url "{with_token}"]
\tinsteadOf = {clean}
"""
_REMOTE = """[remote "origin"]
\turl = {url}
\tfetch = +refs/heads/*:refs/remotes/origin/*
"""


@dataclass(frozen=True)
class Demo:
    """A night that is ready to run. ``nightshift/`` will be created in ``folder``."""

    env: Mapping[str, str]
    checkout: Path
    project: StandinProject
    folder: Path


@contextlib.contextmanager
def open_demo(folder: Path, env: Mapping[str, str]) -> Iterator[Demo]:
    """Serve the sample project and prepare a job's environment and checkout.

    Of ``env`` only PATH, the locale and the time zone are passed on. At the end everything is
    removed except the night's results in ``nightshift/`` of ``folder``, which replace those of an
    earlier demo. Raises ``E_CONFIG`` if a program is missing or that folder is not a demo's.
    """
    _check_requirements(folder, env)
    with tempfile.TemporaryDirectory(prefix="nightshift-demo-") as name:
        root = Path(name).resolve()
        with Standin(root / "gitlab") as gitlab:
            demo = _prepare_demo(gitlab, root, folder, env)
            try:
                yield demo
            finally:
                _move_results(demo)


def _check_requirements(folder: Path, env: Mapping[str, str]) -> None:
    for program in NEEDED_PROGRAMS:
        if shutil.which(program, path=env.get("PATH")) is None:
            raise build_config_error(f"the demo needs {program}, which is not on PATH: install it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Tried before the night, so that its results can be stored there.
        with tempfile.TemporaryDirectory(dir=folder):
            pass
    except OSError as error:
        raise build_config_error(f"{folder}: {error.strerror}: name another folder") from None
    output = folder / OUTPUT
    if output.is_symlink() or (output.exists() and not _is_demo_output(output)):
        raise build_config_error(
            f"{output} exists and is not of an earlier demo: move it away, or name another "
            "folder (nightshift demo FOLDER)"
        )


def _is_demo_output(output: Path) -> bool:
    return output.is_dir() and ((output / ABOUT_FILE).is_file() or not any(output.iterdir()))


def _choose_isolation(root: Path) -> str:
    """The value of ``isolation``: ``auto`` if a sandbox works here, else ``none``, which is safe
    for a recording."""
    if sys.platform != "linux":
        return "none"
    with open_short_folder(root) as folder:
        sandboxes = [tier for tier in probe_tiers(folder) if isinstance(tier, Sandbox)]
    return "auto" if any(sandbox.tier != "uid" for sandbox in sandboxes) else "none"


def _prepare_demo(gitlab: Standin, root: Path, folder: Path, env: Mapping[str, str]) -> Demo:
    project_token = f"glpat-{secrets.token_hex(16)}"
    job_token = f"glcbt-{secrets.token_hex(16)}"
    checkout = root / "builds" / PROJECT
    project = gitlab.add_project(PROJECT)
    schedule_owner = _add_people(gitlab, project_token, job_token)
    try:
        import_history = ("fast-import", "--quiet", "--done")
        project.git.run(*import_history, cwd=project.bare_repository, stdin=HISTORY.read_bytes())
        commit = create_checkout(project, checkout, layout="include", token=job_token)
    except GitError as error:
        raise build_config_error(
            f"the demo's GitLab cannot serve its repository: {error}"
        ) from None
    for name in ("home", "tmp"):
        (root / name).mkdir()
    job = {
        **{name: env[name] for name in PASSED_VARIABLES if env.get(name)},
        **_build_job_variables(gitlab, project, commit, schedule_owner),
        "HOME": str(root / "home"),
        "TMPDIR": str(root / "tmp"),
        "CI_JOB_TOKEN": job_token,
        "GITLAB_TOKEN": project_token,
        "NIGHTSHIFT_AGENT": "replay",
        "NIGHTSHIFT_REPLAY_DIR": str(RECORDING),
        "NIGHTSHIFT_ISOLATION": _choose_isolation(root),
        "NIGHTSHIFT_ACCEPT_PARTIAL": "files,network,lifetime",  # a recording is no agent
    }
    return Demo(job, checkout, project, folder)


def _add_people(gitlab: Standin, project_token: str, job_token: str) -> User:
    """The team and the token's bot. Returns the owner of the schedule."""
    mira = gitlab.add_user("mira", "Mira Okafor")
    gitlab.add_user("jonas", "Jonas Lindqvist")
    gitlab.add_user("dana", "Dana Petrova")
    bot = gitlab.add_user("project_4001_bot", "Night Shift", bot=True)
    gitlab.add_token(project_token, bot)
    gitlab.add_token(job_token, mira, (), kind="job")
    return mira


def _build_job_variables(
    gitlab: Standin, project: StandinProject, commit: str, owner: User
) -> dict[str, str]:
    """The variables of a scheduled job. No GITLAB_CI: the log is read in a terminal here."""
    now = datetime.now(UTC)
    return {
        "CI_SERVER_URL": gitlab.url,
        "CI_PROJECT_ID": str(project.id),
        "CI_PROJECT_PATH": project.path,
        "CI_PROJECT_URL": project.web_url,
        "CI_PROJECT_VISIBILITY": project.visibility,
        "CI_DEFAULT_BRANCH": project.default_branch,
        "CI_COMMIT_REF_NAME": project.default_branch,
        "CI_COMMIT_SHA": commit,
        "CI_PIPELINE_SOURCE": "schedule",
        "CI_PIPELINE_URL": f"{project.web_url}/-/pipelines/4711",
        "CI_PIPELINE_CREATED_AT": compute_last_tuesday(now).isoformat(timespec="seconds"),
        "CI_JOB_STARTED_AT": now.isoformat(timespec="seconds"),
        "CI_JOB_TIMEOUT": str(JOB_TIMEOUT_S),
        "GITLAB_USER_LOGIN": owner.username,
        "GITLAB_USER_NAME": owner.name,
        "GITLAB_USER_EMAIL": f"{owner.username}@harbour-books.example",
    }


def compute_last_tuesday(now: datetime) -> datetime:
    """The last Tuesday, at this time of day: the recorded night begins with its category."""
    return now - timedelta(days=(now.weekday() - TUESDAY) % 7)


def _move_results(demo: Demo) -> None:
    """Move the results out of the checkout, replacing those of an earlier demo."""
    results, output = demo.checkout / OUTPUT, demo.folder / OUTPUT
    if not results.is_dir():
        return
    (results / ABOUT_FILE).write_text(ABOUT_TEXT, encoding="utf-8")
    try:
        if output.is_dir():
            shutil.rmtree(output)
        shutil.move(results, output)
    except OSError as error:
        raise build_config_error(f"{output} cannot be written: {error.strerror}") from None


def create_checkout(
    project: StandinProject,
    destination: Path,
    *,
    layout: Layout,
    token: str,
    depth: int = 20,
    ref: str | None = None,
) -> str:
    """Check a branch out as a runner does and return the commit (``CI_COMMIT_SHA``).

    It fetches ``depth`` commits (0 for all); HEAD is detached, there is no local branch, and beside
    the checkout is a folder ``<destination>.tmp`` with the job's files. Layout ``url`` (runner up
    to 18.5) has the token in ``.git/config``; ``include`` (from 18.6) has a clean URL there and the
    token in an included file of that folder. Raises ValueError for an unknown branch.
    """
    branch = ref or project.default_branch
    sha = resolve(project.git, project.bare_repository, branch)
    if sha is None:
        raise ValueError(f"{project.path} has no branch {branch}")
    clean_url, url_with_token = project.http_url, _add_token(project.http_url, token)
    job_files = destination.with_name(f"{destination.name}.tmp")
    _write_job_files(job_files, branch)
    git_config = _TEMPLATE
    if layout == "include":
        included = job_files / ".gitlab-runner.ext.conf"
        included.write_text(_INSTEAD_OF.format(with_token=url_with_token, clean=clean_url))
        git_config += _INCLUDE.format(path=included.absolute())
    _create_repository(destination, job_files / "git-template", git_config, project.git)
    url = url_with_token if layout == "url" else clean_url
    with (destination / ".git" / "config").open("a") as config:
        config.write(_REMOTE.format(url=url))
    _fetch(project, destination, branch, sha, depth)
    return sha


def _add_token(url: str, token: str) -> str:
    parts = urlsplit(url)
    credentials = f"{_JOB_USER}:{quote(token, safe='')}"
    return urlunsplit(parts._replace(netloc=f"{credentials}@{parts.netloc}"))


def _write_job_files(folder: Path, branch: str) -> None:
    """Create the folder beside the checkout: file variables, and what a job's steps pass on."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "TRIGGER_PAYLOAD").write_text(json.dumps({"ref": branch}))
    (folder / "gitlab_runner_env").touch()


def _create_repository(destination: Path, template: Path, config: str, git: Git) -> None:
    template.mkdir(exist_ok=True)
    (template / "config").write_text(config)
    destination.mkdir(parents=True)
    git.run("init", "--quiet", f"--template={template.absolute()}", cwd=destination)


def _fetch(project: StandinProject, destination: Path, branch: str, sha: str, depth: int) -> None:
    # A job's refspecs name the commit, as the branch may have moved since the pipeline began.
    refs = (
        f"+{sha}:refs/pipelines/{_PIPELINE_ID}",
        f"+refs/heads/{branch}:refs/remotes/origin/{branch}",
    )
    # 0 means the whole history, as in a job's GIT_DEPTH.
    flags = [f"--depth={depth}"] if depth else []
    fetch = ("origin", "--no-recurse-submodules", *refs, *flags, "--prune", "--quiet")
    # This program's git has no protocol by default (repository/git.py).
    allowed = {"GIT_ALLOW_PROTOCOL": "http:https"}
    project.git.run("fetch", *fetch, cwd=destination, env=allowed)
    project.git.run("checkout", "-f", "-q", sha, cwd=destination)
