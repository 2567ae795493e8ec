"""The first process of a delegation: reads payload, policy and repository, before any agent runs,
and decides what to do. It gets no model key, only the names of the keys that are set.
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.codec import make_record
from gitlab_nightshift.records.storage import to_json
from gitlab_nightshift.repository.delegated_repository import build_source_record
from gitlab_nightshift.repository.git_formats import list_git_folders
from gitlab_nightshift.sandbox.privilege_drop import restrict_to
from gitlab_nightshift.sandbox.process_places import find_rights
from gitlab_nightshift.sandbox.process_table import PREPARE
from gitlab_nightshift.sandbox.supervised_process import forward_signals, serve_stage
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.work.delegation.agent_choice import describe_agent
from gitlab_nightshift.stages.work.delegation.delegation_context import (
    DelegationContext,
    Phase,
    Phases,
    catch_failure,
)
from gitlab_nightshift.stages.work.delegation.delegation_source import find_checkout, open_source
from gitlab_nightshift.stages.work.delegation.payload import read_payload
from gitlab_nightshift.stages.work.delegation.preparation import (
    PreparationState,
    PreparedDelegation,
    build_delegated_context,
    prepare,
)
from gitlab_nightshift.stages.work.work_context import pack_work
from gitlab_nightshift.wire.channel import OutputChannel
from gitlab_nightshift.wire.exit_status import run_guarded


def main(_data: Mapping[str, Any]) -> int:
    """Run as a process (``sandbox/supervised_process.py``)."""
    return serve_stage(_prepare, forwarding=False)


def _prepare(inputs: dict[str, Any]) -> dict[str, Any]:
    """The answer for the supervisor. ``failure``: why the delegation ends here, as code and text.
    ``output_dir`` is set once results may be stored, ``work`` once there is something to do;
    ``finish`` is the input of finish."""
    answer: dict[str, Any] = {}
    run_guarded(lambda: _run_prepare(inputs, answer), inputs["env"])
    return answer


def _drop_rights(top: Path | None, private: Path) -> None:
    """Drop all rights that the process table does not grant. ``top`` is the checkout, already
    repaired after a killed run. It is None for a repository given by URL: then the network stays
    open."""
    repository = [str(path) for path in (top, *list_git_folders(top))] if top else []
    places = {"repository": repository, "private": str(private)}
    rights = find_rights(PREPARE, places, os.environ)
    restrict_to(dataclasses.replace(rights, uses_network=top is None))
    forward_signals()  # after restrict_to, which confines only this thread and later ones


def _run_prepare(inputs: Mapping[str, Any], answer: dict[str, Any]) -> int:
    channel = OutputChannel(inputs["outlet"])
    try:
        payload = read_payload(inputs["payload"].encode("latin-1"))
    except NightshiftError as error:
        answer["failure"] = (error.code.value, error.message)
        return 0
    context = DelegationContext(
        payload=payload,
        folder=Path(inputs["folder"]),
        job=make_record(JobFacts, inputs["job"]),
        private=Path(inputs["private"]),
        emit=channel,
        phases=Phases(channel),
        started=inputs["began"],
        env=inputs["env"],
    )
    state = PreparationState()
    failure = catch_failure(context, lambda: _run_phases(context, state, answer))
    answer["failure"] = failure and (failure[0].value, failure[1])
    answer["output_dir"] = state.output_dir
    used, model = describe_agent(state.chosen) if state.chosen else (None, None)
    answer["finish"] = {
        "payload": payload,
        "base": state.base,
        "used": used,
        "model": model,
        **answer.get("finish", {}),
    }
    return 0


def _run_phases(
    context: DelegationContext, state: PreparationState, answer: dict[str, Any]
) -> None:
    context.phases.enter(Phase.PREPARE)
    payload, env, private = context.payload, context.env, context.private
    top = find_checkout(payload, context.folder, env, private, context.job)
    _drop_rights(top, private)
    source = open_source(payload, top, context.folder, env, private)
    answer["finish"] = {"source": build_source_record(source, env.get("HOME", "/"))}
    prepared = prepare(context, state, source)
    context.phases.enter(Phase.PLAN)
    context.emit.send_record("plan.json", to_json(prepared.plan).encode())
    answer["work"] = _pack_work(context, prepared)
    answer["finish"] = _pack_finish(answer["work"]["source"], prepared)
    context.phases.leave()


def _pack_work(context: DelegationContext, prepared: PreparedDelegation) -> dict[str, Any]:
    """The input of work, and what the supervisor needs while work runs. ``closed``: the caller's
    files that other users cannot read meanwhile. ``share``: the repository is locked meanwhile, so
    that other delegations may read it, but nobody may change it."""
    source, fallback = prepared.source, prepared.fallback
    in_place = context.payload.workspace.checkout_mode == "in_place"
    second, no_fallback = None, ""
    if isinstance(fallback, Settings):
        second = _pack_agent(context, prepared, fallback)
    elif fallback:
        no_fallback = fallback
    return {
        "payload": context.payload,
        "source": build_source_record(source, context.env.get("HOME", "/")),
        "plan": prepared.plan,
        "share": not in_place and not source.fetched,
        "in_place": in_place,
        "closed": () if in_place else source.secrets,
        "first": _pack_agent(context, prepared, prepared.chosen),
        "second": second,
        "no_fallback": no_fallback,
    }


def _pack_agent(
    context: DelegationContext, prepared: PreparedDelegation, chosen: Settings
) -> dict[str, Any]:
    work_context = build_delegated_context(context, prepared.source, prepared.base, chosen)
    used, model = describe_agent(chosen)
    return {**pack_work(work_context, prepared.plan), "used": used, "model": model}


def _pack_finish(source: Mapping[str, Any], prepared: PreparedDelegation) -> dict[str, Any]:
    return {
        "source": source,
        "settings": prepared.chosen,
        "branch": prepared.branch,
        "target": prepared.plan.target_branch,
        "person": prepared.author,
    }
