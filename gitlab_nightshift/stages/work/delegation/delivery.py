"""Package and Finalize: a proven change becomes a commit on a branch of its own, or files in the
checkout; then the artifacts and the one result are sent."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gitlab_nightshift.errors import CANCELLATION_CODES, Code, NightshiftError, build_config_error
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.delegation_records import (
    LONGEST_RESULT_TEXT,
    Artifacts,
    DelegationResult,
    Diagnostics,
    DiffStats,
    GitState,
    ProviderUsed,
    TestResult,
    WorkReport,
    cut_text,
)
from gitlab_nightshift.records.events import ArtifactWritten
from gitlab_nightshift.records.notary_records import NotaryRecord
from gitlab_nightshift.records.products import Bundle
from gitlab_nightshift.records.storage import to_json
from gitlab_nightshift.records.usage import Usage, format_usd
from gitlab_nightshift.repository import changed_files
from gitlab_nightshift.repository.apply_change import apply_captured_change
from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.repository.delegated_repository import DelegationSource, lock_checkout
from gitlab_nightshift.repository.git import CommitIdentity, GitError, read_identity
from gitlab_nightshift.repository.private_repository import Repository, commit_tree, list_diff_files
from gitlab_nightshift.repository.tree_objects import resolve_tree
from gitlab_nightshift.repository.tree_snapshot import scan
from gitlab_nightshift.stages.work.delegation.delegation_context import (
    TEST_LOG_PREFIX,
    DelegationContext,
    Failure,
    Phase,
)
from gitlab_nightshift.system.raw_logs import (
    GZIP_MEMBER_BYTES,
    OMISSION_MARK,
    find_stored_log,
    open_log,
)
from gitlab_nightshift.system.signals import defer_signals
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import count_words, make_printable
from gitlab_nightshift.wire.channel import OutputChannel


@dataclass(frozen=True)
class RebasedChange:
    """The change, applied from its patch to the caller's base: what is committed or written."""

    repository: Repository
    base: str
    captured: CapturedChange


# --- a commit -----------------------------------------------------------------------------------


def find_author(source: DelegationSource, job: JobFacts) -> CommitIdentity:
    """The commit's author: this machine's git identity, else the pipeline's user.

    Raises NightshiftError ``E_CONFIG`` if there is neither.
    """
    configured = read_identity(source.machine_git, source.top)
    author = configured or CommitIdentity(job.user_name, job.user_email)
    if not author.name or not author.email:
        raise build_config_error(
            "no name and e-mail for the commit: set git's user.name and user.email on this machine"
        )
    return author


def commit(
    source: DelegationSource,
    rebased: RebasedChange,
    branch: str,
    run_id: str,
    author: CommitIdentity,
) -> str:
    """Make one commit on a new branch of the caller's repository; no hook is run, nothing is
    pushed. Returns its id. Raises NightshiftError ``E_PUBLISH`` if the repository rejects it."""
    commit_id = commit_tree(
        rebased.repository,
        rebased.captured.tree_id,
        parent=rebased.base,
        message=f"nightshift: {run_id}\n".encode(),
        author=author,
        committer=author,
        date=f"{datetime.now(UTC).timestamp():.0f} +0000",
    )
    # Through a pack, as the caller's repository lacks this one's new objects; ^ leaves out those
    # that it has (git-pack-objects(1), --revs).
    revisions = f"{commit_id}\n^{rebased.base}\n".encode()
    pack = rebased.repository.run("pack-objects", "--revs", "--stdout", "-q", stdin=revisions)
    committer = {"GIT_COMMITTER_NAME": author.name, "GIT_COMMITTER_EMAIL": author.email}
    # An old value of zeros makes update-ref fail if the branch exists (git-update-ref(1)).
    create = ("update-ref", f"refs/heads/{branch}", commit_id, "0" * len(commit_id))
    try:
        source.git.run("unpack-objects", "-q", cwd=source.top, stdin=pack)
        source.git.run(*create, cwd=source.top, env=committer)
    except GitError as error:
        text = f"branch {branch} cannot be created in {source.top}: {error}; the bundle is kept"
        raise NightshiftError(Code.PUBLISH, text) from None
    return commit_id


# --- files --------------------------------------------------------------------------------------


def apply_in_place(source: DelegationSource, run_id: str, rebased: RebasedChange) -> None:
    """Write the change into the caller's checkout, uncommitted.

    Raises NightshiftError: ``E_WORKSPACE_DIRTY`` if somebody changed the checkout in the meantime;
    ``E_APPLY_FAILED``, after the files were restored.
    """
    top, repository, change = source.top, rebased.repository, rebased.captured
    with lock_checkout(source, run_id):
        if changed_files.list_changed_files(source.machine_git, top):
            text = f"{top} was changed in the meantime: the change is only in the bundle"
            raise NightshiftError(Code.WORKSPACE_DIRTY, text)
        before = scan(top)
        try:
            apply_captured_change(top, before, repository, change)
        except (OSError, GitError) as error:
            old = resolve_tree(repository, rebased.base)
            undo = CapturedChange(old, list_diff_files(repository, change.tree_id, old), b"")
            apply_captured_change(top, before, repository, undo)
            text = f"the change cannot be written into {top}: {error}"
            raise NightshiftError(Code.APPLY_FAILED, text) from None


def apply_to_workspace(path: Path, rebased: RebasedChange) -> None:
    """Write the change into a workspace, which nobody else uses. Raises OSError, GitError."""
    apply_captured_change(path, scan(path), rebased.repository, rebased.captured)


@dataclass
class DelegationState:
    """What the phases found out and did, for the result.

    ``output_folder`` is the folder of the results. ``work_report`` is that of the work process;
    ``killed``: it ended without one. ``bundle`` and ``captured`` are the proven change;
    ``applied``: it is in the caller's checkout, ``left_in_workspace``: in a workspace that is kept.
    ``dirty``: the caller's checkout has uncommitted changes. ``usage`` is the gateway's count,
    ``notary`` the record of the commands run once more.
    """

    output_folder: Path
    base: str | None
    provider_used: ProviderUsed | None
    model: str | None
    work_report: WorkReport | None = None
    killed: bool = False
    bundle: Bundle | None = None
    captured: CapturedChange | None = None
    branch: str | None = None
    commit: str | None = None
    applied: bool = False
    left_in_workspace: bool = False
    dirty: bool = False
    usage: Usage | None = None
    notary: NotaryRecord | None = None


def finalize(
    context: DelegationContext, state: DelegationState, failure: Failure, results: Path
) -> None:
    """Send the artifacts and the result. ``results`` is the folder of the records stored so far."""
    with defer_signals():
        context.phases.enter(Phase.FINALIZE)
        if state.bundle and state.captured:
            context.emit.send_record("bundle/change.patch", state.captured.patch)
            context.emit.send_record("bundle/bundle.json", to_json(state.bundle).encode())
        artifacts = _collect_artifacts(context, state, failure, results)
        context.phases.leave()
        result = _build_result(context, state, failure, artifacts)
        context.emit.send_record("result.json", to_json(result).encode())
        context.emit.close()


# --- artifacts ----------------------------------------------------------------------------------

_LOG_NAME = compile_lazily(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)


def _collect_artifacts(
    context: DelegationContext, state: DelegationState, failure: Failure, results: Path
) -> Artifacts:
    logs = context.private / "logs"
    out, err = state.work_report.logs if state.work_report and state.work_report.logs else ("", "")
    patch = "bundle/change.patch" if state.bundle else ""
    if failure and not patch and (results / "failed.patch").exists():
        patch = "failed.patch"  # the last attempt's change
    names = {
        "diff_bundle": "bundle" if state.bundle else "",
        "patch_file": patch,
        "test_log": _write_test_log(context.emit, logs),
        "raw_stdout": _find_log(logs, out),
        "raw_stderr": _find_log(logs, err),
    }
    paths = {kind: str(state.output_folder / name) for kind, name in names.items() if name}
    for kind, path in paths.items():
        context.emit(ArtifactWritten(kind, path))
    return Artifacts(**paths)


def _write_test_log(outlet: OutputChannel, logs: Path) -> str:
    """Write the output of the test's last run into one log. Returns its name, "" without a run."""
    runs = list(logs.glob(f"*{TEST_LOG_PREFIX}*.out*"))
    if not runs:
        return ""
    last = max(runs, key=lambda path: path.stat().st_mtime_ns).name.partition(".")[0]
    number = outlet.open_logs("test.txt")
    for kind in ("out", "err"):
        with open_log(find_stored_log(logs / f"{last}.{kind}")) as file:
            while part := file.read(GZIP_MEMBER_BYTES):
                outlet.log(number, part)
    outlet.close_logs(number)
    return "logs/test.txt"


def _find_log(logs: Path, name: str) -> str:
    """The path of a log in the results by its plain name, "" if it does not exist."""
    # Work, which reports the name, is not trusted.
    exists = _LOG_NAME.fullmatch(name) and find_stored_log(logs / name).exists()
    return f"logs/{name}" if exists else ""


# --- the result ---------------------------------------------------------------------------------


def _build_result(
    context: DelegationContext, state: DelegationState, failure: Failure, artifacts: Artifacts
) -> DelegationResult:
    code, why = failure or (None, "")
    error, error_cut = cut_text(why)
    summary, summary_cut = _format_summary(context, state, failure)
    logs = context.private / "logs"
    raw = (logs / Path(path).name for path in (artifacts.raw_stdout, artifacts.raw_stderr) if path)
    logs_cut = any(map(_is_log_cut, (*raw, *logs.glob(f"*{TEST_LOG_PREFIX}*"))))
    size = state.captured.size if state.captured else None
    if failure and not state.left_in_workspace:
        size = None
    return DelegationResult(
        ok=failure is None,
        provider_used=state.provider_used,
        model_used=state.model,
        summary=summary,
        files_changed=size.files if size else (),
        diff_stats=DiffStats(size.added, size.deleted, len(size.files)) if size else DiffStats(),
        test_result=_find_test_result(state),
        git=GitState(state.base, state.branch, state.commit, state.dirty),
        rollback_performed=_was_rolled_back(state, failure),
        artifacts=artifacts,
        diagnostics=Diagnostics(
            error_code=code.value if code else None,
            exit_code=state.work_report.exit_code if state.work_report else None,
            timeout=code is Code.TIMEOUT,
            parse_error=code is Code.PARSE_ERROR,
            truncated=error_cut or summary_cut or logs_cut,
        ),
        error=error or None,
    )


def _find_test_result(state: DelegationState) -> TestResult:
    """The requested test's result: the notary's, if it ran the test, else the work process's."""
    if state.notary and state.notary.commands:
        return "passed" if all(each.accepted for each in state.notary.commands) else "failed"
    return state.work_report.test_result if state.work_report and not state.notary else "skipped"


def _was_rolled_back(state: DelegationState, failure: Failure) -> bool:
    """True if an agent had started and failed, and its changes were undone."""
    if failure is None or state.left_in_workspace or state.applied:
        return False
    if state.work_report is None:
        return state.killed
    stopped = failure[0] in CANCELLATION_CODES
    return state.work_report.changed or (stopped and state.work_report.began)


def _is_log_cut(path: Path) -> bool:
    """True if a log says that part of it was left out."""
    end = b""
    with open_log(path) as file:
        while part := file.read(GZIP_MEMBER_BYTES):
            if OMISSION_MARK in end + part:
                return True
            end = part[-len(OMISSION_MARK) :]  # the note may lie across two parts
    return False


def _format_summary(
    context: DelegationContext, state: DelegationState, failure: Failure
) -> tuple[str, bool]:
    """The agent's own words, then the figures; also True if the words were cut."""
    figures = "; ".join(filter(None, _list_figures(context, state, failure)))
    said = state.work_report.said if state.work_report else ""
    most = LONGEST_RESULT_TEXT - len(figures) - 1
    words, shortened = cut_text(make_printable(said, keep="\n").strip(), most)
    return f"{words}\n{figures}".lstrip(), shortened


def _list_figures(
    context: DelegationContext, state: DelegationState, failure: Failure
) -> Iterator[str]:
    if failure or state.captured is None:
        yield "the task was not done"
        yield "the changes were undone" if _was_rolled_back(state, failure) else ""
    else:
        change = state.captured.size
        count = len(change.files)
        yield f"{count_words(count, 'file')} changed, {change.delta}"
        texts = {"passed": "the test passed", "failed": "", "skipped": "no test was requested"}
        yield texts[_find_test_result(state)]
        yield _describe_delivery(context, state)
    if usage := state.usage:
        yield f"cost {format_usd(usage.cost_usd, usage.bound)}"


def _describe_delivery(context: DelegationContext, state: DelegationState) -> str:
    if state.commit:
        return f"one commit on {state.branch}"
    if state.applied:
        return "in the checkout, not committed"
    dry = context.payload.execution.dry_run
    return "dry run, proposed as a patch" if dry else "proposed as a patch"
