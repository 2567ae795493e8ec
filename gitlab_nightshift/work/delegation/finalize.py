"""Finalize: what is kept, where it is put, and the one result."""

import shutil
from pathlib import Path

from gitlab_nightshift.errors import Code
from gitlab_nightshift.events import ArtifactWritten, now_s, redacted
from gitlab_nightshift.host.logs import LARGE, reading, stored
from gitlab_nightshift.host.signals import shield
from gitlab_nightshift.records import write_record
from gitlab_nightshift.records.delegation import (
    Artifacts,
    DelegationResult,
    Diagnostics,
    DiffStats,
    GitState,
    TestResult,
)
from gitlab_nightshift.report.files import move_logs
from gitlab_nightshift.work.bundling import bundle_of, told
from gitlab_nightshift.work.delegation.desk import Desk, Known
from gitlab_nightshift.work.delegation.phases import Phase
from gitlab_nightshift.work.delegation.task import TEST_LOG

LONGEST = 4_000
"""Characters of a text of the result."""
Failure = tuple[Code, str] | None


def finalized(desk: Desk, known: Known, failure: Failure) -> DelegationResult:
    """The result, with everything that is kept in its place."""
    with shield():
        desk.phases.enter(Phase.FINALIZE)
        final = _final_folder(desk, known)
        artifacts = _kept(desk, known, final, failure) if final else Artifacts()
        result = redacted(_result(desk, known, failure, artifacts), desk.redact)
        desk.phases.leave()
        if final:
            write_record(desk.results / "result.json", result)
            final.parent.mkdir(exist_ok=True)
            shutil.copytree(desk.results, final, symlinks=True)
        return result


def _final_folder(desk: Desk, known: Known) -> Path | None:
    if known.output_dir is None:
        return None
    parent, name = desk.folder / known.output_dir, f"delegate-{desk.job.run_id}"
    names = [name, *(f"{name}-{number}" for number in range(2, 1000))]
    return next((parent / each for each in names if not (parent / each).exists()), None)


# --- what is kept -----------------------------------------------------------------------------


def _kept(desk: Desk, known: Known, final: Path, failure: Failure) -> Artifacts:
    test_log = _test_log(desk)
    move_logs(desk.logs.folder, desk.results / "logs")
    names = {
        "diff_bundle": _bundle(desk, known),
        "patch_file": _patch(desk, known, failure),
        "test_log": _log(desk, test_log),
        "raw_stdout": _log(desk, _last_bead(desk, known, ".out")),
        "raw_stderr": _log(desk, _last_bead(desk, known, ".err")),
    }
    paths = {kind: str(final / name) for kind, name in names.items() if name}
    for kind, path in paths.items():
        desk.emit(ArtifactWritten(kind, path))
    return Artifacts(**paths)


def _bundle(desk: Desk, known: Known) -> str:
    ending, ledger, plan = known.ending, known.ledger, known.plan
    if not ending or not ending.captured or not ledger or not plan:
        return ""
    bundle = told(bundle_of(plan, ending, ledger, now_s() - desk.began), desk.redact)
    folder = desk.results / "bundle"
    folder.mkdir()
    write_record(folder / "bundle.json", bundle)
    return "bundle"


def _patch(desk: Desk, known: Known, failure: Failure) -> str:
    """The proven change; of a failed one the last attempt's, under a name that says so."""
    if known.ending and known.ending.captured:
        (desk.results / "bundle/change.patch").write_bytes(known.ending.captured.patch)
        return "bundle/change.patch"
    if failure and desk.trail.change and desk.trail.change.patch:
        (desk.results / "failed.patch").write_bytes(desk.trail.change.patch)
        return "failed.patch"
    return ""


def _test_log(desk: Desk) -> str:
    """Both outputs of the last run of the test, in one file."""
    runs = list(desk.logs.folder.glob(f"{TEST_LOG}*.out*"))
    if not runs:
        return ""
    last = max(runs, key=lambda path: path.stat().st_mtime_ns).name.partition(".")[0]
    with desk.logs.opened("test.log") as (log,):
        for kind in ("out", "err"):
            with reading(desk.logs.path(f"{last}.{kind}")) as file:
                while part := file.read(LARGE):
                    log.write(part)
    return "test.log"


def _last_bead(desk: Desk, known: Known, suffix: str) -> str:
    """The last agent that changes files, else the last of all."""
    results = known.ledger.results if known.ledger else []
    changing = [each for each in results if each.bead == "implement"] or results
    logs = changing[-1].logs if changing else ()
    names = (Path(name).name.removesuffix(".gz") for name in logs)
    return next((name for name in names if name.endswith(suffix)), "")


def _log(desk: Desk, name: str) -> str:
    """Where a log is now: compressed where it is large; "" where there is none."""
    path = stored(desk.results / "logs" / name)
    return f"logs/{path.name}" if name and path.exists() else ""


# --- the result ---------------------------------------------------------------------------------


def _result(desk: Desk, known: Known, failure: Failure, artifacts: Artifacts) -> DelegationResult:
    code, why = failure or (None, "")
    error, truncated = cut(desk.redact(why))
    change = known.ending.captured.summary() if known.ending and known.ending.captured else None
    here = change if change and (not failure or known.left) else None
    return DelegationResult(
        ok=failure is None,
        provider_used=known.chosen.used if known.chosen else None,
        model_used=known.chosen.model if known.chosen else None,
        summary=_summary(desk, known, failure),
        files_changed=here.files if here else (),
        diff_stats=DiffStats(here.added, here.deleted, len(here.files)) if here else DiffStats(),
        test_result=_tested(desk),
        git=GitState(known.base, known.branch, known.commit, _dirty(known)),
        rollback_performed=_rolled_back(desk, known, failure),
        artifacts=artifacts,
        diagnostics=Diagnostics(
            error_code=code.value if code else None,
            exit_code=desk.trail.exit_code,
            timeout=code is Code.TIMEOUT,
            parse_error=code is Code.PARSE_ERROR,
            truncated=truncated,
        ),
        error=error or None,
    )


def cut(text: str) -> tuple[str, bool]:
    """A text as the result holds it, and whether something of it is missing there."""
    return (text, False) if len(text) <= LONGEST else (f"{text[: LONGEST - 1]}…", True)


def _tested(desk: Desk) -> TestResult:
    if not desk.trail.tests:
        return "skipped"
    return "passed" if desk.trail.tests[-1].ok else "failed"


def _dirty(known: Known) -> bool:
    return known.laid or known.left or known.local


def _rolled_back(desk: Desk, known: Known, failure: Failure) -> bool:
    """An agent was at work, it failed, and nothing of it is left."""
    stopped = failure is not None and failure[0] in (Code.INTERRUPTED, Code.TERMINATED)
    touched = desk.trail.changed or (stopped and desk.trail.began)
    return failure is not None and touched and not known.left and not known.laid


def _summary(desk: Desk, known: Known, failure: Failure) -> str:
    if failure:
        undone = "; what was changed is put back" if _rolled_back(desk, known, failure) else ""
        return f"the task was not done{undone}"
    if known.ending is None or known.ending.captured is None:
        return "dry run: all that can be known beforehand is in order; nothing was done"
    change = known.ending.captured.summary()
    count = len(change.files)
    size = f"{count} file{'s'[: count != 1]} changed, +{change.added} -{change.deleted}"
    tested = {"passed": "; the test passed", "failed": "", "skipped": "; no test was asked for"}
    return f"{size}{tested[_tested(desk)]}; {_where(known)}"


def _where(known: Known) -> str:
    if known.commit:
        return f"one commit on {known.branch}"
    return "in the checkout, not committed" if known.laid else "proposed as a patch"
