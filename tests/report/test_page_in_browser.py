"""The page in a real Chromium: nothing fetched, nothing hidden, usable by keyboard, axe content."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.report.page import render_page
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
