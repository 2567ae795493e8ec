"""The facts of a checkout for the plan, and whether a night can start from it."""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.policy.path_patterns import within
from gitlab_nightshift.repository.git import (
    Git,
    RepositoryPaths,
    count_recent_commits,
    list_recent_files,
)
from gitlab_nightshift.repository.known_checkout import KnownCheckout
from gitlab_nightshift.repository.private_repository import create_private_repository
from gitlab_nightshift.repository.remote import GitServer, fetch_ref
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.system.file_names import format_path


@dataclass(frozen=True)
class CheckoutFacts:
    """The checkout at the start; paths are display names.

    ``unknown_commits`` is how many of the commits that ``avoid_recent_commits`` needs are missing
    from a shallow history.
    """

    base_sha: str
    target_branch: str
    files: tuple[str, ...]
    recent_files: tuple[str, ...]
    unknown_commits: int = 0

    @property
    def recent_enforced(self) -> bool:
        """False if avoiding recent files would leave less than half of all files."""
        return len(set(self.recent_files) & set(self.files)) * 2 <= len(self.files)


def read_facts(known: KnownCheckout, settings: Settings, job: JobFacts) -> CheckoutFacts:
    """Read a checkout before any agent runs.

    Raises ``E_CONFIG`` if the branch is not the target or has no commit, ``E_WORKSPACE_DIRTY`` if
    HEAD is not the job's commit.
    """
    paths, base = known.found
    target = _resolve_target_branch(settings, job, paths.git_dir)
    if job.commit_sha and base != job.commit_sha:
        raise NightshiftError(
            Code.WORKSPACE_DIRTY,
            f"HEAD is at {base[:12]}, but the job is for {job.commit_sha[:12]}: check out no other "
            "commit before the night",
        )
    count = settings.avoid_recent_commits
    recent = list_recent_files(known.git, known.top, count)
    there = count_recent_commits(known.git, known.top, count) if paths.shallow else count
    return CheckoutFacts(
        base_sha=base,
        target_branch=target,
        files=tuple(map(format_path, known.files)),
        recent_files=tuple(sorted(map(format_path, recent))),
        unknown_commits=count - there,
    )


def check_paths(settings: Settings, facts: CheckoutFacts) -> None:
    """Raise ``E_CONFIG`` if ``paths`` and ``exclude_paths`` leave no file."""
    if facts.files and not any(within(path, settings) for path in facts.files):
        keys = [key for key in ("paths", "exclude_paths") if getattr(settings, key)]
        places = ", ".join(f"{key} ({settings.find_source(key)})" for key in keys)
        raise build_config_error(
            f"{places}: none of the repository's {len(facts.files)} files is left to look at: "
            "correct the patterns, which are relative to its root"
        )


def deepen_facts(
    facts: CheckoutFacts, git: Git, source: RepositoryPaths, server: GitServer, count: int
) -> CheckoutFacts:
    """The facts with the files of the last ``count`` commits, fetched into a private repository;
    unchanged if the server refuses."""
    with tempfile.TemporaryDirectory(prefix="history-", dir=git.env["HOME"]) as folder:
        repository = create_private_repository(git, Path(folder) / "repository.git", source)
        # One more: the files of the oldest commit are known only by comparison with its parent.
        if not fetch_ref(repository, server, facts.base_sha, count + 1).ok:
            return facts
        paths, base = repository.folder, facts.base_sha
        recent = list_recent_files(git, paths, count, base)
        known = count_recent_commits(git, paths, count, base)
        shallow = (paths / "shallow").exists()
    return replace(
        facts,
        recent_files=tuple(sorted(map(format_path, recent))),
        unknown_commits=count - known if shallow else 0,
    )


def _resolve_target_branch(settings: Settings, job: JobFacts, git_dir: Path) -> str:
    """The branch to work on; in CI the job must run on it."""
    target = settings.target_branch or job.default_branch or _read_branch(git_dir)
    if job.in_ci and job.ref_name and job.ref_name != target:
        where = f"the job runs on {job.ref_name}, not on {target}"
        if settings.target_branch:
            source = settings.find_source("target_branch")
            raise build_config_error(f"{where}, which target_branch names ({source}): run it there")
        raise build_config_error(f"{where}: run it there, or set target_branch")
    return target


def _read_branch(git_dir: Path) -> str:
    """The branch of a person's own checkout; "main" if HEAD is detached."""
    # gitrepository-layout(5), HEAD: a symbolic ref, or the id of a commit.
    text = (git_dir / "HEAD").read_text(encoding="utf-8").strip()
    return text.removeprefix("ref: refs/heads/") if text.startswith("ref:") else "main"
