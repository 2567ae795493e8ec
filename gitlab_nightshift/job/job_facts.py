"""The facts of the GitLab job: read once from the environment."""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from gitlab_nightshift.job.job_secrets import TRIGGER_PAYLOAD
from gitlab_nightshift.text.secret_texts import read_plain_file

LARGEST_TRIGGER_PAYLOAD = 8 * 1024 * 1024
"""Bytes. A webhook repeats the whole texts of an issue and a comment, each up to a megabyte."""


@dataclass(frozen=True)
class JobFacts:
    """The facts of the job, "" if unknown, as most are outside CI.

    ``trigger_payload`` is the path of a file with the body of the request that triggered it.
    """

    in_ci: bool = False
    run_id: str = ""
    server_url: str = ""
    project_id: str = ""
    project_path: str = ""
    project_url: str = ""
    default_branch: str = ""
    commit_sha: str = ""
    ref_name: str = ""
    pipeline_url: str = ""
    pipeline_source: str = ""
    pipeline_created_at: str = ""
    job_started_at: str = ""
    job_timeout_s: float | None = None
    user_login: str = ""
    user_name: str = ""
    user_email: str = ""
    visibility: str = ""
    ci_config_path: str = ".gitlab-ci.yml"
    job_id: str = ""
    job_name: str = ""
    manual: bool = False
    schedule_description: str = ""
    trigger_payload: str = ""


def read_job(env: Mapping[str, str], repo_url: str | None = None, run_id: str = "") -> JobFacts:
    """The job's facts from ``CI_*`` and ``GITLAB_USER_*``. ``repo_url`` takes precedence over
    ``CI_PROJECT_URL``; outside CI the run's id is ``run_id``, by default a new one."""

    def read_ci_variable(name: str) -> str:
        return env.get(f"CI_{name}", "")

    url = _split_url(repo_url or read_ci_variable("PROJECT_URL"))
    path = url.path.strip("/").removesuffix(".git")
    return JobFacts(
        in_ci=env.get("GITLAB_CI") == "true" or read_ci_variable("PIPELINE_ID") != "",
        run_id=read_ci_variable("PIPELINE_ID") or run_id or str(uuid.uuid4()),
        server_url=read_ci_variable("SERVER_URL")
        or (f"{url.scheme}://{url.netloc}" if url.netloc else ""),
        project_id=read_ci_variable("PROJECT_ID") or path,
        project_path=read_ci_variable("PROJECT_PATH") or path,
        project_url=repo_url or read_ci_variable("PROJECT_URL"),
        default_branch=read_ci_variable("DEFAULT_BRANCH"),
        commit_sha=read_ci_variable("COMMIT_SHA"),
        ref_name=read_ci_variable("COMMIT_REF_NAME"),
        pipeline_url=read_ci_variable("PIPELINE_URL"),
        pipeline_source=read_ci_variable("PIPELINE_SOURCE"),
        pipeline_created_at=read_ci_variable("PIPELINE_CREATED_AT"),
        job_started_at=read_ci_variable("JOB_STARTED_AT"),
        job_timeout_s=_read_timeout(env),
        user_login=env.get("GITLAB_USER_LOGIN", ""),
        user_name=env.get("GITLAB_USER_NAME", ""),
        user_email=env.get("GITLAB_USER_EMAIL", ""),
        visibility=read_ci_variable("PROJECT_VISIBILITY"),
        ci_config_path=read_ci_variable("CONFIG_PATH") or ".gitlab-ci.yml",
        job_id=read_ci_variable("JOB_ID"),
        job_name=read_ci_variable("JOB_NAME"),
        manual=read_ci_variable("JOB_MANUAL") == "true",
        schedule_description=read_ci_variable("PIPELINE_SCHEDULE_DESCRIPTION"),
        trigger_payload=env.get(TRIGGER_PAYLOAD, ""),
    )


def read_trigger_payload(job: JobFacts) -> bytes | None:
    """The body of the request that triggered the pipeline: hostile, as anyone with the URL can send
    one. None if it is not in a regular file of at most ``LARGEST_TRIGGER_PAYLOAD`` bytes."""
    return read_plain_file(job.trigger_payload, LARGEST_TRIGGER_PAYLOAD)


def _split_url(url: str) -> SplitResult:
    """The parts of a URL, all empty if it is invalid."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _read_timeout(env: Mapping[str, str]) -> float | None:
    """Seconds for the script: those of the job, or a shorter RUNNER_SCRIPT_TIMEOUT."""
    names = ("CI_JOB_TIMEOUT", "RUNNER_SCRIPT_TIMEOUT")
    timeouts = (parse_go_duration(env.get(name, "")) for name in names)
    return min(filter(None, timeouts), default=None)


def parse_go_duration(text: str) -> float | None:
    """Seconds from a plain number, or from the runner's notation (``1h20m30s``, as in Go); None for
    anything else, or absurdly long numbers."""
    if re.fullmatch(r"[0-9]{1,9}", text):
        return float(text)
    if not re.fullmatch(r"([0-9]{1,9}(\.[0-9]{1,9})?(h|ms|m|s)){1,9}", text):
        return None
    # "ms" before "m", or 5ms would be read as 5m.
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
    parts = re.findall(r"([0-9]+(?:\.[0-9]+)?)(h|ms|m|s)", text)
    return sum(float(number) * units[unit] for number, unit in parts)
