"""Nights inside the sandbox: the real agent works there, and a hostile one gets nothing.

Each attack is shown to succeed without a boundary, so that none fails for another reason.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import BEADS, turns
from tests.support.world import (
    BOT_TOKEN,
    JOB_TOKEN,
    MODEL_KEY,
    PROVING,
    TOOLS,
    World,
    world,
)

HOSTILE = Path(__file__).parents[1] / "support" / "hostile.py"
SECRETS = (BOT_TOKEN, JOB_TOKEN, MODEL_KEY, "a-password-at-home")


def tier_or_skip(tier: str) -> str:
    """Namespaces need bubblewrap, which not every machine has; in CI it has to be there."""
    if tier == "namespaces" and not shutil.which("bwrap"):
        if os.environ.get("CI"):
            pytest.fail("bubblewrap is not installed")
        pytest.skip("bubblewrap is not installed")
    return tier


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
def test_the_real_agent_works_in_the_sandbox(tmp_path: Path, tier: str) -> None:
    with (
        world(tmp_path, config=PROVING) as shop,
        ModelEndpoint(turns(shop.checkout), bead_of=BEADS) as endpoint,
    ):
        path = f"{TOOLS}:{shop.env['PATH']}"
        done = shop.nightshift(
            "run",
            ANTHROPIC_BASE_URL=endpoint.url,
            NIGHTSHIFT_ISOLATION=tier_or_skip(tier),
            PATH=path,
        )
        assert (done.exit_status, done.stderr) == (0, "")
        assert endpoint.unscripted == []
        assert shop.result["outcome"] == "MR_CREATED"
        kept = ", ".join(f"{name} held" for name in ("files", "secrets", "network", "lifetime"))
        assert shop.result["isolation"] == f"{tier} ({kept})"
        assert {request.headers["x-api-key"] for request in endpoint.messages} == {MODEL_KEY}
        shop.assert_put_back()


def attacked(shop: World, tier: str) -> dict[str, Any]:
    """What a hostile agent reports of its first bead."""
    home = Path(shop.env["HOME"])
    (home / ".netrc").write_text("machine gitlab password a-password-at-home\n")
    aside = shop.checkout.with_name("shop.nightshift")
    places = {
        "files": [
            str(aside / "git" / "config"),
            f"{shop.checkout}.tmp/.gitlab-runner.ext.conf",
            str(home / ".netrc"),
        ],
        "outside": str(shop.checkout.parent / "planted"),
        "port": int(shop.gitlab.url.rpartition(":")[2]),
        "daemon": str(shop.checkout / "alive"),
    }
    agent = shop.folder / "hostile"
    agent.mkdir()
    text = HOSTILE.read_text().replace("@PLACES@", json.dumps(places))
    (agent / "claude").write_text(f"#!{Path(sys.executable).resolve()}\n{text}")
    (agent / "claude").chmod(0o755)
    done = shop.nightshift(
        "run",
        "--category",
        "docs",
        NIGHTSHIFT_ISOLATION=tier,
        NIGHTSHIFT_AGENT_PATHS=str(Path(sys.base_prefix).resolve()),
        PATH=f"{agent}:{shop.env['PATH']}",
    )
    assert (done.exit_status, done.stderr) == (0, ""), done.log
    log = shop.products()["logs/01-analyze-docs-1.out"].decode()
    found: dict[str, Any] = json.loads(log.splitlines()[0])["found"]
    return found


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
def test_a_hostile_agent_gets_nothing(tmp_path: Path, tier: str) -> None:
    with world(tmp_path) as shop:
        found = attacked(shop, tier_or_skip(tier))
        environment = found.pop("environment")
        assert "GITLAB_TOKEN" not in environment
        assert MODEL_KEY not in environment
        for name, text in found.items():
            assert "[redacted]" not in text, f"{name} led to a secret"
            assert not any(secret in text for secret in SECRETS), name
        opened = [name for name, text in found.items() if text.startswith("open")]
        # Its own processes are its own, and in namespaces it writes into a /tmp of its own.
        assert set(opened) <= {"daemon", "ancestors", "outside"}
        assert not (shop.checkout.parent / "planted").exists()
        time.sleep(0.2)
        assert not (shop.checkout / "alive").exists(), "what it left behind is ended"
        shop.assert_put_back()


def test_without_a_boundary_it_gets_all_of_it(tmp_path: Path) -> None:
    with world(tmp_path) as shop:
        found = attacked(shop, "none")
        assert "GITLAB_TOKEN" not in found.pop("environment"), "the allowlist holds all the same"
        assert [name for name, text in found.items() if not text.startswith("open")] == []
        assert "GITLAB_TOKEN=[redacted]" in found["ancestors"]
        assert "a-password-at-home" in str(found)
        (shop.checkout.parent / "planted").unlink()
        assert shop.result["isolation"] == "none"


def test_a_tier_that_is_asked_for_by_name_is_never_replaced(tmp_path: Path) -> None:
    with world(tmp_path) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_ISOLATION="uid")
        assert done.exit_status == 2
        assert "isolation: uid is not available in this version; use auto" in done.last_line
        assert shop.agent.seen == []
