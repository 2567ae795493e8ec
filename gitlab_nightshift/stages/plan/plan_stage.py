"""The plan stage: reads the facts of the checkout, and makes a :class:`Plan` from these, the
settings, the job and what GitLab knows.
"""

import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.gitlab.history import Memory
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.gitlab.resources import NIGHT_LABEL
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.policy.path_patterns import is_in_scope
from gitlab_nightshift.records.products import Plan
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
from gitlab_nightshift.stages.plan.schedule import (
    find_blockers,
    find_left_out,
    find_skip_reason,
    order_categories,
    resolve_category,
    resolve_run_day,
)
from gitlab_nightshift.system.file_names import format_path
from gitlab_nightshift.text.printable_text import count_words


@dataclass(frozen=True)
class CheckoutFacts:
    """The checkout before any agent has run; paths are display names.

    ``recent_files`` were touched by the last ``avoid_recent_commits`` commits; ``unknown_commits``
    is how many of these a shallow history lacks.
    """

    base_sha: str
    target_branch: str
    files: tuple[str, ...]
    recent_files: tuple[str, ...]
    unknown_commits: int = 0

    @property
    def recent_files_enforced(self) -> bool:
        """False if avoiding recent files would leave less than half of all files."""
        return len(set(self.recent_files) & set(self.files)) * 2 <= len(self.files)


def read_facts(checkout: KnownCheckout, settings: Settings, job: JobFacts) -> CheckoutFacts:
    """Read a checkout before any agent runs.

    Raises ``E_CONFIG`` if the job runs on another branch than the target, or nothing is committed
    yet, ``E_WORKSPACE_DIRTY`` if HEAD is not the job's commit.
    """
    paths, head = checkout.paths_and_head
    target = _resolve_target_branch(settings, job, paths.git_dir)
    if job.commit_sha and head != job.commit_sha:
        raise NightshiftError(
            Code.WORKSPACE_DIRTY,
            f"HEAD is at {head[:12]}, but the job is for {job.commit_sha[:12]}: check out no other "
            "commit before the night",
        )
    count = settings.avoid_recent_commits
    recent = list_recent_files(checkout.git, checkout.top, count)
    available = count_recent_commits(checkout.git, checkout.top, count) if paths.shallow else count
    return CheckoutFacts(
        base_sha=head,
        target_branch=target,
        files=tuple(map(format_path, checkout.files)),
        recent_files=tuple(sorted(map(format_path, recent))),
        unknown_commits=count - available,
    )


def check_paths(settings: Settings, facts: CheckoutFacts) -> None:
    """Raise ``E_CONFIG`` if ``paths`` and ``exclude_paths`` leave no file."""
    if facts.files and not any(is_in_scope(path, settings) for path in facts.files):
        keys = [key for key in ("paths", "exclude_paths") if getattr(settings, key)]
        sources = ", ".join(f"{key} ({settings.find_source(key)})" for key in keys)
        raise build_config_error(
            f"{sources}: none of the repository's {len(facts.files)} files is left to look at: "
            "correct the patterns, which are relative to its root"
        )


def deepen_facts(
    facts: CheckoutFacts, git: Git, source: RepositoryPaths, server: GitServer, count: int
) -> CheckoutFacts:
    """The facts with the files of the last ``count`` commits, which are fetched into a temporary
    repository; unchanged if the server refuses."""
    with tempfile.TemporaryDirectory(prefix="history-", dir=git.env["HOME"]) as folder:
        repository = create_private_repository(git, Path(folder) / "repository.git", source)
        # One more: git finds a commit's files by comparison with its parent.
        if not fetch_ref(repository, server, facts.base_sha, count + 1).ok:
            return facts
        recent = list_recent_files(git, repository.folder, count, facts.base_sha)
        available = count_recent_commits(git, repository.folder, count, facts.base_sha)
        # Git deletes this file once the history is complete (gitrepository-layout(5), shallow).
        shallow = (repository.folder / "shallow").exists()
    return replace(
        facts,
        recent_files=tuple(sorted(map(format_path, recent))),
        unknown_commits=count - available if shallow else 0,
    )


def _resolve_target_branch(settings: Settings, job: JobFacts, git_dir: Path) -> str:
    """The branch to work on. Raises ``E_CONFIG`` for a CI job that runs on another branch."""
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


# --- the plan -------------------------------------------------------------------------------------


MOST_UNENFORCED = 1_000
"""Recent files in a plan that tells Analyze about them but does not refuse them. There may be half
a million, of which a prompt shows some hundred."""


def make_plan(
    settings: Settings,
    job: JobFacts,
    facts: CheckoutFacts,
    project: Project | None,
    memory: Memory,
    verify_commands: tuple[str, ...],
) -> Plan:
    """Decide what the night tries, and within which limits. Without a token, ``project`` is None
    and the plan lists what is unknown. ``verify_commands`` will prove a change.

    Raises :class:`NightshiftError` if GitLab refuses the token.
    """
    day = resolve_run_day(job.pipeline_created_at, settings.timezone, datetime.now(UTC))
    visibility = job.visibility or (project.facts.visibility if project else "")
    return Plan(
        run_id=job.run_id,
        date=f"{day:%A} {day}",
        base_sha=facts.base_sha,
        target_branch=facts.target_branch,
        task=settings.task or "",
        **_choose_categories(settings, memory, day, public=visibility == "public"),
        open_merge_requests=memory.open,
        rejected_ideas=memory.rejected,
        merged_ideas=memory.merged,
        open_elsewhere=memory.others,
        notes=_describe_memory(memory),
        unknown=memory.unknown,
        verify_commands=verify_commands,
        max_diff_lines=settings.max_diff_lines,
        max_budget_usd=settings.max_budget_usd,
        max_tokens=settings.max_tokens,
    )


def _choose_categories(
    settings: Settings, memory: Memory, day: date, *, public: bool
) -> dict[str, Any]:
    """The fields of a plan that say which categories are tried, which are not, and why."""
    scheduled = resolve_category(settings, day)
    order = order_categories(scheduled)
    left_out = find_left_out(order, settings, public=public, memory=memory, day=day)
    left_out_names = {each.category for each in left_out}
    return {
        "scheduled": scheduled,
        "categories": tuple(name for name in order if name not in left_out_names),
        "left_out": left_out,
        "skip": find_skip_reason(settings, day, order, left_out, memory),
        "pausing": tuple(each.iid for each in find_blockers(settings, memory, day)),
    }


def add_recent_files(
    plan: Plan, settings: Settings, facts: CheckoutFacts, notes: tuple[str, ...]
) -> Plan:
    """The plan with the recent files, with these notes, and with notes on an incomplete history."""
    enforced = facts.recent_files_enforced
    return replace(
        plan,
        recent_files=facts.recent_files if enforced else facts.recent_files[:MOST_UNENFORCED],
        recent_files_enforced=enforced,
        notes=(*plan.notes, *notes, *_build_notes(settings, facts)),
    )


def read_earlier_nights(settings: Settings, project: Project | None) -> Memory:
    """The merge requests of earlier nights; unknown without a token (``project`` is None)."""
    if project is None:
        return Memory(unknown=("earlier and open merge requests (no GITLAB_TOKEN)",))
    labels = (NIGHT_LABEL,) if settings.labels is None else settings.labels
    return project.read_memory(settings.branch_prefix, labels[0] if labels else "")


def _describe_memory(memory: Memory) -> tuple[str, ...]:
    if not memory.rejected:
        return ()
    ideas = count_words(len(memory.rejected), "idea")
    return (f"{ideas} from earlier nights were closed without a merge and are not proposed again.",)


def _build_notes(settings: Settings, facts: CheckoutFacts) -> tuple[str, ...]:
    notes: list[str] = []
    if not facts.recent_files_enforced:
        notes.append(
            f"The last {settings.avoid_recent_commits} commits touched more than half of the "
            "files: these are told to Analyze, but not refused."
        )
    if facts.unknown_commits:
        known = settings.avoid_recent_commits - facts.unknown_commits
        notes.append(
            f"avoid_recent_commits: the history here has {known} of the last "
            f"{settings.avoid_recent_commits} commits; files touched by older ones are unknown "
            "and may be changed again: raise GIT_DEPTH"
        )
    return tuple(notes)
