"""A delegation from its payload to its result: the phases, in order."""

import dataclasses
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import Code, Interrupted, NightshiftError, config_error
from gitlab_nightshift.events import (
    Emit,
    GateApproved,
    GateRequired,
    Note,
    now_s,
    to_all,
)
from gitlab_nightshift.host import git as git_verbs
from gitlab_nightshift.host.private import own_folder
from gitlab_nightshift.host.private_checkout import closed
from gitlab_nightshift.host.sandbox.credential_files import machine_values
from gitlab_nightshift.host.secrecy import close_to_others
from gitlab_nightshift.host.space import is_full_disk, no_space
from gitlab_nightshift.policy import to_approve
from gitlab_nightshift.records import write_record
from gitlab_nightshift.records.delegation import DelegationResult, Diagnostics, Payload
from gitlab_nightshift.redaction import Redactor
from gitlab_nightshift.report.event_file import EventFile
from gitlab_nightshift.settings import read_job, read_secrets
from gitlab_nightshift.work.delegation.choice import FALLBACK, fallback, may_fall_back
from gitlab_nightshift.work.delegation.desk import Desk, Known
from gitlab_nightshift.work.delegation.finalize import cut, finalized
from gitlab_nightshift.work.delegation.package import commit, lay, lay_in_place, rebuild
from gitlab_nightshift.work.delegation.payload import read_payload
from gitlab_nightshift.work.delegation.phases import Phase, Phases, Trail
from gitlab_nightshift.work.delegation.place import work_place
from gitlab_nightshift.work.delegation.prepare import Prepared, prepare
from gitlab_nightshift.work.delegation.source import open_source, tidy
from gitlab_nightshift.work.delegation.task import course_of
from gitlab_nightshift.work.delegation.tools import tools_of
from gitlab_nightshift.work.delegation.workspace import Workspace, open_workspace
from gitlab_nightshift.work.ending import Ending
from gitlab_nightshift.work.ledger import open_ledger
from gitlab_nightshift.work.stage import in_a_room

Sink = Callable[[Redactor], Emit]
_NO_TMPDIR = "/tmp"  # noqa: S108


@dataclass(frozen=True)
class Call:
    """A call from outside: the payload's bytes, the caller's environment and folder; ``log`` makes
    a sink for people."""

    payload: bytes
    env: Mapping[str, str]
    folder: Path
    log: Sink | None = None


def run_delegation(call: Call) -> DelegationResult:
    """Do one task. Never raises: a failure, a signal or a defect is a result with its code."""
    try:
        payload = read_payload(call.payload)
        with _desk(call, payload) as desk:
            known = Known()
            failure = _failure(desk, known)
            return finalized(desk, known, failure)
    except NightshiftError as error:
        return refused(error.code, error.message)
    except Interrupted as stop:
        return refused(stop.code, "stopped by a signal")
    except Exception as error:
        if is_full_disk(error):
            return refused(Code.CONFIG, no_space(call.folder).message)
        return refused(Code.INTERNAL, f"a defect of nightshift: {type(error).__name__}: {error}")


def refused(code: Code, why: str) -> DelegationResult:
    """Before there was anything to keep."""
    text, truncated = cut(why)
    told = Diagnostics(error_code=code.value, truncated=truncated)
    return DelegationResult(ok=False, summary="nothing was done", diagnostics=told, error=text)


@contextmanager
def _desk(call: Call, payload: Payload) -> Iterator[Desk]:
    began = now_s()
    close_to_others()
    folder = call.folder.resolve()
    parent = Path(call.env.get("TMPDIR") or _NO_TMPDIR)
    if not parent.is_dir():
        raise config_error(f"TMPDIR: {parent} is no folder")
    tidy(parent, folder)
    values = (*read_secrets(call.env).values, *machine_values(call.env))
    job, redact = read_job(call.env), Redactor(values)
    with own_folder(parent, folder) as private, tempfile.TemporaryDirectory(dir=private) as results:
        sinks: list[Emit] = [EventFile(Path(results) / "events.jsonl", redact)]
        sinks += [call.log(redact)] if call.log else []
        emit = to_all(sinks)
        yield Desk(
            payload=payload,
            env=call.env,
            folder=folder,
            job=job,
            private=private,
            results=Path(results),
            redact=redact,
            emit=emit,
            phases=Phases(emit),
            trail=Trail(),
            began=began,
        )


def _failure(desk: Desk, known: Known) -> tuple[Code, str] | None:
    """The one function where an exception becomes a result; None where all went well."""
    try:
        with desk.phases.told():
            _phases(desk, known)
    except NightshiftError as error:
        return error.code, error.message
    except Interrupted as stop:
        return stop.code, "stopped by a signal"
    except Exception as error:
        if is_full_disk(error):
            return Code.CONFIG, no_space(desk.private, desk.folder).message
        desk.logs.write("traceback.txt", traceback.format_exc())
        desk.phases.leave(type(error).__name__)
        text = f"a defect of nightshift: {type(error).__name__}; see logs/traceback.txt"
        return Code.INTERNAL, text
    return None


def _phases(desk: Desk, known: Known) -> None:
    payload = desk.payload
    desk.phases.enter(Phase.PREPARE)
    with open_source(payload, desk.folder, desk.env, desk.private, desk.job) as source:
        prepared = prepare(desk, known, source)
        desk.phases.enter(Phase.PLAN)
        write_record(desk.results / "plan.json", prepared.plan)
        if payload.execution.dry_run:
            desk.emit(Note("dry_run: no agent is started"))
            return
        where = (source, payload, prepared.base, desk.private, prepared.settings.output_dir)
        with open_workspace(*where) as workspace:
            known.local = workspace.local
            try:
                _worked(desk, known, prepared, workspace)
                _package(desk, known, prepared, workspace)
            finally:
                if not payload.workspace.clean_after:
                    _keep(desk, known, prepared, workspace)


# --- Apply and Verify -------------------------------------------------------------------------


def _worked(desk: Desk, known: Known, prepared: Prepared, workspace: Workspace) -> None:
    """A proven change in ``known.ending``. Raises NightshiftError with what came instead."""
    try:
        _in_a_room(desk, known, prepared, workspace)
    except NightshiftError as error:
        if error.code is not Code.PROVIDER_UNAVAILABLE or not _may_fall_back(desk, known):
            raise
        if git_verbs.changed_files(prepared.source.machine, workspace.path):
            raise
        known.chosen = fallback(desk.payload, prepared.settings, desk.env, error, desk.emit)
        _in_a_room(desk, known, prepared, workspace)


def _may_fall_back(desk: Desk, known: Known) -> bool:
    fallen = known.chosen is not None and known.chosen.settings.agent == FALLBACK
    return not fallen and may_fall_back(desk.payload, Code.PROVIDER_UNAVAILABLE)


def _in_a_room(desk: Desk, known: Known, prepared: Prepared, workspace: Workspace) -> None:
    assert known.chosen
    desk.phases.enter(Phase.APPLY)
    plan = dataclasses.replace(prepared.plan, base_sha=workspace.base)
    place = work_place(
        prepared.source,
        workspace,
        known.chosen.settings,
        desk.payload.execution,
        desk.job,
        desk.env,
        desk.private,
        desk.left_s(),
        desk.redact,
        desk.emit,
    )
    tools = tools_of(place, desk.payload)
    known.ledger = open_ledger(plan, desk.left_s())
    course = course_of(desk.phases, desk.trail)
    with closed(place.secrets):
        ending = in_a_room(plan, place, tools, known.ledger, course)
    if ending.error_code:
        raise NightshiftError(Code(ending.error_code), ending.reason)
    known.ending = ending


# --- Package ------------------------------------------------------------------------------------


def _package(desk: Desk, known: Known, prepared: Prepared, workspace: Workspace) -> None:
    """Judge what was changed once more, then hand it over."""
    desk.phases.enter(Phase.PACKAGE)
    assert known.ending and known.ending.captured and known.ending.proposal
    captured, proposal = known.ending.captured, known.ending.proposal
    rebuilt = rebuild(
        prepared.source, desk.private, prepared.base, captured, same=not workspace.local
    )
    change = rebuilt.captured.summary()
    known.ending = dataclasses.replace(
        known.ending,
        captured=rebuilt.captured,
        proposal=dataclasses.replace(proposal, change=change),
    )
    _pass_write_gate(desk, known.ending)
    execution = desk.payload.execution
    if not execution.apply_changes or prepared.source.fetched:
        return
    if desk.payload.workspace.checkout_mode == "in_place":
        assert desk.trail.saved
        lay_in_place(prepared.source, desk.job.run_id, rebuilt, desk.trail.saved)
        known.laid = True
        return
    assert prepared.person
    known.commit = commit(
        prepared.source, rebuilt, prepared.branch, desk.job.run_id, prepared.person
    )
    known.branch = prepared.branch


def _pass_write_gate(desk: Desk, ending: Ending) -> None:
    """What git sees of the change, held against the write gate. A start's approval does not cover
    it: nobody could know what would be changed."""
    assert ending.proposal
    gates = ending.proposal.gates
    if asked := to_approve(gates):
        desk.emit(GateRequired("write", asked))
        text = f"an approval is needed: {asked}; the bundle is kept, nothing was committed"
        raise NightshiftError(Code.APPROVAL_REQUIRED, text)
    for each in gates:
        desk.emit(GateApproved("write", f"policy.gates.write; look at it: {each}"))


def _keep(desk: Desk, known: Known, prepared: Prepared, workspace: Workspace) -> None:
    """``clean_after: false``: the change stays where it was made, proven or not."""
    ended = known.ending.captured if known.ending else None
    captured, saved = ended or desk.trail.change, desk.trail.saved
    if saved and captured and captured.files and not known.laid:
        rebuilt = rebuild(prepared.source, desk.private, prepared.base, captured, same=False)
        lay(workspace.path, rebuilt, saved)
        known.left = known.commit is None
    if workspace.path != prepared.source.top:
        shutil.move(workspace.path, desk.results / "workspace")
