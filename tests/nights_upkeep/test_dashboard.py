"""The dashboard issue over several nights: one page, its boxes, and who may tick them."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gitlab_nightshift.demo.standin_state import DEVELOPER, REPORTER, User
from gitlab_nightshift.stages.publish.dashboard_page import START
from tests.nights_proofs.test_gates import ADDS_JOB, PROJECT, changing
from tests.support import standin_threads
from tests.support.shop import GOOD, KEY_REFUSED, nothing
from tests.support.standin_records import Issue, PipelineJob
from tests.support.webhook import payload
from tests.support.world import ANYWHERE, Done, World, world

QUIET = {"NIGHTSHIFT_QUIET_DATES": "2026-11-16,2026-11-17,2026-11-18"}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, {**GOOD, "analyze": nothing()}) as made:
        made.env["NIGHTSHIFT_LOG_ISSUE"] = "auto"
        yield made


def night(shop: World, day: int, *args: str, **env: str) -> Done:
    when = {"CI_PIPELINE_ID": str(4700 + day), "CI_PIPELINE_CREATED_AT": f"2026-11-{day}T01:00:00Z"}
    return shop.nightshift(*(args or ("run",)), **{**when, **env})


def page(shop: World) -> str:
    [issue] = shop.project.issues
    return issue.description or ""


def member(shop: World, level: int) -> User:
    made = shop.gitlab.add_user(f"user{level}", f"User {level}")
    shop.project.members[made.id] = level
    return made


def tick(shop: World, issue: Issue, who: User, text: str) -> None:
    assert f"- [ ] {text}" in (issue.description or "")
    standin_threads.tick_box(shop.gitlab, issue, who, text)


def test_one_page_is_kept_over_nights(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        shop.env["NIGHTSHIFT_LOG_ISSUE"] = "auto"
        done = night(shop, 16)
        assert done.exit_status == 0, done.log
        [request] = shop.merge_requests
        assert f"- [!{request.iid}]({request.web_url})" in page(shop)
        assert "2026-11-16]" in page(shop)
        assert night(shop, 17, **QUIET).exit_status == 0
        table = [line for line in page(shop).splitlines() if line.startswith("| [2026")]
        assert ["SKIPPED" in line for line in table] == [True, False]
        assert "MR_CREATED | tests" in table[1]
        assert shop.project.issues[0].notes == []
        assert not shop.project.issues[0].confidential


def test_it_is_confidential_where_the_project_is_public(shop: World) -> None:
    shop.project.visibility = "public"
    night(shop, 16, **QUIET)
    assert shop.project.issues[0].confidential


def test_a_dry_run_and_a_rehearsal_leave_it(shop: World) -> None:
    night(shop, 16, "run", "--dry-run", **QUIET)
    night(shop, 17, "run", "--rehearse")
    assert shop.project.issues == []


def test_a_developers_tick_chooses_the_next_category_once(shop: World) -> None:
    night(shop, 16, **QUIET)
    [issue] = shop.project.issues
    tick(shop, issue, member(shop, DEVELOPER), "try docs at the next night")
    skipped = night(shop, 17, **QUIET)
    assert "SKIPPED" in skipped.last_line
    assert "- [x] try docs at the next night" in page(shop)
    shop.agent.script({"analyze": KEY_REFUSED})  # it counts however the night ends
    night(shop, 19)
    assert shop.product("plan.json")["scheduled"] == "docs"
    assert "- [ ] try docs at the next night" in page(shop)
    assert "accepted, ticked by user30" in page(shop)
    night(shop, 20, "plan")
    assert shop.product("plan.json")["scheduled"] == "performance"


def test_a_tick_is_taken_up_at_once_by_webhook(shop: World) -> None:
    """Nothing of the event counts but that there was one; what this program writes ends nowhere."""
    night(shop, 16, **QUIET)
    [issue] = shop.project.issues
    event = {
        "object_kind": "issue",
        "project": {"id": shop.project.id},
        "object_attributes": {"iid": issue.iid},
        "changes": {"description": {}},
    }
    before = page(shop)
    idle = night(shop, 17, **payload(shop, event))
    assert "SKIPPED" in idle.last_line and "no box on the dashboard" in idle.last_line
    assert page(shop) == before, "no row, or the webhook would go round for ever"
    assert shop.agent.seen == []

    tick(shop, issue, member(shop, DEVELOPER), "try docs at the next night")
    shop.agent.script({"analyze": KEY_REFUSED})
    night(shop, 18, **payload(shop, event))
    assert shop.product("plan.json")["scheduled"] == "docs"
    assert "- [ ] try docs at the next night" in page(shop)
    assert len(shop.agent.seen) > 0

    renamed = {**event, "changes": {"title": {}}}
    assert "was not edited" in night(shop, 19, **payload(shop, renamed)).last_line
    elsewhere = {**event, "project": {"id": 1}}
    assert "another project" in night(shop, 20, **payload(shop, elsewhere)).last_line


def test_a_reporters_tick_counts_for_nothing_and_is_told(shop: World) -> None:
    night(shop, 16, **QUIET)
    [issue] = shop.project.issues
    tick(shop, issue, member(shop, REPORTER), "try docs at the next night")
    night(shop, 17, **QUIET)
    assert shop.product("plan.json")["scheduled"] == "refactoring"
    assert "not accepted, user20 is not a Developer" in page(shop)
    assert "- [ ] try docs at the next night" in page(shop)


def test_a_failed_night_is_there_and_can_be_tried_again(shop: World) -> None:
    """Also one whose plan failed, which has no category to try again."""
    assert night(shop, 16, NIGHTSHIFT_REVIEWERS="nobody").exit_status == 2
    assert "| FAILED |" in page(shop) and "retry" not in page(shop)
    shop.agent.script({"analyze": KEY_REFUSED})
    assert night(shop, 17).exit_status == 5
    [issue] = shop.project.issues
    tick(shop, issue, member(shop, DEVELOPER), "retry the night of pipeline 4717")
    night(shop, 18)
    assert shop.product("plan.json")["scheduled"] == "refactoring"
    assert "- [ ] retry the night of pipeline 4717" in page(shop)


def test_a_developers_tick_approves_what_waits(tmp_path: Path) -> None:
    """The night starts the job, GitLab decides whether it may, and the job reads the tick again."""
    with world(tmp_path, changing(ADDS_JOB), config=ANYWHERE, files=PROJECT) as shop:
        shop.env["NIGHTSHIFT_LOG_ISSUE"] = "auto"
        assert night(shop, 16).exit_status == 4
        [issue] = shop.project.issues
        kept = shop.folder / "kept"
        shutil.copytree(shop.checkout / "nightshift", kept / "nightshift")
        job = PipelineJob(91, 4716, "nightshift:approve", kept, status="manual")
        shop.project.jobs += [PipelineJob(90, 4716, "nightshift", kept), job]
        box = "approve the change of pipeline 4716"

        assert publish_by_bot(shop, "running").exit_status == 3  # nobody has ticked it
        tick(shop, issue, member(shop, REPORTER), box)
        assert "not accepted, user20 is not a Developer" in quiet_page(shop, 17)
        assert publish_by_bot(shop, "running").exit_status == 3

        tick(shop, issue, member(shop, DEVELOPER), box)
        shop.gitlab.fail_next("POST", "/jobs/91/play$", 403, {"message": "403 Forbidden"})
        assert "nightshift:approve could not be started: " in quiet_page(shop, 18)
        tick(shop, issue, shop.gitlab.users[-1], box)
        assert f"{box}: accepted, ticked by user30" in quiet_page(shop, 18)
        assert shop.project.jobs[1].status == "pending"

        done = publish_by_bot(shop, "running")
        assert done.exit_status == 0, done.stdout + done.stderr
        [opened] = shop.merge_requests
        assert "with the approval of `user30`:" in str(opened.description)
        rows = [line for line in page(shop).splitlines() if line.startswith("| [2026-11-16]")]
        assert ["MR_CREATED" in line for line in rows] == [True]
        assert f"] {box}" not in page(shop)


def quiet_page(shop: World, day: int) -> str:
    """The page after a night that is skipped: an approval does not wait for the next one."""
    for part in ("nightshift", "nightshift.tmp"):
        shutil.rmtree(shop.checkout / part, ignore_errors=True)
    assert night(shop, day, **QUIET).exit_status == 0
    return page(shop)


def publish_by_bot(shop: World, status: str) -> Done:
    """The job nightshift:approve, which the token's user has started."""
    [number] = [n for n, job in enumerate(shop.project.jobs) if job.id == 91]
    before = shop.project.jobs[number]
    bot = shop.gitlab.users[0]
    shop.project.jobs[number] = replace(before, status=status, user=bot)
    env = {"CI_JOB_ID": "91", "CI_JOB_MANUAL": "true", "GITLAB_USER_LOGIN": bot.username}
    jobs = ("--from-job", "nightshift", "--notary-job", "nightshift")
    done = night(shop, 16, "publish", "--approved", *jobs, **env)
    if done.exit_status:
        shop.project.jobs[number] = before
    return done


def test_an_outsiders_issue_is_no_dashboard(shop: World) -> None:
    outsider = shop.gitlab.add_user("mallory", "Mallory")
    forged = standin_threads.add_issue(shop.gitlab, shop.project, outsider, "Night shift", START)
    night(shop, 16, **QUIET)
    assert forged.description == START
    assert [each.author.username for each in shop.project.issues] == ["mallory", "night-bot"]


def test_an_edited_history_counts_for_nothing(shop: World) -> None:
    night(shop, 16, **QUIET)
    [issue] = shop.project.issues
    issue.description = page(shop).replace('"SKIPPED"', '"FAILED"')
    assert night(shop, 17, **QUIET).exit_status == 0
    rows = [line for line in page(shop).splitlines() if line.startswith("| [2026")]
    assert len(rows) == 1
    assert "2026-11-17" in rows[0]


def test_a_given_issue_keeps_what_people_wrote_above(shop: World) -> None:
    anna = shop.gitlab.add_user("anna", "Anna")
    issue = standin_threads.add_issue(shop.gitlab, shop.project, anna, "Nights", "We want:")
    shop.env["NIGHTSHIFT_LOG_ISSUE"] = "1"
    night(shop, 16, **QUIET)
    night(shop, 17, **QUIET)
    assert (issue.description or "").startswith(f"We want:\n\n{START}\n")
    assert (issue.description or "").count(START) == 1


@pytest.mark.parametrize(("status", "method"), [(403, "POST"), (404, "GET")])
def test_a_dashboard_that_cannot_be_written_is_a_warning(
    shop: World, status: int, method: str
) -> None:
    shop.gitlab.fail_next(method, "/issues", status, {"message": f"{status} no"}, times=9)
    done = night(shop, 16, **QUIET)
    assert done.exit_status == 0
    assert "the dashboard could not be written: GitLab at" in done.log
    assert shop.project.issues == []
