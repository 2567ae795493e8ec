"""The last process of a delegation, once every process of work is gone: it checks the change again,
puts it into the caller's repository, and reports the result.

It holds no secret. The patch is parsed by a process that cannot write anywhere
(``repository/bundle_reader.py``); what work says about it is only a claim.
"""

import dataclasses
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.policy.write_gate import describe_approvals
from gitlab_nightshift.records.codec import InvalidRecordError, decode_record, make_record
from gitlab_nightshift.records.delegation_records import Payload, WorkReport
from gitlab_nightshift.records.events import GateApproved, GateRequired, Note
from gitlab_nightshift.records.notary_records import NotaryRecord, find_refusal
from gitlab_nightshift.records.products import Bundle, Outcome
from gitlab_nightshift.records.storage import LARGEST_BUNDLE
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.records.verdicts import GatedFile
from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.repository.changed_files import list_changed_files
from gitlab_nightshift.repository.delegated_repository import DelegationSource, open_source_record
from gitlab_nightshift.repository.git import (
    CommitIdentity,
    GitError,
    RepositoryPaths,
    read_conversion_config,
)
from gitlab_nightshift.repository.private_repository import (
    build_diff_patch,
    create_private_repository,
    list_diff_files,
    read_parts,
)
from gitlab_nightshift.repository.rebuilt_change import (
    ReaderInput,
    RebuiltBundle,
    rebuild_patch,
    write_change,
)
from gitlab_nightshift.sandbox.privilege_drop import restrict_to
from gitlab_nightshift.sandbox.process_places import Places, find_rights, list_unenforceable
from gitlab_nightshift.sandbox.process_table import FINISH
from gitlab_nightshift.sandbox.supervised_process import forward_signals, serve_stage
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.publish.bundle_check import check_policy
from gitlab_nightshift.stages.work.delegation.delegation_context import (
    DelegationContext,
    Failure,
    Phase,
    Phases,
    catch_failure,
    describe_no_fallback,
)
from gitlab_nightshift.stages.work.delegation.delegation_source import choose_branch, make_workspace
from gitlab_nightshift.stages.work.delegation.delivery import (
    DelegationState,
    RebasedChange,
    apply_in_place,
    apply_to_workspace,
    commit,
    finalize,
)
from gitlab_nightshift.wire.channel import OutputChannel
from gitlab_nightshift.wire.exit_status import run_guarded


def main(_data: Mapping[str, Any]) -> int:
    """Run as a process (``sandbox/supervised_process.py``)."""
    return serve_stage(_finish, forwarding=False)


def _finish(inputs: dict[str, Any]) -> dict[str, Any]:
    restrict_to(find_rights(FINISH, _find_places(inputs), os.environ))
    forward_signals()  # after restrict_to, which confines only this thread and later ones
    return {"status": run_guarded(lambda: _run_finish(inputs), {})}


def _find_places(inputs: Mapping[str, Any]) -> Places:
    """The repository, including its parts outside the checkout, and the delegation's folders."""
    source, private = inputs.get("source"), inputs["private"]
    if not source:
        return {"repository": (), "private": private}
    paths = make_record(RepositoryPaths, source["paths"])
    parts = (source["top"], paths.git_dir, paths.objects[0].parent, source["spare"])
    return {"repository": tuple(map(str, parts)), "private": private}


def _run_finish(inputs: Mapping[str, Any]) -> int:
    channel, private = OutputChannel(inputs["outlet"]), Path(inputs["private"])
    context = DelegationContext(
        payload=make_record(Payload, inputs["payload"]),
        folder=Path(inputs["folder"]),
        job=make_record(JobFacts, inputs["job"]),
        private=private,
        emit=channel,
        phases=Phases(channel),
        started=inputs["began"],
    )
    state = DelegationState(Path(inputs["final"]), inputs["base"], inputs["used"], inputs["model"])
    state.usage = inputs["usage"] and make_record(Usage, inputs["usage"])
    state.notary = inputs["notary"] and make_record(NotaryRecord, inputs["notary"])
    failure = _find_failure(inputs, state)
    packed_source = inputs.get("source")
    source = open_source_record(packed_source, private / "finish") if packed_source else None
    if source and inputs["worked"] is not None:
        failure = failure or catch_failure(
            context, lambda: _package(context, inputs, state, source)
        )
        payload = context.payload
        if not payload.workspace.clean_after and not payload.execution.dry_run:
            keep_failure = catch_failure(
                context, lambda: _keep_workspace(context, inputs, state, source)
            )
            failure = failure or keep_failure
    state.dirty = source is not None and _is_dirty(source)
    finalize(context, state, failure, Path(inputs["results"]))
    return 0


def _is_dirty(source: DelegationSource) -> bool:
    """True if the caller's checkout has uncommitted changes, whoever made them."""
    try:
        return not source.fetched and bool(list_changed_files(source.machine_git, source.top))
    except (GitError, NightshiftError):
        return True


def _find_failure(inputs: Mapping[str, Any], state: DelegationState) -> Failure:
    """Why there is no change to hand over, None if there may be one. Sets in ``state`` the report
    of work, or that work was killed."""
    if inputs["worked"]:
        try:
            state.work_report = make_record(WorkReport, inputs["worked"])
        except InvalidRecordError as error:
            state.killed = True
            return Code.INTERNAL, f"the process of work gave no answer that can be used: {error}"
    state.killed = inputs["worked"] == {}
    if inputs["failure"]:
        code, why = inputs["failure"]
        return Code(code), why
    if state.work_report and (code := state.work_report.error_code):
        why = state.work_report.reason
        if inputs["no_fallback"]:
            why = describe_no_fallback(why, inputs["no_fallback"])
        return _parse_code(code), why
    return None


def _parse_code(text: str) -> Code:
    return Code(text) if text in list(Code) else Code.INTERNAL


# --- Package ------------------------------------------------------------------------------------


def _package(
    context: DelegationContext,
    inputs: Mapping[str, Any],
    state: DelegationState,
    source: DelegationSource,
) -> None:
    """Check the change again, then hand it over."""
    context.phases.enter(Phase.PACKAGE)
    results = Path(inputs["results"])
    bundle, local = _read_bundle(results), bool(state.work_report and state.work_report.local)
    assert bundle.proposal and state.base
    state.bundle = bundle
    patch = (results / "bundle/change.patch").read_bytes()
    rebuilt, reported = rebuild_on_base(context, source, state.base, patch, local=local)
    # If the change was made on top of uncommitted ones, work proved another tree.
    if not local and rebuilt.captured.tree_id != bundle.proposal.change.tree_id:
        raise NightshiftError(Code.APPLY_FAILED, "the rebuilt change differs from the proven one")
    settings, config = Settings.from_data(inputs["settings"]), context.job.ci_config_path
    captured = state.captured = rebuilt.captured
    gates = check_policy(
        captured.files,
        reported.tool_settings,
        settings,
        frozenset(),
        config,
        reported.ci_files,
    )
    state.bundle = dataclasses.replace(
        bundle.with_usage(state.usage),
        run_id=context.job.run_id,
        base_sha=state.base,
        target_branch=inputs["target"],
        proposal=dataclasses.replace(
            bundle.proposal, change=captured.build_proposed(), gates=gates
        ),
    )
    _refuse_unproven(state)
    _pass_write_gate(context, gates)
    _hand_over(context, inputs, state, source, rebuilt)


def _read_bundle(results: Path) -> Bundle:
    """The bundle as the redactor wrote it. Raises NightshiftError without a proven change."""
    try:
        with (results / "bundle/bundle.json").open("rb") as file:
            bundle = decode_record(Bundle, file.read(LARGEST_BUNDLE + 1))
    except (OSError, InvalidRecordError):
        text = "the process of work claims a proven change, but left none"
        raise NightshiftError(Code.INTERNAL, text) from None
    ready = bundle.outcome is Outcome.MR_READY and not bundle.error_code
    if not ready or not bundle.proposal:
        raise NightshiftError(_parse_code(bundle.error_code), bundle.reason)
    return bundle


def _refuse_unproven(state: DelegationState) -> None:
    """Raise ``E_TEST_FAILED`` if the test failed on this change when the notary ran it,
    ``E_INCOMPLETE`` if it could not run it; the bundle is kept."""
    bundle, record = state.bundle, state.notary
    assert bundle and bundle.proposal and record
    tree_id = bundle.proposal.change.tree_id
    refusal = find_refusal(record, run_id=bundle.run_id, base_sha=bundle.base_sha, tree_id=tree_id)
    if refusal:
        raise NightshiftError(refusal.code, refusal.why)


def _pass_write_gate(context: DelegationContext, gates: tuple[GatedFile, ...]) -> None:
    """Check the change, as git sees it, against the write gate. An approval before the work does
    not count: nobody knew the change then."""
    if required := describe_approvals(gates):
        context.emit(GateRequired("write", required))
        text = f"an approval is needed: {required}; the bundle is kept, nothing was committed"
        raise NightshiftError(Code.APPROVAL_REQUIRED, text)
    for gated_file in gates:
        context.emit(GateApproved("write", f"policy.gates.write; look at it: {gated_file}"))


def _hand_over(
    context: DelegationContext,
    inputs: Mapping[str, Any],
    state: DelegationState,
    source: DelegationSource,
    rebuilt: RebasedChange,
) -> None:
    """Apply or commit the change in the caller's repository, if the payload asks for that."""
    execution = context.payload.execution
    if not execution.apply_changes or execution.dry_run or source.fetched:
        return
    if context.payload.workspace.checkout_mode == "in_place":
        apply_in_place(source, context.job.run_id, rebuilt)
        state.applied = True
        return
    person = make_record(CommitIdentity, inputs["person"])
    branch = inputs["branch"]
    if not context.payload.workspace.branch_name:  # another run may have taken the name since
        branch = choose_branch(source, context.payload, context.job.run_id)
    state.commit = commit(source, rebuilt, branch, context.job.run_id, person)
    state.branch = branch


def _keep_workspace(
    context: DelegationContext,
    inputs: Mapping[str, Any],
    state: DelegationState,
    source: DelegationSource,
) -> None:
    """Keep the change, proven or not (``clean_after: false``), in a new workspace: agents may have
    written anything into the ``.git`` of theirs."""
    results, output_dir = Path(inputs["results"]), Settings.from_data(inputs["settings"]).output_dir
    names = ("bundle/change.patch", "failed.patch")
    patches = [results / name for name in names if (results / name).exists()]
    assert state.base
    folder = results / "workspace"
    workspace = make_workspace(source, context.payload, state.base, folder, output_dir).path
    if patches and not state.applied:
        rebuilt, _ = rebuild_on_base(
            context, source, state.base, patches[0].read_bytes(), local=False
        )
        apply_to_workspace(workspace, rebuilt)
        state.left_in_workspace = state.commit is None


# --- the change on the real base ----------------------------------------------------------------


def rebuild_on_base(
    context: DelegationContext, source: DelegationSource, base: str, patch: bytes, *, local: bool
) -> tuple[RebasedChange, RebuiltBundle]:
    """The change as a tree on ``base``, and the report of the process that parsed the patch.

    ``local``: the change was made on top of uncommitted ones. Raises NightshiftError
    ``E_APPLY_FAILED``, or ``E_PUBLISH`` if the answer of that process is invalid.
    """
    config = read_conversion_config(source.git, source.top)
    parts, path = read_parts(source.paths), source.git.env["PATH"]
    reading = ReaderInput(parts, config, context.private, path, context.job.ci_config_path)
    reported = rebuild_patch(reading, base, patch)
    if reported.refused:
        why = "it depends on uncommitted changes" if local else reported.refused
        text = f"the change does not apply to {base[:12]}: {why}"
        raise NightshiftError(Code.APPLY_FAILED, text)
    for what in list_unenforceable():
        context.emit(Note(f"this kernel does not confine the process that reads the patch: {what}"))
    folder = Path(tempfile.mkdtemp(prefix="package-", dir=context.private))
    repository = create_private_repository(source.git, folder / "repository.git", parts, config)
    write_change(repository, reported, base)
    diff = (repository, base, reported.tree)
    captured = CapturedChange(reported.tree, list_diff_files(*diff), build_diff_patch(*diff))
    return RebasedChange(repository, base, captured), reported
