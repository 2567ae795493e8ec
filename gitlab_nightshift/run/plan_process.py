"""The first process of a run: reads settings, GitLab and the checkout, before any agent runs.

It holds the token, and prepares the input of gateway, work and publish. It gets no model key, only
the names of the keys that are set.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import Interruption, NightshiftError
from gitlab_nightshift.records.codec import make_record
from gitlab_nightshift.records.notary_records import NOTARY, BundleOrigin
from gitlab_nightshift.records.products import Bundle, Plan
from gitlab_nightshift.records.storage import write_record
from gitlab_nightshift.repository.git import read_head
from gitlab_nightshift.repository.git_formats import list_git_folders
from gitlab_nightshift.run import planning
from gitlab_nightshift.run.comment_runs import PACK, open_request_session, reply_failed
from gitlab_nightshift.run.dashboard_runs import is_dashboard_written, update_dashboard
from gitlab_nightshift.run.planning import PlannedRun
from gitlab_nightshift.run.process_inputs import (
    build_notify_request,
    build_work_context,
    check_addresses,
)
from gitlab_nightshift.run.publishing import (
    build_failed_bundle,
    build_missing_token_error,
    place_bundles,
)
from gitlab_nightshift.run.session_opening import locate_product, open_session, show_output_paths
from gitlab_nightshift.run_folder import Invocation, RunFolder
from gitlab_nightshift.sandbox.privilege_drop import restrict_to
from gitlab_nightshift.sandbox.process_places import find_rights
from gitlab_nightshift.sandbox.process_table import PLAN
from gitlab_nightshift.sandbox.supervised_process import forward_signals, serve_stage
from gitlab_nightshift.session import Session
from gitlab_nightshift.stages.plan.earlier_runs import EarlierTry
from gitlab_nightshift.stages.publish.publish_context import read_source
from gitlab_nightshift.stages.report.run_result import build_run_result
from gitlab_nightshift.stages.work.night_ending import explain_exception
from gitlab_nightshift.stages.work.work_context import pack_work
from gitlab_nightshift.wire.channel import OutputChannel
from gitlab_nightshift.wire.exit_status import run_guarded


def main(_data: Mapping[str, Any]) -> int:
    """Run as a process (``sandbox/supervised_process.py``)."""
    return serve_stage(_plan, forwarding=False)


def _plan(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The answer for the supervisor:

    - ``status``: the exit status of a run that ends here without a report; ``mistake``: the error
      to notify people of in that case
    - ``upkeep`` and ``night``: the inputs of the work on an open merge request, and of the night's
      work after that
    - ``notify``: whom to notify at the end

    Without ``status`` and ``night`` the run has failed, and its bundle says why.
    """
    checkout = Path(inputs["checkout"])
    repository = tuple(map(str, (checkout, *list_git_folders(checkout))))
    places = {"repository": repository, "private": inputs["private"]}
    restrict_to(find_rights(PLAN, places, os.environ))
    forward_signals()  # after restrict_to, which confines only this thread and later ones
    answer: dict[str, Any] = {}
    status = run_guarded(lambda: _run_plan(inputs, answer), inputs["env"])
    return {**answer, "status": status} if status else answer


def _run_plan(inputs: Mapping[str, Any], answer: dict[str, Any]) -> int:
    folder, run_id = Path(inputs["folder"]), inputs["run_id"]
    config, overrides = inputs["config"], inputs["overrides"]
    call = Invocation(inputs["env"], folder, config, overrides, colour=False, run_id=run_id)
    run_folder = RunFolder(Path(inputs["checkout"]), Path(inputs["private"]))
    try:
        channel = OutputChannel(inputs["outlet"])
        session = open_session(call, run_folder, tuple(inputs["machine"]), channel)
    except NightshiftError as error:
        if not inputs["single_stage"]:
            answer["mistake"] = {"code": error.code, "message": error.message}
        raise
    if inputs["single_stage"]:
        with show_output_paths(session):
            plan, upkeep = planning.read_plans(session, inputs["plan"])
        planning.emit_run_started(session)
        if inputs["bundle_origin"]:
            place_bundles(session, plan, make_record(BundleOrigin, inputs["bundle_origin"]))
        answer["upkeep"] = upkeep and _prepare_work_alone(session, upkeep)
        answer["night"] = _prepare_work_alone(session, plan)
        return 0
    planning.emit_run_started(session)
    # Answered first, so that the supervisor can notify people of all later failures.
    answer["notify"] = build_notify_request(session)
    try:
        check_addresses(session, single_job=True)
        answer |= _plan_night(session)
    except (NightshiftError, Interruption) as error:
        write_failed_bundle(session, error)
    except Exception as error:
        disks = (session.private, session.checkout)
        failure = explain_exception(error, disks, session.logs.write)
        write_failed_bundle(session, NightshiftError(*failure))
    return 0


def _plan_night(session: Session) -> dict[str, Any]:
    """Plan a night. Without a token it fails before anything is spent, except in a dry run. An
    answer without ``night`` leaves only the report to be written."""
    if not session.secrets.gitlab_token and not session.settings.dry_run:
        raise build_missing_token_error()
    with planning.run_plan_stage(session, single_job=True) as planned:
        target_session, plan, earlier = planned.session, planned.plan, planned.earlier
        if earlier:
            write_earlier_try(session, earlier)
        if earlier and not earlier.publishable:
            return {"notify": {}}  # the earlier try has notified people
        night = _pack_work(target_session, plan)
        if earlier:  # the work is done, but the notary needs the input that work would get
            notary_input = {name: night[name] for name in ("context", "gateway")}
            night = {"plan": night["plan"], "earlier": notary_input}
        night = {**night, "publish": _pack_publish(target_session, plan)}
    night["target_commit"] = _find_required_commit(session, plan)
    return {"night": night, "upkeep": _plan_upkeep(session, planned)}


def _plan_upkeep(session: Session, planned: PlannedRun) -> dict[str, Any] | None:
    with planning.plan_upkeep(session, planned) as upkeep:
        if upkeep is None:
            return None
        publish = {**_pack_publish(upkeep.session, upkeep.plan), "dashboard": False}
        night = {**_pack_work(upkeep.session, upkeep.plan), "publish": publish}
    return {**night, "target_commit": _find_required_commit(session, upkeep.plan)}


def _prepare_work_alone(session: Session, plan: Plan) -> dict[str, Any]:
    """The input of work for a job that runs no other stage, from the plan of an earlier job."""
    with open_request_session(session, plan.request) as target_session:
        night = _pack_work(target_session, plan)
    return {**night, "target_commit": _find_required_commit(session, plan)}


def _pack_work(session: Session, plan: Plan) -> dict[str, Any]:
    work_context = build_work_context(session, plan.request)
    return {"plan": plan, **pack_work(work_context, plan), "publish": None}


def _pack_publish(session: Session, plan: Plan) -> dict[str, Any]:
    return {
        "dry_run": session.settings.dry_run,
        "dashboard": is_dashboard_written(session),
        "settings": session.settings,
        "job": session.job,
        "source": read_source(session.known_checkout),
        "recent": plan.recent_files if plan.recent_files_enforced else (),
        "request": plan.request,
        "network": session.network,
    }


def _find_required_commit(session: Session, plan: Plan) -> dict[str, str] | None:
    """The commit to check out for work and publish, with its pack; None for the job's own."""
    commit = plan.request.head if plan.request else ""
    if not commit or commit == read_head(session.git, session.checkout):
        return None
    pack = session.results / PACK
    if not pack.exists():
        pack = locate_product(session, None, PACK)
    return {"commit": commit, "pack": str(pack)}


# --- the bundle of a run without work -----------------------------------------------------------


def write_failed_bundle(session: Session, error: NightshiftError | Interruption) -> None:
    """Write the bundle of a run that failed before its work, reply to whoever asked for the run,
    and update the dashboard, unless the run was cancelled: someone is waiting for its end."""
    bundle = build_failed_bundle(session, error)
    _write_bundle(session, bundle)
    reply_failed(session, bundle)
    if isinstance(error, NightshiftError):
        update_dashboard(session, build_run_result(bundle, None))


def write_earlier_try(session: Session, earlier: EarlierTry) -> None:
    """Write the products of an earlier try into the results of this one."""
    _write_bundle(session, earlier.bundle)
    (session.results / "bundle/change.patch").write_bytes(earlier.patch)
    if earlier.notary:
        write_record(session.results / NOTARY, earlier.notary)
    if earlier.published:
        write_record(session.results / "published.json", earlier.published)


def _write_bundle(session: Session, bundle: Bundle) -> None:
    folder = session.results / "bundle"
    folder.mkdir(exist_ok=True)
    write_record(folder / "bundle.json", bundle)
