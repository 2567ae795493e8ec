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


def test_no_improvement_then_fallback(tmp_path: Path) -> None:
    with world(tmp_path, plays(GOOD, {"analyze-tests": nothing("All is tested.", 7)})) as shop:
        done = shop.nightshift("run")

        assert done.exit_status == 0
        assert shop.agent.names == [
            *("analyze-tests-1", "analyze-refactoring-1", "implement-refactoring-1"),
            *("verify-refactoring-1", "mr-refactoring-1"),
        ]
        result = shop.result
        assert result["outcome"] == "MR_CREATED"
        assert result["category_used"] == "refactoring (fallback from tests)"
        assert result["is_fallback"] is True
        assert result["files_scanned"] == 12
        assert result["summary"].splitlines() == [
            "12 files scanned",
            "tests: no improvement: All is tested.",
            "refactoring: Test the discount of total()",
        ]
        [mr] = shop.merge_requests
        assert mr.title == "[night-shift/refactoring] Test the discount of total()"
        assert mr.labels == ["night-shift", "refactoring"]
        assert "Category: refactoring (fallback from tests)." in (mr.description or "")
        assert "refactoring (fallback from tests)" in done.last_line
        env = shop.products()["nightshift.env"].decode()
        assert "NIGHT_CATEGORY=refactoring (fallback from tests)\n" in env
        first, second = shop.agent.seen[:2]
        assert "Category: tests\n" in first.prompt
        assert "Category: refactoring\n" in second.prompt
        shop.assert_put_back()


def test_all_five_exhausted(tmp_path: Path) -> None:
    scripts = {f"analyze-{name}": nothing(f"No {name}.", 2) for name in FALLBACK_ORDER}
    with world(tmp_path, scripts) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_CATEGORY="docs")

        assert done.exit_status == 0
        order = ["docs", "tests", "refactoring", "security", "performance"]
        assert shop.agent.names == [f"analyze-{name}-1" for name in order]
        result = shop.result
        assert (result["outcome"], result["error_code"]) == ("NO_IMPROVEMENT", "")
        assert (result["category_used"], result["is_fallback"]) == ("docs", False)
        assert result["reason"].startswith("All categories exhausted. ")
        head, *lines = result["summary"].splitlines()
        assert head == "10 files scanned"
        assert lines == [f"{name}: no improvement: No {name}." for name in order]
        assert result["mr_url"] == result["branch"] == result["commit_sha"] == ""
        assert result["total_cost_usd"] == 0, "no model was asked, whatever the CLI claims"
        assert shop.written == []
        assert not (shop.checkout / "nightshift" / "published.json").exists()
        assert shop.bundle["outcome"] == "NO_IMPROVEMENT"
        assert "○ NO_IMPROVEMENT · All categories exhausted." in done.last_line
        shop.assert_put_back()


def test_verify_fails_three_times_then_another_category(tmp_path: Path) -> None:
    scripts = plays(
        GOOD,
        {f"verify-tests-{n}": refused(f"Fault {n} remains.") for n in (1, 2, 3)},
        {"implement-tests": [write("attempt.txt", "x\n")]},
    )
    with world(tmp_path, scripts) as shop:
        done = shop.nightshift("run")

        assert done.exit_status == 0
        attempts = [f"{bead}-tests-{n}" for n in (1, 2, 3) for bead in ("implement", "verify")]
        assert shop.agent.names[: 1 + 6] == ["analyze-tests-1", *attempts]
        assert shop.agent.names[7:] == [f"{bead}-refactoring-1" for bead in GOOD]
        told = [bead.last_failure for bead in shop.agent.seen if bead.bead == "implement"]
        assert told == ["", "Fault 1 remains.", "Fault 2 remains.", ""]
        summary = shop.result["summary"].splitlines()
        assert summary[1] == "tests: verify failed after retries: Fault 3 remains."
        assert shop.result["category_used"] == "refactoring (fallback from tests)"
        shop.assert_put_back()


def test_the_number_of_retries_is_a_setting(tmp_path: Path) -> None:
    scripts = plays(GOOD, {"verify": refused("No."), "analyze": nothing()})
    scripts["analyze-tests"] = GOOD["analyze"]
    with world(tmp_path, scripts) as shop:
        shop.nightshift("run", NIGHTSHIFT_MAX_IMPLEMENT_RETRIES="0")
        assert shop.agent.names.count("implement-tests-1") == 1
        assert "implement-tests-2" not in shop.agent.names
        assert shop.result["outcome"] == "NO_IMPROVEMENT"


def test_failing_verify_commands_count_as_failed_verify(tmp_path: Path) -> None:
    """The bead says passed; the program's own run says otherwise, and the next attempt is told."""
    wrong = TEST.replace("5)\n", "6)\n")
    scripts = plays(GOOD, {"implement-tests-1": [append("test_shop.py", wrong)]})
    with world(tmp_path, scripts, config=PROVING) as shop:
        done = shop.nightshift("run")

        assert done.exit_status == 0
        assert shop.agent.names[1:5] == [
            *("implement-tests-1", "verify-tests-1", "implement-tests-2", "verify-tests-2")
        ]
        told = shop.agent.last("implement-tests-2").last_failure
        assert told.startswith("`make test` failed: exit status 2.")
        assert "AssertionError: 5.0 != 6" in told
        assert "✘ make test · exit status 2" in done.log
        [mr] = shop.merge_requests
        assert "- `make test`: exit 0" in (mr.description or "")
        assert b"6)" not in git(shop.project.bare_repository, "show", mr.sha).encode()
        shop.assert_put_back()


def test_verify_commands_run_with_only_the_change_applied(tmp_path: Path) -> None:
    """What Implement and Verify leave besides the change (ignored files) proves nothing."""
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
        shop.nightshift("run")
        assert [c["exit_status"] for c in _commands_of(shop)] == [1, 1]
        [mr] = shop.merge_requests
        assert git(shop.project.bare_repository, "show", f"{mr.sha}:made.txt") == "1\n"
        shop.assert_put_back()


def _commands_of(shop: World) -> list[Any]:
    lines = shop.products()["events.jsonl"].decode().splitlines()
    events = [json.loads(line) for line in lines]
    return [event["result"] for event in events if event["event"] == "command_ended"]
