"""Finalize: keep the artifacts and send the one result."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import CANCELLED, Code
from gitlab_nightshift.records.bead_results import Usage
from gitlab_nightshift.records.delegation_records import (
    LONGEST,
    Artifacts,
    DelegationResult,
    Diagnostics,
    DiffStats,
    GitState,
    ProviderUsed,
    TestResult,
    WorkReport,
    cut,
)
from gitlab_nightshift.records.events import ArtifactWritten
from gitlab_nightshift.records.notary_records import NotaryRecord
from gitlab_nightshift.records.products import Bundle
from gitlab_nightshift.records.storage import to_json
from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.stages.work.delegation.delegation_context import DelegationContext, Failure
from gitlab_nightshift.stages.work.delegation.phases import TEST_LOG, Phase
from gitlab_nightshift.system.raw_logs import LARGE, LEFT_OUT, find_stored_log, open_log
from gitlab_nightshift.system.signals import defer_signals
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.wire.channel import OutputChannel

_NAME = compile_lazily(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)


@dataclass
class DelegationState:
    """What the phases have found out and done; ``final`` is the folder for the results.

    ``killed``: the work ended without an answer. ``bundle`` and ``captured`` are the proven change;
    ``applied``: it is in the caller's checkout, ``left``: in the workspace that is kept; ``dirty``:
    something in the caller's checkout is not committed. ``usage`` is what the gateway has counted,
    ``notary`` what was seen of the change.
    """

    final: Path
    base: str | None
    used: ProviderUsed | None
    model: str | None
    worked: WorkReport | None = None
    killed: bool = False
    bundle: Bundle | None = None
    captured: CapturedChange | None = None
    branch: str | None = None
    commit: str | None = None
    applied: bool = False
    left: bool = False
    dirty: bool = False
    usage: Usage | None = None
    notary: NotaryRecord | None = None


def finalize(
    context: DelegationContext, known: DelegationState, failure: Failure, results: Path
) -> None:
    """Send the artifacts and the result. ``results`` is the folder of those kept so far."""
    with defer_signals():
        context.phases.enter(Phase.FINALIZE)
        if known.bundle and known.captured:
            context.emit.send_record("bundle/change.patch", known.captured.patch)
            context.emit.send_record("bundle/bundle.json", to_json(known.bundle).encode())
        artifacts = _collect_artifacts(context, known, failure, results)
        context.phases.leave()
        result = _build_result(context, known, failure, artifacts)
        context.emit.send_record("result.json", to_json(result).encode())
        context.emit.close()


# --- artifacts --------------------------------------------------------------------------------


def _collect_artifacts(
    context: DelegationContext, known: DelegationState, failure: Failure, results: Path
) -> Artifacts:
    logs = context.private / "logs"
    out, err = known.worked.logs if known.worked and known.worked.logs else ("", "")
    names = {
        "diff_bundle": "bundle" if known.bundle else "",
        "patch_file": _find_patch(known, failure, results),
        "test_log": _write_test_log(context.emit, logs),
        "raw_stdout": _find_log(logs, out),
        "raw_stderr": _find_log(logs, err),
    }
    paths = {kind: str(known.final / name) for kind, name in names.items() if name}
    for kind, path in paths.items():
        context.emit(ArtifactWritten(kind, path))
    return Artifacts(**paths)


def _find_patch(known: DelegationState, failure: Failure, results: Path) -> str:
    """The proven change; of a failed one the last attempt's, under a name that says so."""
    if known.bundle:
        return "bundle/change.patch"
    return "failed.patch" if failure and (results / "failed.patch").exists() else ""


def _write_test_log(outlet: OutputChannel, logs: Path) -> str:
    """Both outputs of the last run of the test, in one file."""
    runs = list(logs.glob(f"*{TEST_LOG}*.out*"))
    if not runs:
        return ""
    last = max(runs, key=lambda path: path.stat().st_mtime_ns).name.partition(".")[0]
    number = outlet.open_logs("test.txt")
    for kind in ("out", "err"):
        with open_log(find_stored_log(logs / f"{last}.{kind}")) as file:
            while part := file.read(LARGE):
                outlet.log(number, part)
    outlet.close_logs(number)
    return "logs/test.txt"


def _find_log(logs: Path, name: str) -> str:
    """A log by its plain name, "" where there is none; the redactor may have compressed it."""
    there = _NAME.fullmatch(name) and find_stored_log(logs / name).exists()
    return f"logs/{name}" if there else ""


# --- the result ---------------------------------------------------------------------------------


def _build_result(
    context: DelegationContext, known: DelegationState, failure: Failure, artifacts: Artifacts
) -> DelegationResult:
    code, why = failure or (None, "")
    error, error_cut = cut(why)
    summary, summary_cut = _format_summary(context, known, failure)
    logs = context.private / "logs"
    raw = (logs / Path(path).name for path in (artifacts.raw_stdout, artifacts.raw_stderr) if path)
    logs_cut = any(map(_is_log_cut, (*raw, *logs.glob(f"*{TEST_LOG}*"))))
    change = known.captured.build_summary() if known.captured else None
    here = change if change and (not failure or known.left) else None
    return DelegationResult(
        ok=failure is None,
        provider_used=known.used,
        model_used=known.model,
        summary=summary,
        files_changed=here.files if here else (),
        diff_stats=DiffStats(here.added, here.deleted, len(here.files)) if here else DiffStats(),
        test_result=_find_test_result(known),
        git=GitState(known.base, known.branch, known.commit, known.dirty),
        rollback_performed=_rolled_back(known, failure),
        artifacts=artifacts,
        diagnostics=Diagnostics(
            error_code=code.value if code else None,
            exit_code=known.worked.exit_code if known.worked else None,
            timeout=code is Code.TIMEOUT,
            parse_error=code is Code.PARSE_ERROR,
            truncated=error_cut or summary_cut or logs_cut,
        ),
        error=error or None,
    )


def _find_test_result(known: DelegationState) -> TestResult:
    """How the test ended that was asked for: on a change that was proven, when a notary ran it."""
    if known.notary and known.notary.commands:
        return "passed" if all(each.accepted for each in known.notary.commands) else "failed"
    return known.worked.test_result if known.worked and not known.notary else "skipped"


def _rolled_back(known: DelegationState, failure: Failure) -> bool:
    """True where an agent was at work, it failed, and nothing of it is left."""
    if failure is None or known.left or known.applied:
        return False
    if known.worked is None:
        return known.killed
    stopped = failure[0] in CANCELLED
    return known.worked.changed or (stopped and known.worked.began)


def _is_log_cut(path: Path) -> bool:
    """True where a log says that something is left out: it is read in parts, as it may be large."""
    last = b""
    with open_log(path) as file:
        while part := file.read(LARGE):
            if LEFT_OUT in last + part:
                return True
            last = part[-len(LEFT_OUT) :]
    return False


def _format_summary(
    context: DelegationContext, known: DelegationState, failure: Failure
) -> tuple[str, bool]:
    """What the agent says it did, then the figures; and whether its words are cut."""
    figures = "; ".join(filter(None, _list_figures(context, known, failure)))
    said = known.worked.said if known.worked else ""
    plain = "".join(c if c.isprintable() or c == "\n" else " " for c in said).strip()
    words, shortened = cut(plain, LONGEST - len(figures) - 1)
    return f"{words}\n{figures}".lstrip(), shortened


def _list_figures(
    context: DelegationContext, known: DelegationState, failure: Failure
) -> Iterator[str]:
    if failure or known.captured is None:
        yield "the task was not done"
        yield "what was changed has been put back" if _rolled_back(known, failure) else ""
    else:
        change = known.captured.build_summary()
        count = len(change.files)
        yield f"{count} file{'s'[: count != 1]} changed, +{change.added} -{change.deleted}"
        tested = {"passed": "the test passed", "failed": "", "skipped": "no test was requested"}
        yield tested[_find_test_result(known)]
        yield _describe_place(context, known)
    if usage := known.usage:
        cost = "unknown" if usage.cost_usd is None else f"${usage.cost_usd:.2f}"
        yield f"cost {cost}"


def _describe_place(context: DelegationContext, known: DelegationState) -> str:
    if known.commit:
        return f"one commit on {known.branch}"
    if known.applied:
        return "in the checkout, not committed"
    dry = context.payload.execution.dry_run
    return "dry run, proposed as a patch" if dry else "proposed as a patch"
