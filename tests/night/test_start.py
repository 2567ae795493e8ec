"""Days off: what is not tried, and nights that are left out before anything is spent."""

import json
from pathlib import Path
from typing import Any

from tests.support.agent import append
from tests.support.shop import GOOD, nothing
from tests.support.world import ANYWHERE, BOT_TOKEN, FILES, World, commit, git, world

NO_CATEGORY = {"CI_PIPELINE_CREATED_AT": "2026-11-21T01:00:00Z"}  # a Saturday


def quiet(
    tmp_path: Path,
    outcome: str,
    reason: str,
    config: str = "",
    makefile: str = "",
    **env: str,
) -> Any:
    """A night that does nothing and is no alarm; returns its result."""
    files = {**FILES, **({"Makefile": makefile} if makefile else {})}
    with world(tmp_path, GOOD, config=config, files=files) as shop:
        done = shop.nightshift("run", **env)
        shop.assert_nothing_spent(done, 0)
        result = shop.result
        assert (result["outcome"], result["error_code"]) == (outcome, "")
        assert result["reason"] == reason
        assert (result["total_cost_usd"], result["beads"]) == (0.0, [])
        assert f"○ {outcome} · {reason}" in done.last_line
        assert shop.bundle["outcome"] == outcome
        return result


# --- days off ---------------------------------------------------------------------------------


def test_no_category_today(tmp_path: Path) -> None:
    result = quiet(tmp_path, "NO_IMPROVEMENT", "No category scheduled for today", **NO_CATEGORY)
    assert result["category_used"] == "none"


def test_an_override_wins_on_a_day_without_a_category(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        shop.nightshift("run", NIGHTSHIFT_CATEGORY="docs", **NO_CATEGORY)
        assert shop.agent.names[0] == "analyze-docs-1"
        assert shop.result["category_used"] == "docs"


def test_a_job_that_starts_after_midnight_keeps_its_day(tmp_path: Path) -> None:
    config = "timezone: America/New_York\ncategory_schedule: {sun: docs}\n"
    with world(tmp_path, GOOD, config=config) as shop:
        shop.nightshift("run", CI_PIPELINE_CREATED_AT="2026-11-16T03:30:00Z")
        assert shop.agent.names[0] == "analyze-docs-1"
        assert "Sunday 2026-11-15: docs, then tests" in " ".join(_log_of(shop))


def _log_of(shop: World) -> list[str]:
    events = shop.products()["events.jsonl"].decode().splitlines()
    return [json.loads(event).get("text", "") for event in events]


def test_disabled(tmp_path: Path) -> None:
    reason = "enabled is false (variable NIGHTSHIFT_ENABLED)"
    quiet(tmp_path, "SKIPPED", reason, NIGHTSHIFT_ENABLED="false")


def test_a_quiet_date(tmp_path: Path) -> None:
    config = "quiet_dates: [2026-12-24, 2026-11-16]\n"
    quiet(tmp_path, "SKIPPED", "2026-11-16 is a quiet date", config)


def test_a_red_baseline_says_what_to_mend(tmp_path: Path) -> None:
    config = "verify_commands: ['test -e missing.txt', make test]\n"
    reason = (
        "verify_commands fail on the untouched checkout: `test -e missing.txt` failed: "
        "exit status 1. Mend that first, or set baseline: report."
    )
    quiet(tmp_path, "SKIPPED", reason, config)


def test_a_program_that_is_missing_is_no_failing_test(tmp_path: Path) -> None:
    config = "verify_commands: [make test]\n"
    makefile = "test:\n\tno-such-runner tests\n"
    reason = (
        "verify_commands: `make test` cannot run in this job, which is no failing test: the "
        "program no-such-runner is not installed. Install it in before_script, or set baseline: "
        "report."
    )
    quiet(tmp_path, "SKIPPED", reason, config, makefile)


def test_tests_that_only_the_build_files_imply_and_that_cannot_run(tmp_path: Path) -> None:
    """Nobody asked for them: the night goes on, and the merge request says what it did not see."""
    makefile = {"Makefile": "test:\n\tno-such-runner tests\n"}
    with world(tmp_path, GOOD, files={**FILES, **makefile}) as shop:
        done = shop.nightshift("run")
        assert shop.result["outcome"] == "MR_CREATED", done.log
        assert "proven by: make test (the build files; verify_commands is empty)" in done.log
        body = (shop.merge_requests[0].description or "").replace("\\_", "_")
        assert "- Not checked: Tests: this program ran no test: `make test` cannot run" in body


def test_nothing_to_run_is_said_in_plain_words(tmp_path: Path) -> None:
    files = {name: text for name, text in FILES.items() if name != "Makefile"}
    plain = {name: text for name, text in files.items() if not name.endswith(".py")}
    play = {**GOOD, "implement": [append("run.sh", "# the end\n")]}
    with world(tmp_path, play, files=plain, config=ANYWHERE) as shop:
        shop.nightshift("run")
        body = (shop.merge_requests[0].description or "").replace("\\_", "_")
        assert "no command is known that would test this project: set verify_commands" in body


def test_a_flaky_baseline_is_told(tmp_path: Path) -> None:
    once = f"sh -c 'test -e {tmp_path}/ran || {{ touch {tmp_path}/ran; exit 1; }}'"
    with world(tmp_path, GOOD, config=f'verify_commands: ["{once}"]\n') as shop:
        done = shop.nightshift("run")
        assert shop.result["outcome"] == "MR_CREATED", done.log
        body = (shop.merge_requests[0].description or "").replace("\\_", "_")
        assert "failed at first and passed when run again (flaky)" in body


def test_a_red_baseline_that_is_only_told(tmp_path: Path) -> None:
    config = "verify_commands: ['test -e missing.txt']\nbaseline: report\n"
    with world(tmp_path, GOOD, config=config) as shop:
        done = shop.nightshift("run")
        assert shop.result["outcome"] == "MR_CREATED"
        said = "verify_commands fail on the untouched checkout:"
        assert f"{said} `test -e missing.txt` failed: exit status 1. So they prove" in done.log
        body = (shop.merge_requests[0].description or "").replace("\\_", "_")
        assert "- `test -e missing.txt`: exit 1, " in body
        assert said in body


def test_a_baseline_that_cannot_end_in_time_is_the_deadline(tmp_path: Path) -> None:
    with world(tmp_path, GOOD, config="verify_commands: ['sleep 60']\n") as shop:
        done = shop.nightshift("run", NIGHTSHIFT_RUN_TIMEOUT="0.5")
        shop.assert_nothing_spent(done, 6, "E_TIMEOUT")


# --- open merge requests ------------------------------------------------------------------------


def opened_before(shop: World, category: str, run_id: str = "1") -> None:
    """An open merge request of an earlier night."""
    work = shop.folder / f"night-{run_id}"
    git(shop.folder, "clone", "-q", str(shop.project.bare_repository), str(work))
    branch = f"night-shift/{category}-{run_id}"
    git(work, "checkout", "-q", "-b", branch)
    (work / f"{category}.txt").write_text(run_id)
    commit(work, f"Improve {category}")
    git(work, "push", "-q", "origin", branch)
    import gitlab

    mark = {"run_id": run_id, "category": category, "idea": "0" * 16}
    project = gitlab.Gitlab(shop.gitlab.url, BOT_TOKEN).projects.get(shop.project.id, lazy=True)
    project.mergerequests.create(
        {
            "source_branch": branch,
            "target_branch": "main",
            "title": f"Improve {category}",
            "labels": ["night-shift", category],
            "description": f"<!-- nightshift: {json.dumps(mark)} -->",
        }
    )


def test_a_category_at_its_limit_is_left_out(tmp_path: Path) -> None:
    with world(tmp_path, plays_nothing()) as shop:
        opened_before(shop, "tests")
        shop.nightshift("run")
        assert shop.agent.names[0] == "analyze-refactoring-1"
        assert len(shop.agent.names) == 4
        assert "Improve tests (!1, branch night-shift/tests-1)" in shop.agent.seen[0].prompt
        last = shop.result["summary"].splitlines()[-1]
        assert last == "tests: left out: open merge requests: !1; the limit is 1"
        assert shop.result["category_used"] == "tests"


def plays_nothing() -> dict[str, Any]:
    return {"analyze": nothing()}


def test_the_limit_in_total_skips_the_night(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        for number, category in enumerate(("tests", "docs", "security"), 1):
            opened_before(shop, category, str(number))
        before = shop.written
        done = shop.nightshift("run")
        assert (done.exit_status, shop.agent.seen, shop.written) == (0, [], before)
        assert shop.result["outcome"] == "SKIPPED"
        assert shop.result["reason"] == "3 night-shift merge requests are open; the limit is 3"


def test_a_public_projects_security_findings_stay_private(tmp_path: Path) -> None:
    with world(tmp_path, plays_nothing()) as shop:
        shop.nightshift("run", CI_PROJECT_VISIBILITY="public")
        assert "analyze-security-1" not in shop.agent.names
        assert len(shop.agent.names) == 4
        assert "security: left out: the project is public" in shop.result["summary"]
