"""The exec gate in whole nights: what an agent's shell finds by name, in every tier.

The real CLI's shell is in ``test_claude_fails.py``.
"""

from pathlib import Path

import pytest

from tests.nights_sandbox.test_boundary import TIERS, open_folder, tier_or_skip
from tests.support.world import PROVING, World, world

__all__ = ["open_folder"]
CURL = "git -c alias.x='!curl --version' x"
"""The CLI lets every git command pass; git starts a shell for this one."""
MAKE = "git -c alias.x='!make other; make test && echo made' x"
REFUSED = '{"type": "system", "subtype": "api_retry", "error_status": 401}'
AGENT = f"""#!/bin/sh
{{ {CURL}; {MAKE}; }} 2>&1
for time in 1 2 3; do echo '{REFUSED}'; done
"""
"""Tries both; a key that is refused ends the night after that."""


def looked_for(shop: World, **env: str) -> str:
    """What the agent's commands printed."""
    agent = shop.folder / "commands"
    agent.mkdir()
    (agent / "claude").write_text(AGENT)
    (agent / "claude").chmod(0o755)
    done = shop.nightshift("run", PATH=f"{agent}:{shop.env['PATH']}", **env)
    assert (done.exit_status, done.stderr) == (5, ""), done.log
    return shop.products()["logs/01-analyze-tests-1.out"].decode()


def assert_gated(told: str) -> None:
    """Only what is allowed was found."""
    assert "curl: not found" in told or "curl: command not found" in told
    assert "libcurl" not in told
    assert "nightshift: not allowed: make other; allowed: make test" in told
    assert "\nmade" in told


@pytest.mark.parametrize("tier", TIERS)
def test_agent_finds_what_is_allowed_and_nothing_else(open_folder: Path, tier: str) -> None:
    with world(open_folder, config=PROVING) as shop:
        assert_gated(looked_for(shop, NIGHTSHIFT_ISOLATION=tier_or_skip(tier)))
        shop.assert_put_back()


def test_open_gate_in_development(tmp_path: Path) -> None:
    """The same commands with the gate open: it was the fence that stopped them."""
    config = f"{PROVING}profile: development\npolicy: {{gates: {{exec: auto_allow}}}}\n"
    with world(tmp_path, config=config) as shop:
        told = looked_for(shop)
        assert "libcurl" in told
        assert "No rule to make target" in told
