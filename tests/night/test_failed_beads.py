"""A bead that fails is a result: what becomes of the night, and what the next bead is told."""

import json
from pathlib import Path

import pytest

from gitlab_nightshift.guidance import FALLBACK_ORDER
from tests.support.agent import (
    Step,
    answer,
    append,
    cost,
    crash,
    fail,
    handoff,
    hang,
    leave,
    plays,
    sh,
    write,
)
from tests.support.shop import DRAFT, FOUND, GOOD, nothing
from tests.support.world import World, git, world


def statuses(shop: World) -> list[tuple[str, str]]:
    """Bead and status of each bead, in order."""
    return [
        (f"{b['bead']}-{b['category']}-{b['attempt']}", b["status"]) for b in shop.result["beads"]
    ]


@pytest.mark.parametrize(
    ("play", "status", "why"),
    [
        ([crash(11)], "crashed", "the CLI ended with exit status -11 Segmentation fault"),
        ([], "no_handoff", "the hand-off is still the stub"),
        ([handoff('{"result": ')], "no_handoff", "the hand-off is not JSON"),
        ([answer({"result": "IMPROVEMENT_FOUND"})], "no_handoff", "selected: files and descr"),
        ([leave(0)], "bad_output", "the CLI printed no result"),
        ([cost(0.5), fail(text="it broke")], "crashed", "it broke"),
    ],
    ids=["crash", "stub", "bad json", "schema", "no result", "error"],
)
def test_a_failed_analyze_is_noted_and_the_next_category_tried(
    tmp_path: Path, play: list[Step], status: str, why: str
) -> None:
    with world(tmp_path, plays({"analyze": nothing()}, {"analyze-tests": play})) as shop:
        done = shop.nightshift("run")

        assert done.exit_status == 0
        assert statuses(shop)[0] == ("analyze-tests-1", status)
        assert shop.agent.names == [f"analyze-{name}-1" for name in FALLBACK_ORDER]
        noted = shop.result["summary"].splitlines()[1]
        assert noted.startswith(f"tests: analysis failed: {status}: ")
        assert why in noted
        assert shop.result["outcome"] == "NO_IMPROVEMENT"


@pytest.mark.parametrize(
    ("play", "status", "why"),
    [
        ([crash(11)], "crashed", "the CLI ended with exit status -11 Segmentation fault"),
        ([leave(0)], "bad_output", "the CLI printed no result"),
        ([hang()], "idle", "no output for too long"),
    ],
    ids=["crash", "no result", "silence"],
)
def test_a_cli_that_fails_in_every_bead_is_no_quiet_night(
    tmp_path: Path, play: list[Step], status: str, why: str
) -> None:
    limits = {"NIGHTSHIFT_IDLE_TIMEOUT": "0.6"} if status == "idle" else {}
    with world(tmp_path, {"analyze": play}) as shop:
        done = shop.nightshift("run", **limits)

        assert done.exit_status == 5
        assert shop.agent.names == [f"analyze-{name}-1" for name in FALLBACK_ORDER]
        result = shop.result
        assert (result["outcome"], result["error_code"]) == ("FAILED", "E_PROVIDER_UNAVAILABLE")
        reason = "the agent's CLI failed in every bead (5), last: "
        assert result["reason"].startswith(f"{reason}{why}")
        assert "\n" not in result["reason"]
        assert result["summary"].count(f": analysis failed: {status}: ") == 5
        assert shop.written == []
        shop.assert_put_back()


@pytest.mark.parametrize(
    "scripts",
    [
        {"analyze": [crash(11)], "analyze-security": nothing()},
        {"analyze": [crash(11)], "analyze-security": []},
        {"analyze": GOOD["analyze"], "analyze-tests": [crash(11)], "implement": [crash(11)]},
    ],
    ids=["one found nothing", "one left the stub", "one found something"],
)
def test_a_cli_that_worked_once_is_not_broken(
    tmp_path: Path, scripts: dict[str, list[Step]]
) -> None:
    with world(tmp_path, scripts) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_MAX_IMPLEMENT_RETRIES="0")

        assert done.exit_status == 0
        assert shop.result["outcome"] == "NO_IMPROVEMENT"
        assert shop.result["reason"].startswith("All categories exhausted. ")


def test_a_hand_off_file_is_as_good_as_structured_output(tmp_path: Path) -> None:
    scripts = plays(
        GOOD,
        {
            "analyze": [handoff(json.dumps({**FOUND, "unknown": 1}))],
            "verify": [handoff('{"passed": true}')],
            "mr": [handoff('{"title": "A test more", "summary": "It was missing."}')],
        },
    )
    with world(tmp_path, scripts) as shop:
        assert shop.nightshift("run").exit_status == 0
        [mr] = shop.merge_requests
        assert mr.title == "[night-shift/tests] A test more"
        assert mr.source_branch == "night-shift/a-test-more"


@pytest.mark.parametrize(
    ("play", "why"),
    [
        ([handoff("not json")], "Verify failed (no_handoff): the hand-off is not JSON"),
        ([crash(9)], "Verify failed (crashed): "),
        ([answer({"passed": "yes"})], "Verify failed (no_handoff): passed: true or false"),
        ([answer({"passed": False})], "Verify did not pass the change."),
    ],
    ids=["bad json", "crash", "a word", "no reason"],
)
def test_a_failed_verify_is_never_a_pass(tmp_path: Path, play: list[Step], why: str) -> None:
    scripts = plays(GOOD, {"verify": play, "analyze": nothing(), "analyze-tests": GOOD["analyze"]})
    with world(tmp_path, scripts) as shop:
        shop.nightshift("run", NIGHTSHIFT_MAX_IMPLEMENT_RETRIES="1")
        assert shop.agent.names[1:5] == [
            *("implement-tests-1", "verify-tests-1", "implement-tests-2", "verify-tests-2")
        ]
        assert shop.agent.last("implement-tests-2").last_failure.startswith(why)
        assert shop.written == []
        shop.assert_put_back()


@pytest.mark.parametrize(
    ("play", "why"),
    [
        ([], "Implement changed nothing."),
        ([append("shop.py", "# x\n"), crash(6)], "Implement failed (crashed): "),
        ([sh("touch shop.py; chmod 644 shop.py")], "Implement changed nothing."),
        ([sh("mkdir -p build && echo x > build/x")], "Implement changed nothing."),
        ([write("nightshift/mine.txt", "x\n")], "Implement changed nothing."),
    ],
    ids=["nothing", "crash", "only touched", "only ignored", "only the output folder"],
)
def test_an_implement_without_a_change_is_a_failed_attempt_without_verify(
    tmp_path: Path, play: list[Step], why: str
) -> None:
    with world(tmp_path, plays(GOOD, {"implement-tests-1": play})) as shop:
        done = shop.nightshift("run")

        assert done.exit_status == 0
        assert shop.agent.names[:4] == [
            *("analyze-tests-1", "implement-tests-1", "implement-tests-2", "verify-tests-2")
        ]
        second = shop.agent.last("implement-tests-2")
        assert second.last_failure.startswith(why)
        assert second.tree == shop.agent.seen[0].tree
        shop.assert_put_back()


@pytest.mark.parametrize(
    "play",
    [[crash(9)], [answer({"title": ""})]],
    ids=["crash", "no title"],
)
def test_a_failed_mr_bead_loses_nothing(tmp_path: Path, play: list[Step]) -> None:
    """The texts are made from the analysis."""
    with world(tmp_path, plays(GOOD, {"mr": play})) as shop:
        done = shop.nightshift("run")

        assert done.exit_status == 0
        [mr] = shop.merge_requests
        assert mr.title == "[night-shift/tests] Test the discount of total()"
        assert mr.source_branch == "night-shift/test-the-discount-of-total"
        assert (mr.description or "").startswith("## Summary\n\nTest the discount of total().\n")
        assert "It is the only branch of the function." in (mr.description or "")
        message = git(shop.project.bare_repository, "show", "-s", "--format=%B", mr.sha)
        assert message.strip() == "Test the discount of total()"
        assert "the texts are made from the analysis" in done.log
        shop.assert_put_back()


def test_what_the_mr_bead_does_to_the_files_changes_nothing(tmp_path: Path) -> None:
    """Published is what was verified, whatever runs later."""
    late = [sh("echo late >> test_shop.py; echo new > late.txt; rm shop.py"), answer(DRAFT)]
    with world(tmp_path, plays(GOOD, {"mr": late})) as shop:
        shop.nightshift("run")
        [mr] = shop.merge_requests
        bare = shop.project.bare_repository
        assert git(bare, "diff", "--name-status", shop.sha, mr.sha) == "M\ttest_shop.py\n"
        assert "late" not in git(bare, "show", f"{mr.sha}:test_shop.py")
        seen = shop.agent.last("mr")
        assert (seen.git_status, seen.head) == (" M test_shop.py\n", shop.sha)
        shop.assert_put_back()
