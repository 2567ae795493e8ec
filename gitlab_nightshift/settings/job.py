"""What the GitLab job tells of itself, and its secrets: read once from the environment."""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from gitlab_nightshift.secret_texts import IN_ADDRESS, is_secret_name, plain_file
from gitlab_nightshift.settings.file_values import TRIGGER_PAYLOAD, file_values, file_variables

MODEL_KEYS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "OPENAI_API_KEY",
)
SHORTEST_SECRET = 6
LARGEST_TRIGGER = 8 * 1024 * 1024
"""Bytes. A webhook repeats the whole texts of an issue and a comment, each up to a megabyte."""


@dataclass(frozen=True)
class Job:
    """The facts of the job, "" where they are not known (outside CI most are not).

    ``trigger_payload`` is the path of the file that holds the body of a trigger's call.
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
    manual: bool = False
    trigger_payload: str = ""


@dataclass(frozen=True, repr=False)
class Secrets:
    """The secrets of the job. Never printed: its repr shows none of them."""

    gitlab_token: str = ""
    model: Mapping[str, str] = field(default_factory=dict)
    values: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Secrets({len(self.values)} values)"


def read_job(env: Mapping[str, str], repo_url: str | None = None) -> Job:
    """The job's facts from ``CI_*`` and ``GITLAB_USER_*``; ``repo_url`` stands in outside CI."""

    def ci(name: str) -> str:
        return env.get(f"CI_{name}", "")

    url = urlsplit(repo_url or ci("PROJECT_URL"))
    path = url.path.strip("/").removesuffix(".git")
    return Job(
        in_ci=env.get("GITLAB_CI") == "true" or ci("PIPELINE_ID") != "",
        run_id=ci("PIPELINE_ID") or str(uuid.uuid4()),
        server_url=ci("SERVER_URL") or (f"{url.scheme}://{url.netloc}" if url.netloc else ""),
        project_id=ci("PROJECT_ID") or path,
        project_path=ci("PROJECT_PATH") or path,
        project_url=repo_url or ci("PROJECT_URL"),
        default_branch=ci("DEFAULT_BRANCH"),
        commit_sha=ci("COMMIT_SHA"),
        ref_name=ci("COMMIT_REF_NAME"),
        pipeline_url=ci("PIPELINE_URL"),
        pipeline_source=ci("PIPELINE_SOURCE"),
        pipeline_created_at=ci("PIPELINE_CREATED_AT"),
        job_started_at=ci("JOB_STARTED_AT"),
        job_timeout_s=_timeout(env),
        user_login=env.get("GITLAB_USER_LOGIN", ""),
        user_name=env.get("GITLAB_USER_NAME", ""),
        user_email=env.get("GITLAB_USER_EMAIL", ""),
        visibility=ci("PROJECT_VISIBILITY"),
        ci_config_path=ci("CONFIG_PATH") or ".gitlab-ci.yml",
        job_id=ci("JOB_ID"),
        manual=ci("JOB_MANUAL") == "true",
        trigger_payload=env.get(TRIGGER_PAYLOAD, ""),
    )


def read_trigger(job: Job) -> bytes | None:
    """The body of the call that triggered the pipeline: hostile, whoever has the address can send
    one. None where there is no plain file of a usable size."""
    return plain_file(job.trigger_payload, LARGEST_TRIGGER)


def _timeout(env: Mapping[str, str]) -> float | None:
    """Seconds that the script may take: the runner ends it before the job, where asked to."""
    known = [go_duration(env.get(name, "")) for name in ("CI_JOB_TIMEOUT", "RUNNER_SCRIPT_TIMEOUT")]
    return min((seconds for seconds in known if seconds), default=None)


def go_duration(text: str) -> float | None:
    """Seconds from a number of them, or from the runner's notation such as ``1h20m30s``."""
    if re.fullmatch(r"\d+", text):
        return float(text)
    if not re.fullmatch(r"(\d+(\.\d+)?(h|ms|m|s))+", text):
        return None
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
    parts = re.findall(r"(\d+(?:\.\d+)?)(h|ms|m|s)", text)
    return sum(float(number) * units[unit] for number, unit in parts)


def read_secrets(env: Mapping[str, str]) -> Secrets:
    """The token, the model keys, every value whose variable's name says secret, and what is secret
    in variables of type file.

    The name decides only what is kept out of texts; what an agent gets is decided by an allowlist.
    """
    token = env.get("GITLAB_TOKEN", "").strip()
    files, in_files = file_variables(env), file_values(env)
    plain = {name: value for name, value in env.items() if name not in files}
    named = {value.strip() for name, value in plain.items() if is_secret_name(name)}
    in_urls = set(IN_ADDRESS.findall("\n".join(plain.values())))
    guessed = {value for value in named | in_urls if len(value) >= SHORTEST_SECRET}
    model = {name: env[name] for name in MODEL_KEYS if env.get(name, "").strip()}
    known = {*guessed, *in_files, *(key.strip() for key in model.values()), token} - {""}
    longest_first = sorted(known, key=lambda value: (-len(value), value))
    return Secrets(token, model, tuple(longest_first))
