"""What code planted in work can say to the other processes, in whole nights: only what work may
say counts."""

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.separation import forging
from tests.support.agent import plays
from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import GOOD, bill, priced
from tests.support.trees import places_of, wait_for
from tests.support.world import BOT_TOKEN, SECRETS, Done, World, ended, world

PAID = 0.25
SCRIPT = plays(GOOD, {"analyze": priced(GOOD["analyze"], PAID)})
EVIL = {"cost_usd": 0.0, "tokens": 0, "assumed_usd": 0.0, "assumed_tokens": 0}


def night(shop: World, way: str, **told: Any) -> Done:
    """A night in which work does this."""
    shop.patch = forging.patch(way, **told)
    with ModelEndpoint(bill) as endpoint:
        return shop.nightshift(
            "run", ANTHROPIC_BASE_URL=endpoint.url, NIGHTSHIFT_MAX_BUDGET_USD="1"
        )


@dataclass(frozen=True)
class Forged:
    """A night in which work forges what it can, and a folder of somebody else's beside it."""

    shop: World
    done: Done
    victim: Path


@pytest.fixture(scope="module")
def forged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forged]:
    folder = tmp_path_factory.mktemp("forged")
    victim = folder / "victim"
    victim.mkdir()
    (victim / "kept").touch()
    with world(folder / "w", SCRIPT) as shop:
        told = {"victim": str(victim), "guess": BOT_TOKEN, "bundle": {"usage": EVIL}}
        yield Forged(shop, night(shop, "tell", **told), victim)


def test_a_night_goes_well_whatever_work_forges(forged: Forged) -> None:
    [made] = forged.shop.merge_requests
    assert (forged.done.exit_status, forged.done.stderr) == (0, "")
    assert forged.shop.result["mr_url"].endswith(f"/merge_requests/{made.iid}")
    assert forged.done.last_line.startswith("✔ MR_CREATED · http://127.0.0.1:")
    forged.shop.assert_restored()


def test_the_cost_is_the_gateways_and_the_plan_the_plans(forged: Forged) -> None:
    assert forged.shop.result["total_cost_usd"] == PAID
    assert "$0.25" in forged.done.last_line
    assert forged.shop.product("plan.json")["run_id"] == "4711"


def test_forged_events_and_sections_are_not_accepted(forged: Forged) -> None:
    names = [event["event"] for event in forged.shop.list_events()]
    assert (names.count("run_started"), names.count("run_ended")) == (1, 1)
    assert names[-1] == "run_ended"
    assert not {"gate_approved", "phase_start"} & set(names)
    sections = re.findall(r"\x1b\[0Ksection_start:\d+:([^\r\[]*)", forged.done.stdout)
    assert not any("forged" in name for name in sections)
    assert "\x1b[0Ksection_end:1:publish" not in forged.done.stdout
    assert "work: a message was not accepted: " in forged.done.log


def test_no_log_of_a_forged_name_is_written_elsewhere(forged: Forged) -> None:
    assert list(forged.victim.iterdir()) == [forged.victim / "kept"]
    names = forged.shop.products()
    assert not any(word in name for name in names for word in ("escaped", "renamed", "evil"))
    assert not list(forged.victim.parent.rglob("*escaped*"))
    assert not Path("/tmp/nightshift-escaped").exists()


def test_a_guessed_secret_is_redacted_everywhere(forged: Forged) -> None:
    assert places_of(SECRETS, {**forged.shop.products(), "log": forged.done.stdout}) == []


def test_a_secret_in_the_patch_stays_here(tmp_path: Path) -> None:
    with world(tmp_path, SCRIPT) as shop:
        done = night(shop, "", patch=f"\n{BOT_TOKEN}\n")
        assert (done.exit_status, shop.result["error_code"]) == (3, "E_POLICY_DENY"), done.log
        assert "bundle/change.patch" not in shop.products()
        assert places_of(SECRETS, {**shop.products(), "log": done.stdout}) == []
        assert shop.merge_requests == []
        shop.assert_restored()


def test_a_bundle_of_another_run(tmp_path: Path) -> None:
    """Its merge request would be taken for this one's. All that work may not say of itself:
    ``supervisor/test_failure_records.py``."""
    with world(tmp_path, SCRIPT) as shop:
        done = night(shop, "", bundle={"run_id": "4710", "outcome": "MR_CREATED"})
        result = shop.result
        assert (done.exit_status, result["outcome"], result["error_code"]) == (
            *(10, "FAILED", "E_PARSE_ERROR"),
        ), done
        assert result["reason"] == "work gave a bundle that cannot be its own: run_id"
        assert (result["run_id"], result["total_cost_usd"]) == ("4711", PAID)
        assert shop.merge_requests == []
        shop.assert_restored()


def test_a_budget_of_a_thousand_dollars(tmp_path: Path) -> None:
    with world(tmp_path, SCRIPT) as shop:
        done = night(shop, "spend", model="claude-opus-4-6", bundle={"usage": EVIL})
        assert done.exit_status == 0, done.log
        assert 0.9 < shop.result["total_cost_usd"] <= 1.0
        assert "$1.00" in done.last_line


def test_a_message_that_breaks_the_rules_cuts_work_off(tmp_path: Path) -> None:
    with world(tmp_path, SCRIPT) as shop:
        done = night(shop, "giant")
        result = shop.result
        assert (done.exit_status, result["outcome"], result["error_code"]) == (
            *(70, "FAILED", "E_INTERNAL"),
        ), done
        assert "work: it is not listened to any more: " in done.log
        assert result["total_cost_usd"] == PAID
        assert shop.merge_requests == []
        shop.assert_restored()


QUICK = "from gitlab_nightshift.run.supervisor import stop_signals; stop_signals.GRACE_S = 0.1\n"


def test_work_that_does_not_end(tmp_path: Path) -> None:
    """It is killed after a while; what it leaves behind does not hold up the run."""
    with world(tmp_path, SCRIPT) as shop, ModelEndpoint(bill) as endpoint:
        marker = tmp_path / "marker"
        shop.patch = QUICK + forging.patch("stay", marker=str(marker))
        process = shop.start("run", ANTHROPIC_BASE_URL=endpoint.url)
        wait_for(lambda: marker.exists() or process.poll() is not None, "work to stay")
        process.send_signal(signal.SIGTERM)
        done = ended(process)
        assert (done.exit_status, shop.result["error_code"]) == (143, "E_TERMINATED"), done
        assert shop.result["total_cost_usd"] == PAID
        shop.assert_restored()


@pytest.mark.parametrize("way", ["leave", "chatter"])
def test_work_that_gives_no_answer(tmp_path: Path, way: str) -> None:
    with world(tmp_path, SCRIPT) as shop:
        marker = tmp_path / "marker"
        done = night(shop, way, marker=str(marker))
        assert (done.exit_status, shop.result["error_code"]) == (143, "E_TERMINATED"), done
        assert shop.result["total_cost_usd"] == PAID
        if way == "leave":
            with pytest.raises(ProcessLookupError):
                os.kill(int(marker.read_text()), 0)
        shop.assert_restored()
