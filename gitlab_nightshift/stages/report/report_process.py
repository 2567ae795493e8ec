"""The process that writes a run's result for people and programs. It reads agents' work and has no
secret; the supervisor compares the result with its own records."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import to_exit_status
from gitlab_nightshift.records.codec import make_record
from gitlab_nightshift.records.notary_records import NOTARY, NotaryRecord
from gitlab_nightshift.records.products import Bundle, Publication
from gitlab_nightshift.records.storage import read_if_valid, read_own_record
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.sandbox.supervised_process import serve_stage
from gitlab_nightshift.stages.report.report_files import read_patch, render_result_files
from gitlab_nightshift.stages.report.run_result import build_run_result, read_upkeep_result
from gitlab_nightshift.wire.channel import OutputChannel
from gitlab_nightshift.wire.exit_status import run_guarded


def main(_data: Mapping[str, Any]) -> int:
    """Run as a process (``sandbox/supervised_process.py``)."""
    return serve_stage(_report)


def _report(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"status": run_guarded(lambda: _run_report(inputs), {})}


def _run_report(inputs: Mapping[str, Any]) -> int:
    results, outlet = Path(inputs["results"]), OutputChannel(inputs["outlet"])
    usage = inputs["usage"] and make_record(Usage, inputs["usage"])
    bundle = read_own_record(Bundle, results / "bundle/bundle.json").with_usage(usage)
    published_path = results / "published.json"
    published = read_own_record(Publication, published_path) if published_path.exists() else None
    upkeep, notary = read_upkeep_result(results), read_if_valid(NotaryRecord, results / NOTARY)
    project, pipeline_url = inputs["project"], inputs["pipeline_url"]
    result = build_run_result(bundle, published, project, pipeline_url, upkeep, notary)
    patch = read_patch(results / "bundle")
    files = render_result_files(result, patch, inputs["report_url"])
    for name, text in files.items():
        outlet.send_record(name, text.encode())
    outlet.close()
    return to_exit_status(result.error_code)
