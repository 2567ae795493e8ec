"""The real claude CLI against an endpoint and a model that make trouble."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import REAL
from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import BEADS, FOUND, REALLY, nothing, turns
from tests.support.turns import answer, bash, costing, error, read, say, write
from tests.support.world import (
    ANYWHERE,
    git,
    world,
)


def test_verify_fails_then_passes(tmp_path: Path) -> None:
    """The second Implement is told what the first Verify said, and starts from the first tree."""
    with world(tmp_path, REALLY, config=ANYWHERE) as shop:
        script: dict[str, Any] = turns(shop.checkout)
        why = "test_shop.py:10: 50 percent of 10 is 5, not 6."
        script["implement"] = [
            write(shop.checkout / "scratch.py", "left = 'over'\n"),
            bash("git rm -q run.sh"),
            say("Done."),
            *script["implement"],
        ]
        script["verify"] = [answer({"passed": False, "error_details": why}), *script["verify"]]
        with ModelEndpoint(script, bead_of=BEADS) as endpoint:
            done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url)

        assert (done.exit_status, endpoint.unscripted) == (0, [])
        assert shop.agent.names == [
            *("analyze-tests-1", "implement-tests-1", "verify-tests-1"),
            *("implement-tests-2", "verify-tests-2", "mr-tests-1"),
        ]
        first, second = (bead for bead in shop.agent.seen if bead.bead == "implement")
        assert why not in first.prompt
        assert f"<why_the_last_attempt_failed>\n{why}\n</" in second.prompt
        assert second.tree == first.tree == shop.agent.seen[0].tree
        assert (second.git_status, second.head) == ("", shop.sha)
        changed = shop.agent.last("verify-tests-1").git_status.splitlines()
        assert changed == [" D run.sh", "?? scratch.py"]
        [mr] = shop.merge_requests
        bare = shop.project.bare_repository
        assert git(bare, "diff", "--name-status", shop.sha, mr.sha) == "M\ttest_shop.py\n"
        shop.assert_put_back()


def test_what_the_cli_denies_is_told(tmp_path: Path) -> None:
    """Commands and paths outside the rules are refused by the CLI; the bead has its own status."""
    with world(tmp_path, {"analyze-tests": REAL, "analyze": nothing()}) as shop:
        outside = tmp_path / "outside.txt"
        script = [
            bash("curl http://127.0.0.1:9/"),
            bash("make test EVIL=1"),
            bash("env"),
            read(shop.checkout.with_name("shop.tmp") / "TRIGGER_PAYLOAD"),
            write(outside, "x"),
            write(shop.checkout / "new.py", "x"),
            *[say("I may not do that.")] * 2,
        ]
        with ModelEndpoint({"analyze": script}, bead_of=BEADS) as endpoint:
            done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url)

        assert done.exit_status == 0
        assert not outside.exists()
        bead = shop.result["beads"][0]
        assert bead["status"] == "denied"
        assert [row.partition(" ")[0] for row in bead["denied"]] == [
            *("Bash", "Bash", "Bash", "Read", "Write", "Write")
        ]
        assert shop.result["summary"].splitlines()[1].startswith("tests: analysis failed: denied: ")
        assert "denied: Bash curl http://127.0.0.1:9/" in done.log
        shop.assert_put_back()


def test_the_end_of_the_budget_is_no_alarm(tmp_path: Path) -> None:
    """The gateway refuses what does not fit in; what the ended bead has cost is counted."""
    with world(tmp_path, REALLY) as shop:
        dear = costing(bash("git ls-files"), input_tokens=98_000, output_tokens=1)  # $0.49
        script = {"analyze": [dear, dear, dear, answer(FOUND)]}
        with ModelEndpoint(script, bead_of=BEADS) as endpoint:
            limit = {"NIGHTSHIFT_MAX_BUDGET_USD": "1"}
            done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url, **limit)

        assert done.exit_status == 0
        result = shop.result
        assert (result["outcome"], result["error_code"]) == ("NO_IMPROVEMENT", "")
        assert result["reason"] == "budget of $1 reached"
        assert (result["category_used"], result["is_fallback"]) == ("tests", False)
        [bead] = result["beads"]
        assert bead["status"] == "budget"
        assert len(endpoint.messages) == 2, "the third request is refused before it is sent"
        assert result["total_cost_usd"] == bead["usage"]["cost_usd"] == pytest.approx(0.98005)
        assert shop.agent.seen[0].option("--max-budget-usd") == "1.0000"
        assert shop.written == []
        shop.assert_put_back()


def test_a_bad_key_is_told_soon(tmp_path: Path) -> None:
    """The CLI itself would go on for minutes."""
    with (
        world(tmp_path, REALLY) as shop,
        ModelEndpoint(lambda _: error(401, "authentication_error", "bad key")) as endpoint,
    ):
        started = time.monotonic()
        done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url)

        assert time.monotonic() - started < 30
        assert done.exit_status == 5
        result = shop.result
        assert (result["outcome"], result["error_code"]) == ("FAILED", "E_PROVIDER_UNAVAILABLE")
        assert result["reason"] == "the model endpoint refuses the key (HTTP 401)"
        assert [bead["status"] for bead in result["beads"]] == ["unavailable"]
        assert (result["total_cost_usd"], result["total_tokens"]) == (0, 0)
        assert done.last_line.startswith("✘ FAILED · E_PROVIDER_UNAVAILABLE · the model endpoint")
        shop.assert_put_back()


def test_an_overloaded_endpoint_ends_the_run(tmp_path: Path) -> None:
    """The CLI waits without end; nothing is tried with the next category."""
    with (
        world(tmp_path, REALLY) as shop,
        ModelEndpoint(lambda _: error(529, "overloaded_error", "Overloaded")) as endpoint,
    ):
        done = shop.nightshift(
            "run", ANTHROPIC_BASE_URL=endpoint.url, NIGHTSHIFT_IDLE_TIMEOUT="1.5s"
        )

        assert done.exit_status == 5
        result = shop.result
        assert (result["outcome"], result["error_code"]) == ("FAILED", "E_PROVIDER_UNAVAILABLE")
        assert result["reason"].startswith("the model endpoint ")
        assert [bead["status"] for bead in result["beads"]] == ["unavailable"]
        assert "the model endpoint answers 529; the CLI tries again" in done.log
        shop.assert_put_back()
