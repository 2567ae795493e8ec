"""What becomes of merge requests that wait, by what GitLab says of them."""

from pathlib import Path

from gitlab_nightshift.gitlab.project import open_project
from gitlab_nightshift.gitlab.reviews import CHECK_PAUSES_S
from gitlab_nightshift.plan.upkeep import find_waiting, rebase_conflicting
from tests.support.clock import FakeTime
from tests.support.opened import opened
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
        known = project.read_memory("night-shift/", "night-shift").opened
        [note] = rebase_conflicting(project, find_waiting(project, known, "4712"))
        assert note == "not known: whether !1 is in conflict, as GitLab has not checked it yet"
