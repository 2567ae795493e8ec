"""Of two pipelines that a fleet has started for one night, the later spends nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.gitlab.project_settings import FLEET_SCHEDULE
from tests.support.standin_pipelines import add_scheduled
from tests.support.standin_records import StandinSchedule
from tests.support.world import PLAIN, World, world

NIGHT = {
    "CI_PIPELINE_SCHEDULE_DESCRIPTION": FLEET_SCHEDULE,
    "CI_PIPELINE_CREATED_AT": "2999-01-01T12:00:00Z",
    "GITLAB_USER_LOGIN": "night-bot",
}
SKIP = "tonight's night of this project has run in pipeline 60001"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[World]:
    """A project whose fleet has started a pipeline tonight."""
    with world(tmp_path, config=f"{PLAIN}category: tests\n") as made:
        bot = made.gitlab.users[0]
        made.project.schedules.append(StandinSchedule(7, bot, FLEET_SCHEDULE, active=False))
        made.project.pipeline_jobs = {"nightshift": "running"}
        add_scheduled(made.gitlab, made.project, 7, bot)
        move(made, "2999-01-01T11:00:00Z")
        yield made


def move(shop: World, created: str) -> None:
    object.__setattr__(shop.project.pipelines[0], "created_at", created)


def plan(shop: World, pipeline: int = 60002, **env: str) -> str:
    """Why a night is skipped; "" if it is not."""
    shop.ends(0, "plan", **NIGHT, CI_PIPELINE_ID=str(pipeline), **env)
    skip = shop.product("plan.json")["skip"]
    assert isinstance(skip, str)
    return skip


def test_the_later_of_two_pipelines_is_skipped_before_a_token_is_spent(shop: World) -> None:
    assert plan(shop) == SKIP
    shop.ends(0, "run", **NIGHT, CI_PIPELINE_ID="60002")
    assert (shop.result["outcome"], shop.result["reason"]) == ("SKIPPED", SKIP)
    assert shop.agent.seen == []


def test_the_earlier_one_goes_on(shop: World) -> None:
    assert plan(shop, pipeline=60001) == plan(shop, pipeline=60000) == ""


def test_last_nights_pipeline_is_another_night(shop: World) -> None:
    move(shop, "2998-12-31T20:00:00Z")
    assert plan(shop) == ""


def test_a_cancelled_pipeline_is_no_night(shop: World) -> None:
    object.__setattr__(shop.project.jobs[-1], "status", "canceled")
    assert plan(shop) == ""


def test_a_pipeline_started_by_hand_is_another_night(shop: World) -> None:
    shop.ends(0, "plan", **{**NIGHT, "GITLAB_USER_LOGIN": "olga"}, CI_PIPELINE_ID="60002")
    assert shop.product("plan.json")["skip"] == ""


def test_a_night_of_another_schedule_does_not_count(shop: World) -> None:
    before = len(shop.gitlab.requests)
    shop.ends(0, "plan", CI_PIPELINE_ID="60002", CI_PIPELINE_CREATED_AT="2999-01-01")
    asked = [each.path for each in shop.gitlab.requests[before:]]
    assert not any("pipeline_schedules" in each for each in asked)
    assert shop.product("plan.json")["skip"] == ""


def test_the_night_goes_on_if_gitlab_does_not_answer(shop: World) -> None:
    shop.gitlab.fail_next("GET", "pipeline_schedules", 403, {"message": "403 Forbidden"}, times=9)
    assert plan(shop) == ""
