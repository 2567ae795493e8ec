"""A bead that fails is a result: what becomes of the night, and what the next bead is told."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from gitlab_nightshift.registry.categories import FALLBACK_ORDER
from tests.support.agent import (
    Play,
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
    stubborn,
    write,
)
from tests.support.shop import FOUND, GOOD, nothing, refused
from tests.support.world import ANYWHERE, Done, World, git, world


def statuses(shop: World) -> list[tuple[str, str]]:
    """Bead and status of each bead, in order."""
    return [
        (f"{b['bead']}-{b['category']}-{b['attempt']}", b["status"]) for b in shop.result["beads"]
    ]


def test_a_failed_analyze_is_noted_and_the_next_category_tried(tmp_path: Path) -> None:
    """Then every way in which Verify fails; none of them is a pass."""
    analyses = {
        "tests": ([handoff('{"result": ')], "no_handoff", "the report is not JSON"),
        "refactoring": (
            [answer({"result": "IMPROVEMENT_FOUND"})],
            *("no_handoff", "selected: files and descr"),
        ),
    }
    verdicts = [
        ([handoff("not json")], "Verify failed (no_handoff): the report is not JSON"),
        ([crash(9)], "Verify failed (crashed): "),
        ([answer({"passed": "yes"})], "Verify failed (no_handoff): passed: expected true or false"),
        ([answer({"passed": False})], "Verify did not pass the change."),
    ]
    scripts = plays(
        {"analyze": nothing(), "analyze-docs": GOOD["analyze"], "implement": GOOD["implement"]},
        {f"analyze-{name}": play for name, (play, *_) in analyses.items()},
        {f"verify-docs-{n}": play for n, (play, _) in enumerate(verdicts, 1)},
    )
    with world(tmp_path, scripts) as shop:
        done = shop.ends(13, "run", NIGHTSHIFT_MAX_IMPLEMENT_RETRIES="4")
        half = "3 of 5 categories analysed, 2 failed: tests (no_handoff), refactoring (no_handoff)"
        assert done.last_line.startswith(f"⚠ NO_IMPROVEMENT · E_INCOMPLETE · {half}. All categ")
        assert shop.result["outcome"] == "NO_IMPROVEMENT"
        attempts = [f"{bead}-docs-{n}" for n in range(1, 6) for bead in ("implement", "verify")]
        first, second, third, *last = (f"analyze-{name}-1" for name in FALLBACK_ORDER)
        assert shop.agent.names == [first, second, third, *attempts, *last]
        assert_noted(shop, analyses)
        told = [read_last_failure(shop, f"implement-docs-{n}") for n in range(2, 6)]
        rows = zip(told, verdicts, strict=True)
        assert [text for text, (_, why) in rows if not text.startswith(why)] == []
        assert shop.written == []


def read_last_failure(shop: World, bead: str) -> str:
    """What a bead is told of the attempt before it; it is told of all."""
    told = shop.agent.last(bead).last_failure
    return re.split(r"(?:^|\n\n)Attempt \d: ", told)[-1]


def assert_noted(shop: World, analyses: Mapping[str, tuple[list[Step], str, str]]) -> None:
    """Every failed analysis with its status in the result, and why it failed in the summary."""
    noted = dict(row.split(": ", 1) for row in shop.result["summary"].splitlines()[1:])
    for category, (_, status, why) in analyses.items():
        assert (f"analyze-{category}-1", status) in statuses(shop)
        assert noted[category].startswith(f"analysis failed: {status}: ")
        assert why in noted[category]


SEGFAULT = "the agent ended with exit status -11 Segmentation fault"
BROKEN: dict[str, tuple[list[Step], str, str]] = {
    "tests": ([leave(0)], "bad_output", "the agent printed no result"),
    "refactoring": ([cost(0.5), fail(text="it broke")], "crashed", "it broke"),
    "docs": ([crash(11)], "crashed", SEGFAULT),
    "security": ([crash(11)], "crashed", SEGFAULT),
    "performance": ([crash(11)], "crashed", SEGFAULT),
}


def test_a_cli_that_fails_in_every_bead_is_no_quiet_night(tmp_path: Path) -> None:
    scripts = {f"analyze-{name}": play for name, (play, *_) in BROKEN.items()}
    with world(tmp_path, scripts) as shop:
        assert_broken(shop, shop.nightshift("run"), SEGFAULT)
        assert_noted(shop, BROKEN)
        assert shop.result["summary"].count(": analysis failed: ") == 5


def assert_broken(shop: World, done: Done, why: str) -> None:
    """All categories were tried, and the reason is the last one's."""
    assert done.exit_status == 5
    result = shop.result
    assert [bead["category"] for bead in result["beads"]] == list(FALLBACK_ORDER)
    assert (result["outcome"], result["error_code"]) == ("FAILED", "E_PROVIDER_UNAVAILABLE")
    reason = "the agent's CLI failed in every bead (5), last: "
    assert result["reason"].startswith(f"{reason}{why}")
    assert "\n" not in result["reason"]
    assert shop.written == []
    shop.assert_restored()


def test_a_silent_bead_is_ended(tmp_path: Path) -> None:
    """Also one that ignores the polite signals; the night goes on with the next category."""
    with world(tmp_path, {"analyze": [hang()], "analyze-docs": [stubborn(), hang()]}) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_IDLE_TIMEOUT="0.4")

        assert_broken(shop, done, "no output for too long")
        noted = shop.result["summary"].count(": analysis failed: idle: no output for too long")
        assert noted == len(FALLBACK_ORDER)


WORKED: dict[str, dict[str, list[Step]]] = {
    "found nothing": {"analyze": [crash(11)], "analyze-security": [*nothing()]},
    "left the stub": {"analyze": [crash(11)], "analyze-security": []},
    "found something": {
        "analyze": [crash(11)],
        "analyze-tests": [*GOOD["analyze"]],
        "implement": [crash(11)],
    },
}


def test_a_cli_that_worked_once_is_not_broken(tmp_path: Path) -> None:
    ended = {}
    with world(tmp_path) as shop:
        for worked, scripts in WORKED.items():
            shop.agent.script(scripts)
            done = shop.nightshift("run", NIGHTSHIFT_MAX_IMPLEMENT_RETRIES="0")
            result = shop.result
            ended[worked] = done.exit_status, result["outcome"], result["reason"]
        others = "tests, refactoring, docs, performance"
        crashed = {
            "found nothing": f"1 of 5 categories analysed, 4 crashed: {others}.",
            "left the stub": "0 of 5 categories analysed, 5 failed: tests (crashed), ",
            "found something": "1 of 5 categories analysed, 4 crashed: refactoring, docs, security",
        }
        for worked, (status, outcome, reason) in ended.items():
            assert (status, outcome) == (13, "NO_IMPROVEMENT")
            assert reason.startswith(crashed[worked]), reason
            assert "All categories exhausted. " in reason
        assert dict(statuses(shop))["analyze-tests-1"] == "ok"


def test_every_attempt_that_fails_is_told_to_the_next(tmp_path: Path) -> None:
    """An Implement without a change is one, without Verify; each starts from the first tree."""
    why = "test_shop.py:10: 50 percent of 10 is 5, not 6."
    littering = [write("scratch.py", "left = 'over'\n"), sh("git rm -q run.sh")]
    tried: list[tuple[list[Step], str]] = [
        ([], "Implement changed nothing."),
        ([append("shop.py", "# x\n"), crash(6)], "Implement failed (crashed): "),
        (littering, f"Verify (an agent) says: {why}"),
    ]
    scripts = plays(
        GOOD,
        {f"implement-tests-{n}": play for n, (play, _) in enumerate(tried, 1)},
        {"verify-tests-3": refused(why), "analyze": [handoff(json.dumps({**FOUND, "unknown": 1}))]},
        {"verify": [handoff('{"passed": true}')]},
        {"mr": [handoff('{"title": "A test more", "summary": "It was missing."}')]},
    )
    with world(tmp_path, scripts, config=ANYWHERE) as shop:
        shop.agent.ask_git()
        shop.ends(0, "run", NIGHTSHIFT_MAX_IMPLEMENT_RETRIES="6")
        attempts = [f"implement-tests-{n}" for n in range(1, 5)]
        assert shop.agent.names == [
            *("analyze-tests-1", *attempts[:3], "verify-tests-3"),
            *(attempts[3], "verify-tests-4", "mr-tests-1"),
        ]
        beads = [shop.agent.last(name) for name in attempts]
        told = [read_last_failure(shop, name) for name in attempts[1:]]
        rows = zip(told, tried, strict=True)
        failures = [text for text, (_, why) in rows if not text.startswith(why)]
        first = shop.agent.seen[0]
        failures += [bead.name for bead in beads if bead.tree != first.tree]
        failures += [bead.name for bead in beads if (bead.git_status, bead.head) != ("", shop.sha)]
        assert failures == []
        assert why not in beads[0].prompt
        assert f"Attempt 3: {tried[2][1]}\n</" in beads[3].prompt
        changed = str(shop.agent.last("verify-tests-3").git_status).splitlines()
        assert changed == [" D run.sh", "?? scratch.py"]
        _opened_by_files(shop)


def test_what_git_does_not_see_is_no_change(tmp_path: Path) -> None:
    """Nor is it worth another attempt, if the next one changes nothing either."""
    unseen: Play = [
        sh("touch shop.py; chmod 644 shop.py"),
        write("nightshift/mine.txt", "x\n"),
        sh("mkdir -p build && echo x > build/x"),
    ]
    analyses = {"analyze": nothing(), "analyze-tests": GOOD["analyze"]}
    scripts = plays(GOOD, analyses, {"implement": [], "implement-tests-1": unseen})
    with world(tmp_path, scripts) as shop:
        done = shop.ends(0, "run")
        assert (shop.result["outcome"], shop.written) == ("NO_IMPROVEMENT", [])
        assert done.log.count("Implement changed nothing.") == 2
        assert done.log.count("The same failure again, word for word") == 1


def _opened_by_files(shop: World) -> None:
    """A hand-off file is as good as structured output."""
    [mr] = shop.merge_requests
    assert mr.title == "[night-shift/tests] A test more"
    assert mr.source_branch == "night-shift/a-test-more"
    bare = shop.project.bare_repository
    assert git(bare, "diff", "--name-status", shop.sha, mr.sha) == "M\ttest_shop.py\n"
    shop.assert_restored()


LATE = sh("echo late >> test_shop.py; echo new > late.txt; rm shop.py")


def test_a_failed_mr_bead_loses_nothing(tmp_path: Path) -> None:
    """The texts are made from the analysis. Published is what was verified, whatever runs later."""
    with world(tmp_path, plays(GOOD, {"mr": [LATE, crash(9)]})) as shop:
        shop.agent.ask_git()
        done = shop.ends(0, "run")
        [mr] = shop.merge_requests
        assert mr.title == "[night-shift/tests] Test the discount of total()"
        assert mr.source_branch == "night-shift/test-the-discount-of-total"
        assert (mr.description or "").startswith("## Summary\n\nTest the discount of total().\n")
        assert "It is the only branch of the function." in (mr.description or "")
        bare = shop.project.bare_repository
        message = git(bare, "show", "-s", "--format=%B", mr.sha)
        assert message.strip() == "Test the discount of total()"
        assert "the texts come from the analysis instead" in done.log
        assert git(bare, "diff", "--name-status", shop.sha, mr.sha) == "M\ttest_shop.py\n"
        assert "late" not in git(bare, "show", f"{mr.sha}:test_shop.py")
        seen = shop.agent.last("mr")
        assert (seen.git_status, seen.head) == (" M test_shop.py\n", shop.sha)
