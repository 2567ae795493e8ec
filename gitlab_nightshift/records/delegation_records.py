"""The payload and the result of a delegation, whose formats other programs rely on
(docs/delegation.md), and the report of its work process.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Annotated, ClassVar, Literal

from gitlab_nightshift.errors import Code
from gitlab_nightshift.records.codec import Between, Length

PYDANTIC_CONFIG = {"extra": "forbid", "strict": True}
"""Payloads are checked by pydantic, which reports all mistakes; codec.py reports only the first."""
LONGEST_PROMPT, LONGEST_RESULT_TEXT = 20_000, 4_000
"""Characters of a task, and of a text in the result."""

Name = Annotated[str, Length(200, least=1)]
PathOrUrl = Annotated[str, Length(4096, least=1)]
Argument = Annotated[str, Length(1000)]
RepoType = Literal["local_path", "git_url", "workspace_id"]
CheckoutMode = Literal["worktree", "copy", "in_place"]
DependencyPolicy = Literal["lockfile_only", "allow_install", "deny_install"]
ProviderUsed = Literal["codex", "claude_code", "patch_fallback"]
TestResult = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True)
class Repo:
    """The place of the repository."""

    __pydantic_config__: ClassVar = PYDANTIC_CONFIG

    type: RepoType = "local_path"
    """`local_path`: the top of a checkout; `git_url`: https, no credentials; `workspace_id`: the
    name of a checkout below `NIGHTSHIFT_WORKSPACES`."""
    value: PathOrUrl = "."
    """The path, the URL or the name."""


@dataclass(frozen=True)
class WorkspaceOptions:
    """The folder, the commit and the kind of checkout to work in."""

    __pydantic_config__: ClassVar = PYDANTIC_CONFIG

    workspace_subdir: Annotated[str, Length(4096)] = ""
    """The only folder in which files may change; empty is everywhere."""
    base_ref: Annotated[str, Length(255)] = ""
    """A commit, branch or tag; empty is the checked-out commit."""
    branch_name: Annotated[str, Length(200)] = ""
    """The branch that gets the commit; empty is `nightshift/<run_id>`."""
    checkout_mode: CheckoutMode = "worktree"
    """`worktree`: a private checkout of `base_ref`; `copy`: a private copy of the working tree with
    its untracked files; `in_place`: the checkout itself (profile `development`)."""
    clean_before: bool = True
    """Changed tracked files are an error; false: a `copy` starts with them."""
    clean_after: bool = True
    """Put back what a failure left, remove the private checkout; false in `development` only."""


@dataclass(frozen=True)
class Execution:
    """What may be done and for how long, and the test that the change has to pass."""

    __pydantic_config__: ClassVar = PYDANTIC_CONFIG

    apply_changes: bool = True
    """False: the change is only proposed, as a patch; nothing is committed."""
    dry_run: bool = False
    """True: the agent works, and its patch and words come back; the repository stays as it is."""
    test_command_id: Annotated[str, Length(200)] | None = None
    """A test of `policy.test_commands` that the change has to pass."""
    test_args: Annotated[tuple[Argument, ...], Length(100)] = ()
    """Further arguments, each from that test's own list."""
    max_runtime_s: Annotated[int, Between(1, 86_400)] = 600
    """Seconds for the whole delegation."""
    network: Literal["off", "on"] = "off"
    """`on`: the hosts of `policy.egress_hosts`, as far as the network gate allows them."""
    dependency_policy: DependencyPolicy = "lockfile_only"
    """What may be installed, and whether manifests and lock files may change."""
    allow_fallback: bool = False
    """True: use the patch provider if the chosen one is unavailable or denied."""


@dataclass(frozen=True)
class Debug:
    """Options for debugging; only in the profile `development`."""

    __pydantic_config__: ClassVar = PYDANTIC_CONFIG

    codex_command: Annotated[tuple[Argument, ...], Length(50)] = ()
    """The program that is started instead of codex, with its first arguments."""


@dataclass(frozen=True)
class Payload:
    """The request for a delegation."""

    __pydantic_config__: ClassVar = PYDANTIC_CONFIG

    task_prompt: Annotated[str, Length(LONGEST_PROMPT, least=1)]
    """The task, in words."""
    provider: Literal["auto", "codex", "claude_code"] = "auto"
    """The agent; `auto`: `policy.providers`, `agent`, else codex, else claude_code."""
    model: Name | None = None
    """A full model id; default: the settings' model of each bead."""
    repo: Repo = Repo()
    workspace: WorkspaceOptions = WorkspaceOptions()
    execution: Execution = Execution()
    debug: Debug = Debug()


# --- the result -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class DiffStats:
    """The size of a change: lines added and deleted, files touched."""

    added: int = 0
    deleted: int = 0
    files: int = 0


@dataclass(frozen=True)
class GitState:
    """The repository afterwards. ``base_ref`` is the full id of the commit that the work started
    from; ``dirty``: the caller's checkout has uncommitted changes, whoever made them."""

    base_ref: str | None = None
    branch: str | None = None
    commit_sha: str | None = None
    dirty: bool = False


@dataclass(frozen=True)
class Artifacts:
    """Absolute paths of what a delegation left. ``diff_bundle`` is a folder for ``nightshift
    publish``; large logs are gzipped, as their names show."""

    diff_bundle: str | None = None
    patch_file: str | None = None
    test_log: str | None = None
    raw_stdout: str | None = None
    raw_stderr: str | None = None


@dataclass(frozen=True)
class Diagnostics:
    """Why a delegation failed. ``exit_code`` is that of the last agent process, negative for a
    signal; ``truncated``: a text of the result, or a log, was cut."""

    error_code: str | None = None
    exit_code: int | None = None
    timeout: bool = False
    parse_error: bool = False
    truncated: bool = False


@dataclass(frozen=True)
class DelegationResult:
    """The result of a delegation: the one JSON object on stdout."""

    ok: bool
    provider_used: ProviderUsed | None = None
    model_used: str | None = None
    summary: str = ""
    files_changed: tuple[str, ...] = ()
    diff_stats: DiffStats = field(default_factory=DiffStats)
    test_result: TestResult = "skipped"
    git: GitState = field(default_factory=GitState)
    rollback_performed: bool = False
    artifacts: Artifacts = field(default_factory=Artifacts)
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    error: str | None = None


def cut_text(text: str, max_chars: int = LONGEST_RESULT_TEXT) -> tuple[str, bool]:
    """The text cut to ``max_chars``, and whether it was longer."""
    return (text, False) if len(text) <= max_chars else (f"{text[: max_chars - 1]}…", True)


def build_refused_result(code: Code, why: str) -> DelegationResult:
    """The result of a delegation that did nothing."""
    text, truncated = cut_text(why)
    diagnostics = Diagnostics(error_code=code.value, truncated=truncated)
    return DelegationResult(
        ok=False, summary="nothing was done", diagnostics=diagnostics, error=text
    )


def render_refusal(code: Code, why: str) -> str:
    """The result of a delegation that did nothing, as JSON for stdout."""
    return json.dumps(asdict(build_refused_result(code, why)))


# --- between processes ----------------------------------------------------------------------------


@dataclass(frozen=True)
class WorkReport:
    """The final report of the work process.

    ``error_code`` is "" if the bundle has a proven change. ``local``: the work started from
    uncommitted changes; ``began``: an agent was started; ``changed``: the last attempt changed
    files, but failed; ``fall_back``: the agent cannot be used, and the workspace is unchanged.
    ``exit_code`` is that of the last agent process, ``said`` the agent's description of the last
    change; ``logs`` are the names of the agent's logs.
    """

    error_code: Annotated[str, Length(100)]
    reason: Annotated[str, Length(1_000_000)]
    local: bool
    began: bool
    changed: bool
    fall_back: bool
    exit_code: int | None
    test_result: TestResult
    said: Annotated[str, Length(LONGEST_RESULT_TEXT + 1)]
    logs: Annotated[tuple[Annotated[str, Length(200)], ...], Length(2)]
