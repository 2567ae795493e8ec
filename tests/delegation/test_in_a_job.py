"""A delegation in a GitLab job: its bundle becomes a merge request."""

import json
from pathlib import Path

from tests.support import warm
from tests.support.delegation import POLICY, QUICK, TASK, Done, ended
from tests.support.world import BOT_TOKEN, JOB_TOKEN, MODEL_KEY, World, git, world

WEB = {"CI_PIPELINE_SOURCE": "web"}


def delegated(shop: World, **env: str) -> Done:
    payload = shop.folder / "agent/payload"
    payload.write_text(json.dumps({"task_prompt": TASK}))
    words = ["delegate", "--payload", str(payload)]
    return ended(warm.start(words, cwd=shop.checkout, env={**shop.env, **env}))


def test_the_bundle_can_be_published(tmp_path: Path) -> None:
    """Of the repository around the caller, which is the default."""
    with world(tmp_path, QUICK, config=POLICY) as shop:
        done = delegated(shop, **WEB)
        result = done.result
        assert (done.exit_status, result["ok"]) == (0, True), done
        assert result["git"]["branch"] == "nightshift/4711"
        assert git(shop.checkout, "status", "--porcelain") == ""
        assert not any("nightshift" in bead.tree for bead in shop.agent.seen)
        told = git(shop.checkout, "log", "-1", "--format=%an %s", "nightshift/4711").strip()
        assert told == "Olga Owner nightshift: 4711"
        assert shop.written == []
        published = shop.nightshift("publish", result["artifacts"]["diff_bundle"], **WEB)
        assert published.exit_status == 0, published.log + published.stderr
        [mr] = shop.merge_requests
        assert mr.title == f"[night-shift/task] {TASK.rstrip('.')}"
        bare = shop.project.bare_repository
        assert git(bare, "diff", "--name-only", shop.sha, str(mr.sha)) == "docs/new.md\n"
        texts = "\n".join(shop.agent.texts.values())
        assert not any(secret in texts for secret in (BOT_TOKEN, JOB_TOKEN, MODEL_KEY))
        assert "127.0.0.1/acme/shop.git" not in texts, "no remote either"
