"""Whatever agents say, and however much of it: verified work is published."""

import dataclasses
import json
from pathlib import Path

from gitlab_nightshift.records.bead_results import BeadResult, BeadStatus, Verdict
from gitlab_nightshift.records.products import Bundle, Outcome
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.stages.work.night_ending import encode_bundle
from tests.support.agent import answer, append, deny, handoff, leave, plays, raw, say
from tests.support.shop import DRAFT, FOUND, GOOD, NOTE, PASSED, SELECTED
from tests.support.world import world

SPENT = {f"model {number}": {"inputTokens": 10**12 - 1} for number in range(10_000)}
RESULT = {
    **{"type": "result", "subtype": "success", "is_error": False},
    **{"result": "\ud800", "modelUsage": SPENT},
}
CONTROLS = "\x01" * 500
ANALYSIS = {
    **FOUND,
    "files_scanned": 10**30,
    "reason": "r" * 1_000_000,
    "candidates": [SELECTED] * 1000,
    "selected": {**SELECTED, "rank": -(10**30), "value": 1.5, "rationale": None},
}
VERDICT = {**PASSED, "error_details": CONTROLS * 50, "checked": [CONTROLS * 2] * 100, "doubts": 1}
TEXTS = {**DRAFT, "title": "T " * 3000, "summary": "s\ud800" * 50_000, "branch_slug": "s" * 3000}


def test_an_agent_that_says_too_much_loses_no_work(tmp_path: Path) -> None:
    implement = [
        append("test_shop.py", NOTE),
        say("\udcff"),
        deny("\udcff"),
        raw(json.dumps(RESULT) + "\n"),
        leave(0),
    ]
    said = {"analyze": ANALYSIS, "verify": VERDICT, "mr": TEXTS}
    scripts = {bead: [handoff(json.dumps(value))] for bead, value in said.items()}
    with world(tmp_path, plays(GOOD, scripts, {"implement": implement})) as shop:
        done = shop.ends(0, "run")
        assert [bead["status"] for bead in shop.result["beads"]] == ["ok"] * 4
        assert [mr.title[:30] for mr in shop.merge_requests] == ["[night-shift/tests] T T T T T "]
        assert "not accepted" not in done.log


def test_texts_that_are_made_of_what_an_agent_said_are_in_bounds(tmp_path: Path) -> None:
    """Where the MR bead gives none."""
    long = {**SELECTED, "description": "d" * 20_000, "rationale": "r" * 20_000}
    found = {**FOUND, "candidates": [long], "selected": {**SELECTED, "description": " . "}}
    with world(tmp_path, plays(GOOD, {"analyze": [answer(found)], "mr": []})) as shop:
        shop.ends(0, "run")
        assert [mr.title for mr in shop.merge_requests] == [
            "[night-shift/tests] Improve test_shop.py"
        ]


def test_of_a_bundle_that_is_too_large_the_beads_lose_their_hand_offs() -> None:
    said = Verdict(passed=True, error_details="\x01" * 20_000, doubts=("\x01" * 500,) * 50)
    bead = BeadResult("verify", "tests", 1, "m", BeadStatus.OK, Usage(), 1.0, handoff=said)
    small = Bundle("1", "", "", "", Outcome.NO_IMPROVEMENT, beads=(bead,) * 10)
    large = dataclasses.replace(small, beads=(bead,) * 100)
    assert encode_bundle(small).count(b'"doubts"') == 10
    assert encode_bundle(large).count(b'"doubts"') == 0
    assert encode_bundle(large).count(b'"bead": "verify"') == 100
