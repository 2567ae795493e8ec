"""The page in a real Chromium: nothing fetched, nothing hidden, usable by keyboard, axe content."""

import tempfile
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

from gitlab_nightshift.records.history_records import NightHistory, PastMergeRequest, PastNight
from gitlab_nightshift.stages.report.history_report import compute_figures, render_history
from gitlab_nightshift.stages.report.page import render_page
from tests.support.browser import Tab, open_browser
from tests.support.pages import FAILED, HOSTILE, QUIET, build_full_result, build_patch
from tests.support.tables import each

LONG = "a_name_without_an_end_" * 30
RESULTS = {
    "full": (build_full_result("Round prices to whole cents"), build_patch("price = round(x)")),
    "long": (build_full_result(LONG), build_patch(LONG)),
    "hostile": (build_full_result(HOSTILE, HOSTILE), build_patch(HOSTILE)),
    "quiet": (QUIET, ""),
    "failed": (FAILED, ""),
}


def build_history(text: str) -> NightHistory:
    """Half a year of nights, of which every seventh cannot be read any more."""
    requests = tuple(
        PastMergeRequest(
            "acme/shop",
            number,
            f"[night-shift/tests] {text}",
            f"https://gitlab.example.com/acme/shop/-/merge_requests/{number}",
            ("tests", "refactoring", "docs", "security", "performance")[number % 5],
            state,
            f"2026-11-{number + 1:02}T01:00:00Z",
            f"2026-11-{number + 3:02}T09:30:00Z",
            str(4700 + number),
            (text,) if state == "closed" else (),
        )
        for number, state in enumerate(("merged", "closed", "merged", "opened", "closed", "merged"))
    )
    first = date(2026, 5, 18)
    nights = tuple(
        PastNight("acme/shop", str(n), "", f"{first + timedelta(n)}T01:00:00Z", *ending)
        for n in range(180)
        for ending in [("MR_CREATED", "tests", n % 5 + 0.37) if n % 7 else ()]
    )
    return NightHistory(requests, nights, (f"the dashboard of acme/shop: {text}",))


HISTORIES = {
    "full": build_history("Round prices to whole cents"),
    "long": build_history(LONG),
    "hostile": build_history(HOSTILE),
    "empty": NightHistory(),
}


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        open_browser(Path(folder)) as browser,
    ):
        yield browser


@each("name", sorted(RESULTS))
@each(("width", "dark"), [(1200, False), (1200, True), (390, False), (390, True)])
def test_every_page_is_fit_to_be_read(
    tab: Tab, tmp_path: Path, name: str, width: int, dark: bool
) -> None:
    page = tmp_path / "report.html"
    page.write_text(render_page(*RESULTS[name]), encoding="utf-8")
    assert_fit(tab, page, width, dark)


@each("name", sorted(HISTORIES))
@each(("width", "dark"), [(1280, False), (390, True)])
def test_the_page_over_many_nights_is_fit_to_be_read(
    tab: Tab, tmp_path: Path, name: str, width: int, dark: bool
) -> None:
    page = tmp_path / "history.html"
    figures = compute_figures("acme/shop", "2026-08-18", "2026-11-16", HISTORIES[name])
    page.write_text(render_history(figures), encoding="utf-8")
    assert_fit(tab, page, width, dark)


def assert_fit(tab: Tab, page: Path, width: int, dark: bool) -> None:
    tab.requests.clear()
    tab.open(page, width=width, dark=dark)
    assert tab.evaluate("innerWidth") == width
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    cut = "[...document.querySelectorAll('body *')].filter(e => e.scrollWidth > e.clientWidth + 1"
    assert tab.evaluate(f"{cut} && e.clientWidth).map(e => e.outerHTML.slice(0, 200))") == []
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(13, 17, 23)" if dark else "rgb(246, 247, 249)")
    assert tab.find_axe_violations() == []
    assert tab.requests == [page.as_uri()]


def test_axe_finds_what_is_wrong(tab: Tab, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    made = render_page(*RESULTS["full"])
    page.write_text(made.replace("--text: #1f2328", "--text: #ddd").replace(' lang="en"', ""))
    tab.open(page, width=1200)
    assert {"color-contrast", "html-has-lang"} <= {
        each["rule"] for each in tab.find_axe_violations()
    }


def test_output_is_opened_by_keyboard(tab: Tab, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(render_page(*RESULTS["full"]), encoding="utf-8")
    tab.open(page, width=1200)
    focused = "document.activeElement.tagName"
    seen: list[str] = []
    while (not seen or seen[-1] != "SUMMARY") and len(seen) < 20:
        tab.press("Tab", 9)
        seen.append(tab.evaluate(focused))
    assert seen == ["A", "SUMMARY"]
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert tab.evaluate("document.querySelector('details').open") is False
    tab.press("Enter", 13)
    assert tab.evaluate("document.querySelector('details').open") is True
