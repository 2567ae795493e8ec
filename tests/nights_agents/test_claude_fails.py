"""The real claude CLI against a model that makes trouble (an endpoint: ``test_egress.py``)."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import REAL, answer, plays
from tests.support.model_endpoint import ModelEndpoint
from tests.support.sandboxes import CURL, MAKE, assert_gated
from tests.support.shop import FOUND, GOOD, NOTE, nothing
from tests.support.turns import Call, Turn, bash, costing, edit, keep_events, read, say, write
from tests.support.world import PROVING, World, world


def test_what_is_denied_and_the_end_of_the_budget_are_no_alarm(tmp_path: Path) -> None:
    """The first Analyze tries what it may not, the second costs more than is left."""
    with world(tmp_path, {"analyze": REAL}, config=PROVING) as shop:
        outside = tmp_path / "outside.txt"
        refused = [
            bash("curl http://127.0.0.1:9/"),
            bash("make test EVIL=1"),
            bash("env"),
            read(shop.checkout.with_name("shop.tmp") / "TRIGGER_PAYLOAD"),
            write(outside, "x"),
            write(shop.checkout / "new.py", "x"),
        ]
        last = [say("I may not do that.")] * 2
        dear = costing(bash("git ls-files"), input_tokens=96_000, output_tokens=1)  # $0.48
        script = [bash(CURL), bash(MAKE), *refused, *last, *[dear] * 3]
        with ModelEndpoint(script) as endpoint:
            limit = {"NIGHTSHIFT_MAX_BUDGET_USD": "1"}
            done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url, **limit)

        assert (done.exit_status, done.stderr) == (13, ""), done.log
        assert len(endpoint.messages) == 12, "the third dear request is refused before it is sent"
        assert_gated("\n".join(endpoint.messages[9].tool_results))
        assert not outside.exists()
        assert "denied: Bash curl http://127.0.0.1:9/" in done.log
        _ended(shop)
        shop.assert_restored()


def _ended(shop: World) -> None:
    """What the CLI refused has a status of its own; what an ended bead has cost is counted."""
    result = shop.result
    first, second = result["beads"]
    assert (first["status"], second["status"]) == ("denied", "budget")
    assert [row.partition(" ")[0] for row in first["denied"]] == [
        *("Bash", "Bash", "Bash", "Read", "Write", "Write", "make")
    ]
    assert result["summary"].splitlines()[1].startswith("tests: analysis failed: denied: ")
    assert (result["outcome"], result["error_code"]) == ("NO_IMPROVEMENT", "E_INCOMPLETE")
    assert "budget of $1 reached" in result["reason"]
    assert (result["category_used"], result["is_fallback"]) == ("tests", False)
    spent = [10 * 0.0075, 2 * 0.480025]
    assert [bead["usage"]["cost_usd"] for bead in (first, second)] == pytest.approx(spent)
    assert result["total_cost_usd"] == pytest.approx(sum(spent))
    budgets = [bead.option("--max-budget-usd") for bead in shop.agent.seen]
    assert budgets == ["1.0000", f"{1 - spent[0]:.4f}"]
    assert shop.written == []


LAST = "        self.assertEqual(total([1, 2]), 3)\n"
ONE_TRY = {"NIGHTSHIFT_MAX_IMPLEMENT_RETRIES": "0"}
TESTS_ONLY = {"analyze": nothing(), "analyze-tests": [answer(FOUND)]}


@pytest.mark.parametrize(
    "cut",
    [{"broken": keep_events(4)}, {"stop": "max_tokens"}, {"stop": "pause_turn"}],
    ids=["lost", "at the limit", "paused"],
)
def test_half_a_change_is_none(tmp_path: Path, cut: dict[str, Any]) -> None:
    """The model says what it does next, and the edit itself is lost, or no more comes: the CLI ends
    with exit status 0 and calls that a success (``max_tokens``: where it has a call)."""
    night = plays(GOOD, TESTS_ONLY, {"implement": REAL})
    with world(tmp_path, night, config=PROVING) as shop:
        test = shop.checkout / "test_shop.py"
        first = edit(test, LAST, LAST + NOTE)
        more = Call("Edit", {"file_path": str(test), "old_string": NOTE, "new_string": NOTE * 2})
        second = Turn("Now the other half.", () if "stop" in cut else (more,), **cut)
        with ModelEndpoint([read(test), first, *[second] * 6]) as endpoint:
            done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url, **ONE_TRY)

        [failed] = [bead for bead in shop.result["beads"] if bead["bead"] == "implement"]
        assert failed["status"] in ("crashed", "unavailable"), done.log
        assert shop.written == [], "nothing is published"
        shop.assert_restored()
