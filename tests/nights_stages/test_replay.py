"""A recorded night, played again."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import cost, deny, handoff, plays, sh
from tests.support.shop import FOUND, GOOD, nothing, refused
from tests.support.trees import places_of, whole_tree
from tests.support.world import ANYWHERE, SECRETS, World, world

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


def test_a_replay_gives_the_same_change(tmp_path: Path) -> None:
    scripts = plays(
        GOOD,
        {
            "analyze-tests": nothing(),
            "analyze": [handoff(__import__("json").dumps(FOUND)), cost(0.25, 1234)],
            "implement-refactoring-1": [("write", "wrong.py", "")],
            "verify-refactoring-1": [deny("curl x"), *refused("Wrong.")],
            "implement-refactoring-2": [sh(CHANGE), deny("env")],
        },
    )
    files = {"shop.py": "x = 0\n", "notes.md": "n\n", "tool.py": "t\n", "run.sh": "r\n", "a": "a"}
    recording = tmp_path / "recording"
    with world(tmp_path / "w", scripts, files=files, config=ANYWHERE) as shop:
        done = shop.nightshift("run", "--dry-run", NIGHTSHIFT_RECORD_DIR=str(recording))
        assert (done.exit_status, done.stderr) == (0, "")
        first = told(shop)
        assert first[0][0] == "MR_READY"
        assert shop.result["total_cost_usd"] == 0, "the gateway has seen no request"
        assert sorted(path.name for path in recording.iterdir()) == [
            "analyze-refactoring-1",
            "analyze-tests-1",
            "implement-refactoring-1",
            "implement-refactoring-2",
            "mr-refactoring-1",
            "recording.json",
            "verify-refactoring-1",
            "verify-refactoring-2",
        ]
        texts = {name: str(entry[-1]) for name, entry in whole_tree(recording).items()}
        assert places_of(SECRETS, texts) == []
        shop.checked_out_anew()

        beads = len(shop.agent.seen)
        replay = {"NIGHTSHIFT_AGENT": "replay", "NIGHTSHIFT_REPLAY_DIR": str(recording)}
        # a bead that was not recorded is a failed one
        more = shop.nightshift("run", "--dry-run", "--category", "docs", **replay)
        assert more.exit_status == 13
        first_line, second_line = shop.result["summary"].splitlines()[1:3]
        assert "the recording has no bead analyze-docs-1" in first_line
        assert second_line.startswith("tests: ")
        assert shop.result["category_used"] == "refactoring (fallback from docs)"

        again = shop.nightshift("run", ANTHROPIC_API_KEY="", PATH="/usr/bin:/bin", **replay)
        assert (again.exit_status, again.stderr) == (0, "")
        assert len(shop.agent.seen) == beads
        outcome, *second = told(shop)
        assert outcome == ["MR_CREATED", *first[0][1:]]
        assert second == list(first[1:])
        # a replay has no gateway: its costs are the recorded CLI's own figures
        assert shop.result["total_cost_usd"] == pytest.approx(0.25 + 6 * 0.01)
        assert shop.result["total_tokens"] == 1234 + 6 * 100
        assert len(shop.merge_requests) == 1
        shop.assert_restored()

        other = {**replay, "NIGHTSHIFT_REPLAY_DIR": str(tmp_path), "CI_PIPELINE_ID": "4712"}
        none = shop.nightshift("run", **other)
        assert none.exit_status == 2
        assert "no recorded night" in none.last_line
        shop.assert_restored()
