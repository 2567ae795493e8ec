"""A delegation: what is asked for, and what comes back (contract, "Delegation").

The payload's defaults are those of the contract; the result's ``None`` is "there is none".
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le, MaxLen, MinLen

STRICT = {"extra": "forbid", "strict": True, "use_attribute_docstrings": True}
LONGEST_PROMPT = 20_000
"""Characters; a longer one is a document, not a task."""

Name = Annotated[str, MinLen(1), MaxLen(200)]
Place = Annotated[str, MinLen(1), MaxLen(4096)]
Word = Annotated[str, MaxLen(1000)]
RepoType = Literal["local_path", "git_url", "workspace_id"]
CheckoutMode = Literal["worktree", "copy", "in_place"]
DependencyPolicy = Literal["lockfile_only", "allow_install", "deny_install"]
ProviderUsed = Literal["codex", "claude_code", "patch_fallback"]
TestResult = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True)
class Repo:
    """Where the repository is."""

    __pydantic_config__: ClassVar = STRICT

    type: RepoType = "local_path"
    """`local_path`: the top of a checkout; `git_url`: https, no credentials; `workspace_id`: the
    name of a checkout below `NIGHTSHIFT_WORKSPACES`."""
    value: Place = "."
    """The path, the URL or the name."""


@dataclass(frozen=True)
class Workspace:
    """Where in the repository, from which commit, and in which kind of checkout."""

    __pydantic_config__: ClassVar = STRICT

    workspace_subdir: Annotated[str, MaxLen(4096)] = ""
    """The only folder in which files may change; empty is everywhere."""
    base_ref: Annotated[str, MaxLen(255)] = ""
    """A commit, branch or tag; empty is the checked-out commit."""
    branch_name: Annotated[str, MaxLen(200)] = ""
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
    """What may be done, for how long, and what it is held against."""

    __pydantic_config__: ClassVar = STRICT

    apply_changes: bool = True
    """False: the change is only proposed, as a patch; nothing is committed."""
    dry_run: bool = False
    """True: stop after Plan; nothing is spent, no agent runs."""
    test_command_id: Annotated[str, MaxLen(200)] | None = None
    """A test of `policy.test_commands` that the change has to pass."""
    test_args: Annotated[tuple[Word, ...], MaxLen(100)] = ()
    """Further arguments, each from that test's own list."""
    max_runtime_s: Annotated[int, Ge(1), Le(86_400)] = 600
    """Seconds for the whole delegation."""
    network: Literal["off", "on"] = "off"
    """`on`: the hosts of `policy.egress_hosts`, where the network gate lets them."""
    dependency_policy: DependencyPolicy = "lockfile_only"
    """What may be installed, and whether manifests and lock files may change."""
    allow_fallback: bool = False
    """True: the patch provider, where the chosen one is unavailable or denied."""


@dataclass(frozen=True)
class Debug:
    """For the profile `development` only."""

    __pydantic_config__: ClassVar = STRICT

    codex_command: Annotated[tuple[Word, ...], MaxLen(50)] = ()
    """The program that is started instead of codex, with its first arguments."""


@dataclass(frozen=True)
class Payload:
    """What a delegation asks for."""

    __pydantic_config__: ClassVar = STRICT

    task_prompt: Annotated[str, MinLen(1), MaxLen(LONGEST_PROMPT)]
    """The task, in words."""
    provider: Literal["auto", "codex", "claude_code"] = "auto"
    """The agent; `auto`: `policy.providers`, `agent`, else codex, else claude_code."""
    model: Name | None = None
    """A full model id; default: the settings' model of each bead."""
    repo: Repo = Repo()
    workspace: Workspace = Workspace()
    execution: Execution = Execution()
    debug: Debug = Debug()


# --- the result -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class DiffStats:
    """Lines added and deleted, files touched."""

    added: int = 0
    deleted: int = 0
    files: int = 0


@dataclass(frozen=True)
class GitState:
    """``base_ref`` is the full id of the commit that the work started from; ``dirty``: changes that
    are not committed are left in, or were under, the workspace."""

    base_ref: str | None = None
    branch: str | None = None
    commit_sha: str | None = None
    dirty: bool = False


@dataclass(frozen=True)
class Artifacts:
    """Absolute paths. ``diff_bundle`` is a folder that ``nightshift publish`` takes; large logs are
    gzipped, which their names tell."""

    diff_bundle: str | None = None
    patch_file: str | None = None
    test_log: str | None = None
    raw_stdout: str | None = None
    raw_stderr: str | None = None


@dataclass(frozen=True)
class Diagnostics:
    """``exit_code`` is that of the last agent process, negative for a signal; ``truncated``: a text
    of the result is cut, the whole is on disk."""

    error_code: str | None = None
    exit_code: int | None = None
    timeout: bool = False
    parse_error: bool = False
    truncated: bool = False


@dataclass(frozen=True)
class DelegationResult:
    """What came of a delegation: the one JSON object on stdout."""

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
