"""The first process of a run: reads settings, GitLab and the checkout, before there is any agent.

It holds the token, and decides what gateway, work and publish get as input. It gets no model key,
only the names of those that are set.
"""

import dataclasses
import json
import os
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.agents import build_provider
from gitlab_nightshift.errors import Code, Interruption, NightshiftError
from gitlab_nightshift.gateway.gateway_config import to_bytes
from gitlab_nightshift.records.notary_records import BundleOrigin
from gitlab_nightshift.records.products import Plan
from gitlab_nightshift.records.strict_reading import make_record
from gitlab_nightshift.repository.disk_space import build_no_space_error, is_full_disk
from gitlab_nightshift.repository.git import read_head
from gitlab_nightshift.repository.git_folders import list_git_folders
from gitlab_nightshift.run import planning
from gitlab_nightshift.run.address_check import check_addresses
from gitlab_nightshift.run.comment_runs import PACK, take_up_request
from gitlab_nightshift.run.dashboard_runs import is_dashboard_written
from gitlab_nightshift.run.early_bundles import write_earlier_run, write_failed_bundle
from gitlab_nightshift.run.planning import PlannedRun
from gitlab_nightshift.run.publishing import (
    build_missing_token_error,
    build_notify_request,
    place_bundles,
    read_source_checkout,
)
from gitlab_nightshift.run.work_setup import build_work_context
from gitlab_nightshift.run_folder import Invocation, RunFolder
from gitlab_nightshift.sandbox.privilege_drop import restrict_to
from gitlab_nightshift.sandbox.process_places import find_rights
from gitlab_nightshift.sandbox.process_table import PLAN
from gitlab_nightshift.sandbox.supervised_process import forward_signals, serve_stage
from gitlab_nightshift.session import Session, locate_product, open_session
from gitlab_nightshift.settings.settings_data import pack_settings
from gitlab_nightshift.stages.publish.publish_data import pack_source
from gitlab_nightshift.stages.work.model_access import configure_gateway
from gitlab_nightshift.stages.work.work_data import pack_work_place
from gitlab_nightshift.wire.channel import OutputChannel
from gitlab_nightshift.wire.exit_status import run_guarded


def main(_data: Mapping[str, Any]) -> int:
    """Run as a process (``sandbox/supervised_process.py``)."""
    return serve_stage(_plan, forwarding=False)


def _plan(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The answer: ``status`` is the exit status where nothing follows and there is nothing to
    report, ``mistake`` what people are told of that; ``night`` what comes next, ``upkeep`` what
    comes before that, ``notify`` who is told how it ended. Without ``status`` and ``night`` a
    bundle says why the run has failed."""
    checkout = Path(inputs["checkout"])
    repository = tuple(map(str, (checkout, *list_git_folders(checkout))))
    places = {"repository": repository, "private": inputs["private"]}
    restrict_to(find_rights(PLAN, places, os.environ))
    forward_signals()
    answer: dict[str, Any] = {}
    status = run_guarded(lambda: _run_plan(inputs, answer), inputs["env"])
    return {**answer, "status": status} if status else answer


def _run_plan(inputs: Mapping[str, Any], answer: dict[str, Any]) -> int:
    call = Invocation(
        inputs["env"], Path(inputs["folder"]), inputs["config"], inputs["overrides"], False
    )
    there = RunFolder(Path(inputs["checkout"]), Path(inputs["private"]))
    try:
        outlet = OutputChannel(inputs["outlet"])
        session = open_session(call, there, tuple(inputs["machine"]), outlet)
    except NightshiftError as error:
        if not inputs["alone"]:
            answer["mistake"] = {"code": error.code, "message": error.message}
        raise
    if inputs["alone"]:
        made, upkeep = planning.read_plans(session, inputs["plan"])
        planning.emit_run_started(session)
        if inputs["seen"]:
            place_bundles(session, made, make_record(BundleOrigin, inputs["seen"]))
        answer["upkeep"] = upkeep and _plan_work_alone(session, upkeep)
        answer["night"] = _plan_work_alone(session, made)
        return 0
    planning.emit_run_started(session)
    answer["notify"] = build_notify_request(session)
    try:
        check_addresses(session, whole=True)
        answer |= _plan_night(session)
    except (NightshiftError, Interruption) as error:
        write_failed_bundle(session, error)
    except Exception as error:
        write_failed_bundle(session, _build_failure(session, error))
    return 0


def _plan_night(session: Session) -> dict[str, Any]:
    """Plan a night. Without a token it stops before anything is spent, except in a dry run. Without
    a ``night`` in it there is nothing to do but to report."""
    if not session.secrets.gitlab_token and not session.settings.dry_run:
        raise build_missing_token_error()
    with planning.run_plan_stage(session, whole=True) as planned:
        there, made, earlier = planned.session, planned.plan, planned.earlier
        if earlier:
            write_earlier_run(session, earlier)
        if earlier and not earlier.ready:
            return {"notify": {}}  # people were told by the earlier try
        work = _pack_work(there, made)
        if earlier:  # there is no work, but the notary needs what work would have been given
            where = {name: work[name] for name in ("place", "gateway")}
            work = {"plan": work["plan"], "earlier": where}
        night = {**work, "publish": _pack_publish(there, made)}
    night["stand"] = _find_required_commit(session, made)
    return {"night": night, "upkeep": _plan_upkeep(session, planned)}


def _plan_upkeep(session: Session, planned: PlannedRun) -> dict[str, Any] | None:
    with planning.run_upkeep_plan(session, planned) as upkeep:
        if upkeep is None:
            return None
        publish = {**_pack_publish(upkeep.session, upkeep.plan), "dashboard": False}
        night = {**_pack_work(upkeep.session, upkeep.plan), "publish": publish}
    return {**night, "stand": _find_required_commit(session, upkeep.plan)}


def _plan_work_alone(session: Session, made: Plan) -> dict[str, Any]:
    """Plan the work stage alone: the plan is an earlier job's."""
    with take_up_request(session, made.request) as there:
        night = _pack_work(there, made)
    return {**night, "stand": _find_required_commit(session, made)}


def _pack_work(session: Session, made: Plan) -> dict[str, Any]:
    place = build_work_context(session, made.request)
    provider = build_provider(place.settings)
    budget = made.max_budget_usd, made.max_tokens
    gateway = configure_gateway(place.settings, provider, place.model_env, *budget)
    return {
        "plan": dataclasses.asdict(made),
        "place": pack_work_place(place),
        "gateway": json.loads(to_bytes(gateway)) if gateway else None,
        "publish": None,
    }


def _pack_publish(session: Session, made: Plan) -> dict[str, Any]:
    return {
        "dry_run": session.settings.dry_run,
        "dashboard": is_dashboard_written(session),
        "settings": pack_settings(session.settings),
        "job": dataclasses.asdict(session.job),
        "source": pack_source(read_source_checkout(session)),
        "recent": list(made.recent_files if made.recent_files_enforced else ()),
        "request": made.request and dataclasses.asdict(made.request),
        "network": session.network,
    }


def _find_required_commit(session: Session, made: Plan) -> dict[str, str] | None:
    """The commit to check out for work and publish, None where that is the job's."""
    commit = made.request.head if made.request else ""
    if not commit or commit == read_head(session.git, session.checkout):
        return None
    pack = session.results / PACK
    return {
        "commit": commit,
        "pack": str(pack if pack.exists() else locate_product(session, None, PACK)),
    }


def _build_failure(session: Session, error: Exception) -> NightshiftError:
    """The error that the run ends with where planning fails unexpectedly."""
    if is_full_disk(error):
        return build_no_space_error(session.private, session.checkout)
    session.logs.write("traceback.txt", traceback.format_exc())
    text = f"a defect of nightshift: {type(error).__name__}; see logs/traceback.txt"
    return NightshiftError(Code.INTERNAL, text)
