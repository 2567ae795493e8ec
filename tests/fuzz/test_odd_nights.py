"""Whatever agents hand over, a night ends as documented: no value of theirs is a defect of it."""

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

from tests.fuzz.odd_words import CALLS, DRAFTS, HANDOFFS, TEXTS, fill_in
from tests.fuzz.strategies import steady
from tests.support.agent import Play, Step, append, handoff, leave, plays, raw, say
from tests.support.sandboxes import RESULT
from tests.support.shop import GOOD, TEST
from tests.support.webhook import issue_of, member, triggered, written
from tests.support.world import PROVING, UNSELECTED, Done, World, world

NIGHTS = settings(parent=steady(8), phases=[Phase.explicit, Phase.generate])
"""To make a failing one smaller would take hundreds of nights more."""
CATEGORIES = ("tests", "refactoring", "docs", "security", "performance")
_numbers = itertools.count()


def hand_over(value: Any, *, by_file: bool) -> list[Step]:
    """A bead that reports a value, which may be none that a real CLI would encode."""
    if by_file:
        return [handoff(json.dumps(value))]
    return [raw(json.dumps({**RESULT, "structured_output": value}) + "\n"), leave(0)]


def report(calls: list[dict[str, Any]]) -> Step:
    """What the CLI tells of tools."""
    message = {"id": "1", "content": calls}
    return raw(json.dumps({"type": "assistant", "message": message}) + "\n")


@st.composite
def scripts(draw: st.DrawFn) -> dict[str, Any]:
    """A night's beads as data: a value for each hand-off, calls, last words."""
    beads = [f"analyze-{category}" for category in CATEGORIES] + ["verify", "mr"]
    said = {bead: draw(HANDOFFS[bead.partition("-")[0]]) for bead in beads}
    return {"said": said, "calls": draw(st.lists(CALLS, max_size=5)), "text": draw(TEXTS)}


def build_plays(script: dict[str, Any], top: Path, *, by_file: bool) -> dict[str, Play]:
    data = fill_in(script, str(top))
    beads = {
        name: [report(data["calls"]), *hand_over(value, by_file=by_file)]
        for name, value in data["said"].items()
    }
    change = [report(data["calls"]), append("test_shop.py", TEST), say(data["text"])]
    return plays(GOOD, beads, {"implement": change})


def assert_no_defect(shop: World, done: Done) -> None:
    assert done.exit_status != 70 and "Traceback" not in done.stdout + done.stderr, done.log
    assert shop.result["error_code"] != "E_INTERNAL", done.log
    assert "defect" not in done.log
    event(shop.result["outcome"])
    shop.assert_restored()


@NIGHTS
@given(script=scripts(), by_file=st.booleans(), proving=st.booleans())
def test_a_night_of_odd_agents(
    tmp_path: Path, script: dict[str, Any], by_file: bool, proving: bool
) -> None:
    folder = tmp_path / str(next(_numbers))
    config = PROVING if proving else PROVING + UNSELECTED
    with world(folder, config=config) as shop:
        shop.agent.script(build_plays(script, shop.checkout, by_file=by_file))
        assert_no_defect(shop, shop.nightshift("run"))
    shutil.rmtree(folder)


@NIGHTS
@given(draft=DRAFTS, verdict=HANDOFFS["verify"], changes=st.booleans())
def test_odd_answers_to_whoever_asked(
    tmp_path: Path, draft: Any, verdict: Any, changes: bool
) -> None:
    folder = tmp_path / str(next(_numbers))
    with world(folder, config=PROVING) as shop:
        implement = [append("test_shop.py", TEST)] if changes else [say("Nothing to do.")]
        said = {"verify": verdict, "mr": draft}
        beads = {
            name: hand_over(fill_in(value, str(shop.checkout)), by_file=False)
            for name, value in said.items()
        }
        shop.agent.script(plays(GOOD, beads, {"implement": implement}))
        asked = written(shop, issue_of(shop, ada := member(shop)), ada, "/nightshift Test it.")
        assert_no_defect(shop, triggered(shop, asked))
    shutil.rmtree(folder)
