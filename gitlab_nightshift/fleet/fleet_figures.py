"""``fleet report``: figures of all projects, their files, and one notification."""

import datetime as dt
from dataclasses import replace
from pathlib import Path

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.fleet.fleet_history import (
    NIGHTS_FILE,
    REPORT_JOB,
    Nights,
    decode_nights,
    encode_nights,
    read_fleet_history,
)
from gitlab_nightshift.fleet.fleet_settings import FleetSettings
from gitlab_nightshift.gitlab.fleet_api import ControlJob, FleetApi
from gitlab_nightshift.records.history_records import NightHistory
from gitlab_nightshift.records.storage import to_json
from gitlab_nightshift.records.usage import format_usd
from gitlab_nightshift.stages.report.history_figures import HistoryFigures, compute_figures
from gitlab_nightshift.stages.report.history_page import render_history
from gitlab_nightshift.stages.report.metrics import render_metrics
from gitlab_nightshift.stages.report.outcome_message import Notification, disable_markup
from gitlab_nightshift.text.printable_text import count_words

PAGE, DATA, METRICS = "fleet-report.html", "fleet-report.json", "fleet-metrics.txt"
NAME = "the fleet"
MOST_PIPELINES = 90
"""Of the control project, searched for the last report: plans add one each hour."""
MOST_TOLD = 3
"""Kinds of failures in the notification."""


def make_report(
    api: FleetApi,
    settings: FleetSettings,
    since: dt.date,
    folder: Path,
    control: ControlJob | None,
) -> HistoryFigures:
    """Read all, write the files into ``folder``, and return the figures. Nights that the last
    report has read, here or in its artifacts, are not read again. Raises ApiError, and ``E_CONFIG``
    for a folder that cannot be written."""
    found = read_fleet_history(api, settings, since, _read_known_nights(api, folder, control))
    today = str(dt.datetime.now(dt.UTC).date())
    figures = compute_figures(NAME, str(since), today, found.history, found.silent)
    files = {
        PAGE: render_history(figures),
        # Without the single merge requests and nights: thousands of projects have many.
        DATA: to_json(replace(figures, history=NightHistory(unknown=figures.history.unknown))),
        METRICS: render_metrics(figures),
        NIGHTS_FILE: encode_nights(found.nights),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise build_config_error(f"--output {folder}: {error.strerror}") from None
    return figures


def _read_known_nights(api: FleetApi, folder: Path, control: ControlJob | None) -> Nights:
    """The nights in the file here, else in the control project's last report. Without a usable file
    there are none, and remaining results are read again."""
    try:
        data: bytes | None = (folder / NIGHTS_FILE).read_bytes()
    except OSError:
        if control is None:
            return {}
        place = (folder / NIGHTS_FILE).as_posix()
        data = api.find_last_artifact(control, REPORT_JOB, place, MOST_PIPELINES)
    try:
        return decode_nights(data or b"{}", api.server_url)
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


def build_message(figures: HistoryFigures, link: str) -> Notification:
    """The notification; ``link`` is the report's address, "" for none."""
    total = figures.total
    each, nights = figures.cost_per_merged_usd, count_words(figures.nights, "night")
    cost = format_usd(figures.cost_usd, figures.bound)
    per_merged = "" if each is None else f", {format_usd(each, figures.bound)} per merged request"
    lines = [
        f"{count_words(total.opened, 'merge request')}: {total.merged} merged, {total.closed}"
        f" closed, {total.waiting} open, of which {total.ignored} ignored",
        f"{nights}, cost {cost}{per_merged}",
    ]
    lines += [
        f"{count_words(alike.nights, 'night')} in {count_words(alike.projects, 'project')} failed:"
        f" {alike.reason}"
        for alike in figures.failures[:MOST_TOLD]
    ]
    if figures.silent:
        lines.append(f"{count_words(len(figures.silent), 'project')} had no night")
    body = "\n".join((*map(disable_markup, lines), *([link] if link else ())))
    title = f"Night shift, {figures.since} to {figures.until}"
    return Notification(title, body, "warning" if figures.failures else "info")
