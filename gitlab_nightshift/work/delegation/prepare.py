"""Prepare: everything that can be known, and every gate that can be asked, before an agent runs."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime

from gitlab_nightshift.errors import NightshiftError, config_error
from gitlab_nightshift.events import Note
from gitlab_nightshift.guidance import TASK
from gitlab_nightshift.host.git import Identity
from gitlab_nightshift.records import Plan
from gitlab_nightshift.settings import Settings
from gitlab_nightshift.work.delegation.choice import Chosen, choose, fallback, may_fall_back
from gitlab_nightshift.work.delegation.desk import Desk, Known
from gitlab_nightshift.work.delegation.gates import approver, pass_gates
from gitlab_nightshift.work.delegation.package import author
from gitlab_nightshift.work.delegation.rules import narrowed, read_settings
from gitlab_nightshift.work.delegation.source import Source, base_of, branch_of, check_subdir
from gitlab_nightshift.work.delegation.workspace import check_clean


@dataclass(frozen=True)
class Prepared:
    """What is fixed before the workspace is made. ``person`` is who commits, None where nobody
    does; ``branch`` "" likewise."""

    source: Source
    settings: Settings
    base: str
    branch: str
    person: Identity | None
    plan: Plan


def prepare(desk: Desk, known: Known, source: Source) -> Prepared:
    """Settings, gates, refs, the agent. Raises NightshiftError with the first that is wrong."""
    payload = desk.payload
    settings = read_settings(source, desk.env, desk.job)
    if not os.access(desk.folder, os.W_OK):
        raise config_error(f"{desk.folder} cannot be written: artifacts go below it")
    known.output_dir = settings.output_dir
    pass_gates(payload, settings, approver(settings, desk.job, desk.env), desk.emit)
    base = known.base = base_of(source, payload)
    subdir = check_subdir(source, base, payload.workspace.workspace_subdir)
    settings = narrowed(settings, payload, subdir)
    check_clean(source, payload, settings.output_dir)
    commits = _commits(desk, source)
    branch = branch_of(source, payload, desk.job.run_id) if commits else ""
    person = author(source, desk.job) if commits else None
    known.chosen = _chosen(desk, settings)
    for key in settings.waiting:
        desk.emit(Note(f"{key} is set, but not in force yet in this version"))
    plan = known.plan = _plan(desk, settings, base, branch)
    return Prepared(source, settings, base, branch, person, plan)


def _commits(desk: Desk, source: Source) -> bool:
    in_place = desk.payload.workspace.checkout_mode == "in_place"
    return desk.payload.execution.apply_changes and not in_place and not source.fetched


def _chosen(desk: Desk, settings: Settings) -> Chosen:
    try:
        return choose(desk.payload, settings, desk.env, desk.emit)
    except NightshiftError as error:
        if not may_fall_back(desk.payload, error.code):
            raise
        return fallback(desk.payload, settings, desk.env, error, desk.emit)


def _plan(desk: Desk, settings: Settings, base: str, branch: str) -> Plan:
    """A night's plan, of one task; files of recent commits may change, since somebody asked."""
    return Plan(
        run_id=desk.job.run_id,
        date=f"{datetime.now(UTC):%A %Y-%m-%d}",
        base_sha=base,
        target_branch=desk.job.default_branch or branch,
        scheduled=TASK,
        categories=(TASK,),
        task=settings.task or "",
        recent_files_enforced=False,
        max_diff_lines=settings.max_diff_lines,
        max_budget_usd=settings.max_budget_usd,
        max_tokens=settings.max_tokens,
        verify_commands=tuple(settings.verify_commands),
    )
