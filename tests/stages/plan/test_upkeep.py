"""What becomes of merge requests that wait, by what GitLab says of them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gitlab_nightshift.gitlab.merge_requests import CHECK_PAUSES_S
from gitlab_nightshift.gitlab.project import open_project
from gitlab_nightshift.stages.plan.upkeep import find_candidates, find_upkeep, rebase_conflicting
from tests.support.clock import FakeTime
from tests.support.opened import opened
from tests.support.standin_threads import add_comment
from tests.support.world import BOT_TOKEN


def test_a_merge_request_that_gitlab_does_not_check_is_not_known_to_be_idle(
    tmp_path: Path,
) -> None:
    """Nothing is rebased, and the night's notes say why."""
    with opened(tmp_path) as (shop, request):
        time = FakeTime()
        project = open_project(shop.gitlab.url, str(shop.project.id), BOT_TOKEN, clock=time.clock)
        unchecked = {
            "iid": request.iid,
            "state": "opened",
            "author": {"id": request.author.id},
            "detailed_merge_status": "unchecked",
        }
        asked = len(CHECK_PAUSES_S) + 1
        shop.gitlab.fail_next("GET", f"/merge_requests/{request.iid}$", 200, unchecked, times=asked)
        known = project.read_memory("night-shift/", "night-shift").open
        [note] = rebase_conflicting(project, find_candidates(project, known, "4712"))
        assert note == "not known: whether !1 is in conflict, as GitLab has not checked it yet"


@pytest.mark.parametrize(("bot", "asked"), [(True, False), (False, True)])
def test_a_review_bots_thread_asks_for_no_commit(tmp_path: Path, bot: bool, asked: bool) -> None:
    """Even if it is a member with the role Developer."""
    with opened(tmp_path) as (shop, request):
        reviewer = shop.gitlab.add_user("coderabbitai", "Code Rabbit", bot=bot)
        shop.project.members[reviewer.id] = 30
        add_comment(shop.gitlab, request, reviewer, "Rename it.", resolvable=True)
        project = open_project(shop.gitlab.url, str(shop.project.id), BOT_TOKEN)
        known = project.read_memory("night-shift/", "night-shift").open
        waiting = find_candidates(project, known, "4712")
        found = find_upkeep(project, waiting, str, datetime.now(UTC) + timedelta(days=2))
        assert bool(found) is asked


def test_gitlab_is_asked_for_no_more_than_the_first_merge_request_that_needs_something(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as (shop, request):
        reviewer = shop.gitlab.add_user("rita", "Rita")
        shop.project.members[reviewer.id] = 30
        add_comment(shop.gitlab, request, reviewer, "Rename it.", resolvable=True)
        project = open_project(shop.gitlab.url, str(shop.project.id), BOT_TOKEN)
        known = project.read_memory("night-shift/", "night-shift").open
        [first] = find_candidates(project, known, "4712")
        thread = first.threads[-1]
        comment = replace(thread.comments[0], author_id=4711)
        second = replace(first, threads=(replace(thread, comments=(comment,)),))
        shop.gitlab.requests.clear()
        later = datetime.now(UTC) + timedelta(days=2)
        assert find_upkeep(project, [first, second], str, later)
        assert not [each for each in shop.gitlab.requests if each.path.endswith("/4711")]
