"""The night's order of things: fallback, retries, what the beads are told, how it ends."""

import json
from pathlib import Path
from typing import Any

from gitlab_nightshift.guidance import FALLBACK_ORDER
from tests.support.agent import (
    answer,
    append,
    plays,
    sh,
    write,
)
from tests.support.shop import GOOD, PASSED, TEST, nothing, refused
from tests.support.world import PROVING, World, git, world


def test_a_category_that_fails_gives_way_to_the_next(tmp_path: Path) -> None:
    """Three attempts fail in Verify. In the next category the bead says passed, but the program's
    own run says otherwise, and the attempt after it is told."""
    wrong = TEST.replace("5)\n", "6)\n")
    scripts = plays(
        GOOD,
        {f"verify-tests-{n}": refused(f"Fault {n} remains.") for n in (1, 2, 3)},
        {"implement-tests": [write("attempt.txt", "x\n")]},
        {"implement-refactoring-1": [append("test_shop.py", wrong)]},
    )
    with world(tmp_path, scripts, config=PROVING) as shop:
        done = shop.nightshift("run")

        assert done.exit_status == 0
        attempts = [f"{bead}-tests-{n}" for n in (1, 2, 3) for bead in ("implement", "verify")]
        others = [f"{bead}-refactoring-{n}" for n in (1, 2) for bead in ("implement", "verify")]
        assert shop.agent.names == [
            *("analyze-tests-1", *attempts),
            *("analyze-refactoring-1", *others, "mr-refactoring-1"),
        ]
        *told, last = [b.last_failure for b in shop.agent.seen if b.bead == "implement"]
        assert told == ["", "Fault 1 remains.", "Fault 2 remains.", ""]
        assert last.startswith("`make test` failed: exit status 2.")
        assert "AssertionError: 5.0 != 6" in last
        assert "✘ make test · exit status 2" in done.log
        result = shop.result
        assert result["outcome"] == "MR_CREATED"
        assert result["category_used"] == "refactoring (fallback from tests)"
        assert result["is_fallback"] is True
        assert result["files_scanned"] == 10
        assert result["summary"].splitlines() == [
            "10 files scanned",
            "tests: verify failed after retries: Fault 3 remains.",
            "refactoring: Test the discount of total()",
        ]
        [mr] = shop.merge_requests
        assert mr.title == "[night-shift/refactoring] Test the discount of total()"
        assert mr.labels == ["night-shift", "refactoring"]
        assert "Category: refactoring (fallback from tests)." in (mr.description or "")
        assert "- `make test`: exit 0" in (mr.description or "")
        assert "6)" not in git(shop.project.bare_repository, "show", mr.sha)
        assert "refactoring (fallback from tests)" in done.last_line
        env = shop.products()["nightshift.env"].decode()
        assert "NIGHT_CATEGORY=refactoring (fallback from tests)\n" in env
        assert "Category: tests\n" in shop.agent.seen[0].prompt
        assert "Category: refactoring\n" in shop.agent.last("analyze").prompt
        shop.assert_put_back()


def test_all_five_exhausted(tmp_path: Path) -> None:
    """One of them is tried once: the number of retries is a setting."""
    scripts = plays(
        {f"analyze-{name}": nothing(f"No {name}.", 2) for name in FALLBACK_ORDER},
        {"analyze-tests": GOOD["analyze"], "implement": GOOD["implement"]},
        {"verify": refused("No.")},
    )
    once = {"NIGHTSHIFT_MAX_IMPLEMENT_RETRIES": "0"}
    with world(tmp_path, scripts) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_CATEGORY="docs", **once)

        assert done.exit_status == 0
        order = ["docs", "tests", "refactoring", "security", "performance"]
        asked = [f"analyze-{name}-1" for name in order]
        asked[2:2] = ["implement-tests-1", "verify-tests-1"]
        assert shop.agent.names == asked
        result = shop.result
        assert (result["outcome"], result["error_code"]) == ("NO_IMPROVEMENT", "")
        assert (result["category_used"], result["is_fallback"]) == ("docs", False)
        assert result["reason"].startswith("All categories exhausted. ")
        head, *lines = result["summary"].splitlines()
        assert head == "13 files scanned"
        assert lines.pop(1) == "tests: verify failed after retries: No."
        assert lines == [f"{name}: no improvement: No {name}." for name in order if name != "tests"]
        assert result["mr_url"] == result["branch"] == result["commit_sha"] == ""
        assert result["total_cost_usd"] == 0, "no model was asked, whatever the CLI claims"
        assert shop.written == []
        assert not (shop.checkout / "nightshift" / "published.json").exists()
        assert shop.bundle["outcome"] == "NO_IMPROVEMENT"
        assert "○ NO_IMPROVEMENT · All categories exhausted." in done.last_line
        shop.assert_put_back()


def test_verify_commands_run_with_only_the_change_applied(tmp_path: Path) -> None:
    """What Implement and Verify leave besides the change (ignored files) proves nothing; a red
    baseline that is only reported is told."""
    scripts = plays(
        GOOD,
        {
            "implement": [sh("mkdir build && echo yes > build/ok"), write("made.txt", "1\n")],
            "verify": [sh("mkdir build; echo yes > build/ok; echo 2 > made.txt"), answer(PASSED)],
            "analyze": nothing(),
            "analyze-tests": GOOD["analyze"],
        },
    )
    config = "verify_commands: ['test -e build/ok']\nbaseline: report\nmax_implement_retries: 0\n"
    with world(tmp_path, scripts, config=config) as shop:
        done = shop.nightshift("run")
        assert [c["exit_status"] for c in _commands_of(shop)] == [1, 1]
        [mr] = shop.merge_requests
        said = "verify_commands fail on the untouched checkout:"
        assert f"{said} `test -e build/ok` failed: exit status 1. So they prove" in done.log
        body = (mr.description or "").replace("\\_", "_")
        assert "- `test -e build/ok`: exit 1, " in body
        assert said in body
        assert git(shop.project.bare_repository, "show", f"{mr.sha}:made.txt") == "1\n"
        shop.assert_put_back()


def _commands_of(shop: World) -> list[Any]:
    lines = shop.products()["events.jsonl"].decode().splitlines()
    events = [json.loads(line) for line in lines]
    return [event["result"] for event in events if event["event"] == "command_ended"]
