"""The page: well-formed, everything escaped, nothing fetched, no script."""

import dataclasses
import xml.etree.ElementTree as ET

from gitlab_nightshift.records.bead_results import BeadResult
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.run_results import AttemptResult, RunResult
from gitlab_nightshift.stages.report.page import LONGEST_LINE, MOST_LINES, parse_patch, render_page
from gitlab_nightshift.text.diff_rows import DiffRow
from tests.support.pages import (
    FAILED,
    HOSTILE,
    QUIET,
    URL,
    build_bead,
    build_full_result,
    build_patch,
)
from tests.support.tables import each


def parsed(text: str) -> ET.Element:
    assert text.startswith("<!DOCTYPE html>\n")
    return ET.fromstring(text.encode())


def words(result: RunResult, patch: str = "") -> str:
    body = parsed(render_page(result, patch)).find("body")
    assert body is not None
    return " ".join(" ".join(body.itertext()).split())


def tags(result: RunResult, patch: str) -> list[str]:
    return [element.tag for element in parsed(render_page(result, patch)).iter()]


def test_everything_is_escaped() -> None:
    hostile = tags(build_full_result(HOSTILE, HOSTILE), build_patch(HOSTILE))
    assert hostile == tags(build_full_result("x", ""), build_patch("x"))
    assert "49" not in words(build_full_result("{{ 7*7 }}"))


def test_nothing_runs_and_nothing_is_fetched() -> None:
    for text, url in ((HOSTILE, HOSTILE), ("x", URL)):
        made = render_page(build_full_result(text, url), build_patch(text))
        root = parsed(made)
        assert not {"script", "img", "link", "iframe", "object", "base", "form"} & {
            element.tag for element in root.iter()
        }
        names = {name for element in root.iter() for name in element.attrib}
        assert names <= {
            *("lang", "charset", "name", "content", "http-equiv", "class", "rel", "href"),
            *("id", "aria-labelledby"),
        }
        assert "url(" not in made
        assert "@import" not in made
        policy = root.find("head/meta[@http-equiv='Content-Security-Policy']")
        assert policy is not None
        assert policy.attrib["content"].startswith("default-src 'none';")


def test_links_lead_to_gitlab_and_to_no_file_that_a_browser_downloads() -> None:
    def links(url: str) -> list[str]:
        root = parsed(render_page(build_full_result("x", url), build_patch("x")))
        return [link.attrib["href"] for link in root.iter("a")]

    assert links(URL) == [URL, URL]
    for url in ("javascript:alert(1)", "data:text/html,x", "//evil.example", HOSTILE):
        assert links(url) == []


def test_a_page_answers_what_why_proof_cost_and_what_was_refused() -> None:
    text = words(build_full_result("x"), build_patch("x"))
    for part in (
        "Tuesday 17 November 2026, 02:00 UTC",
        "The night failed",
        "Outcome E_PUBLISH: x",
        "Proposed x",
        "Why this x",
        "x passed · x passed · x passed · 7 lines, 2 files · measured independently: x",
        "cost not known",
        "Refused x, attempt 1: x",
        "Doubted x",
        "+3 −4",
        "A binary file.",
        "What the second agent says it checked x",
    ):
        assert part in text, part


def test_a_level_is_a_word_and_not_a_colour_alone() -> None:
    text = words(build_full_result("x"))
    for word in ("Passed", "Look at", "Failed", "Not judged"):
        assert text.count(word) >= 2  # a command, and a piece of evidence


def test_what_an_attempt_was_sent_back_for_stands_at_its_last_bead() -> None:
    beads = tuple(
        build_bead(bead, attempt, "tests")
        for bead, attempt in (("implement", 1), ("verify", 1), ("implement", 2), ("mr", 1))
    )
    attempts = (
        AttemptResult("tests", 1, False, "E_TEST_FAILED", "too weak"),
        AttemptResult("tests", 2, False, "E_POLICY_DENY", "too long"),
    )
    result = dataclasses.replace(QUIET, beads=beads, attempts=attempts)
    root = parsed(render_page(result, ""))
    steps = [item for item in root.iter("li") if item.find("h3") is not None]
    said = ["".join(step.itertext()) for step in steps]
    assert ["Sent back." in text for text in said] == [False, True, True, False]
    assert "too weak" in said[1]
    assert "too long" in said[2]


def test_a_quiet_night_shows_each_category_and_why() -> None:
    root = parsed(render_page(QUIET, ""))
    assert [item.text for item in root.iter("li")] == [
        "3 files scanned",
        "tests: <none>",
        "docs: left out: !7 is open",
    ]
    text = " ".join("".join(root.itertext()).split())
    assert "No agent was started" in text
    assert "What proves it" not in text


@each("outcome", list(Outcome))
def test_the_headline_says_the_outcome_in_words(outcome: Outcome) -> None:
    heading = parsed(render_page(RunResult("1", outcome), "")).find("body/header/h1")
    assert heading is not None
    assert heading.text not in (None, "", outcome.value)
    good = outcome in (Outcome.MR_CREATED, Outcome.MR_READY)
    assert (heading.attrib["class"] == "good") is good
    assert (heading.attrib["class"] == "bad") is (outcome is Outcome.FAILED)


def test_a_night_that_did_half_its_work_says_so() -> None:
    half = dataclasses.replace(QUIET, error_code="E_INCOMPLETE", reason="2 of 4 analysed")
    assert "part of the night could not do its work" in words(half)
    assert "part of the night" not in words(FAILED)


def test_a_time_that_is_none_is_left_out() -> None:
    assert "acme/shop The night failed" in words(dataclasses.replace(FAILED, started_at="soon"))


def test_names_of_a_bead_that_is_not_of_a_night_are_shown_as_they_are() -> None:
    bead: BeadResult = build_bead("other", 1, "tests")
    assert "other: tests" in words(dataclasses.replace(QUIET, beads=(bead,)))


PATCH = """\
diff --git a/src/a.py b/src/a.py
index 1111111..2222222 100644
--- a/src/a.py
+++ b/src/a.py
@@ -3,3 +3,3 @@ def f():
 same
--- deleted
+++ added
 last
\\ No newline at end of file
diff --git a/old.txt b/old.txt
deleted file mode 100644
index 1..0
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/x y.bin b/x y.bin
new file mode 100644
index 0..1
GIT binary patch
literal 3
Kcmcb
"""


def test_rows_have_the_numbers_of_their_side() -> None:
    first, second, third = parse_patch(PATCH)
    assert first.name == "src/a.py"
    assert first.rows == (
        DiffRow("@", "@@ -3,3 +3,3 @@ def f():"),
        DiffRow(" ", " same", 3, 3),
        DiffRow("-", "--- deleted", 4, 3),
        DiffRow("+", "+++ added", 4, 4),
        DiffRow(" ", " last", 5, 5),
        DiffRow("\\", "\\ No newline at end of file"),
    )
    assert (second.name, second.rows[-1]) == ("old.txt", DiffRow("-", "-gone", 1, 0))
    assert third.name == "x y.bin"
    assert [row.line for row in third.rows] == ["new file mode 100644", "A binary file."]


def test_no_patch_has_no_files() -> None:
    assert parse_patch("") == ()
    assert parse_patch("no patch at all\n+x\n") == ()


def test_a_huge_patch_is_cut_and_says_so() -> None:
    body = "+x\n" * (2 * MOST_LINES)
    head = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -0,0 +1,9 @@\n"
    files = parse_patch(head + body + PATCH)
    assert len(files) == 1
    assert len(files[0].rows) < MOST_LINES
    assert files[0].rows[-1].line == "The rest is in bundle/change.patch."
    (long,) = parse_patch(head + "+" + "y" * 10 * LONGEST_LINE)
    assert len(long.rows[-1].line) == LONGEST_LINE
