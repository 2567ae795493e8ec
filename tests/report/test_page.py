"""The page: well-formed, everything escaped, nothing fetched, no script."""

import dataclasses
import re
import xml.etree.ElementTree as ET

from gitlab_nightshift.records import (
    AnalysisResult,
    BeadResult,
    BeadStatus,
    Bundle,
    Change,
    Check,
    CommandResult,
    Draft,
    Finding,
    Gated,
    Outcome,
    Proposal,
    RunResult,
    Seen,
    Usage,
    Verdict,
)
from gitlab_nightshift.report.page import page
from tests.support.tables import each

URL = "https://gitlab.example.com/acme/shop/-/merge_requests/7"
HOSTILE = """</p></title></style>]]><script>alert(1)</script>
<img src="http://evil.example/x" onerror='x'>
&amp;&lt; $outcome ${facts} {{x}} "q" 'a' \x00\x1b[31m \u202e \ud800 \uffff javascript:x"""


def told(text: str, url: str) -> tuple[RunResult, Bundle]:
    """A run in which every text that is not ours is ``text``."""
    bead = BeadResult(
        "implement", text, 1, text, BeadStatus.CRASHED, Usage(0.1, 5), 61, text, None, (text,),
        (f"logs/{text}.out.gz",),
    )  # fmt: skip
    proposal = Proposal(
        Change("a" * 40, (text, "src/a.py"), 3, 4),
        text,
        False,
        AnalysisResult("IMPROVEMENT_FOUND"),
        Draft(text, text),
        Verdict(True),
        (CommandResult(text, 0, 1.0), CommandResult(text, None, 2.0, text)),
        (text,),
        (Check(text, Seen.TOLD, text), Check(text, Seen.FAILED, text)),
        (Finding(text, "warn", text, 3, text),),
        (Gated(text, "draft", text),),
    )
    bundle = Bundle("1", "2025", "b" * 40, "main", Outcome.MR_READY, proposal=proposal)
    result = RunResult(
        text, Outcome.FAILED, "E_PUBLISH", text, text, text, url, text, text, text, text,
        beads=(bead,), isolation=text, total_cost_usd=None,
    )  # fmt: skip
    return result, bundle


def parsed(text: str) -> ET.Element:
    assert text.startswith("<!DOCTYPE html>\n")
    return ET.fromstring(text.encode())


@each("with_proposal", [True, False])
def test_everything_is_escaped(with_proposal: bool) -> None:
    result, bundle = told(HOSTILE, HOSTILE)
    if not with_proposal:
        bundle = dataclasses.replace(bundle, proposal=None)
    tags = {element.tag for element in parsed(page(result, bundle)).iter()}
    harmless, its_bundle = told("x", "")
    if not with_proposal:
        its_bundle = dataclasses.replace(its_bundle, proposal=None)
    assert tags == {element.tag for element in parsed(page(harmless, its_bundle)).iter()}


def test_nothing_runs_and_nothing_is_fetched() -> None:
    for text, url in ((HOSTILE, HOSTILE), ("x", URL)):
        made = page(*told(text, url))
        root = parsed(made)
        assert not {"script", "img", "link", "iframe", "object", "base", "form"} & {
            element.tag for element in root.iter()
        }
        names = {name for element in root.iter() for name in element.attrib}
        assert names <= {"lang", "charset", "name", "content", "http-equiv", "class", "rel", "href"}
        assert "url(" not in made
        assert "@import" not in made
        policy = root.find("head/meta[@http-equiv='Content-Security-Policy']")
        assert policy is not None
        assert policy.attrib["content"].startswith("default-src 'none';")


def test_links_lead_to_the_merge_request_and_the_logs_alone() -> None:
    links = [link.attrib["href"] for link in parsed(page(*told("x", URL))).iter("a")]
    assert links == [URL, "./logs/x.out.gz"]
    for url in ("javascript:alert(1)", "data:text/html,x", "//evil.example", HOSTILE):
        assert URL not in page(*told("x", url))
        hrefs = [link.attrib["href"] for link in parsed(page(*told("y", url))).iter("a")]
        assert hrefs == ["./logs/y.out.gz"]


def test_what_a_reader_wants_to_know() -> None:
    result, bundle = told("x", URL)
    bead = dataclasses.replace(result.beads[0], error="it crashed")
    words = " ".join(parsed(page(dataclasses.replace(result, beads=(bead,)), bundle)).itertext())
    for text in (
        "FAILED",
        "E_PUBLISH: x",
        URL,
        "cost unknown",
        "(+3 -4)",
        "src/a.py",
        "it crashed",
    ):
        assert text in words


def test_a_quiet_night_shows_each_category_and_why() -> None:
    quiet = Bundle("1", "2025", "b" * 40, "main", Outcome.NO_IMPROVEMENT)
    result = RunResult("1", Outcome.NO_IMPROVEMENT, summary="3 files scanned\ntests: <none>\n\n")
    root = parsed(page(result, quiet))
    assert [item.text for item in root.iter("li")] == ["3 files scanned", "tests: <none>"]
    assert "No bead ran." in "".join(root.itertext())
    assert root.find(".//table") is None


def test_colours_are_for_the_outcome() -> None:
    quiet = Bundle("1", "2025", "b" * 40, "main", Outcome.NO_IMPROVEMENT)
    colours = {
        outcome: re.findall(r"border-left: \S+ solid (#\w+)", page(RunResult("1", outcome), quiet))
        for outcome in Outcome
    }
    assert all(len(found) == 1 for found in colours.values())
    assert colours[Outcome.FAILED] != colours[Outcome.MR_CREATED] == colours[Outcome.MR_READY]
