"""Budget, tokens, deadlines, silence, floods: every way in which a bead or a run is ended."""

import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.agent import (
    Step,
    answer,
    append,
    chatter,
    cost,
    daemon,
    fail,
    flood,
    hang,
    plays,
    raw,
    retry,
    stubborn,
    use,
)
from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import FOUND, GOOD, TEST, bill, nothing, priced, refused
from tests.support.trees import processes_in
from tests.support.world import world


def test_the_budget_ends_the_night_before_the_next_bead(tmp_path: Path) -> None:
    """Failed beads count too; a reached budget is no alarm."""
    scripts = plays(
        GOOD,
        {
            "analyze-tests": priced([fail()], 0.4),
            "analyze-refactoring": priced(GOOD["analyze"], 0.2),
            "implement": priced(GOOD["implement"], 0.3),
            "verify": priced(refused("No."), 0.1),
        },
    )
    with world(tmp_path, scripts) as shop, ModelEndpoint(bill) as endpoint:
        done = shop.nightshift(
            "run", ANTHROPIC_BASE_URL=endpoint.url, NIGHTSHIFT_MAX_BUDGET_USD="1"
        )

        assert done.exit_status == 0
        assert shop.agent.names == [
            *("analyze-tests-1", "analyze-refactoring-1"),
            *("implement-refactoring-1", "verify-refactoring-1"),
        ]
        budgets = [bead.option("--max-budget-usd") for bead in shop.agent.seen]
        assert budgets == ["1.0000", "0.6000", "0.4000", "0.1000"]
        result = shop.result
        assert (result["outcome"], result["error_code"]) == ("NO_IMPROVEMENT", "")
        assert result["reason"] == "budget of $1 reached"
        assert result["total_cost_usd"] == pytest.approx(1.0)
        assert result["summary"].splitlines()[1].startswith("tests: analysis failed: crashed: ")
        assert shop.written == []
        shop.assert_put_back()


def test_a_budget_that_the_mr_bead_reaches_loses_nothing(tmp_path: Path) -> None:
    scripts = plays(GOOD, {"mr": [cost(0.5), fail("error_max_budget_usd", "")]})
    with world(tmp_path, scripts) as shop:
        assert shop.nightshift("run").exit_status == 0
        assert shop.result["outcome"] == "MR_CREATED"
        assert len(shop.merge_requests) == 1


def test_tokens_are_watched_while_a_bead_runs(tmp_path: Path) -> None:
    """2500 tokens of an answer that was promised to be shorter: the bead ends at its next line."""
    paid = priced([chatter()], 2500 * 5e-6)
    scripts = plays(GOOD, {"analyze": priced(GOOD["analyze"], 100 * 5e-6), "implement": paid})
    with world(tmp_path, scripts) as shop, ModelEndpoint(bill) as endpoint:
        done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url, NIGHTSHIFT_MAX_TOKENS="2000")

        assert done.exit_status == 0
        assert shop.result["outcome"] == "NO_IMPROVEMENT"
        assert shop.result["reason"] == "budget of 2000 tokens reached"
        assert [bead["status"] for bead in shop.result["beads"]] == ["ok", "budget"]
        assert shop.result["total_tokens"] == 2600
        shop.assert_put_back()


def test_a_silent_bead_is_ended(tmp_path: Path) -> None:
    """Also one that ignores the polite signals; the night goes on with the next category."""
    scripts = plays({"analyze": nothing()}, {"analyze-tests": [stubborn(), hang()]})
    with world(tmp_path, scripts) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_IDLE_TIMEOUT="0.6")

        assert done.exit_status == 0
        assert shop.result["beads"][0]["status"] == "idle"
        assert shop.result["summary"].splitlines()[1] == (
            "tests: analysis failed: idle: no output for too long"
        )
        assert len(shop.agent.names) == 5
        shop.assert_put_back()


def test_a_bead_has_a_deadline_where_one_is_set(tmp_path: Path) -> None:
    scripts = plays({"analyze": nothing()}, {"analyze-tests": [chatter()]})
    with world(tmp_path, scripts) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_BEAD_TIMEOUT="0.6")

        assert done.exit_status == 0
        assert shop.result["beads"][0]["status"] == "timeout"
        assert shop.result["outcome"] == "NO_IMPROVEMENT"
        assert "still at it" in done.log
        shop.assert_put_back()


def test_the_runs_deadline_fails_the_run(tmp_path: Path) -> None:
    scripts = plays(GOOD, {"implement": [append("test_shop.py", TEST), chatter()]})
    with world(tmp_path, scripts) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_RUN_TIMEOUT="1.2")

        assert done.exit_status == 6
        result = shop.result
        assert (result["outcome"], result["error_code"]) == ("FAILED", "E_TIMEOUT")
        assert [bead["status"] for bead in result["beads"]] == ["ok", "timeout"]
        assert done.last_line.startswith("✘ FAILED · E_TIMEOUT · the run's deadline is reached")
        assert shop.written == []
        shop.assert_put_back()


def test_the_deadline_comes_from_the_job(tmp_path: Path) -> None:
    """A fifth of the job, at most five minutes, is kept for publishing."""
    started = datetime.now(UTC) - timedelta(seconds=78.5)
    job = {"CI_JOB_TIMEOUT": "100", "CI_JOB_STARTED_AT": started.isoformat(timespec="seconds")}
    with world(tmp_path, {"analyze": [chatter()]}) as shop:
        begun = time.monotonic()
        done = shop.nightshift("run", **job)
        assert time.monotonic() - begun < 15
        assert (done.exit_status, shop.result["error_code"]) == (6, "E_TIMEOUT")
        shop.assert_put_back()


def test_a_deadline_during_verify_commands_is_the_runs(tmp_path: Path) -> None:
    config = "verify_commands: ['sleep 30']\nbaseline: report\n"
    with world(tmp_path, GOOD, config=config) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_RUN_TIMEOUT="1")
        assert (done.exit_status, shop.result["error_code"]) == (6, "E_TIMEOUT")
        shop.assert_put_back()


@pytest.mark.parametrize("line", [1000, 0], ids=["lines", "one line"])
def test_fifty_megabytes_are_no_trouble(tmp_path: Path, line: int) -> None:
    """Raw logs are whole, and compressed."""
    scripts = plays(GOOD, {"analyze": [flood(50_000_000, line), raw("\n"), answer(FOUND)]})
    with world(tmp_path, scripts) as shop:
        done = shop.nightshift("run")

        assert done.exit_status == 0
        assert shop.result["outcome"] == "MR_CREATED"
        assert shop.result["beads"][0]["logs"][0] == "logs/01-analyze-tests-1.out.gz"
        assert len(shop.products()["logs/01-analyze-tests-1.out.gz"]) > 50_000_000
        packed = shop.checkout / "nightshift" / "logs" / "01-analyze-tests-1.out.gz"
        assert packed.stat().st_size < 1_000_000
        assert len(done.stdout) < 20_000


def test_a_bead_that_prints_too_much_is_ended(tmp_path: Path) -> None:
    scripts = plays({"analyze": nothing()}, {"analyze-tests": [flood(10**12)]})
    with world(tmp_path, scripts) as shop:
        assert shop.nightshift("run", NIGHTSHIFT_MAX_OUTPUT="2 MB").exit_status == 0
        assert shop.result["beads"][0]["status"] == "output_limit"
        assert len(shop.products()["logs/01-analyze-tests-1.out.gz"]) < 10_000_000
        shop.assert_put_back()


GARBAGE = (
    "\x00\x01\x02 not json\n" * 100 + "[" * 50_000 + "\n"
    '{"type": "assistant", "message": {"content": 5, "usage": {"output_tokens": []}}}\n'
    '{"type": "assistant", "message": []}\n{"type": "stream_event", "event": 7}\n'
    '{"type": "system", "subtype": "api_retry", "error_status": {}}\n5\nnull\n""\n'
    '{"type": "assistant", "message": {"content": [{"type": "tool_use", "input": []}]}}\n'
)


def test_garbage_between_the_lines_changes_nothing(tmp_path: Path) -> None:
    scripts = plays(GOOD, {"analyze": [raw(GARBAGE), answer(FOUND), raw(GARBAGE)]})
    with world(tmp_path, scripts) as shop:
        done = shop.nightshift("run")
        assert (done.exit_status, done.stderr) == (0, "")
        assert shop.result["outcome"] == "MR_CREATED"


def test_nothing_but_garbage_is_a_failed_bead(tmp_path: Path) -> None:
    scripts = plays({"analyze": nothing()}, {"analyze-tests": [raw("Hello?\n"), ("exit", 3)]})
    with world(tmp_path, scripts) as shop:
        assert shop.nightshift("run").exit_status == 0
        assert shop.result["beads"][0]["status"] == "crashed"


def test_a_daemon_does_not_outlive_its_bead(tmp_path: Path) -> None:
    """It left its process group and ignores signals: it is found and ended all the same."""
    step: Step = daemon("shop.py")
    with world(tmp_path, plays(GOOD, {"analyze": [step, answer(FOUND)]})) as shop:
        done = shop.nightshift("run")
        assert done.exit_status == 0
        assert b"still here" not in (shop.checkout / "shop.py").read_bytes()
        assert shop.agent.seen[1].git_status == ""
        shop.assert_put_back()
        assert processes_in(tmp_path) == []


def test_a_refused_key_ends_the_run_while_the_cli_goes_on(tmp_path: Path) -> None:
    scripts = {"analyze": [*[retry(401)] * 3, hang()]}
    with world(tmp_path, scripts) as shop:
        done = shop.nightshift("run")
        assert (done.exit_status, shop.agent.names) == (5, ["analyze-tests-1"])
        assert shop.result["reason"] == "the model endpoint refuses the key (HTTP 401)"


def test_a_lost_endpoint_that_comes_back_is_forgiven(tmp_path: Path) -> None:
    scripts = plays(GOOD, {"analyze": [*[retry(529)] * 20, retry(401), answer(FOUND)]})
    with world(tmp_path, scripts) as shop:
        assert shop.nightshift("run").exit_status == 0
        assert shop.result["outcome"] == "MR_CREATED"


def test_a_crashed_bead_of_unknown_cost(tmp_path: Path) -> None:
    """It has used tokens of a model without a price: the sum is unknown, never 0."""
    crashed = priced([("crash", int(signal.SIGSEGV))], 500 * 5e-6)
    scripts = plays({"analyze": nothing()}, {"analyze-tests": crashed})
    config = "models: {analyze: made-up-1}\n"
    with world(tmp_path, scripts, config=config) as shop, ModelEndpoint(bill) as endpoint:
        shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url)
        first = shop.result["beads"][0]
        assert (first["status"], first["usage"]) == ("crashed", {"cost_usd": None, "tokens": 500})
        assert shop.result["total_cost_usd"] is None
        assert shop.result["total_tokens"] == 500


@pytest.mark.parametrize("claimed", [-9, 0, None, 1000])
def test_what_an_agent_says_of_its_cost_is_not_counted(
    tmp_path: Path, claimed: float | None
) -> None:
    """A hostile agent can write to the CLI's output: no budget grows by that, and none ends."""
    lying = [cost(claimed, 7), use(10**9), *priced(nothing(), 0.1)]
    scripts = plays({"analyze": priced(nothing(), 0.6)}, {"analyze-tests": lying})
    with world(tmp_path, scripts) as shop, ModelEndpoint(bill) as endpoint:
        limits = {"NIGHTSHIFT_MAX_BUDGET_USD": "1", "NIGHTSHIFT_MAX_TOKENS": "1000000"}
        done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url, **limits)
        assert done.exit_status == 0
        assert shop.result["reason"] == "budget of $1 reached"
        assert shop.agent.names[-1] == "analyze-docs-1"
        assert shop.result["total_cost_usd"] == pytest.approx(1.3)
        assert shop.result["total_tokens"] == 260_000


def test_hostile_texts_stay_in_their_line(tmp_path: Path) -> None:
    """Half characters, colours and section markers from an agent break no log and no file."""
    evil = "\ud800 end\r\x1b[0Ksection_end:1:plan\r\x1b[0K\x1b[31m <script>alert(1)</script>\n::x"
    play: list[Step] = [("say", evil), ("deny", evil), fail(text=evil)]
    with world(tmp_path, plays({"analyze": nothing(evil[1:])}, {"analyze-tests": play})) as shop:
        done = shop.nightshift("run")
        assert (done.exit_status, done.stderr) == (0, "")
        assert "\x1b[31m" not in done.stdout
        assert "\x1b[0Ksection_end:1:" not in done.stdout
        assert done.stdout.count("\x1b[0Ksection_start") == done.stdout.count("\x1b[0Ksection_end")
        assert all(isinstance(text.decode(), str) for text in shop.products().values())
        assert "<script>" not in shop.products()["report.html"].decode()
