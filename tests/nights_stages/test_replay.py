"""A recorded night, played again."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import cost, deny, handoff, plays, sh
from tests.support.shop import FOUND, GOOD, nothing, refused
from tests.support.trees import places_of, whole_tree
from tests.support.world import ANYWHERE, SECRETS, Done, World, world

CHANGE = (
    "echo 'x = 1' > test_new.py; rm notes.md; chmod +x tool.py; "
    "printf 'a b' > 'with space.txt'; mkdir -p deep/er; echo 1 > deep/er/one; git rm -q run.sh"
)


def told(shop: World) -> Any:
    """The parts of a result that a replay repeats."""
    result = shop.result
    beads = [
        (b["bead"], b["category"], b["attempt"], b["status"], b["denied"], b["handoff"])
        for b in result["beads"]
    ]
    names = ("outcome", "category_used", "summary", "files_scanned")
    proposal = {**shop.bundle["proposal"], "verify_tools": None}  # the gateway sees no replay
    proposal["commands"] = [{**row, "duration_s": 0} for row in proposal["commands"]]
    return [result[name] for name in names], beads, proposal


SCRIPTS = plays(
    GOOD,
    {
        "analyze-tests": nothing(),
        "analyze": [handoff(json.dumps(FOUND)), cost(0.25, 1234)],
        "implement-refactoring-1": [("write", "wrong.py", "")],
        "verify-refactoring-1": [deny("curl x"), *refused("Wrong.")],
        "implement-refactoring-2": [sh(CHANGE), deny("env")],
    },
)
FILES = {"shop.py": "x = 0\n", "notes.md": "n\n", "tool.py": "t\n", "run.sh": "r\n", "a": "a"}


@dataclass(frozen=True)
class Night:
    """How a night ended, and what it came to."""

    done: Done
    result: dict[str, Any]
    told: Any = None


@dataclass(frozen=True)
class Nights:
    """A recorded night; one played back that tries more; one without an agent or a key."""

    shop: World
    recording: Path
    recorded: Night
    more: Night
    again: Night
    beads: int


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nights]:
    folder = tmp_path_factory.mktemp("recorded")
    recording = folder / "recording"
    replay = {"NIGHTSHIFT_AGENT": "replay", "NIGHTSHIFT_REPLAY_DIR": str(recording)}
    with world(folder / "w", SCRIPTS, files=FILES, config=ANYWHERE) as shop:

        def run(*args: str, **env: str) -> Night:
            done = shop.nightshift("run", *args, **env)
            shop.assert_restored()
            return Night(done, shop.result, told(shop))

        recorded = run("--dry-run", NIGHTSHIFT_RECORD_DIR=str(recording))
        beads = len(shop.agent.seen)
        shop.checked_out_anew()
        more = run("--dry-run", "--category", "docs", **replay)
        again = run(ANTHROPIC_API_KEY="", PATH="/usr/bin:/bin", **replay)
        yield Nights(shop, recording, recorded, more, again, beads)


def test_a_recording_has_a_folder_for_each_bead_and_no_secret(nights: Nights) -> None:
    assert (nights.recorded.done.exit_status, nights.recorded.done.stderr) == (0, "")
    assert nights.recorded.result["outcome"] == "MR_READY"
    assert nights.recorded.result["total_cost_usd"] == 0, "the gateway has seen no request"
    assert sorted(path.name for path in nights.recording.iterdir()) == [
        "analyze-refactoring-1",
        "analyze-tests-1",
        "implement-refactoring-1",
        "implement-refactoring-2",
        "mr-refactoring-1",
        "recording.json",
        "verify-refactoring-1",
        "verify-refactoring-2",
    ]
    texts = {name: str(entry[-1]) for name, entry in whole_tree(nights.recording).items()}
    assert places_of(SECRETS, texts) == []


def test_a_bead_that_was_not_recorded_is_a_failed_one(nights: Nights) -> None:
    assert nights.more.done.exit_status == 13
    first_line, second_line = nights.more.result["summary"].splitlines()[1:3]
    assert "the recording has no bead analyze-docs-1" in first_line
    assert second_line.startswith("tests: ")
    assert nights.more.result["category_used"] == "refactoring (fallback from docs)"


def test_a_replay_gives_the_same_change_without_an_agent_or_a_key(nights: Nights) -> None:
    assert (nights.again.done.exit_status, nights.again.done.stderr) == (0, "")
    assert len(nights.shop.agent.seen) == nights.beads
    outcome, *second = nights.again.told
    first, *rest = nights.recorded.told
    assert outcome == ["MR_CREATED", *first[1:]]
    assert second == rest
    assert len(nights.shop.merge_requests) == 1


def test_a_replay_costs_what_the_recorded_cli_says(nights: Nights) -> None:
    """It has no gateway."""
    assert nights.again.result["total_cost_usd"] == pytest.approx(0.25 + 6 * 0.01)
    assert nights.again.result["total_tokens"] == 1234 + 6 * 100


def test_a_folder_without_a_recording_is_refused(tmp_path: Path) -> None:
    replay = {"NIGHTSHIFT_AGENT": "replay", "NIGHTSHIFT_REPLAY_DIR": str(tmp_path)}
    with world(tmp_path / "w", config=ANYWHERE) as shop:
        none = shop.ends(2, "run", **replay)
        assert "no recorded night" in none.last_line
