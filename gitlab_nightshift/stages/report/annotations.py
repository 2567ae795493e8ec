"""``annotations.json``: the links that GitLab shows beside a job."""

import json
from urllib.parse import quote

from gitlab_nightshift.records.run_results import RunResult

GROUP = "Night shift"


def build_report_url(project_url: str, job_id: str, folder: str) -> str:
    """Where GitLab shows the page of this job, whose artifacts hold it in ``folder``; "" outside
    CI."""
    if not (project_url and job_id):
        return ""
    return f"{project_url}/-/jobs/{job_id}/artifacts/file/{quote(folder)}/report.html"


def render_annotations(result: RunResult, report_url: str) -> str:
    """The links to the report and the merge request, as far as there are such."""
    links = {"Report of the night": report_url, "Merge request": result.mr_url}
    shown = [
        {"external_link": {"label": label, "url": url}}
        for label, url in links.items()
        if url.startswith(("https://", "http://"))
    ]
    return json.dumps({GROUP: shown}, indent=2) + "\n"
