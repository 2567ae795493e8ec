"""The three stages apart, dry runs, and publishing again after a failure."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.agent import plays
from tests.support.shop import DRAFT, GOOD, nothing, refused
from tests.support.trees import places_of
from tests.support.world import BOT_TOKEN, PROVING, SECRETS, World, commit, git, world


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


def test_three_jobs(tmp_path: Path) -> None:
    """Plan reads, work has no GitLab variable at all, publish writes; each in a fresh checkout."""
    with world(tmp_path, GOOD, config=PROVING) as shop:
        plan = shop.nightshift("plan", ANTHROPIC_API_KEY="")
        assert (plan.exit_status, plan.stderr, shop.written) == (0, "", [])
        assert set(shop.products()) == {"plan.json", "events.jsonl"}
        handed_on(shop, "plan")

        gitlabs = [name for name in shop.env if name.startswith(("CI", "GITLAB"))]
        kept = {name: shop.env.pop(name) for name in gitlabs}
        asked = len(shop.gitlab.requests)
        work = shop.nightshift("work")
        assert (work.exit_status, work.stderr) == (0, "")
        assert shop.result["outcome"] == "MR_READY"
        assert work.last_line.startswith("✔ MR_READY · ")
        assert len(shop.gitlab.requests) == asked
        assert "plan.json" in shop.products()
        shop.assert_put_back()
        handed_on(shop, "work")

        shop.env |= kept
        beads = len(shop.agent.seen)
        publish = shop.nightshift("publish", ANTHROPIC_API_KEY="", PATH="/usr/bin:/bin")
        assert (publish.exit_status, publish.stderr) == (0, "")
        assert len(shop.agent.seen) == beads == 4
        assert shop.result["outcome"] == "MR_CREATED"
        assert shop.result["mr_url"] == shop.merge_requests[0].web_url
        assert [bead["status"] for bead in shop.result["beads"]] == ["ok"] * 4
        assert {"bundle/bundle.json", "published.json", "plan.json"} <= set(shop.products())
        opened_once(shop)
        shop.assert_put_back()


def test_a_quiet_night_in_three_jobs(tmp_path: Path) -> None:
    with world(tmp_path, {"analyze": nothing()}) as shop:
        for stage in ("plan", "work", "publish"):
            assert shop.nightshift(stage).exit_status == 0
            handed_on(shop, stage)
        assert shop.result["outcome"] == "NO_IMPROVEMENT"
        assert shop.written == []


def test_a_dry_run_pushes_nothing_and_needs_no_token(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        done = shop.nightshift("run", "--dry-run", GITLAB_TOKEN="")
        assert (done.exit_status, done.stderr) == (0, "")
        assert shop.result["outcome"] == "MR_READY"
        assert shop.result["mr_url"] == ""
        assert DRAFT["title"] in done.log
        assert shop.written == []
        assert not [r for r in shop.gitlab.requests if r.path.startswith("/api/")]
        shop.assert_put_back()
        # the bundle is as good as that of a real run
        assert shop.nightshift("publish", "nightshift/bundle").exit_status == 0
        opened_once(shop)


def test_publish_goes_on_after_a_failed_publish(tmp_path: Path) -> None:
    """No token of a model is spent a second time."""
    with world(tmp_path, GOOD) as shop:
        shop.gitlab.fail_next("POST", "/merge_requests$", 403, {"message": "403 Forbidden"})
        done = shop.nightshift("run")
        assert done.exit_status == 12
        assert (shop.result["outcome"], shop.result["error_code"]) == ("FAILED", "E_PUBLISH")
        assert "branch night-shift/test-discount is pushed" in done.last_line
        assert "Go on with: nightshift publish nightshift/bundle" in done.last_line
        assert shop.merge_requests == []
        shop.assert_put_back()
        before = shop.bundle

        again = shop.nightshift("publish", "nightshift/bundle")
        assert (again.exit_status, again.stderr) == (0, "")
        assert shop.bundle == before
        assert len(shop.agent.seen) == 4
        assert shop.result["outcome"] == "MR_CREATED"
        opened_once(shop)


@pytest.mark.parametrize("method_path", [("POST", "/merge_requests$"), ("GET", "/branches/main$")])
def test_a_busy_gitlab_is_waited_for(tmp_path: Path, method_path: tuple[str, str]) -> None:
    with world(tmp_path, GOOD) as shop:
        shop.gitlab.fail_next(*method_path, 502, "<html><title>502</title></html>", times=1)
        assert shop.nightshift("run").exit_status == 0
        opened_once(shop)


def test_a_merge_request_whose_answer_was_lost_is_found(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        shop.gitlab.drop_next("POST", "/merge_requests$")
        assert shop.nightshift("run").exit_status == 0
        assert shop.result["outcome"] == "MR_CREATED"
        opened_once(shop)


def test_publishing_twice_gives_one_merge_request(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        assert shop.nightshift("run").exit_status == 0
        first, written = shop.result, shop.written
        again = shop.nightshift("publish")
        assert again.exit_status == 0
        assert shop.written == written
        opened_once(shop)
        assert shop.result["mr_url"] == first["mr_url"]
        assert shop.result["outcome"] == "MR_CREATED"


def test_a_retried_job_is_the_same_run(tmp_path: Path) -> None:
    """The same pipeline's second night finds another title: there is one merge request still."""
    with world(tmp_path, GOOD) as shop:
        assert shop.nightshift("run").exit_status == 0
        shop.checked_out_anew()
        shop.agent.script(plays(GOOD, {"mr": [("answer", {**DRAFT, "branch_slug": "other"})]}))
        more = {"NIGHTSHIFT_MAX_OPEN_MRS__PER_CATEGORY": "5"}
        assert shop.nightshift("run", **more).exit_status == 0
        opened_once(shop)


def test_an_edited_bundle_is_refused(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        assert shop.nightshift("run", "--dry-run").exit_status == 0
        patch = shop.checkout / "nightshift" / "bundle" / "change.patch"
        patch.write_text(patch.read_text().replace("[10], 50), 5", "[10], 50), 6"))
        done = shop.nightshift("publish")
        assert done.exit_status == 12
        assert "the bundle was edited" in done.last_line
        assert shop.written == []


def test_a_bundle_of_another_commit_is_refused(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        assert shop.nightshift("run", "--dry-run").exit_status == 0
        kept = shop.folder / "kept"
        shutil.copytree(shop.checkout / "nightshift" / "bundle", kept)
        (shop.folder / "seed" / "more.txt").write_text("more\n")
        commit(shop.folder / "seed", "More")
        git(shop.folder / "seed", "push", "-q", str(shop.project.bare_repository), "main")
        shop.checked_out_anew()
        done = shop.nightshift("publish", str(kept))
        assert done.exit_status == 12
        assert "the bundle was made for another commit" in done.last_line
        assert shop.written == []


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("publish",), 2, "nightshift/bundle: not there"),
        (("publish", "elsewhere"), 2, "elsewhere: not there"),
        (("work",), 2, "nightshift/plan.json: not there"),
        (("work", "--plan", "nightshift.yaml"), 10, "nightshift.yaml: not a plan that can be used"),
    ],
)
def test_a_stage_without_the_product_before_it(
    tmp_path: Path, arguments: tuple[str, ...], status: int, text: str
) -> None:
    with world(tmp_path, GOOD) as shop:
        done = shop.nightshift(*arguments)
        assert done.exit_status == status
        assert text in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert shop.agent.seen == []


def test_publish_without_a_token_keeps_the_bundle(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        assert shop.nightshift("run", "--dry-run").exit_status == 0
        bundle = shop.bundle
        done = shop.nightshift("publish", GITLAB_TOKEN="")
        assert done.exit_status == 2
        assert "GITLAB_TOKEN is not set" in done.stderr
        assert shop.bundle == bundle


def test_a_plan_of_another_commit_is_refused(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        assert shop.nightshift("plan").exit_status == 0
        plan = shop.checkout / "nightshift" / "plan.json"
        plan.write_text(plan.read_text().replace(shop.sha, "1" * 40))
        done = shop.nightshift("work")
        assert (done.exit_status, shop.agent.seen) == (2, [])
        assert f"the plan was made for commit {'1' * 12}, not {shop.sha[:12]}" in done.last_line


def test_the_target_branch_moved_since(tmp_path: Path) -> None:
    """Moved without a conflict: published as verified. With one: kept, and said why."""
    for name, text, status in (("shop.py", "\n# later\n", "MR_CREATED"), ("clash", "", "SKIPPED")):
        with world(tmp_path / name, GOOD) as shop:
            assert shop.nightshift("run", "--dry-run").exit_status == 0
            seed = shop.folder / "seed"
            path = seed / ("shop.py" if text else "test_shop.py")
            path.write_text(path.read_text() + (text or "\n    def test_other(self): ...\n"))
            commit(seed, "Later")
            git(seed, "push", "-q", str(shop.project.bare_repository), "main")
            done = shop.nightshift("publish")
            assert (done.exit_status, shop.result["outcome"]) == (0, status)
            assert len(shop.merge_requests) == (status == "MR_CREATED")
            if status == "SKIPPED":
                assert "the change conflicts with it" in done.last_line


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
        done = shop.nightshift("run")
        assert done.exit_status == 0
        assert places_of(SECRETS, {**shop.products(), "log": done.stdout + done.stderr}) == []
        [mr] = shop.merge_requests
        texts = f"{mr.title}{mr.description}{mr.source_branch}"
        message = git(shop.project.bare_repository, "show", "-s", "--format=%B", mr.sha)
        assert places_of(SECRETS, {"mr": texts, "commit": message}) == []
        assert "[redacted]" in texts
        events = shop.products()["events.jsonl"].decode().splitlines()
        assert all(json.loads(line) for line in events)


def test_a_change_with_a_secret_in_it_is_not_published(tmp_path: Path) -> None:
    """Neither where the flag is off: the values of this job's secrets are known."""
    scripts = plays(GOOD, {"implement": [("write", "key.txt", f"{BOT_TOKEN}\n")]})
    config = "policy: {flags: {secret-added: off}}\n"
    with world(tmp_path, scripts, config=config) as shop:
        done = shop.nightshift("run")
        assert (done.exit_status, shop.result["error_code"]) == (3, "E_POLICY_DENY")
        assert "holds the value of a secret variable" in done.last_line
        assert shop.written == []
