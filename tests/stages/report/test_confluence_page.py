"""A line on a page of Confluence, against a real server in the shapes of both APIs."""

from xml.etree import ElementTree

import pytest

from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.stages.report.confluence_page import append_to_page, render_line
from tests.support.confluence import PAGE, TOKEN, USER, Confluence, confluence

LINE = "<p>2026-11-16</p>"


def append(there: Confluence, user: str, token: str = TOKEN, line: str = LINE) -> str:
    url = there.env["CONFLUENCE_URL"]
    return append_to_page(page=PAGE, url=url, token=token, user=user, line=line)


@pytest.mark.parametrize("user", ["", USER])
def test_a_line_is_added_to_what_others_wrote_meanwhile(user: str) -> None:
    with confluence(edits=["<p>Mine</p>"]) as there:
        assert append(there, user) == ""
        assert there.body == f"<p>Nights</p><p>Mine</p>{LINE}"
        assert (there.version, there.asked) == (9, ["GET", "PUT", "GET", "PUT"])


def test_a_page_that_changes_all_the_time_is_given_up() -> None:
    with confluence(edits=["<p>a</p>"] * 9) as there:
        assert append(there, "") == "Confluence answered 409: the page is being edited"
        assert len(there.asked) == 4


FAILURES = {
    (302, ""): "Confluence answered 302: is CONFLUENCE_URL right?",
    (404, "{}"): "Confluence answered 404: it has no such page",
    (503, f"down {TOKEN}"): "Confluence answered 503",
    (200, "<html>Log in</html>"): "its answer is not JSON: is CONFLUENCE_URL right?",
    (200, "[" * 100_000): "its answer is not JSON",
    (200, '{"version": {"number": "x"}}'): "its answer is not a page",
}


def test_a_failure_is_described_without_the_token() -> None:
    failures = {**FAILURES, (200, "x" * (17 << 20)): "the page is too large"}
    with confluence() as there:
        told = [append(there, "", "wrong-token-of-the-wiki")]
        for there.answer in failures:
            told.append(append(there, ""))
    told.append(append(there, ""))  # it is gone
    told.append(append_to_page(page=PAGE, url="acme", token=TOKEN, user="", line=LINE))
    told.append(append_to_page(page=PAGE, url="https://[", token=TOKEN, user="", line=LINE))
    assert told[0] == "Confluence answered 401: CONFLUENCE_TOKEN is refused"
    expected = [*failures.values(), "no answer from Confluence (ConnectionError)"]
    expected += ["CONFLUENCE_URL is not an address"] * 2
    assert [text[: len(start)] for text, start in zip(told[1:], expected, strict=True)] == expected
    assert TOKEN not in "".join(told)


def test_a_line_is_text_whatever_an_agent_wrote() -> None:
    title = "Test </p><script>x</script> & \x00\u202e\n"
    result = RunResult(
        "4711",
        Outcome.MR_CREATED,
        category_used="tests",
        title=title,
        mr_url="https://gitlab.example/a/b/-/merge_requests/1",
        pipeline_url='javascript:"',
        started_at="2026-11-16T01:00:00+00:00",
    )
    line = ElementTree.fromstring(render_line(result, "2026-11-17"))
    assert [each.tag for each in line.iter()] == ["p", "a"]
    text = "".join(line.itertext())
    assert text.startswith("2026-11-16 MR_CREATED · tests · Test </p><script>x</script> &")
    skipped = RunResult("4711", Outcome.SKIPPED, reason="a quiet date")
    assert render_line(skipped, "2026-11-17").startswith("<p>2026-11-17 SKIPPED · a quiet date")
