"""The three stages apart, dry runs, and publishing again after a failure."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import plays
from tests.support.listeners import listening
from tests.support.shop import DRAFT, GOOD, refused
from tests.support.trees import places_of
from tests.support.world import BOT_TOKEN, GO_ON, PLAIN, SECRETS, Done, World, commit, git, world

AT_ONCE = """
import time
from gitlab_nightshift.system.retry import Clock
Clock.__init__.__defaults__ = (time.monotonic, lambda _: None)
"""
"""What is tried again is not waited for."""


def opened_once(shop: World) -> None:
    """One merge request, one branch, one commit on top of the base."""
    [mr] = shop.merge_requests
    assert mr.source_branch == "night-shift/test-discount"
    assert len(shop.project.pushes) == 1
    bare = shop.project.bare_repository
    assert git(bare, "rev-parse", f"{mr.sha}^").strip() == shop.commit()
    assert git(bare, "diff", "--name-only", shop.sha, mr.sha) == "test_shop.py\n"


def handed_on(shop: World, name: str) -> None:
    """The next job of the pipeline: a fresh checkout with the artifacts of this one."""
    kept = shop.folder / f"artifacts-{name}"
    shutil.copytree(shop.checkout / "nightshift", kept)
    shop.checked_out_anew()
    shutil.copytree(kept, shop.checkout / "nightshift")


TOLD = f"{PLAIN}notify: [$TEAM_CHAT, $OTHER_CHAT]\n"


@dataclass(frozen=True)
class Job:
    """How a stage ended, and what there was then: ``asked`` requests to GitLab, ``sent``
    notifications, ``beads`` run."""

    done: Done
    products: frozenset[str]
    result: dict[str, Any]
    asked: int
    sent: tuple[str, ...]
    beads: int


@dataclass(frozen=True)
class Jobs:
    """Three jobs, each in a fresh checkout: work had no GitLab variable, publish no model key."""

    shop: World
    plan: Job
    work: Job
    publish: Job


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    folder = tmp_path_factory.mktemp("jobs")
    with listening() as there, world(folder, GOOD, config=TOLD) as shop:
        shop.env |= {"TEAM_CHAT": f"json://127.0.0.1:{there.port}/", "OTHER_CHAT": ""}

        def run(stage: str, **env: str) -> Job:
            done = shop.nightshift(stage, **env)
            result = shop.result if stage != "plan" else {}
            asked, sent = len(shop.gitlab.requests), tuple(text for _, text in there.came)
            shop.assert_restored()
            products = frozenset(shop.products())
            return Job(done, products, result, asked, sent, len(shop.agent.seen))

        plan = run("plan", ANTHROPIC_API_KEY="")
        assert shop.written == []
        handed_on(shop, "plan")
        gitlabs = [name for name in shop.env if name.startswith(("CI", "GITLAB"))]
        kept = {name: shop.env.pop(name) for name in gitlabs}
        work = run("work")
        handed_on(shop, "work")
        shop.env |= kept
        yield Jobs(shop, plan, work, run("publish", ANTHROPIC_API_KEY="", PATH="/usr/bin:/bin"))


def test_plan_leaves_a_plan_and_writes_nothing_else(jobs: Jobs) -> None:
    assert (jobs.plan.done.exit_status, jobs.plan.done.stderr) == (0, "")
    assert jobs.plan.products == {"plan.json", "events.jsonl", ".gitignore"}


def test_work_needs_and_asks_no_gitlab(jobs: Jobs) -> None:
    assert (jobs.work.done.exit_status, jobs.work.done.stderr) == (0, "")
    assert jobs.work.result["outcome"] == "MR_READY"
    assert jobs.work.done.last_line.startswith("✔ MR_READY · ")
    assert jobs.work.asked == jobs.plan.asked
    assert "plan.json" in jobs.work.products


def test_publish_opens_the_merge_request_without_an_agent(jobs: Jobs) -> None:
    result = jobs.publish.result
    assert (jobs.publish.done.exit_status, jobs.publish.done.stderr) == (0, "")
    assert jobs.publish.beads == jobs.work.beads == 4
    assert result["outcome"] == "MR_CREATED"
    assert result["mr_url"] == jobs.shop.merge_requests[0].web_url
    assert [bead["status"] for bead in result["beads"]] == ["ok"] * 4
    assert {"bundle/bundle.json", "published.json", "plan.json"} <= jobs.publish.products
    opened_once(jobs.shop)


def test_people_are_told_once_by_publish(jobs: Jobs) -> None:
    assert jobs.work.sent == ()
    [text] = jobs.publish.sent
    assert jobs.shop.merge_requests[0].web_url in text
    assert "notify: the variable OTHER_CHAT is not set in this job" in jobs.publish.done.log


def test_three_jobs_on_a_day_without_a_category_write_nothing(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        for stage in ("plan", "work", "publish"):
            shop.ends(0, stage, CI_PIPELINE_CREATED_AT="2026-11-21T01:00:00Z")
        assert shop.result["outcome"] == "NO_IMPROVEMENT"
        assert shop.written == []


def test_a_switch_thrown_after_the_plan_stops_work_before_a_token_is_spent(tmp_path: Path) -> None:
    """GitLab gives a job its variables when a runner takes it, hours after the plan perhaps."""
    with world(tmp_path, GOOD) as shop:
        assert shop.nightshift("plan", ANTHROPIC_API_KEY="").exit_status == 0
        assert shop.product("plan.json")["skip"] == ""
        handed_on(shop, "plan")
        done = shop.nightshift("work", GITLAB_TOKEN="", NIGHTSHIFT_ENABLED="false")
        assert (done.exit_status, shop.result["outcome"]) == (0, "SKIPPED")
        assert shop.result["reason"] == "enabled is false (variable NIGHTSHIFT_ENABLED)"
        assert shop.agent.seen == []


def test_a_run_outside_ci_has_one_id_in_all_that_it_leaves(tmp_path: Path) -> None:
    outside = dict.fromkeys(("GITLAB_CI", "CI", "CI_PIPELINE_ID", "CI_PROJECT_PATH"), "")
    with world(tmp_path, GOOD) as shop:
        done = shop.nightshift("run", **outside)
        assert done.exit_status == 0, done.log
        products = (shop.product(f"{name}.json") for name in ("plan", "notary", "published"))
        records = [shop.result, shop.bundle, *products, *shop.list_events()]
        assert len({record["run_id"] for record in records}) == 1


def test_one_bundle_is_published_once(tmp_path: Path) -> None:
    """A dry run pushes nothing and needs no token. Its bundle is as good as that of a real run."""
    with world(tmp_path, GOOD) as shop:
        done = shop.nightshift("run", "--dry-run", GITLAB_TOKEN="")
        assert (done.exit_status, done.stderr) == (0, "")
        assert shop.result["outcome"] == "MR_READY"
        assert shop.result["mr_url"] == ""
        assert f"ready to be published: {DRAFT['title']} (2 lines, 1 file)" in done.last_line
        assert shop.written == []
        assert not [r for r in shop.gitlab.requests if r.path.startswith("/api/")]
        shop.assert_restored()
        assert_what_is_refused(shop)
        assert_a_failed_publish_goes_on(shop)
        assert_published_once(shop)


def assert_what_is_refused(shop: World) -> None:
    """Whoever edits a bundle, or publishes it elsewhere, changes nothing in GitLab."""
    cases: list[tuple[Callable[[World], object], dict[str, str], int, str]] = [
        (lambda _: None, {"GITLAB_TOKEN": ""}, 2, "GITLAB_TOKEN is not set"),
        (edit_the_change, {}, 12, "the bundle was edited"),
        # the bundle comes from a job that agents ran in: its own word is not enough
        (
            lambda _: None,
            {"NIGHTSHIFT_EXCLUDE_PATHS": "test_shop.py"},
            3,
            "E_POLICY_DENY · not published: test_shop.py is outside the paths for this night.",
        ),
        (name_another_code, {}, 10, "E_WHATEVER"),
        (lambda shop: move_main(shop, "test_shop.py"), {}, 0, "the change conflicts with it"),
    ]
    kept = shop.folder / "kept"
    shutil.copytree(shop.checkout / "nightshift", kept)
    bundle, wrong = shop.bundle, []
    for prepare, env, status, text in cases:
        prepare(shop)
        done = shop.nightshift("publish", **env)
        if done.exit_status != status or text not in done.log + done.stderr or shop.merge_requests:
            wrong.append((status, text, done))
        if status == 2:
            assert shop.bundle == bundle
        git(shop.project.bare_repository, "update-ref", "refs/heads/main", shop.sha)
        shutil.rmtree(shop.checkout / "nightshift")
        shutil.copytree(kept, shop.checkout / "nightshift")
    assert wrong == []
    assert shop.written == []


def edit_the_change(shop: World) -> None:
    patch = shop.checkout / "nightshift" / "bundle" / "change.patch"
    patch.write_text(patch.read_text().replace("in percent", "a fraction"))


def name_another_code(shop: World) -> None:
    place = shop.checkout / "nightshift" / "bundle" / "bundle.json"
    bundle = {**json.loads(place.read_text()), "outcome": "FAILED", "error_code": "E_WHATEVER"}
    place.write_text(json.dumps(bundle))


def move_main(shop: World, name: str) -> None:
    """Somebody pushes a line at the end of a file."""
    seed = shop.folder / "seed"
    git(seed, "reset", "-q", "--hard", shop.sha)
    with (seed / name).open("a") as file:
        file.write("\n# later\n")
    commit(seed, "Later")
    git(seed, "push", "-qf", str(shop.project.bare_repository), "main")


def assert_a_failed_publish_goes_on(shop: World) -> None:
    """Where the target branch moved without a conflict, and GitLab fails at first."""
    move_main(shop, "shop.py")
    before, beads = shop.bundle, len(shop.agent.seen)
    shop.gitlab.fail_next("POST", "/merge_requests$", 403, {"message": "403 Forbidden"})
    done = shop.ends(12, "publish")
    assert (shop.result["outcome"], shop.result["error_code"]) == ("FAILED", "E_PUBLISH")
    assert "branch night-shift/test-discount has been pushed" in done.last_line
    assert f"Go on with: {GO_ON}" in done.last_line
    assert shop.merge_requests == []

    for method_path in (("POST", "/merge_requests$"), ("GET", "/branches/main$")):
        shop.gitlab.fail_next(*method_path, 502, "<html><title>502</title></html>", times=1)
    shop.patch = AT_ONCE
    again = shop.nightshift("publish", "nightshift/bundle")
    shop.patch = ""
    assert (again.exit_status, again.stderr) == (0, "")
    assert shop.bundle == before
    assert len(shop.agent.seen) == beads
    assert shop.result["outcome"] == "MR_CREATED"
    git(shop.project.bare_repository, "update-ref", "refs/heads/main", shop.sha)
    opened_once(shop)


def assert_published_once(shop: World) -> None:
    """However often, and by another night of the same pipeline, which finds another title."""
    first, written = shop.result, shop.written
    assert shop.nightshift("publish").exit_status == 0
    assert shop.written == written
    opened_once(shop)
    assert shop.result["mr_url"] == first["mr_url"]

    shop.checked_out_anew()
    shop.agent.script(plays(GOOD, {"mr": [("answer", {**DRAFT, "branch_slug": "other"})]}))
    more = {"NIGHTSHIFT_MAX_OPEN_MRS__PER_CATEGORY": "5"}
    assert shop.nightshift("run", **more).exit_status == 0
    opened_once(shop)


def test_a_stage_without_the_product_before_it(tmp_path: Path) -> None:
    """Or with a plan of another commit."""
    cases = [
        (("publish",), 2, "nightshift/bundle: not there"),
        (("publish", "elsewhere"), 2, "elsewhere: not there"),
        (("work",), 2, "nightshift/plan.json: not there"),
        (("work", "--plan", "nightshift.yaml"), 10, "nightshift.yaml: not a plan that can be used"),
    ]
    with world(tmp_path, GOOD) as shop:
        ended = [shop.nightshift(*arguments) for arguments, _, _ in cases]
        wrong = [
            (arguments, done)
            for (arguments, status, text), done in zip(cases, ended, strict=True)
            if (done.exit_status, len(done.stderr.splitlines())) != (status, 1)
            or text not in done.stderr
        ]
        assert wrong == []
        assert shop.nightshift("plan").exit_status == 0
        plan = shop.checkout / "nightshift" / "plan.json"
        plan.write_text(plan.read_text().replace(shop.sha, "1" * 40))
        done = shop.nightshift("work")
        assert (done.exit_status, shop.agent.seen) == (2, [])
        assert f"the plan was made for commit {'1' * 12}, not {shop.sha[:12]}" in done.last_line


def test_a_spoilt_product_is_named_by_its_place_in_the_checkout(tmp_path: Path) -> None:
    """It has been set aside, to a folder that is gone when the message is read."""
    with world(tmp_path, GOOD) as shop:
        assert shop.nightshift("run", "--dry-run").exit_status == 0
        for name, command in (("bundle/bundle.json", "publish"), ("plan.json", "work")):
            place = shop.checkout / "nightshift" / name
            place.write_text("{")
            done = shop.nightshift(command)
            assert done.exit_status == 10
            assert f"E_PARSE_ERROR: {place}: not a " in done.stderr


def test_no_command_takes_the_folder_of_results_for_a_change(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        for command in ("plan", "run"):
            assert shop.nightshift(command).exit_status == 0
            assert "events.jsonl" in shop.products()
            assert git(shop.checkout, "add", "--dry-run", ".") == ""
            done = shop.nightshift("check", "--run")
            assert (done.exit_status, "E_WORKSPACE_DIRTY" in done.stderr) == (0, False), done
            (shop.checkout / "nightshift/.gitignore").unlink()
            done = shop.nightshift("check", "--run")
            assert "E_WORKSPACE_DIRTY" in done.stderr, "what it would be without"


def test_secrets_that_agents_print_are_in_no_product(tmp_path: Path) -> None:
    """An agent may know a secret of the job from elsewhere: what leaves is redacted."""
    leak = f"the token is {BOT_TOKEN}"
    title = {**DRAFT, "title": leak, "summary": leak, "commit_message": f"Add\n\n{leak}"}
    scripts = plays(
        GOOD,
        {
            "analyze": [("say", leak), *GOOD["analyze"]],
            "verify-tests-1": refused(leak),
            "mr": [("answer", title)],
        },
    )
    with world(tmp_path, scripts) as shop:
        done = shop.ends(0, "run")
        assert places_of(SECRETS, {**shop.products(), "log": done.stdout + done.stderr}) == []
        [mr] = shop.merge_requests
        texts = f"{mr.title}{mr.description}{mr.source_branch}"
        message = git(shop.project.bare_repository, "show", "-s", "--format=%B", mr.sha)
        assert places_of(SECRETS, {"mr": texts, "commit": message}) == []
        assert "[redacted]" in texts
        events = shop.products()["events.jsonl"].decode().splitlines()
        assert all(json.loads(line) for line in events)


def test_a_change_with_a_secret_in_it_is_not_published(tmp_path: Path) -> None:
    """Not even where the flag is off: the values of this job's secrets are known."""
    scripts = plays(GOOD, {"implement": [("write", "key.txt", f"{BOT_TOKEN}\n")]})
    config = PLAIN + "policy: {flags: {secret-added: off}}\n"
    with world(tmp_path, scripts, config=config) as shop:
        done = shop.nightshift("run")
        assert (done.exit_status, shop.result["error_code"]) == (3, "E_POLICY_DENY")
        assert "contains the value of a secret variable" in done.last_line
        assert shop.written == []
