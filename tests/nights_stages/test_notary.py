"""The notary: what a merge request says that this program ran, a process saw that had read nothing
of an agent; what that process saw fail is not published, on any way."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.separation import forging
from tests.support.agent import Play, answer, plays, sh
from tests.support.shop import DRAFT, GOOD
from tests.support.standin_records import PipelineJob
from tests.support.world import JOB_TOKEN, Done, World, world

RAN = "This program ran, on commit"
REPORTED = "The work job reports, for commit"
CHECK = """\
#!/bin/sh
# Passes, until a test says that it does not; notes each run.
echo run >> {folder}/runs
[ ! -e {folder}/once ] || { rm {folder}/once; exit 3; }
[ ! -e {folder}/hangs ] || sleep 600
[ ! -e {folder}/fails ] || exit 4
[ ! -e {folder}/fails-on-change ] || ! grep -q 'A discount is' test_shop.py || exit 5
"""
SHORT = "from gitlab_nightshift.stages.work import notary_process as notary; notary.SLACK_S = 1.0\n"
DEAD = """
import os
from gitlab_nightshift.stages.work import notary_process
notary_process.main = lambda data: os._exit(1)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[World]:
    """A night whose command is a script outside of the checkout: no change has a hand in it."""
    with checked(tmp_path) as made:
        yield made


def checked(tmp_path: Path, more: str = "") -> Any:
    switch = tmp_path / "switch"
    switch.mkdir()
    script = switch / "check.sh"
    script.write_text(CHECK.replace("{folder}", str(switch)))
    return world(tmp_path, GOOD, config=f"verify_commands: ['sh {script}']\n{more}")


def with_mr(shop: World, *steps: str) -> None:
    """From when the last bead has begun the script does this: work has proved the change then."""
    switch = shop.folder / "switch"
    last: Play = [*(sh(f"touch {switch}/{step}") for step in steps), answer(DRAFT)]
    shop.agent.script(plays(GOOD, {"mr": last}))


def runs(shop: World) -> int:
    return len((shop.folder / "switch/runs").read_text().splitlines())


def body(shop: World) -> str:
    [opened] = shop.merge_requests
    return opened.description or ""


def assert_refused(shop: World, done: Done, *texts: str) -> None:
    """Nothing is in GitLab, the bundle is kept, and both results are told."""
    assert (done.exit_status, shop.merge_requests, shop.project.pushes) == (8, [], []), done.log
    result = shop.result
    assert (result["outcome"], result["error_code"]) == ("FAILED", "E_TEST_FAILED")
    for text in texts:
        assert text in result["reason"]
    assert [each["exit_status"] for each in result["reported"]] == [0]
    assert result["commands"][0]["level"] == "fail"
    assert {"bundle/bundle.json", "bundle/change.patch", "notary.json"} <= set(shop.products())
    assert shop.bundle["outcome"] == "MR_READY"


def test_a_command_that_fails_when_it_is_run_once_more_is_not_published(shop: World) -> None:
    """Not by a later ``publish`` or ``notary`` of the same bundle, nor by the same job's retry."""
    with_mr(shop, "fails")
    assert_refused(shop, shop.nightshift("run"), "failed when it was run once more", "exit 4")
    assert "notary-1.out" in "".join(shop.products())
    shop.assert_restored()
    (shop.folder / "switch/fails").unlink()
    before = runs(shop)
    again = shop.nightshift("publish", "nightshift/bundle")
    assert_refused(shop, again, "exit 4")
    asked = shop.nightshift("notary")
    assert (asked.exit_status, runs(shop)) == (8, before)
    assert "exit 4" in asked.stderr
    kept = shop.folder / "artifacts"
    shutil.copytree(shop.checkout / "nightshift", kept / "nightshift")
    shop.project.jobs.append(PipelineJob(11, 4711, "nightshift", kept, status="failed"))
    shop.checked_out_anew()
    retried = shop.nightshift("run", CI_JOB_NAME="nightshift", CI_JOB_ID="999")
    assert (retried.exit_status, shop.merge_requests) == (8, []), retried.log
    assert runs(shop) == before


def test_a_flaky_command_is_run_again_and_both_runs_are_told(shop: World) -> None:
    """Only one that was flaky before the change."""
    (shop.folder / "switch/once").touch()
    with_mr(shop, "once")
    done = shop.nightshift("run")
    assert shop.result["outcome"] == "MR_CREATED", done.log
    assert "exit 3" in body(shop) and "then exit 0" in body(shop)
    assert "(flaky before the change)" in body(shop)
    [seen] = shop.product("notary.json")["commands"]
    assert [run["exit_status"] for run in seen["runs"]] == [3, 0]


def test_one_that_was_not_flaky_before_fails_at_once(shop: World) -> None:
    with_mr(shop, "once")
    assert_refused(shop, shop.nightshift("run"), "exit 3")
    [seen] = shop.product("notary.json")["commands"]
    assert [run["exit_status"] for run in seen["runs"]] == [3]


def test_one_that_hangs_gets_its_time_from_the_baseline(shop: World) -> None:
    shop.patch = SHORT
    with_mr(shop, "hangs")
    assert_refused(shop, shop.nightshift("run"), "ended by this program: timeout")


def test_what_only_the_change_breaks_is_refused_where_red_is_allowed(tmp_path: Path) -> None:
    """``baseline: report`` lets a command fail that fails without the change as well: the notary
    sees that for itself."""
    with checked(tmp_path, "baseline: report\n") as shop:
        with_mr(shop, "fails-on-change")
        assert_refused(shop, shop.nightshift("run"), "exit 5", "without the change: exit 0")


def test_what_is_red_with_and_without_the_change_has_not_passed(tmp_path: Path) -> None:
    config = "reviewer: rita\nverify_commands: ['true', 'false']\nbaseline: report\n"
    with world(tmp_path, GOOD, config=config) as shop:
        log = shop.nightshift("run").log.partition("▸ The commands once more")[2]
    assert "once more, without the change: false\n" in log
    assert "1 of 2 commands passed, 1 fails without the change as well" in log


def test_without_commands_nothing_is_run_and_that_is_said(tmp_path: Path) -> None:
    files = {"README.md": "# Shop\n"}
    script = plays(GOOD, {"implement": [sh("echo '# More' >> README.md")]})
    config = "policy: {flags: {outside-selection: off}}\n"
    with world(tmp_path, script, config=config, files=files) as shop:
        done = shop.nightshift("run")
        assert shop.result["outcome"] == "MR_CREATED", done.log
        assert body(shop).count("othing was run on it") == 1
        assert "The commands once more" not in done.log
        assert shop.product("notary.json")["asked"] == []


def test_a_notary_that_dies_leaves_a_change_that_waits(shop: World) -> None:
    """Until somebody has it run: then it is published like any other."""
    shop.patch = DEAD
    done = shop.nightshift("run")
    result = shop.result
    assert (done.exit_status, shop.merge_requests) == (13, []), done.log
    assert (result["outcome"], result["error_code"]) == ("MR_READY", "E_INCOMPLETE")
    assert "nightshift notary nightshift/bundle" in result["reason"]
    waits = shop.nightshift("publish")
    assert (waits.exit_status, shop.merge_requests) == (13, [])
    shop.patch = ""
    assert shop.nightshift("notary").exit_status == 0
    assert shop.nightshift("publish").exit_status == 0
    assert RAN in body(shop)
    shop.assert_restored()


def test_what_could_not_be_put_back_is_told(tmp_path: Path) -> None:
    """An ignored file that was too large to be copied: results that depend on it prove nothing."""
    large = "from gitlab_nightshift.repository import saved_state; saved_state.COPIED_BYTES = 10\n"
    with checked(tmp_path) as shop:
        (shop.checkout / "build").mkdir()
        (shop.checkout / "build/library").write_text("as it was before the night\n")
        shop.patch = large
        changed = [sh("echo evil > build/library"), *GOOD["implement"]]
        shop.agent.script(plays(GOOD, {"implement": changed}))
        done = shop.nightshift("run")
        assert shop.result["outcome"] == "MR_CREATED", done.log
        [line] = shop.product("notary.json")["unrestored"]
        assert line == "could not be restored: build/library"
        assert (
            "results that depend on those prove nothing (could not be restored: build/library)"
            in body(shop)
        )


def test_a_dry_run_tells_what_would_be_refused(shop: World) -> None:
    with_mr(shop, "fails")
    assert_refused(shop, shop.nightshift("run", "--dry-run"), "exit 4")


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def edit(file: Path) -> None:
        data = json.loads(file.read_text())
        change(data)
        file.write_text(json.dumps(data))

    return edit


def twice(file: Path) -> None:
    """One record after another, and one with a field twice."""
    file.write_text(file.read_text() * 2)


def doubled(file: Path) -> None:
    file.write_text(file.read_text().replace("{", '{"why": "", ', 1))


SPOILT = {
    "of another tree": (edited(lambda data: data.update(tree_id="a" * 40)), 12, "another change"),
    "of another run": (edited(lambda data: data.update(run_id="1")), 12, "another run"),
    "of another base": (edited(lambda data: data.update(base_sha="a" * 40)), 12, "another change"),
    "with less": (edited(lambda data: data.update(commands=[])), 10, "lacks the result of"),
    "of other commands": (
        edited(lambda data: data["commands"][0].update(command="true")),
        *(10, "lacks the result of"),
    ),
    "with more": (edited(lambda data: data.update(evil=1)), 10, "it has missing or unknown fields"),
    "two": (twice, 10, "it is not JSON"),
    "with a field twice": (doubled, 10, "a key is repeated"),
}


def test_records_that_are_none_are_refused(shop: World) -> None:
    assert shop.nightshift("run", "--dry-run").exit_status == 0
    kept = shop.checkout / "nightshift"
    honest = (kept / "notary.json").read_text()
    for name, (spoil, status, text) in SPOILT.items():
        spoil(kept / "notary.json")
        done = shop.nightshift("publish")
        assert (name, done.exit_status, shop.merge_requests) == (name, status, []), done
        assert text in done.stderr + shop.result["reason"], name
        (kept / "notary.json").write_text(honest)
    assert shop.nightshift("publish").exit_status == 0
    assert RAN in body(shop)


# --- three jobs -------------------------------------------------------------------------------

WORK, NOTARY = "nightshift:work", "nightshift:notary"
ALONE = {"GITLAB_TOKEN": "", "ANTHROPIC_API_KEY": ""}
BOTH = ("--from-job", WORK, "--notary-job", NOTARY)


def ended_job(shop: World, number: int, name: str) -> Path:
    """A job that has uploaded what is in the checkout's nightshift/; the next one starts anew."""
    kept = shop.folder / f"artifacts-{number}"
    shutil.copytree(shop.checkout / "nightshift", kept / "nightshift")
    shop.project.jobs = [each for each in shop.project.jobs if each.id != number]
    shop.project.jobs.append(PipelineJob(number, 4711, name, kept))
    shop.checked_out_anew()
    return kept / "nightshift"


def begin(shop: World) -> Path:
    """Plan and work; what work has uploaded. The notary's job has the plan."""
    bot = shop.gitlab.users[0]
    shop.gitlab.add_token(JOB_TOKEN, bot, access_level=30, kind="job")
    shop.project.jobs.append(PipelineJob(12, 4711, WORK, shop.folder / "nothing"))
    assert shop.nightshift("plan").exit_status == 0
    plan = ended_job(shop, 11, "nightshift:plan")
    shutil.copytree(plan, shop.checkout / "nightshift")
    shop.ends(0, "work", GITLAB_TOKEN="")
    worked = ended_job(shop, 12, WORK)
    shutil.copytree(plan, shop.checkout / "nightshift")
    return worked


def test_three_jobs_publish_what_the_notarys_job_saw(shop: World) -> None:
    """It has no token but the job's own, with which it asks for two files: GitLab takes that for
    nothing else."""
    begin(shop)
    shop.gitlab.requests.clear()
    done = shop.nightshift("notary", "--from-job", WORK, **ALONE)
    assert (done.exit_status, done.stderr) == (0, "")
    asked = [each.path for each in shop.gitlab.requests if each.status == 200]
    prefix = f"/api/v4/projects/{shop.project.id}/jobs/12/artifacts/nightshift/bundle"
    assert asked == [f"{prefix}/bundle.json", f"{prefix}/change.patch"]
    ended_job(shop, 13, NOTARY)
    shop.ends(0, "publish", *BOTH)
    assert RAN in body(shop) and REPORTED not in body(shop)


def test_without_the_notarys_job_the_work_job_reports(shop: World) -> None:
    begin(shop)
    shop.ends(0, "publish", "--from-job", WORK)
    assert REPORTED in body(shop) and "This program ran" not in body(shop)
    assert (shop.result["commands"], len(shop.result["reported"])) == ([], 1)


def test_a_refusal_of_the_notarys_job_stays_when_it_is_retried(shop: World) -> None:
    begin(shop)
    (shop.folder / "switch/fails").touch()
    done = shop.nightshift("notary", "--from-job", WORK, **ALONE)
    assert (done.exit_status, "exit 4" in done.stderr) == (8, True)
    plan = ended_job(shop, 13, NOTARY) / "plan.json"
    (shop.folder / "switch/fails").unlink()
    (shop.checkout / "nightshift").mkdir()
    shutil.copy(plan, shop.checkout / "nightshift")
    assert shop.nightshift("notary", "--from-job", WORK, **ALONE).exit_status == 0
    ended_job(shop, 14, NOTARY)
    assert_refused(shop, shop.nightshift("publish", *BOTH), "exit 4")


def test_a_record_that_the_work_job_has_left_is_refused(shop: World) -> None:
    """With the notary's job, and without."""
    worked = begin(shop)
    assert shop.nightshift("notary", "--from-job", WORK, **ALONE).exit_status == 0
    forged = ended_job(shop, 13, NOTARY) / "notary.json"
    shutil.copy(forged, worked)
    for jobs in (BOTH, BOTH[:2]):
        done = shop.nightshift("publish", *jobs)
        assert (done.exit_status, shop.merge_requests) == (12, []), done
        assert f"the job {WORK} left a notary.json" in done.stderr


def test_where_no_record_is_the_notarys_job_is_waited_for(shop: World) -> None:
    begin(shop)
    ended_job(shop, 13, NOTARY)
    done = shop.nightshift("publish", *BOTH)
    assert (done.exit_status, shop.merge_requests) == (12, [])
    assert f"the job {NOTARY} has left no notary.json" in done.stderr


def test_a_night_without_a_change_is_nothing_to_run(shop: World) -> None:
    """Nor is one whose work has left nothing."""
    worked = begin(shop)
    before = runs(shop)
    quiet = {**json.loads((worked / "bundle/bundle.json").read_text()), "proposal": None}
    quiet = {**quiet, "outcome": "NO_IMPROVEMENT", "reason": "Everything is tested."}
    (worked / "bundle/bundle.json").write_text(json.dumps(quiet))
    assert shop.nightshift("notary", "--from-job", WORK, **ALONE).exit_status == 0
    ended_job(shop, 13, NOTARY)
    assert shop.nightshift("publish", *BOTH).exit_status == 0
    assert shop.result["outcome"] == "NO_IMPROVEMENT"
    shutil.rmtree(worked / "bundle")
    shutil.copytree(
        shop.folder / "artifacts-11/nightshift", shop.checkout / "nightshift", dirs_exist_ok=True
    )
    done = shop.nightshift("notary", "--from-job", WORK, **ALONE)
    assert (done.exit_status, runs(shop)) == (0, before)
    assert "has left no bundle" in done.log


def test_a_plan_that_names_no_job_is_told(shop: World) -> None:
    shop.nightshift("plan", CI_PIPELINE_ID="")
    done = shop.ends(2, "notary", "--from-job", WORK, **ALONE)
    assert f"--from-job: the plan names no job {WORK}" in done.stderr


# --- what work could say of it ----------------------------------------------------------------


def test_a_record_of_works_own_is_not_taken(shop: World) -> None:
    """Neither as a message nor, where nothing confines work, as a file."""
    with_mr(shop, "fails")
    shop.patch = forging.patch("tell_notary")
    done = shop.nightshift("run")
    assert_refused(shop, done, "exit 4")
    assert "work: a message was not accepted: " in done.log
