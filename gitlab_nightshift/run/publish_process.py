"""The process that gets the token once every process of work is gone: it publishes a bundle, and
replies to whoever asked for the run."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.job.job_secrets import TOKEN, Secrets
from gitlab_nightshift.records.codec import make_record
from gitlab_nightshift.records.notary_records import NotaryRecord
from gitlab_nightshift.records.products import Bundle, Publication
from gitlab_nightshift.records.request import TaskRequest
from gitlab_nightshift.records.storage import read_if_valid, read_own_record
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.repository.git import build_isolated_git
from gitlab_nightshift.repository.known_checkout import KnownCheckout
from gitlab_nightshift.run.comment_runs import reply_result
from gitlab_nightshift.run.dashboard_runs import update_dashboard
from gitlab_nightshift.run.publishing import publish
from gitlab_nightshift.sandbox.privilege_drop import restrict_to
from gitlab_nightshift.sandbox.process_places import find_rights
from gitlab_nightshift.sandbox.process_table import PUBLISH
from gitlab_nightshift.sandbox.supervised_process import forward_signals, serve_stage
from gitlab_nightshift.session import Session
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.publish.publish_context import SourceCheckout
from gitlab_nightshift.stages.report.report_files import read_patch
from gitlab_nightshift.stages.report.run_result import build_run_result
from gitlab_nightshift.system.environment import build_search_path
from gitlab_nightshift.wire.channel import OutputChannel
from gitlab_nightshift.wire.exit_status import run_guarded


def main(_data: Mapping[str, Any]) -> int:
    """Run as a process (``sandbox/supervised_process.py``)."""
    return serve_stage(_publish, forwarding=False)


def _publish(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"status": run_guarded(lambda: _run_publish(inputs), {TOKEN: inputs["token"]})}


def _run_publish(inputs: Mapping[str, Any]) -> int:
    source = make_record(SourceCheckout, inputs["source"])
    tempfile.tempdir = inputs["private"]  # this process may not write to TMPDIR
    places = {"private": inputs["private"], "objects": list(map(str, source.parts.objects))}
    restrict_to(find_rights(PUBLISH, places, {**inputs["network"], **os.environ}))
    forward_signals()  # after restrict_to, which confines only this thread and later ones
    session = _build_session(inputs)
    request = inputs["request"] and make_record(TaskRequest, inputs["request"])
    notary = make_record(NotaryRecord, inputs["notary"]) if inputs["notary"] else None
    published = read_if_valid(Publication, session.results / "published.json")
    if inputs["ready"]:
        assert notary, "a run publishes only what its notary has checked"
        folder, recent = session.results / "bundle", frozenset(inputs["recent"])
        published = publish(session, folder, source, recent, notary, request=request)
    usage = inputs["usage"] and make_record(Usage, inputs["usage"])
    bundle = read_own_record(Bundle, session.results / "bundle/bundle.json").with_usage(usage)
    result = build_run_result(bundle, published, notary=notary)
    patch = read_patch(session.results / "bundle")
    reply_result(session, request, result, bundle, published, patch)
    if inputs["dashboard"]:
        update_dashboard(session, result)
    return 0


def _build_session(inputs: Mapping[str, Any]) -> Session:
    """The session for publish. Nothing is read from the checkout, which agents may have changed."""
    checkout, private = Path(inputs["checkout"]), Path(inputs["private"])
    # A new folder: nobody can have planted a .gitconfig in it.
    home = Path(tempfile.mkdtemp(prefix="publish-", dir=private))
    git = build_isolated_git(home, build_search_path(inputs["own"], checkout))
    return Session(
        env=inputs["network"],
        folder=checkout,
        settings=Settings.from_data(inputs["settings"]),
        job=make_record(JobFacts, inputs["job"]),
        secrets=Secrets(inputs["token"], tuple(inputs["values"])),
        known_checkout=KnownCheckout(git, git, checkout),
        checkout=checkout,
        config_folder=checkout,
        private=private,
        results=private / "results",
        redact=Redactor(tuple(inputs["values"])),
        emit=OutputChannel(inputs["outlet"]),
    )
