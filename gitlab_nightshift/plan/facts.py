"""What the plan needs to know of the checkout, and that a night can start from it."""

from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError, config_error
from gitlab_nightshift.host import git as git_verbs
from gitlab_nightshift.host.git import Git
from gitlab_nightshift.host.paths import display
from gitlab_nightshift.settings import Job, Settings


@dataclass(frozen=True)
class CheckoutFacts:
    """The checkout at the start; paths are display names."""

    base_sha: str
    target_branch: str
    files: tuple[str, ...]
    recent_files: tuple[str, ...]
    shallow: bool

    @property
    def recent_enforced(self) -> bool:
        """False where leaving recent files alone would leave less than half of the files."""
        return len(set(self.recent_files) & set(self.files)) * 2 <= len(self.files)


def read_facts(git: Git, checkout: Path, settings: Settings, job: Job) -> CheckoutFacts:
    """Read a checkout before any agent runs.

    Raises ``E_CONFIG`` for another branch than the target and a repository without commits,
    ``E_WORKSPACE_DIRTY`` where HEAD is not the job's commit.
    """
    place, base = git_verbs.place_and_head(git, checkout)
    target = _target_branch(settings, job, place.git_dir)
    if job.commit_sha and base != job.commit_sha:
        text = f"HEAD is {base[:12]}, but the job is for {job.commit_sha[:12]}: leave HEAD alone"
        raise NightshiftError(Code.WORKSPACE_DIRTY, text)
    recent = git_verbs.recent_files(git, checkout, settings.avoid_recent_commits)
    return CheckoutFacts(
        base_sha=base,
        target_branch=target,
        files=tuple(map(display, git_verbs.tracked_files(git, checkout))),
        recent_files=tuple(sorted(map(display, recent))),
        shallow=place.shallow is not None,
    )


def _target_branch(settings: Settings, job: Job, git_dir: Path) -> str:
    """The branch to work on; in CI the job must run on it."""
    target = settings.target_branch or job.default_branch or _branch_of(git_dir)
    if job.in_ci and job.ref_name and job.ref_name != target:
        raise config_error(
            f"the job runs on {job.ref_name}, not on {target}: run it there, or set target_branch"
        )
    return target


def _branch_of(git_dir: Path) -> str:
    """The branch of a person's own checkout; "main" where HEAD is detached."""
    text = (git_dir / "HEAD").read_text(encoding="utf-8").strip()
    return text.removeprefix("ref: refs/heads/") if text.startswith("ref:") else "main"
