"""The settings of a delegation: the policy of the default branch, and what the payload narrows."""

import shlex
from collections.abc import Mapping

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.policy.delegation_policy import build_test_command, restrict_settings
from gitlab_nightshift.records.delegation_records import Payload
from gitlab_nightshift.repository import git as git_verbs
from gitlab_nightshift.repository.delegated_repository import DelegationSource
from gitlab_nightshift.settings.config_file import FILE_NAME, ConfigFile
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.work.delegation.delegation_source import find_commit

POLICY_KEYS = ("NIGHTSHIFT_POLICY", "NIGHTSHIFT_PROFILE")
ENFORCED = {"outside-paths": "fail"}


def read_settings(source: DelegationSource, env: Mapping[str, str], job: JobFacts) -> Settings:
    """The settings, with the policy as it holds for a delegation.

    ``nightshift.yaml`` is read from the default branch. That of a repository by URL is a
    stranger's, and is not read. Raises NightshiftError ``E_CONFIG``.
    """
    if job.in_ci:
        named = [name for name in env if name.startswith(POLICY_KEYS) and env[name].strip()]
        if named:
            text = "a delegation's policy and profile come from the default branch only"
            raise build_config_error(f"{', '.join(sorted(named))}: {text}")
    return restrict_settings(load_settings(env, _read_config_file(source, job)))


def _read_config_file(source: DelegationSource, job: JobFacts) -> ConfigFile | None:
    if source.fetched:
        return None
    commit = find_default_commit(source, job)
    data = git_verbs.read_file(source.git, source.top, commit, FILE_NAME)
    if data is None:
        return None
    try:
        return ConfigFile(FILE_NAME, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise build_config_error(f"{FILE_NAME}: not UTF-8: {error}") from None


def find_default_commit(source: DelegationSource, job: JobFacts) -> str:
    """The default branch's commit, as far as this repository knows it; without a remote, the
    checked-out one. Raises NightshiftError ``E_CONFIG`` where the job's default branch is not
    here."""
    name = job.default_branch
    refs = [f"refs/remotes/origin/{name}", f"refs/heads/{name}"] if name else []
    found = (find_commit(source, ref) for ref in (*refs, "refs/remotes/origin/HEAD"))
    if commit := next(filter(None, found), None):
        return commit
    if name and job.ref_name != name:
        text = f"the policy is read from {name}, which is not in {source.top}: fetch it first"
        raise build_config_error(text)
    return source.head


def narrow_settings(settings: Settings, payload: Payload, subdir: str) -> Settings:
    """The settings with what the payload asks for: less is always possible, more is not."""
    execution, policy = payload.execution, settings.policy
    hosts = policy.egress_hosts if execution.network == "on" else []
    flags = {**policy.flags, **(ENFORCED if subdir else {}), **_build_set_up_flags(payload)}
    words = build_test_command(payload, policy.test_commands)
    made: dict[str, object] = {
        "policy": policy.with_values(egress_hosts=hosts, flags=flags),
        "verify_commands": [shlex.join(words)] if words else [],
        "task": payload.task_prompt.strip(),
    }
    if subdir:
        made |= _restrict_paths(settings, subdir)
    return settings.with_values(**made)


def _build_set_up_flags(payload: Payload) -> dict[str, str]:
    """Manifests, lock files and settings of tools change with ``allow_install`` alone, whatever the
    flag says."""
    level = "off" if payload.execution.dependency_policy == "allow_install" else "fail"
    return {"dependency-file": level, "tool-settings": level}


def _restrict_paths(settings: Settings, subdir: str) -> dict[str, object]:
    """Allow only this folder, and within it what the settings allow anyway."""
    if not settings.paths:
        return {"paths": [f"/{subdir}/"]}
    parts = subdir.split("/")
    above = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    outside = ["/*"]
    for folder in above:
        outside += [f"!/{folder}/", f"/{folder}/*"]
    return {"exclude_paths": [*outside[:-1], *settings.exclude_paths]}
