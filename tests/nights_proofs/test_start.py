"""Days off: what is not tried, and nights that are skipped before anything is spent."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from gitlab_nightshift.proof.proof_commands import Runner
from gitlab_nightshift.records.verdicts import CheckOutcome
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.stages.work.baseline import run_baseline
from gitlab_nightshift.stages.work.work_context import VerifyCommands, WorkContext
from tests.support.agent import plays
from tests.support.shop import GOOD, nothing
from tests.support.world import BOT_TOKEN, FILES, IMPLIED, World, commit, git, world

NO_CATEGORY = {"CI_PIPELINE_CREATED_AT": "2026-11-21T01:00:00Z"}  # a Saturday


def test_quiet_nights(tmp_path: Path) -> None:
    """Nights that do nothing, say why, and are no alarm."""
    red = (
        "verify_commands fail on the untouched checkout: `test -e missing.txt` failed: "
        "exit status 1. Fix that first, or set baseline: report."
    )
    cases = [
        (NO_CATEGORY, "NO_IMPROVEMENT", "No category scheduled for today"),
        (
            {"NIGHTSHIFT_ENABLED": "false"},
            "SKIPPED",
            "enabled is false (variable NIGHTSHIFT_ENABLED)",
        ),
        (
            {"NIGHTSHIFT_QUIET_DATES": "2026-12-24,2026-11-16"},
            "SKIPPED",
            "2026-11-16 is a quiet date",
        ),
        (
            {"NIGHTSHIFT_VERIFY_COMMANDS": "test -e missing.txt,make test"},
            "SKIPPED",
            red,
        ),
    ]
    with world(tmp_path, GOOD) as shop:
        for env, outcome, reason in cases:
            done = shop.nightshift("run", **env)
            shop.assert_nothing_spent(done, 0, f"○ {outcome} · {reason}")
            result = shop.result
            assert (result["outcome"], result["error_code"]) == (outcome, "")
            assert result["reason"] == reason
            assert (result["total_cost_usd"], result["beads"]) == (0.0, [])
            assert (result["category_used"] == "none") == (env is NO_CATEGORY)
            assert shop.bundle["outcome"] == outcome
        late = {"NIGHTSHIFT_VERIFY_COMMANDS": "sleep 600", "NIGHTSHIFT_RUN_TIMEOUT": "0.5"}
        shop.assert_nothing_spent(shop.nightshift("run", **late), 6, "E_TIMEOUT")


MISSING = (
    "verify_commands: `make lint` cannot run in this job, so no test has failed: the program "
    "no-such-runner is not installed."
)


def test_commands_that_cannot_run_are_no_quiet_night(tmp_path: Path) -> None:
    """A program that is not there is a mistake; what a command lacks makes the night incomplete,
    whether it is skipped or goes on without proof."""
    makefile = f"{FILES['Makefile']!s}lint:\n\tno-such-runner tests\n"
    mistakes = {
        "pytst -q": "verify_commands: pytst cannot be started: No such file or directory. Corr",
        "make nothing,pytst -q,./gone.sh": (
            "verify_commands: not found in the commands' environment: pytst, ./gone.sh. Correct"
        ),
    }
    with world(tmp_path, GOOD, files={**FILES, "Makefile": makefile}) as shop:
        for commands, why in mistakes.items():
            for mode in ("required", "report"):
                env = {"NIGHTSHIFT_VERIFY_COMMANDS": commands, "NIGHTSHIFT_BASELINE": mode}
                done = shop.nightshift("run", **env)
                shop.assert_nothing_spent(done, 2, f"✘ FAILED · E_CONFIG · {why}")
        lint = {"NIGHTSHIFT_VERIFY_COMMANDS": "make lint"}
        done = shop.nightshift("run", **lint)
        shop.assert_nothing_spent(done, 13, f"⚠ SKIPPED · E_INCOMPLETE · {MISSING} Install it")
        assert shop.result["error_code"] == "E_INCOMPLETE"
        assert shop.result["reason"].count(MISSING) == 1

        done = shop.ends(13, "run", NIGHTSHIFT_BASELINE="report", **lint)
        [mr] = shop.merge_requests
        assert done.last_line.startswith(f"⚠ MR_CREATED · E_INCOMPLETE · {mr.web_url} · ")
        assert MISSING.rstrip(".") in done.last_line
        assert (shop.result["outcome"], shop.result["mr_url"]) == ("MR_CREATED", mr.web_url)


def body_of(shop: World) -> str:
    return (shop.merge_requests[0].description or "").replace("\\_", "_")


def test_a_job_that_starts_after_midnight_keeps_its_day(tmp_path: Path) -> None:
    """Tests that only the build files imply, and that cannot run, nobody asked for: the night goes
    on, and the merge request says what it did not see."""
    config = "timezone: America/New_York\ncategory_schedule: {sun: docs}\n"
    files = {**FILES, "Makefile": "test:\n\tno-such-runner tests\n"}
    script = plays(GOOD, {"analyze-docs": nothing()})
    with world(tmp_path, script, config=config, files=files) as shop:
        done = shop.nightshift("run", CI_PIPELINE_CREATED_AT="2026-11-16T03:30:00Z")
        assert shop.agent.names[:2] == ["analyze-docs-1", "analyze-tests-1"]
        assert "Sunday 2026-11-15: docs, then tests" in done.log
        assert shop.result["outcome"] == "MR_CREATED", done.log
        assert "proven by: make test (the build files; verify_commands is empty)" in done.log
        said = "- Not checked: Tests: the program ran no test: `make test` cannot run"
        assert said in body_of(shop)


def test_a_command_that_cannot_run_is_told_of_itself_alone(tmp_path: Path) -> None:
    files = {"test_shop.py": FILES["test_shop.py"], "shop.py": FILES["shop.py"], "mvnw": "exit\n"}
    with world(tmp_path, GOOD, config=IMPLIED, files=files) as shop:
        done = shop.nightshift("run")
        assert "proven by: python3 -m unittest, ./mvnw -B -o test" in done.log
        body = body_of(shop)
        assert "- Not checked: Tests: `./mvnw -B -o test` cannot run in this job" in body
        assert "`python3 -m unittest`: exit 0" in body
        assert "the program ran no test" not in body


def test_nothing_to_run_is_said_in_plain_words(tmp_path: Path) -> None:
    """What the merge request says of it is a check, as for tests that cannot run."""
    said = "found no command that tests this project: set verify_commands"
    with world(tmp_path, GOOD, files={"run.sh": "exit\n"}, config=IMPLIED) as shop:
        assert f"proven by: {said}" in shop.nightshift("plan").log
        assert shop.product("plan.json")["verify_commands"] == []
    work = SimpleNamespace(verify=VerifyCommands((), implied=True), emit=print)
    unused = cast("Checkout", None), cast("Runner", None)
    before = run_baseline(cast("WorkContext", work), *unused)
    assert (before.skip, before.commands, before.red) == ("", (), False)
    [check] = before.checks
    assert (check.outcome, check.detail) == (
        CheckOutcome.NOT_CHECKED,
        f"the program ran no test: {said}.",
    )


def test_a_flaky_baseline_is_told(tmp_path: Path) -> None:
    """On a day without a category, where an override wins."""
    once = f"sh -c 'test -e {tmp_path}/ran || {{ touch {tmp_path}/ran; exit 1; }}'"
    config = f'verify_commands: ["{once}"]\n'
    with world(tmp_path, plays(GOOD, {"analyze-docs": nothing()}), config=config) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_CATEGORY="docs", **NO_CATEGORY)
        assert shop.agent.names[0] == "analyze-docs-1"
        assert shop.result["outcome"] == "MR_CREATED", done.log
        assert shop.result["category_used"] == "tests (fallback from docs)"
        assert "failed at first and passed when run again (flaky)" in body_of(shop)


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


def test_open_merge_requests_are_limited(tmp_path: Path) -> None:
    """A category at its limit is left out, the limit in total skips the night; a public project's
    security findings stay private."""
    with world(tmp_path, {"analyze": nothing()}) as shop:
        opened_before(shop, "tests")
        shop.nightshift("run", CI_PROJECT_VISIBILITY="public")
        left = ("refactoring", "docs", "performance")
        assert shop.agent.names == [f"analyze-{category}-1" for category in left]
        waiting = "Improve tests (!1, branch night-shift/tests-1, changes tests.txt)"
        assert waiting in shop.agent.seen[0].prompt
        summary = shop.result["summary"]
        assert "tests: left out: open merge requests: !1; the limit is 1" in summary.splitlines()
        assert "security: left out: the project is public" in summary
        assert shop.result["category_used"] == "tests"

        for number, category in enumerate(("docs", "security"), 2):
            opened_before(shop, category, str(number))
        before, beads = shop.written, len(shop.agent.seen)
        done = shop.nightshift("run")
        assert (done.exit_status, len(shop.agent.seen), shop.written) == (0, beads, before)
        assert shop.result["outcome"] == "SKIPPED"
        assert shop.result["reason"] == "open night-shift merge requests: 3; the limit is 3"
