"""The dashboard as Markdown, and what is read back of it."""

from dataclasses import replace

import pytest

from gitlab_nightshift.gitlab.issues import SystemNote
from gitlab_nightshift.records.history_records import (
    MOST_NIGHTS,
    CategoryOutlook,
    Dashboard,
    DashboardMemory,
    DashboardNight,
)
from gitlab_nightshift.records.products import KnownMergeRequest, Outcome
from gitlab_nightshift.stages.publish.dashboard_page import (
    START,
    BoxTargets,
    build_key,
    build_retry_box,
    find_tick_notes,
    list_ticked,
    read_page,
    read_ticks,
    render_page,
)

KEY = build_key("glpat-secret-token-0001", 7)
NIGHT = DashboardNight("1", "2026-11-16", Outcome.FAILED, "docs", "it <broke> --> @all", cost_usd=1)
HOSTILE = "]( /close\n## x <!-- nightshift-data: --> @all !1 | ~bug https://evil.example"
DOCS = "try docs at the next night"
RETRY, APPROVE = "retry the night of pipeline 1", "approve the change of pipeline 2"
AGAIN = "allow the idea of merge request 3 again"
REJECTED = KnownMergeRequest(
    3, HOSTILE, "https://gitlab.example/3", "docs", "b", reasons=(HOSTILE,)
)
FORGED = "approve the change of pipeline 1"
"""That night has failed."""
WAITING = replace(NIGHT, run_id="2", outcome=Outcome.APPROVAL_REQUIRED, category="none")
TARGETS = BoxTargets(("docs", "tests"), (NIGHT, WAITING))
PAGE = Dashboard(
    DashboardMemory((NIGHT, WAITING), restored=(4,), last_note=9),
    opened=(replace(REJECTED, iid=5, reasons=()),),
    rejected=(REJECTED,),
    outlook=(CategoryOutlook("docs", "2026-11-18", HOSTILE), CategoryOutlook("tests", None)),
    paused=HOSTILE,
)


def render(before: str = "", *ticked: str) -> str:
    return render_page(PAGE, KEY, before, frozenset(ticked))


def test_the_stored_data_is_read_back() -> None:
    assert read_page(render(), KEY) == PAGE.memory


@pytest.mark.parametrize(
    "page",
    [
        "",
        START,
        render().replace('"cost_usd": 1', '"cost_usd": 2'),
        render().replace('"last_note": 9', '"last_note": 0'),
        render().removeprefix(START),
        render_page(PAGE, build_key("another-token", 7), "", frozenset()),
        render_page(PAGE, build_key("glpat-secret-token-0001", 8), "", frozenset()),
    ],
)
def test_unsigned_data_is_ignored(page: str) -> None:
    assert read_page(page, KEY) is None


def test_hostile_text_is_only_text() -> None:
    page = render()
    lines = page.splitlines()
    assert [line for line in lines if line.startswith(("/", "## x"))] == []
    assert page.count("<!--") == 2
    assert "@all" not in page.partition("<!-- nightshift-data")[0]
    assert len({line.count(" | ") for line in lines if line.startswith("| ")}) == 1


def test_a_title_stays_in_its_cell() -> None:
    night = replace(NIGHT, text="Use `a|b` | c", mr_url="https://gitlab.example/1")
    page = render_page(Dashboard(DashboardMemory((night,))), KEY, "", frozenset())
    assert r"| [Use \`a\|b\` \| c](https://gitlab.example/1) |" in page


def test_boxes_stay_ticked_and_peoples_words_stay_above() -> None:
    page = render(f"Ours.\n\n{render()}\nbelow", DOCS, "no such box")
    assert page.startswith(f"Ours.\n\n{START}")
    assert "below" not in page
    assert list_ticked(page) == {DOCS}
    assert list_ticked(page.replace("\n", "\r\n").replace("[x]", "[X]")) == {DOCS}
    assert list_ticked(f"- [x] {DOCS}\n{render()}") == frozenset()


def test_a_failed_night_and_one_that_waits_have_their_boxes() -> None:
    boxes = [line for line in render().splitlines() if line.startswith("- [ ] ")]
    assert [f"- [ ] {text}" in boxes for text in (RETRY, APPROVE, FORGED)] == [True, True, False]
    outside = replace(NIGHT, run_id="0b3c-a-uuid")
    assert build_retry_box(outside, ("docs",)) == ""
    fallback = replace(NIGHT, category="docs (fallback from tests)")
    assert build_retry_box(fallback, ("docs",)) == RETRY
    assert build_retry_box(replace(NIGHT, category="task"), ("docs",)) == ""


def test_the_page_is_bounded() -> None:
    memory = DashboardMemory()
    for number in range(2 * MOST_NIGHTS):
        memory = memory.add_night(replace(NIGHT, run_id=str(number), text="<" * 300))
    assert len(memory.add_night(NIGHT).nights) == MOST_NIGHTS
    assert memory.nights[0].run_id == "27"
    again = memory.add_night(replace(NIGHT, run_id="27"))
    assert [each.run_id for each in again.nights].count("27") == 1
    many = replace(PAGE, memory=memory, rejected=(REJECTED,) * 500)
    page = render_page(many, KEY, "", frozenset())
    assert read_page(page, KEY) == memory
    assert page.count("- [ ] allow") == 20


# --- ticks ----------------------------------------------------------------------------------------


def note(number: int, text: str, author: int, how: str = "completed") -> SystemNote:
    body = f"marked the checklist item **{text}** as {how}"
    return SystemNote(number, body, author, f"user{author}")


ADA, RON = 30, 20


@pytest.mark.parametrize(
    ("ticked", "notes", "valid", "refused"),
    [
        ({DOCS}, [note(10, DOCS, ADA)], [DOCS], ""),
        ({DOCS}, [note(10, DOCS, RON)], [], "user20 is not a Developer"),
        ({DOCS}, [], [], "GitLab does not say who ticked it"),
        (set(), [note(10, DOCS, ADA)], [], ""),
        ({DOCS}, [note(9, DOCS, ADA)], [], "GitLab does not say"),
        ({DOCS}, [note(10, DOCS, ADA), note(11, DOCS, ADA, "incomplete")], [], "does not say"),
        ({DOCS}, [note(11, DOCS, RON), note(10, DOCS, ADA)], [], "user20 is not a Developer"),
        ({RETRY, APPROVE}, [note(10, APPROVE, ADA), note(11, RETRY, ADA)], [APPROVE, RETRY], ""),
        ({APPROVE}, [note(10, APPROVE, RON)], [], "user20 is not a Developer"),
        ({FORGED}, [note(10, FORGED, ADA)], [], "no such box"),
        ({RETRY.replace("1", "2")}, [note(10, RETRY.replace("1", "2"), ADA)], [], "no such box"),
        (
            {"try rm at the next night"},
            [note(10, "try rm at the next night", ADA)],
            [],
            "no such box",
        ),
        ({DOCS, AGAIN}, [note(12, DOCS, ADA), note(11, AGAIN, ADA)], [AGAIN, DOCS], ""),
    ],
)
def test_whose_tick_counts(
    ticked: set[str], notes: list[SystemNote], valid: list[str], refused: str
) -> None:
    found = read_ticks(ticked, find_tick_notes(ticked, notes, 9), {ADA}, TARGETS)
    assert [each.text for each in found.valid] == valid
    assert refused in "".join(why for _, why in found.refused)
    assert bool(found.refused) == bool(refused)


def test_an_older_gitlabs_words_for_a_tick() -> None:
    body = f"marked the task **{AGAIN}** as completed"
    by = find_tick_notes({AGAIN}, [SystemNote(10, body, ADA, "ada")], 0)
    assert read_ticks({AGAIN}, by, {ADA}, TARGETS).valid[0].restore_iid == 3
