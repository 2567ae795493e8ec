"""Figures over many nights, and the page of them."""

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

from gitlab_nightshift.records.history_records import NightHistory, PastMergeRequest, PastNight
from gitlab_nightshift.records.storage import to_json
from gitlab_nightshift.stages.report.history_report import (
    HistoryFigures,
    compute_figures,
    render_history,
)

URL = "https://gitlab.example.com/acme/shop/-/merge_requests/1"
MERGED = PastMergeRequest(
    *("acme/shop", 1, "A test", URL, "tests", "merged"),
    *("2026-11-16T02:00:00Z", "2026-11-16T12:00:00Z", "11"),
)
SLOW = replace(MERGED, iid=2, ended="2026-11-18T02:00:00.000Z", run_id="12")
CLOSED = replace(MERGED, iid=3, category="docs", state="closed", title="A word", reasons=("no",))
OPEN = replace(MERGED, iid=4, state="opened", ended="", run_id="13")
NIGHT = PastNight("acme/shop", "11", URL, "2026-11-16T02:00:00Z", "MR_CREATED", "tests", 1.5)
LATER = replace(NIGHT, run_id="12", started="2026-11-23T02:00:00Z", cost_usd=0.5)
LOST = replace(LATER, run_id="13", outcome="", cost_usd=None)


def figures(*nights: PastNight, unknown: tuple[str, ...] = ()) -> HistoryFigures:
    history = NightHistory((MERGED, SLOW, CLOSED, OPEN), nights, unknown)
    return compute_figures("acme/shop", "2026-08-01", "2026-11-23", history)


def words(made: HistoryFigures) -> str:
    body = ET.fromstring(render_history(made).encode()).find("body")
    assert body is not None
    return " ".join(" ".join(body.itertext()).split())


def test_merge_requests_by_category() -> None:
    docs, tests = figures().categories
    assert (docs.opened, docs.closed, docs.acceptance, docs.hours_to_merge) == (1, 1, 0.0, None)
    assert (tests.opened, tests.merged, tests.waiting, tests.acceptance) == (3, 2, 1, 1.0)
    assert tests.hours_to_merge == 29.0
    assert figures().total.acceptance == 2 / 3


def test_reviewers_with_the_most_open_merge_requests_come_first() -> None:
    """Who has to act is read first; of equal ones the first by name."""
    requests = [
        replace(each, iid=at, reviewers=(name,))
        for at, (each, name) in enumerate(
            [(MERGED, "ann"), (OPEN, "bob"), (OPEN, "cy"), (OPEN, "cy"), (CLOSED, "abe")]
        )
    ]
    made = compute_figures("acme/shop", "2026-08-01", "2026-11-23", NightHistory((*requests,)))
    assert [(r.name, r.waiting) for r in made.reviewers] == [
        *(("cy", 2), ("bob", 1)),
        *(("abe", 0), ("ann", 0)),
    ]


def test_costs_are_known_or_not() -> None:
    whole, part, none = figures(NIGHT, LATER), figures(NIGHT, LOST), figures(LOST)
    assert (whole.cost_usd, whole.cost_per_merged_usd) == (2.0, 1.0)
    assert (part.cost_usd, part.nights_known, part.cost_per_merged_usd) == (1.5, 1, 0.75)
    assert (whole.at_least, part.at_least, none.at_least) == (False, True, True)
    assert figures(NIGHT, unknown=("nights of acme/shop before the last 100",)).at_least
    assert (none.cost_usd, none.cost_per_merged_usd) == (None, None)
    assert none.outcomes == {"not known": 1}


def test_costs_by_week() -> None:
    weeks = figures(NIGHT, LATER, LOST, replace(NIGHT, started="last week")).weeks
    assert [(each.week, each.nights, each.known, each.cost_usd) for each in weeks] == [
        ("2026-W47", 1, 1, 1.5),
        ("2026-W48", 2, 1, 0.5),
    ]


def test_a_clock_that_is_wrong_makes_no_figure() -> None:
    early = replace(MERGED, ended="2026-11-01T00:00:00Z")
    made = compute_figures("x", "", "", NightHistory((early, replace(MERGED, ended="soon"))))
    assert made.total.hours_to_merge is None


def test_the_page_says_what_is_not_known() -> None:
    text = words(figures(NIGHT, LOST, unknown=("files of 3 merge requests",)))
    for part in (
        "at least 2 , of which the results of 1 can still be read",
        "2 of 4 merge requests; 1 open, 1 closed",
        "Cost at least $1.50 : that of 1 of 2 nights is not known",
        "Per merged at least $0.75",
        "2026-W48 1 not known",
        "29.0 h",
        "A word acme/shop!3, docs, closed 2026-11-16 no",
        "files of 3 merge requests",
    ):
        assert part.replace(" ,", ",").replace(" :", ":") in text, part
    assert "2026-W48 2 at least $0.50" in words(figures(LATER, LOST))
    assert "at least" not in words(figures(NIGHT, LATER))
    empty = words(compute_figures("x", "", "", NightHistory()))
    assert "No merge request in this time." in empty
    assert "no result of a night can be read" in empty


def test_the_plot_is_drawn_and_nothing_runs_or_is_fetched() -> None:
    hostile = "<script>x</script>\"'&]]>\x1b{{ 7*7 }}"
    bad = replace(CLOSED, title=hostile, web_url="javascript:x", reasons=(hostile,))
    history = NightHistory((bad,), (NIGHT, LATER), (hostile,))
    page = render_history(compute_figures(hostile, "", "", history))
    root = ET.fromstring(page.encode())
    bars = list(root.iter("rect"))
    assert [each.attrib["width"] for each in bars] == ["100.0%", "33.3%"]
    assert not {"script", "img", "link", "iframe"} & {each.tag for each in root.iter()}
    assert not list(root.iter("a"))
    assert "url(" not in page and "49" not in page


def test_the_json_holds_it_all() -> None:
    data = json.loads(to_json(figures(NIGHT, LOST)))
    assert (data["version"], data["cost_per_merged_usd"], data["at_least"]) == (2, 0.75, True)
    assert data["history"]["merge_requests"][2]["reasons"] == ["no"]
    assert data["history"]["nights"][1]["cost_usd"] is None
