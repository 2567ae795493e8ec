"""Nights that remember: what people have refused does not come back, in whatever words."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.agent import Play, answer, append, plays
from tests.support.opened import opened
from tests.support.shop import DRAFT, FOUND, GOOD, KEY_REFUSED, NOTE, nothing
from tests.support.standin_threads import add_comment
from tests.support.world import World

AGAIN: dict[str, Any] = {
    "files": ["test_shop.py"],
    "description": "Nothing looks at what a reduction does to a sum.",
    "rationale": "A bug there would cost money.",
}
OTHER: dict[str, Any] = {"rank": 2, "files": ["shop.py"], "description": "Name the percentage."}

MORE_OPEN = {"NIGHTSHIFT_MAX_OPEN_MRS__PER_CATEGORY": "5", "NIGHTSHIFT_MAX_OPEN_MRS__TOTAL": "9"}


def close(shop: World, name: str, text: str, level: int) -> None:
    """Somebody comments on the newest merge request, and closes it."""
    person = shop.gitlab.add_user(name, name.title())
    shop.project.members[person.id] = level
    add_comment(shop.gitlab, shop.merge_requests[-1], person, text)
    shop.merge_requests[-1].change_state("closed")


def find(*candidates: dict[str, Any]) -> Play:
    return [answer({**FOUND, "candidates": candidates, "selected": candidates[0]})]


def test_a_refused_idea_does_not_come_back(tmp_path: Path) -> None:
    """It costs an Analyze, and no Implement; the prompt, the log and the result say why."""
    with opened(tmp_path) as (shop, _):
        close(shop, "ada", "We test discounts in the other repository.", 30)

        script = plays({"analyze-tests": find(AGAIN)}, {"analyze": nothing()})
        shop.agent.script(script)
        beads = len(shop.agent.seen)
        done = shop.nightshift("run", CI_PIPELINE_ID="4712")
        later = [bead.name for bead in shop.agent.seen[beads:]]
        assert later[0] == "analyze-tests-1"
        assert not [name for name in later if not name.startswith("analyze")]
        assert "(!1, closed on 20" in shop.agent.seen[beads].prompt
        assert "We test discounts in the other repository." in shop.agent.seen[beads].prompt
        why = "it repeats !1, closed without a merge on"
        assert why in done.log
        [line] = [row for row in shop.result["summary"].splitlines() if row.startswith("tests: ")]
        assert line.startswith("tests: no new idea: Nothing looks at what a reduction")
        assert "We test discounts in the other repository." in line
        assert len(shop.merge_requests) == 1


def test_the_next_candidate_is_taken(tmp_path: Path) -> None:
    """Where the first one repeats what waits for a review, too. A change that turns out to do the
    refused thing after all is refused by what it touches."""
    with opened(tmp_path) as (shop, _):
        shop.env |= MORE_OPEN
        script = plays(
            GOOD,
            {"analyze": nothing(), "analyze-tests": find(AGAIN, OTHER)},
            {"implement-tests-1": [append("test_shop.py", NOTE)]},
            {"implement-tests-2": [append("shop.py", "\n# In percent.\n")]},
            {"mr": [answer({**DRAFT, "branch_slug": "name-percent"})]},
        )
        shop.agent.script(script)
        beads = len(shop.agent.seen)
        done = shop.nightshift("run", CI_PIPELINE_ID="4712")
        assert "it repeats !1, which is open" in done.log
        later = shop.agent.seen[beads:]
        assert [bead.name for bead in later][1:3] == ["implement-tests-1", "implement-tests-2"]
        assert "Name the percentage." in later[1].prompt
        assert "This idea is not wanted: it repeats !1, which is open." in later[2].prompt
        assert shop.result["outcome"] == "MR_CREATED", done.log
        assert len(shop.merge_requests) == 2


def test_nights_pause_where_nobody_looks(tmp_path: Path) -> None:
    """Said once, on the newest one; an answer ends it."""
    with opened(tmp_path) as (shop, first):
        shop.env |= MORE_OPEN
        for iid in (2, 3):
            shop.project.merge_requests.append(replace(first, iid=iid, notes=[]))
        for each in shop.merge_requests:
            each.created_at = "2026-10-01T01:00:00.000Z"
        before = len(shop.agent.seen)
        for run_id in ("4712", "4713"):
            done = shop.nightshift("run", CI_PIPELINE_ID=run_id)
            assert shop.result["outcome"] == "SKIPPED", done.log
            assert "nobody has looked at !3, !2, !1 for two weeks" in done.last_line
        assert len(shop.agent.seen) == before
        told = [[note.body for note in each.notes] for each in shop.merge_requests]
        assert [len(bodies) for bodies in told] == [0, 0, 1]
        assert told[2][0].startswith("The night shift pauses: nobody has looked at !3, !2, !1")

        ada = shop.gitlab.add_user("ada", "Ada")
        add_comment(shop.gitlab, shop.merge_requests[1], ada, "I will look at it on Friday.")
        shop.agent.script({"analyze": KEY_REFUSED})
        shop.nightshift("run", CI_PIPELINE_ID="4714")
        assert len(shop.agent.seen) > before
