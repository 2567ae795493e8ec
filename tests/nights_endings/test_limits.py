"""Budget, tokens, deadlines, silence, floods: every limit that ends a bead or a run."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from gitlab_nightshift.registry.categories import FALLBACK_ORDER
from gitlab_nightshift.run.process_inputs import compute_work_seconds
from gitlab_nightshift.sandbox.process import EndReason, ProgramEnd
from gitlab_nightshift.sandbox.system_paths import find_interpreter
from gitlab_nightshift.session import Session
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.work.gateway_access import (
    EXITED_DRAIN_S,
    KILLED_DRAIN_S,
    compute_drain_s,
)
from tests.support.agent import (
    Step,
    answer,
    chatter,
    cost,
    daemon,
    fail,
    flood,
    hang,
    leave,
    plays,
    raw,
    retry,
    use,
)
from tests.support.model_endpoint import ModelEndpoint
from tests.support.sandboxes import tier_or_skip, with_agent
from tests.support.shop import FOUND, GOOD, bill, nothing, priced, refused
from tests.support.trees import unpacked
from tests.support.turns import Turn
from tests.support.world import Done, World, world


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

        assert done.exit_status == 13, "for the Analyze that crashed"
        assert shop.agent.names == [
            *("analyze-tests-1", "analyze-refactoring-1"),
            *("implement-refactoring-1", "verify-refactoring-1"),
        ]
        budgets = [bead.option("--max-budget-usd") for bead in shop.agent.seen]
        assert budgets == ["1.0000", "0.6000", "0.4000", "0.1000"]
        result = shop.result
        assert (result["outcome"], result["error_code"]) == ("NO_IMPROVEMENT", "E_INCOMPLETE")
        half = "1 of 2 categories analysed, 1 crashed: tests"
        assert result["reason"] == f"{half}. budget of $1 reached"
        assert result["total_cost_usd"] == pytest.approx(1.0)
        assert result["summary"].splitlines()[1].startswith("tests: analysis failed: crashed: ")
        assert shop.written == []
        shop.assert_restored()


def test_tokens_are_watched_while_a_bead_runs(tmp_path: Path) -> None:
    """2500 tokens of an answer that was promised to be shorter: the bead ends at its next line."""
    paid = priced([chatter()], 2500 * 5e-6)
    scripts = plays(GOOD, {"analyze": priced(GOOD["analyze"], 100 * 5e-6), "implement": paid})
    with world(tmp_path, scripts) as shop, ModelEndpoint(bill) as endpoint:
        shop.ends(0, "run", ANTHROPIC_BASE_URL=endpoint.url, NIGHTSHIFT_MAX_TOKENS="2000")
        assert shop.result["outcome"] == "NO_IMPROVEMENT"
        assert shop.result["reason"] == "budget of 2000 tokens reached"
        assert [bead["status"] for bead in shop.result["beads"]] == ["ok", "budget"]
        assert shop.result["total_tokens"] == 2600 - 2 * 4


def test_a_bead_has_a_deadline_where_one_is_set(tmp_path: Path) -> None:
    """Its output does not move it; the night goes on with the next category."""
    with world(tmp_path, {"analyze": [chatter()]}) as shop:
        shop.ends(13, "run", NIGHTSHIFT_BEAD_TIMEOUT="0.6")
        assert shop.result["reason"].startswith("0 of 5 categories analysed, 5 failed: tests (time")
        assert [bead["status"] for bead in shop.result["beads"]] == ["timeout"] * 5
        assert shop.result["outcome"] == "NO_IMPROVEMENT"


LATER = """
import os, time
now = time.monotonic
time.monotonic = lambda: now() + 3600 * os.path.exists({file!r})
"""
"""An hour passes at once when a file is there."""


def test_the_runs_deadline_fails_the_run(tmp_path: Path) -> None:
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    job = {"CI_JOB_TIMEOUT": "3900", "CI_JOB_STARTED_AT": begun}
    with world(tmp_path, plays(GOOD, {"implement": [*GOOD["implement"], hang()]})) as shop:
        shop.patch = LATER.format(file=str(shop.agent.folder / "hanging"))
        done = shop.ends(6, "run", **job)
        result = shop.result
        assert (result["outcome"], result["error_code"]) == ("FAILED", "E_TIMEOUT")
        assert [bead["status"] for bead in result["beads"]] == ["ok", "timeout"]
        assert done.last_line.startswith("✘ FAILED · E_TIMEOUT · the run's deadline is reached")
        assert shop.written == []


def test_the_seconds_of_a_run_come_from_its_job() -> None:
    """A fifth of the job, at most five minutes, is kept for publishing."""
    now = datetime.now(UTC)
    found = {}
    for limit, used, own in SECONDS:
        begun = (now - timedelta(seconds=used)).isoformat()
        job = SimpleNamespace(job_timeout_s=limit, job_started_at=begun)
        session = SimpleNamespace(settings=Settings(run_timeout=own), job=job)
        found[limit, used, own] = compute_work_seconds(cast("Session", session), now)
    assert found == SECONDS


SECONDS = {
    (100, 30, None): 50,
    (7200, 200, None): 6700,
    (100, 500, None): 1,
    (100, 30, 7000.0): 7000,
    (None, 30, None): None,
}
"""By the job's limit, what it has used, and the run's own limit."""


def test_a_deadline_during_verify_commands_is_the_runs(tmp_path: Path) -> None:
    config = "verify_commands: ['sleep 30']\nbaseline: report\n"
    with world(tmp_path, GOOD, config=config) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_RUN_TIMEOUT="1")
        assert (done.exit_status, shop.result["error_code"]) == (6, "E_TIMEOUT")
        shop.assert_restored()


GARBAGE = (
    "\x00\x01\x02 not json\n" * 100 + "[" * 50_000 + "\n"
    '{"type": "assistant", "message": {"content": 5, "usage": {"output_tokens": []}}}\n'
    '{"type": "assistant", "message": []}\n{"type": "stream_event", "event": 7}\n'
    '{"type": "system", "subtype": "api_retry", "error_status": {}}\n5\nnull\n""\n'
    '{"type": "assistant", "message": {"content": [{"type": "tool_use", "input": []}]}}\n'
)


def test_what_an_agent_prints_is_no_trouble(tmp_path: Path) -> None:
    """Megabytes, whole in a packed log, also in one line; nothing but garbage, which is a failed
    bead; garbage between the lines; an endpoint that was lost and comes back."""
    scripts = plays(
        GOOD,
        {
            "analyze-tests": [flood(3_000_000), raw("\n"), *nothing()],
            "analyze-refactoring": [flood(9_000_000, 0), raw("\n"), *nothing()],
            "analyze-docs": [raw("Hello?\n"), leave(3)],
            "analyze-security": [*[retry(529)] * 20, retry(401), *nothing()],
            "analyze": [raw(GARBAGE), answer(FOUND), raw(GARBAGE)],
            "mr": [cost(0.5), fail("error_max_budget_usd", "")],
        },
    )
    with world(tmp_path, scripts) as shop:
        done = shop.nightshift("run")

        assert (done.exit_status, done.stderr) == (13, "")
        statuses = [bead["status"] for bead in shop.result["beads"]]
        assert statuses == [*("ok", "ok", "crashed"), *["ok"] * 4, "budget"]
        assert "the model endpoint answers 529; the CLI tries again" in done.log
        assert len(done.stdout) < 20_000
        for bead in shop.result["beads"][:2]:
            log = bead["logs"][0]
            assert log.endswith(".out.gz")
            packed = shop.checkout / "nightshift" / log
            assert packed.stat().st_size < 1_000_000
            assert len(unpacked(packed)) > 3_000_000
        assert shop.result["outcome"] == "MR_CREATED"
        assert len(shop.merge_requests) == 1, "a budget that the MR bead reaches loses nothing"


EVIL = "\ud800 end\r\x1b[0Ksection_end:1:plan\r\x1b[0K\x1b[31m <script>alert(1)</script>\n::x"


@dataclass(frozen=True)
class Unruly:
    """A night with a bead that floods its output, one that leaves a daemon, and hostile texts."""

    shop: World
    done: Done


@pytest.fixture(scope="module")
def unruly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unruly]:
    play: list[Step] = [("say", EVIL), ("deny", EVIL), fail(text=EVIL)]
    scripts = plays(
        {"analyze": nothing(EVIL[1:]), "analyze-tests": [flood(10**12)]},
        {"analyze-refactoring": [daemon("shop.py"), *nothing()], "analyze-docs": play},
    )
    with world(tmp_path_factory.mktemp("unruly"), scripts) as shop:
        shop.agent.ask_git()
        done = shop.nightshift("run", NIGHTSHIFT_MAX_OUTPUT="2 MB")
        assert (done.exit_status, done.stderr) == (13, "")
        yield Unruly(shop, done)


def test_a_bead_that_prints_too_much_is_ended(unruly: Unruly) -> None:
    assert unruly.shop.result["beads"][0]["status"] == "output_limit"
    assert len(unruly.shop.products()["logs/01-analyze-tests-1.out.gz"]) < 10_000_000


def test_a_process_that_left_its_group_and_ignores_signals_is_ended(unruly: Unruly) -> None:
    assert unruly.shop.agent.seen[2].git_status == ""
    assert b"still here" not in (unruly.shop.checkout / "shop.py").read_bytes()
    unruly.shop.assert_restored()


def test_half_characters_colours_and_markers_break_no_log_and_no_file(unruly: Unruly) -> None:
    out, products = unruly.done.stdout, unruly.shop.products()
    assert "\x1b[31m" not in out
    assert "\x1b[0Ksection_end:1:" not in out
    assert out.count("\x1b[0Ksection_start") == out.count("\x1b[0Ksection_end")
    assert all(isinstance(text.decode(), str) for text in products.values())
    assert "<script>" not in products["report.html"].decode()


def test_a_refused_key_ends_the_run_while_the_cli_goes_on(tmp_path: Path) -> None:
    scripts = {"analyze": [*[retry(401)] * 3, hang()]}
    with world(tmp_path, scripts) as shop:
        done = shop.nightshift("run")
        assert (done.exit_status, shop.agent.names) == (5, ["analyze-tests-1"])
        assert shop.result["reason"] == "the model endpoint refused the key (HTTP 401)"


def test_what_an_agent_says_of_its_cost_is_not_counted(tmp_path: Path) -> None:
    """A hostile agent can write to the CLI's output: no budget grows by that, and none ends."""
    claims = (1000, -9, 0, None)
    lying = {
        f"analyze-{category}": [cost(claimed, 7), use(10**9), *priced(nothing(), 0.25)]
        for category, claimed in zip(FALLBACK_ORDER, claims, strict=False)
    }
    with world(tmp_path, lying) as shop, ModelEndpoint(bill) as endpoint:
        limits = {"NIGHTSHIFT_MAX_BUDGET_USD": "1", "NIGHTSHIFT_MAX_TOKENS": "1000000"}
        shop.ends(0, "run", ANTHROPIC_BASE_URL=endpoint.url, **limits)
        assert shop.result["reason"] == "budget of $1 reached"
        assert [bead["status"] for bead in shop.result["beads"]] == ["ok"] * 4
        assert shop.result["total_cost_usd"] == pytest.approx(1.0)
        assert shop.result["total_tokens"] == 200_000 - 4 * 4


ASKING = """#!/bin/sh
trap '' INT TERM HUP
exec {python} -c '
import json, os, signal, time, urllib.request
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
said = [{{"role": "user", "content": "x"}}]
body = {{"model": "claude-opus-4-6", "max_tokens": 1000, "messages": said}}
head = {{"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}}
address = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
request = urllib.request.Request(address, json.dumps(body).encode(), head)
request.add_header("content-type", "application/json")
urllib.request.urlopen(request).read()
'
"""
"""An agent that ignores what ends it, and waits for an answer that never comes."""


@pytest.mark.parametrize("tier", ["none", "landlock", "namespaces"])
def test_an_ended_bead_waits_for_no_answer(tmp_path: Path, tier: str) -> None:
    """Two minutes each, without that: more than a test's command may take."""
    with world(tmp_path) as shop, ModelEndpoint(lambda _: Turn(hang=True)) as endpoint:
        # One that the sandbox shows: the tests' own may be below the user's home.
        seen = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or find_interpreter()
        path = with_agent(shop, "stub", ASKING.format(python=seen))
        own = {"PATH": path, "NIGHTSHIFT_AGENT_PATHS": str(shop.folder / "stub")}
        limits = {"NIGHTSHIFT_BEAD_TIMEOUT": "1s", "NIGHTSHIFT_ISOLATION": tier_or_skip(tier)}
        done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url, **own, **limits)

        assert (done.exit_status, len(endpoint.messages)) == (13, len(FALLBACK_ORDER)), done.log
        assert [bead["status"] for bead in shop.result["beads"]] == ["timeout"] * len(
            FALLBACK_ORDER
        )
        assert "the most that it can have cost is counted" in done.log
        shop.assert_restored()


EXITED, TIMEOUT = EndReason.EXITED, EndReason.TIMEOUT


@pytest.mark.parametrize(
    ("end", "timeout_s", "run_left_s", "wait_s"),
    [
        (TIMEOUT, 3.0, None, KILLED_DRAIN_S),
        (TIMEOUT, None, 0.5, 0.5),
        (EndReason.IDLE, 600.0, 900.0, KILLED_DRAIN_S),
        (EndReason.STOPPED, None, None, KILLED_DRAIN_S),
        (EXITED, None, None, EXITED_DRAIN_S),
        (EXITED, 600.0, None, EXITED_DRAIN_S),
        (EXITED, 40.0, None, 40.0 - 30.0),
        (EXITED, 31.0, None, KILLED_DRAIN_S),
        (EXITED, 600.0, 5.0, 5.0),
        (EXITED, None, -5.0, 0.0),
    ],
)
def test_how_long_an_answer_is_waited_for(
    end: EndReason, timeout_s: float | None, run_left_s: float | None, wait_s: float
) -> None:
    assert compute_drain_s(ProgramEnd(end, 0, 30.0), timeout_s, run_left_s) == wait_s
